/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_conffile.c - sidestep.conf: what is taken, what is refused and where, who wins */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/nearest.h"
#include "base/util.h"

/* --------------------------------------------------------------- parsing -- */

static const struct {
	const char *text;
	unsigned line, col;		/* of what is wrong; 0: nothing is */
	const char *says;
} texts[] = {
	{ "", 0, 0, "" },
	{ "\n# nothing\n   \n\t#\n", 0, 0, "" },
	{ "spin_us = 20", 0, 0, "" },
	{ "spin-us=20 # why\r\n", 0, 0, "" },
	{ "SIDESTEP_SPIN_US = auto\n", 0, 0, "" },
	{ "stats_file = /a#b\n", 0, 0, "" },
	{ "all: tcp", 0, 0, "" },
	{ "program nginx port 80: tcp\nto 10.0.0.0/8 : ring\nlisten 8080: soft", 0, 0, "" },
	{ "to ::1: verbs\nto fd00::/8: tcp\nto 1.2.3.4: tcp", 0, 0, "" },
	{ "program a* : tcp", 0, 0, "" },
	{ "\n  spin_su = 3", 2, 3, "\"spin_us\"" },
	{ "spin_us = fast", 1, 11, "number, auto, 0" },
	{ "spin_us =", 1, 10, "no value" },
	{ "spin us = 3", 1, 1, "no setting" },
	{ "spin_us x = 3", 1, 9, "expected" },
	{ "config_file = /x", 1, 1, "another" },
	{ "port 0: tcp", 1, 6, "from 1 to 65535" },
	{ "port 65536: tcp", 1, 6, "from 1 to 65535" },
	{ "port 8o: tcp", 1, 7, "from 1 to 65535" },
	{ "prot 80: tcp", 1, 1, "\"port\"" },
	{ "port 80: tpc", 1, 10, "\"tcp\"" },
	{ "port 80:tcp", 1, 8, "from 1 to 65535" },
	{ "port 80", 1, 8, "ACTION" },
	{ "port: tcp", 1, 5, "wants a value" },
	{ "port", 1, 5, "wants a value" },
	{ "all: tcp now", 1, 10, "nothing may follow" },
	{ "all:", 1, 5, "what is to be done" },
	{ "to 1.2.3: tcp", 1, 4, "no address" },
	{ "to 1.2.3.4/33: tcp", 1, 12, "0 to 32" },
	{ "to 1.2.3.4/: tcp", 1, 12, "0 to 32" },
	{ "to ::/129: tcp", 1, 7, "0 to 128" },
	{ "program a-name-that-is-much-longer-than-any-that-the-kernel-would-ever-give-to-a-program: tcp",
	  1, 9, "too long" },
};

static void what_is_wrong_is_said_and_where(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct conf_error e = { 0 };
		int ret = conf_parse(texts[i].text, strlen(texts[i].text), NULL, NULL, &e);

		if (ret != (texts[i].line ? -EINVAL : 0) || e.line != texts[i].line ||
		    e.col != texts[i].col || !strstr(e.text, texts[i].says))
			fail_msg("\"%s\": %d, %u:%u %s", texts[i].text, ret, e.line, e.col, e.text);
	}
}

static void no_text_hurts(void **state)
{
	static const char *const words[] = { "port", " ", ":", "=", "to", "::", "/", "\n", "#", "all",
					     "tcp", "80", "spin_us", "\0", "program", "*", "\t", "9" };
	uint64_t x = 88172645463325252ull;
	char text[2048];
	struct conf_error e;

	for (int i = 0; i < 20000; i++) {
		size_t n = 0;

		while (n < sizeof(text) - 16 && (x = x * 6364136223846793005ull + 1442695040888963407ull) >> 58) {
			const char *w = words[(x >> 33) % ARRAY_SIZE(words)];
			size_t len = MAX(strlen(w), (size_t)1);

			memcpy(text + n, w, len);
			n += len;
		}
		conf_parse(text, n, NULL, NULL, &e);
	}
}

