/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* jsonread.c - see jsonread.h */
#define _GNU_SOURCE
#include "jsonread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST	32

static const char *blanks(const char *s)
{
	return s + strspn(s, " \t\r\n");
}

/* What stands behind a backslash.  Return: how many characters it takes, 0: wrong. */
static int escape(const char *s, char *out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = *s ? strchr(from, *s) : NULL;
	char hex[5] = "", *end;

	if (at) {
		*out = to[at - from];
		return 1;
	}
	if (*s != 'u')
		return 0;
	strncpy(hex, s + 1, 4);
	unsigned long v = strtoul(hex, &end, 16);
	if (end != hex + 4 || hex[0] == '-' || hex[0] == '+')
		return 0;
	*out = v && v < 256 ? (char)v : '?';
	return 5;
}

/* s is behind the opening quote.  Return: behind the closing one, or NULL. */
static const char *read_string(const char *s, char **out)
{
	size_t n = 0;
	char *to;

	while (s[n] && s[n] != '"')
		n += s[n] == '\\' && s[n + 1] ? 2 : 1;
	to = *out = malloc(n + 1);

	while (to && *s != '"') {
		if ((unsigned char)*s < 0x20)
			return NULL;
		if (*s != '\\') {
			*to++ = *s++;
			continue;
		}
		int taken = escape(++s, to++);

		if (!taken)
			return NULL;
		s += taken;
	}
	if (!to)
		return NULL;
	*to = '\0';
	return s + 1;
}

static const char *read_value(const char *s, struct json_value *v, int depth);

/* Elements or members up to the closing bracket; the same errors as read_value. */
static const char *read_members(const char *s, struct json_value *v, int depth)
{
	struct json_value **end = &v->child;
	char close = v->kind == JSON_OBJECT ? '}' : ']';

	s = blanks(s);
	if (*s == close)
		return s + 1;
	for (;;) {
		struct json_value *m = *end = calloc(1, sizeof(*m));

		if (!m)
			return NULL;
		end = &m->next;
		s = blanks(s);
		if (v->kind == JSON_OBJECT) {
			s = *s == '"' ? read_string(s + 1, &m->name) : NULL;
			s = s ? blanks(s) : NULL;
			if (!s || *s++ != ':')
				return NULL;
		}
		s = read_value(s, m, depth + 1);
		s = s ? blanks(s) : NULL;
		if (!s || (*s != ',' && *s != close))
			return NULL;
		if (*s++ == close)
			return s;
	}
}

static const char *read_word(const char *s, struct json_value *v)
{
	static const char *const words[] = { "null", "false", "true" };

	for (int i = 0; i < 3; i++) {
		size_t n = strlen(words[i]);

		if (strncmp(s, words[i], n) == 0) {
			v->kind = (enum json_kind)i;
			return s + n;
		}
	}
	if (!strchr("-0123456789", *s) || !*s)
		return NULL;
	char *end;
	v->kind = JSON_NUMBER;
	v->number = strtod(s, &end);
	return end > s ? end : NULL;
}

/* Return: behind the value, or NULL when there is none. */
static const char *read_value(const char *s, struct json_value *v, int depth)
{
	s = blanks(s);
	if (depth > DEEPEST)
		return NULL;
	if (*s == '{' || *s == '[') {
		v->kind = *s == '{' ? JSON_OBJECT : JSON_ARRAY;
		return read_members(s + 1, v, depth);
	}
	if (*s == '"') {
		v->kind = JSON_STRING;
		return read_string(s + 1, &v->string);
	}
	return read_word(s, v);
}

struct json_value *jsonread(const char *text)
{
	struct json_value *v = calloc(1, sizeof(*v));
	const char *end = v ? read_value(text, v, 0) : NULL;

	if (end && !*blanks(end))
		return v;
	jsonread_free(v);
	return NULL;
}

void jsonread_free(struct json_value *v)
{
	while (v) {
		struct json_value *next = v->next;

		jsonread_free(v->child);
		free(v->name);
		free(v->string);
		free(v);
		v = next;
	}
}

const struct json_value *jsonread_get(const struct json_value *v, const char *name)
{
	if (!v || v->kind != JSON_OBJECT)
		return NULL;
	for (v = v->child; v; v = v->next)
		if (strcmp(v->name, name) == 0)
			return v;
	return NULL;
}

double jsonread_number(const struct json_value *v, const char *name, double otherwise)
{
	v = jsonread_get(v, name);
	return v && v->kind == JSON_NUMBER ? v->number : otherwise;
}

const char *jsonread_string(const struct json_value *v, const char *name, const char *otherwise)
{
	v = jsonread_get(v, name);
	return v && v->kind == JSON_STRING ? v->string : otherwise;
}
