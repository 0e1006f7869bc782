/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * config.c - parsers of the settings table, and what comes from where; no
 * malloc, no stdio
 */
#define _GNU_SOURCE
#include "base/config.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/log.h"
#include "base/sys.h"
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

/* ---------------------------------------------------------------- files -- */

static struct rule rules[CONF_RULES];
unsigned config_nrules;

static const char *const variables[] = {
#define X(field, kind, var, def, values, meaning) var,
	SETTINGS(X)
#undef X
};
static bool is_set[ARRAY_SIZE(variables)];	/* by who comes first */

enum { FILE_NAMED, FILE_USER, FILE_SYSTEM, FILES };

static struct problem {
	char path[512];			/* "": none */
	struct conf_error err;
} problems[FILES];

/* The first who sets it? */
static bool take_first(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		if (strcmp(variables[i], variable) != 0)
			continue;
		bool first = !is_set[i];

		is_set[i] = true;
		return first;
	}
	return true;			/* config_set() will say that there is none */
}

static void count_setting(void *arg, const char *variable, const char *value, unsigned line)
{
}

static int count_rule(void *arg, const struct rule *r, unsigned line)
{
	unsigned *n = arg;

	return ++*n > CONF_RULES ? -ENOSPC : 0;
}

static void use_setting(void *arg, const char *variable, const char *value, unsigned line)
{
	if (take_first(variable))
		config_set(&config, variable, value);
}

static int use_rule(void *arg, const struct rule *r, unsigned line)
{
	if (rule_program_is(r, program_invocation_short_name))
		rules[config_nrules++] = *r;
	return 0;
}

static const struct conf_sink counts = { count_setting, count_rule };
static const struct conf_sink uses = { use_setting, use_rule };

/* must: a file that is not there is a problem. */
static void load_file(int which, const char *path, bool must, char *buf)
{
	struct problem *p = &problems[which];
	unsigned n = config_nrules;
	ssize_t bytes = conf_read(path, which == FILE_USER, buf, &p->err);
	int err = bytes < 0 ? (int)bytes : conf_parse(buf, (size_t)bytes, &counts, &n, &p->err);

	if (err && (must || err != -ENOENT))
		strncpy(p->path, path, sizeof(p->path) - 1);
	if (!err)
		conf_parse(buf, (size_t)bytes, &uses, NULL, &p->err);
}

static const char *env_get(char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
			return *envp + n + 1;
	return NULL;
}

static void load_files(char *const *envp)
{
	char user[4096], *buf = sys_map(CONF_BYTES, 0);

	if (!buf)
		return;
	if (config.config_file[0])
		load_file(FILE_NAMED, config.config_file, true, buf);
	if (envp && conf_user_path(user, sizeof(user), env_get(envp, "XDG_CONFIG_HOME"),
				   env_get(envp, "HOME")))
		load_file(FILE_USER, user, false, buf);
	load_file(FILE_SYSTEM, CONF_SYSTEM, false, buf);
	sys_unmap(buf, CONF_BYTES);
}

void config_log_problems(void)
{
	for (int i = 0; i < FILES; i++) {
		const struct problem *p = &problems[i];

		if (p->path[0])
			log_error("%s:%u:%u: %s, using nothing of this file", p->path, p->err.line,
				  p->err.col, p->err.text);
	}
}

enum rule_action config_rule(uint16_t server_port, uint16_t listen_port, int family,
			     const uint8_t *addr)
{
	for (unsigned i = 0; i < config_nrules; i++)
		if (rule_covers(&rules[i], server_port, listen_port, family, addr))
			return (enum rule_action)rules[i].action;
	return RULE_NONE;
}

/* ---------------------------------------------------------- environment -- */

static int load_env(char *const *envp)
{
	int refused = 0;

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
		if (eq[1] && take_first(name) && config_set(&config, name, eq + 1))
			refused++;
	}
	return refused;
}

int config_load(char *const *envp)
{
	config_defaults(&config);
	config_nrules = 0;
	memset(is_set, 0, sizeof(is_set));
	memset(problems, 0, sizeof(problems));
	if (getauxval(AT_SECURE))
		envp = NULL;
	int refused = load_env(envp);
	if (config.enabled)
		load_files(envp);
	return refused;
}
