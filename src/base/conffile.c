/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* conffile.c - see conffile.h */
#define _GNU_SOURCE
#include "base/conffile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/nearest.h"
#include "base/sys.h"
#include "base/util.h"

#define BLANKS " \t\r"

static const struct {
	const char *name, *variable, *values;
} settings[] = {
#define X(field, kind, var, def, values, meaning) { #field, var, values },
	SETTINGS(X)
#undef X
};

static const char *const actions[] = {
#define X(sym, word, meaning) word,
	RULE_ACTIONS(X)
#undef X
};

static const char *const conditions[] = {
#define X(word, argument, meaning) word,
	RULE_CONDITIONS(X)
#undef X
};

/* One line, cut out and ended by NUL; start is column 1. */
struct line {
	const char *start;
	unsigned number;
	struct conf_error *err;
};

__attribute__((format(printf, 3, 4)))
static int wrong(const struct line *l, const char *at, const char *fmt, ...)
{
	va_list ap;

	l->err->line = l->number;
	l->err->col = (unsigned)(at - l->start) + 1;
	va_start(ap, fmt);
	vsnprintf(l->err->text, sizeof(l->err->text), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static const char *nearest(const char *const *names, size_t count, const char *s, size_t n)
{
	const char *best = names[0];

	for (size_t i = 1; i < count; i++)
		if (name_distance(s, n, names[i]) < name_distance(s, n, best))
			best = names[i];
	return best;
}

/* ------------------------------------------------------------- settings -- */

static int setting_index(const char *s, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (name_distance(s, n, settings[i].name) == 0 ||
		    name_distance(s, n, settings[i].variable) == 0)
			return (int)i;
	return -1;
}

static int unknown_setting(const struct line *l, const char *s, size_t n)
{
	const char *names[ARRAY_SIZE(settings)];

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		names[i] = settings[i].name;
	return wrong(l, s, "no setting \"%.*s\"; did you mean \"%s\"?", (int)MIN(n, (size_t)64), s,
		     nearest(names, ARRAY_SIZE(names), s, n));
}

/* name = value; eq is where the sign stands */
static int parse_setting(const struct line *l, const char *s, char *eq,
			 const struct conf_sink *sink, void *arg)
{
	static struct config scratch;	/* too large for a stack */
	size_t n = strcspn(s, BLANKS "=");
	int i = setting_index(s, n);

	if (i < 0)
		return unknown_setting(l, s, n);
	if (s + n + strspn(s + n, BLANKS) != eq)
		return wrong(l, s + n + strspn(s + n, BLANKS), "expected \"=\"");
	const char *v = eq + 1 + strspn(eq + 1, BLANKS);
	if (!*v)
		return wrong(l, v, "%s has no value", settings[i].name);
	if (!strcmp(settings[i].name, "config_file"))
		return wrong(l, s, "a file cannot name another");
	if (config_set(&scratch, settings[i].variable, v))
		return wrong(l, v, "%s cannot be \"%.64s\"; it can be: %s", settings[i].name, v,
			     settings[i].values);
	if (sink)
		sink->setting(arg, settings[i].variable, v, l->number);
	return 0;
}

/* ---------------------------------------------------------------- rules -- */

static bool is_word(const char *s, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(s, word, n) == 0;
}

static int parse_port(const struct line *l, const char *s, size_t n, uint16_t *out)
{
	unsigned v = 0;

	for (size_t i = 0; i < n && v < 65536; i++) {
		if (s[i] < '0' || s[i] > '9')
			return wrong(l, s + i, "a port is a number from 1 to 65535");
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	if (v < 1 || v > 65535)
		return wrong(l, s, "a port is a number from 1 to 65535");
	*out = (uint16_t)v;
	return 0;
}

static int parse_to(const struct line *l, const char *s, size_t n, struct rule *r)
{
	const char *slash = memchr(s, '/', n);
	size_t len = slash ? (size_t)(slash - s) : n;
	char text[INET6_ADDRSTRLEN];
	unsigned bits = 0;

	if (len >= sizeof(text))
		return wrong(l, s, "no address");
	memcpy(text, s, len);
	text[len] = '\0';
	r->family = memchr(text, ':', len) ? AF_INET6 : AF_INET;
	if (inet_pton(r->family, text, r->addr) != 1)
		return wrong(l, s, "\"%s\" is no address", text);
	unsigned most = r->family == AF_INET ? 32 : 128;
	r->bits = (uint8_t)most;
	if (!slash)
		return 0;
	for (const char *p = slash + 1; p < s + n; p++) {
		if (*p < '0' || *p > '9' || bits > most)
			return wrong(l, slash + 1, "bits are a number from 0 to %u", most);
		bits = bits * 10 + (unsigned)(*p - '0');
	}
	if (slash + 1 == s + n || bits > most)
		return wrong(l, slash + 1, "bits are a number from 0 to %u", most);
	r->bits = (uint8_t)bits;
	return 0;
}

/* The condition word s[0..n) has its argument at v[0..m). */
static int parse_condition(const struct line *l, const char *s, size_t n, const char *v, size_t m,
			   struct rule *r)
{
	if (is_word(s, n, "port"))
		return parse_port(l, v, m, &r->port);
	if (is_word(s, n, "listen"))
		return parse_port(l, v, m, &r->listen);
	if (is_word(s, n, "to"))
		return parse_to(l, v, m, r);
	if (m >= sizeof(r->program))
		return wrong(l, v, "the name is too long");
	memcpy(r->program, v, m);
	r->program[m] = '\0';
	return 0;
}

static bool known_condition(const char *s, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(conditions); i++)
		if (is_word(s, n, conditions[i]))
			return true;
	return false;
}

/* A word and, unless it ends with a colon, what follows. *end: this was the last one. */
static size_t word_length(const char *s, bool *end)
{
	size_t n = strcspn(s, BLANKS);

	*end = n > 0 && s[n - 1] == ':';
	return n - *end;
}

static int parse_action(const struct line *l, const char *s, struct rule *r)
{
	size_t n = strcspn(s, BLANKS);

	for (size_t i = 0; n && i < ARRAY_SIZE(actions); i++) {
		if (!is_word(s, n, actions[i]))
			continue;
		r->action = (uint8_t)i;
		s += n;
		s += strspn(s, BLANKS);
		return *s ? wrong(l, s, "nothing may follow \"%s\"", actions[i]) : 0;
	}
	if (!n)
		return wrong(l, s, "what is to be done? ring, soft, verbs or tcp");
	return wrong(l, s, "cannot do \"%.*s\"; did you mean \"%s\"?", (int)MIN(n, (size_t)64), s,
		     nearest(actions, ARRAY_SIZE(actions), s, n));
}

static int parse_rule(const struct line *l, const char *s, const struct conf_sink *sink, void *arg)
{
	struct rule r = { .action = RULE_NONE };
	bool end = false;

	while (!end) {
		size_t n = word_length(s, &end), m;
		const char *v;

		if (!*s)
			return wrong(l, s, "expected \": ACTION\", or \"NAME = VALUE\"");
		if (n && !known_condition(s, n))
			return wrong(l, s, "no condition \"%.*s\"; did you mean \"%s\"?",
				     (int)MIN(n, (size_t)64), s,
				     nearest(conditions, ARRAY_SIZE(conditions), s, n));
		if (!n || is_word(s, n, "all")) {
			s += n + end;
			s += strspn(s, BLANKS);
			continue;
		}
		v = s + n + end + strspn(s + n + end, BLANKS);
		m = end ? 0 : word_length(v, &end);
		if (!m)
			return wrong(l, s + n, "\"%.*s\" wants a value", (int)n, s);
		int err = parse_condition(l, s, n, v, m, &r);
		if (err)
			return err;
		s = v + m + end;
		s += strspn(s, BLANKS);
	}
	int err = parse_action(l, s, &r);
	if (!err && sink && sink->rule(arg, &r, l->number))
		err = wrong(l, l->start, "too many rules");
	return err;
}

/* ----------------------------------------------------------------- text -- */

/* A comment begins a line or follows a blank. */
static void strip(char *s)
{
	size_t n;

	for (char *p = strchr(s, '#'); p; p = strchr(p + 1, '#')) {
		if (p == s || strchr(BLANKS, p[-1])) {
			*p = '\0';
			break;
		}
	}
	for (n = strlen(s); n && strchr(BLANKS, s[n - 1]); n--)
		s[n - 1] = '\0';
}

static int parse_line(struct line *l, char *buf, const struct conf_sink *sink, void *arg)
{
	strip(buf);
	const char *s = buf + strspn(buf, BLANKS);
	if (!*s)
		return 0;
	char *eq = strchr(buf, '=');
	return eq ? parse_setting(l, s, eq, sink, arg) : parse_rule(l, s, sink, arg);
}

int conf_parse(const char *text, size_t n, const struct conf_sink *sink, void *arg,
	       struct conf_error *err)
{
	struct line l = { .number = 0, .err = err };
	char buf[1024];

	for (const char *p = text, *end = text + n; p < end;) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);

		l.number++;
		l.start = buf;
		if (len >= sizeof(buf) || memchr(p, '\0', len)) {
			buf[0] = '\0';
			return wrong(&l, buf, len >= sizeof(buf) ? "the line is too long" : "no text");
		}
		memcpy(buf, p, len);
		buf[len] = '\0';
		if (parse_line(&l, buf, sink, arg))
			return -EINVAL;
		p += len + (nl != NULL);
	}
	return 0;
}

