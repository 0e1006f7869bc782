/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* variable.h - variables of the environment that look like ours */
#ifndef LIB_VARIABLE_H
#define LIB_VARIABLE_H

/*
 * entry: NAME=VALUE.  Return: the setting's variable nearest to a name that
 * begins as ours do and is none of them; NULL for all others.
 */
const char *variable_unknown(const char *entry);

#endif
