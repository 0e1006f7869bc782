/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * json.h - JSON on standard output, one call a member
 *
 * A name of NULL makes an element of an array.  Commas look after themselves.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>

void json_open(const char *name, char bracket);		/* '{' or '[' */
void json_close(char bracket);				/* '}' or ']'; a line feed after the last */
void json_string(const char *name, const char *value);
void json_number(const char *name, uint64_t value);
void json_signed(const char *name, int64_t value);
void json_real(const char *name, double value);		/* three decimals */
void json_bool(const char *name, bool value);

/* s within double quotes: control and other bytes beyond ASCII as \u00xx */
void json_quote(const char *s);

#endif