static void a_name_knows_its_neighbours(void **state)
{
	assert_int_equal(name_distance("ring-bytes", 10, "ring_bytes"), 0);
	assert_int_equal(name_distance("spin_su", 7, "spin_us"), 1);
	assert_int_equal(name_distance("", 0, "log"), 3);
	assert_int_equal(name_distance("prot", 4, "port"), 1);
	assert_int_equal(name_distance("logg", 3, "log"), 0);
}

/* -------------------------------------------------------------- matching -- */

struct taken {
	struct rule r;
	int n;
};

static void no_setting(void *arg, const char *variable, const char *value, unsigned line)
{
	fail();
}

static int take_rule(void *arg, const struct rule *r, unsigned line)
{
	struct taken *t = arg;

	t->r = *r;
	t->n++;
	return 0;
}

static const struct {
	const char *rule, *program;
	uint16_t server, listen;
	const char *addr;
	bool fits;
} fits[] = {
	{ "all: tcp", "x", 80, 0, "1.2.3.4", true },
	{ "program nginx: tcp", "nginx", 80, 0, "1.2.3.4", true },
	{ "program nginx: tcp", "nginx2", 80, 0, "1.2.3.4", false },
	{ "program python*: tcp", "python3.11", 80, 0, "1.2.3.4", true },
	{ "program python*: tcp", "pytho", 80, 0, "1.2.3.4", false },
	{ "port 80: tcp", "x", 80, 0, "1.2.3.4", true },
	{ "port 80: tcp", "x", 80, 80, "1.2.3.4", true },
	{ "port 80: tcp", "x", 81, 80, "1.2.3.4", false },
	{ "listen 80: tcp", "x", 80, 80, "1.2.3.4", true },
	{ "listen 80: tcp", "x", 80, 0, "1.2.3.4", false },
	{ "to 1.2.0.0/16: tcp", "x", 80, 0, "1.2.3.4", true },
	{ "to 1.2.0.0/16: tcp", "x", 80, 0, "1.3.3.4", false },
	{ "to 1.2.3.4: tcp", "x", 80, 0, "1.2.3.4", true },
	{ "to 1.2.3.4: tcp", "x", 80, 0, "1.2.3.5", false },
	{ "to 1.2.3.4/31: tcp", "x", 80, 0, "1.2.3.5", true },
	{ "to 0.0.0.0/0: tcp", "x", 80, 0, "9.9.9.9", true },
	{ "to 0.0.0.0/0: tcp", "x", 80, 0, "::1", false },
	{ "to fd00::/7: tcp", "x", 80, 0, "fc00::1", true },
	{ "to fd00::/8: tcp", "x", 80, 0, "fc00::1", false },
	{ "program x port 80 to 1.2.3.4: tcp", "x", 80, 0, "1.2.3.4", true },
	{ "program x port 80 to 1.2.3.4: tcp", "x", 81, 0, "1.2.3.4", false },
};

static void a_rule_fits_what_it_says(void **state)
{
	static const struct conf_sink sink = { no_setting, take_rule };

	for (size_t i = 0; i < ARRAY_SIZE(fits); i++) {
		int family = strchr(fits[i].addr, ':') ? AF_INET6 : AF_INET;
		struct conf_error e = { 0 };
		struct taken t = { .n = 0 };
		uint8_t addr[16];

		assert_int_equal(inet_pton(family, fits[i].addr, addr), 1);
		assert_int_equal(conf_parse(fits[i].rule, strlen(fits[i].rule), &sink, &t, &e), 0);
		assert_int_equal(t.n, 1);
		bool yes = rule_program_is(&t.r, fits[i].program) &&
			   rule_covers(&t.r, fits[i].server, fits[i].listen, family, addr);
		if (yes != fits[i].fits)
			fail_msg("%s, %s %u %u %s", fits[i].rule, fits[i].program, fits[i].server,
				 fits[i].listen, fits[i].addr);
	}
}

/* ------------------------------------------------------------------ files -- */

static char dir[] = "/tmp/test_conffile.XXXXXX";