static int file_wrong(struct conf_error *err, int ret, const char *text)
{
	*err = (struct conf_error){ 0 };
	snprintf(err->text, sizeof(err->text), "%s", text);
	return ret;
}

static ssize_t read_open(int fd, bool owned, char *buf, struct conf_error *err)
{
	struct stat st;
	size_t have = 0;

	if (sys2(SYS_fstat, fd, &st) || !S_ISREG(st.st_mode))
		return file_wrong(err, -EINVAL, "not a regular file");
	if (owned && ((st.st_uid != 0 && st.st_uid != (uid_t)sys0(SYS_geteuid)) || (st.st_mode & 022)))
		return file_wrong(err, -EPERM, "others can write it");
	while (have < CONF_BYTES) {
		ssize_t n = sys_read(fd, buf + have, CONF_BYTES - have);

		if (n < 0)
			return file_wrong(err, (int)n, "cannot be read");
		if (n == 0)
			return (ssize_t)have;
		have += (size_t)n;
	}
	return file_wrong(err, -EFBIG, "too long");
}

ssize_t conf_read(const char *path, bool owned, char *buf, struct conf_error *err)
{
	long fd = sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0)
		return file_wrong(err, (int)fd, fd == -ENOENT ? "not there" : "cannot be opened");
	ssize_t n = read_open((int)fd, owned, buf, err);
	sys_close((int)fd);
	return n;
}

