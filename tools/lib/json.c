/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* json.c - see json.h */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>

static int depth;
static bool comma;

void json_quote(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			printf("\\u%04x", (unsigned)c);
		else
			putchar(c);
	}
	putchar('"');
}

static void member(const char *name)
{
	if (comma)
		putchar(',');
	comma = true;
	if (name) {
		json_quote(name);
		putchar(':');
	}
}

void json_open(const char *name, char bracket)
{
	member(name);
	putchar(bracket);
	comma = false;
	depth++;
}

void json_close(char bracket)
{
	putchar(bracket);
	comma = true;
	if (--depth == 0) {
		putchar('\n');
		comma = false;
	}
}

void json_string(const char *name, const char *value)
{
	member(name);
	if (value)
		json_quote(value);
	else
		fputs("null", stdout);
}

void json_number(const char *name, uint64_t value)
{
	member(name);
	printf("%" PRIu64, value);
}

void json_signed(const char *name, int64_t value)
{
	member(name);
	printf("%" PRId64, value);
}

void json_real(const char *name, double value)
{
	member(name);
	printf("%.3f", value);
}

void json_bool(const char *name, bool value)
{
	member(name);
	fputs(value ? "true" : "false", stdout);
}
