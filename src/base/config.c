/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* config.c - parsers of the settings table; no malloc, no stdio */
#define _GNU_SOURCE
#include "base/config.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"

struct config config;

/* Decimal digits only, as much of s[0..n) as there is; -EINVAL for anything else. */
static int parse_number(const char *s, size_t n, uint64_t *out)
{
	uint64_t v = 0;

	if (n == 0 || n > 18)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	*out = v;
	return 0;
}

static int parse_onoff(bool *out, const char *v)
{
	if (strcmp(v, "on") == 0 || strcmp(v, "1") == 0)
		*out = true;
	else if (strcmp(v, "off") == 0 || strcmp(v, "0") == 0)
		*out = false;
	else
		return -EINVAL;
	return 0;
}

static int parse_attach(int64_t *out, const char *v)
{
	uint64_t n;

	if (strcmp(v, "auto") == 0)
		*out = ATTACH_AUTO;
	else if (strcmp(v, "eager") == 0)
		*out = ATTACH_EAGER;
	else if (strcmp(v, "never") == 0)
		*out = ATTACH_NEVER;
	else if (parse_number(v, strlen(v), &n) == 0)
		*out = (int64_t)n;
	else
		return -EINVAL;
	return 0;
}

static int parse_rnic(struct rnic_setting *out, const char *v)
{
	static const char *const words[] = { "auto", "soft", "verbs", "none" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(v, words[i]) == 0) {
			out->choice = (enum rnic_choice)i;
			return 0;
		}
	}
	if (!*v || strlen(v) >= sizeof(out->device))
		return -EINVAL;
	out->choice = RNIC_NAMED;
	strcpy(out->device, v);
	return 0;
}

static int parse_bytes(uint64_t *out, const char *v)
{
	uint64_t n;

	if (parse_number(v, strlen(v), &n) || n < 4096 || n > 16777216 || (n & (n - 1)))
		return -EINVAL;
	*out = n;
	return 0;
}

static int parse_spin(int64_t *out, const char *v)
{
	uint64_t n;

	if (strcmp(v, "auto") == 0)
		*out = SPIN_AUTO;
	else if (parse_number(v, strlen(v), &n) == 0 && n <= 1000000)
		*out = (int64_t)n;
	else
		return -EINVAL;
	return 0;
}

static int parse_path(char (*out)[4096], const char *v)
{
	if (strlen(v) >= sizeof(*out))
		return -EINVAL;
	strcpy(*out, v);
	return 0;
}

static int parse_level(int *out, const char *v)
{
	static const char *const words[] = { "off", "error", "info", "debug", "trace" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcmp(v, words[i]) == 0) {
			*out = (int)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_one_fault(struct fault_setting *out, const char *s, size_t n)
{
	static const struct {
		const char *name;
		size_t offset;
	} faults[] = {
#define X(field, name) { name, offsetof(struct fault_setting, field) },
		FAULTS(X)
#undef X
	};
	const char *colon = memchr(s, ':', n);
	size_t len = colon ? (size_t)(colon - s) : n;
	uint64_t val = 1;

	if (colon && parse_number(colon + 1, n - len - 1, &val))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strlen(faults[i].name) == len && memcmp(s, faults[i].name, len) == 0) {
			*(uint32_t *)(void *)((char *)out + faults[i].offset) = (uint32_t)val;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_fault(struct fault_setting *out, const char *v)
{
	memset(out, 0, sizeof(*out));
	while (*v) {
		size_t n = strcspn(v, ", ");

		if (n && parse_one_fault(out, v, n))
			return -EINVAL;
		v += n;
		v += strspn(v, ", ");
	}
	return 0;
}

int config_set(struct config *c, const char *variable, const char *value)
{
#define X(field, kind, var, def, values, meaning) \
	if (strcmp(variable, var) == 0) \
		return parse_##kind(&c->field, value);
	SETTINGS(X)
#undef X
	return -EINVAL;
}

static void config_defaults(struct config *c)
{
	memset(c, 0, sizeof(*c));
#define X(field, kind, var, def, values, meaning) \
	parse_##kind(&c->field, def);
	SETTINGS(X)
#undef X
}

int config_load(char *const *envp)
{
	int refused = 0;

	config_defaults(&config);
	for (; envp && *envp; envp++) {
		const char *eq = strchr(*envp, '=');
		char name[64];

		if (strncmp(*envp, "SIDESTEP", 8) != 0 || !eq)
			continue;
		size_t n = (size_t)(eq - *envp);
		if (n >= sizeof(name))
			continue;
		memcpy(name, *envp, n);
		name[n] = '\0';
		if (eq[1] && config_set(&config, name, eq + 1))
			refused++;
	}
	return refused;
}