bool conf_user_path(char *path, size_t size, const char *xdg, const char *home)
{
	int n = -1;

	if (xdg && xdg[0] == '/')
		n = snprintf(path, size, "%s/" CONF_USER, xdg);
	else if (home && home[0] == '/')
		n = snprintf(path, size, "%s/.config/" CONF_USER, home);
	return n > 0 && (size_t)n < size;
}

/* -------------------------------------------------------------- matching -- */

bool rule_program_is(const struct rule *r, const char *program)
{
	size_t n = strlen(r->program);

	if (!n)
		return true;
	if (r->program[n - 1] == '*')
		return strncmp(r->program, program, n - 1) == 0;
	return strcmp(r->program, program) == 0;
}

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned rest = bits % 8;

	if (memcmp(a, b, bits / 8))
		return false;
	return !rest || ((a[bits / 8] ^ b[bits / 8]) >> (8 - rest)) == 0;
}

bool rule_covers(const struct rule *r, uint16_t server_port, uint16_t listen_port, int family,
		 const uint8_t *addr)
{
	if ((r->port && r->port != server_port) || (r->listen && r->listen != listen_port))
		return false;
	return !r->family || (r->family == family && prefix_equal(r->addr, addr, r->bits));
}

const char *rule_action_word(enum rule_action a)
{
	return (unsigned)a < ARRAY_SIZE(actions) ? actions[a] : "?";
}
