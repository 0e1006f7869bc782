/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* jsonread.h - a JSON text as a tree */
#ifndef TOOLS_JSONREAD_H
#define TOOLS_JSONREAD_H

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
	enum json_kind kind;
	double number;
	char *name;			/* of a member of an object, else NULL */
	char *string;
	struct json_value *child;	/* first element or member */
	struct json_value *next;
};

/*
 * The whole text as one value, or NULL if it is not one.
 * \u escapes above 0xff become '?', of a name that comes twice the first counts.
 */
struct json_value *jsonread(const char *text);
void jsonread_free(struct json_value *v);

/* Member of an object; NULL if there is none, or v is no object (or NULL). */
const struct json_value *jsonread_get(const struct json_value *v, const char *name);
double jsonread_number(const struct json_value *v, const char *name, double otherwise);
const char *jsonread_string(const struct json_value *v, const char *name, const char *otherwise);

#endif