static const char *put(const char *name, const char *text)
{
	static char path[4][128];
	static int next;
	char *p = path[next++ % 4];

	snprintf(p, 128, "%s/%s", dir, name);
	FILE *f = fopen(p, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	chmod(p, 0644);
	return p;
}

static int load(const char *named, const char *home, const char *spin)
{
	char a[256], b[256], c[64];
	char *env[4];
	int n = 0;

	if (named) {
		snprintf(a, sizeof(a), "SIDESTEP_CONFIG=%s", named);
		env[n++] = a;
	}
	if (home) {
		snprintf(b, sizeof(b), "XDG_CONFIG_HOME=%s", home);
		env[n++] = b;
	}
	if (spin) {
		snprintf(c, sizeof(c), "SIDESTEP_SPIN_US=%s", spin);
		env[n++] = c;
	}
	env[n] = NULL;
	return config_load(env);
}

static enum rule_action rule_for(uint16_t port)
{
	return config_rule(port, 0, AF_INET, (const uint8_t[4]){ 127, 0, 0, 1 });
}

static void who_comes_first_wins(void **state)
{
	const char *named = put("named", "spin_us = 1\nport 1: tcp\n");

	put("sidestep.conf", "spin_us = 2\nring_bytes = 8192\nport 1: ring\nport 2: soft\n");
	assert_int_equal(load(named, dir, "3"), 0);
	assert_int_equal(config.spin_us, 3);
	assert_int_equal(config.ring_bytes, 8192);
	assert_int_equal(load(named, dir, NULL), 0);
	assert_int_equal(config.spin_us, 1);
	assert_int_equal(rule_for(1), RULE_TCP);
	assert_int_equal(rule_for(2), RULE_SOFT);
	assert_int_equal(rule_for(3), RULE_NONE);
	assert_int_equal(load(NULL, dir, NULL), 0);
	assert_int_equal(config.spin_us, 2);
	assert_int_equal(rule_for(1), RULE_RING);
	assert_int_equal(load(NULL, NULL, NULL), 0);
	assert_int_equal(config.ring_bytes, 2097152);
	assert_int_equal(config_nrules, 0);
}

static void nothing_is_used_of_a_bad_file(void **state)
{
	const char *bad = put("bad", "spin_us = 1\nport 1: tcp\nring_bytes = 5\n");
	char many[8192] = "";

	assert_int_equal(load(bad, NULL, NULL), 0);
	assert_int_equal(config.spin_us, SPIN_AUTO);
	assert_int_equal(config_nrules, 0);
	for (int i = 0; i <= CONF_RULES; i++)
		strcat(many, "port 1: tcp\n");
	assert_int_equal(load(put("many", many), NULL, NULL), 0);
	assert_int_equal(config_nrules, 0);
	assert_int_equal(load("/no/such/file", NULL, "4"), 0);
	assert_int_equal(config.spin_us, 4);
	assert_int_equal(load(dir, NULL, NULL), 0);
	assert_int_equal(load("/dev/zero", NULL, NULL), 0);
	assert_int_equal(config_nrules, 0);
}

static void rules_about_others_are_left_out(void **state)
{
	char text[256];

	snprintf(text, sizeof(text), "program no-such: tcp\nprogram %s port 7: tcp\n",
		 program_invocation_short_name);
	assert_int_equal(load(put("programs", text), NULL, NULL), 0);
	assert_int_equal(config_nrules, 1);
	assert_int_equal(rule_for(7), RULE_TCP);
}

static void a_file_that_others_may_write_is_not_read(void **state)
{
	chmod(put("sidestep.conf", "spin_us = 9\n"), 0666);
	assert_int_equal(load(NULL, dir, NULL), 0);
	assert_int_equal(config.spin_us, SPIN_AUTO);
}

static int setup(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = { "named", "sidestep.conf", "bad", "many", "programs" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wrong_is_said_and_where),
		cmocka_unit_test(no_text_hurts),
		cmocka_unit_test(a_name_knows_its_neighbours),
		cmocka_unit_test(a_rule_fits_what_it_says),
		cmocka_unit_test(who_comes_first_wins),
		cmocka_unit_test(nothing_is_used_of_a_bad_file),
		cmocka_unit_test(rules_about_others_are_left_out),
		cmocka_unit_test(a_file_that_others_may_write_is_not_read),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
