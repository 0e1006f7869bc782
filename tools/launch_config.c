/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* launch_config.c - see launch_config.h */
#define _GNU_SOURCE
#include "launch_config.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/nearest.h"
#include "base/util.h"
#include "lib/variable.h"

#define EXIT_BAD	1
#define EXIT_OURS	125

static const struct {
	const char *name, *variable, *def;
} settings[] = {
#define X(field, kind, var, def, values, meaning) { #field, var, def },
	SETTINGS(X)
#undef X
};

static char text[CONF_BYTES];

static int complain(const char *path, const struct conf_error *e)
{
	if (e->line)
		fprintf(stderr, "%s:%u:%u: %s\n", path, e->line, e->col, e->text);
	else
		fprintf(stderr, "%s: %s\n", path, e->text);
	return EXIT_BAD;
}

/* ------------------------------------------------------------- profiles -- */

/* In the build tree, installed, or installed and moved; dir[i] of these that is one. */
static bool profiles_dir(char out[PATH_MAX])
{
	static const char *const beside[] = { "../profiles", "../share/sidestep/profiles" };
	char exe[PATH_MAX / 2];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[MAX(n, 0)] = '\0';
	char *slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; slash && i < ARRAY_SIZE(beside); i++) {
		snprintf(out, PATH_MAX, "%s/%s", exe, beside[i]);
		if (access(out, R_OK | X_OK) == 0)
			return true;
	}
	snprintf(out, PATH_MAX, "%s", PROFILES);
	return access(out, R_OK | X_OK) == 0;
}

/* The user's own, ~/.config/sidestep/; false: there is no home. */
static bool own_profiles(char out[PATH_MAX])
{
	if (!conf_user_path(out, PATH_MAX, getenv("XDG_CONFIG_HOME"), getenv("HOME")))
		return false;
	out[strlen(out) - strlen(".conf")] = '\0';
	return true;
}

static void nearest_in(const char *dir, const char *name, char best[256])
{
	DIR *d = opendir(dir);

	for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
		char *dot = strrchr(e->d_name, '.');

		if (!dot || strcmp(dot, ".conf") != 0)
			continue;
		*dot = '\0';
		if (!best[0] || name_distance(name, strlen(name), e->d_name) <
				name_distance(name, strlen(name), best))
			snprintf(best, 256, "%s", e->d_name);
	}
	if (d)
		closedir(d);
}

static int no_profile(const char *own, const char *dir, const char *name)
{
	char best[256] = "";

	nearest_in(dir, name, best);
	nearest_in(own, name, best);
	fprintf(stderr, "sidestep: no profile \"%s\"", name);
	fprintf(stderr, best[0] ? "; did you mean \"%s\"?\n" : " in %s\n", best[0] ? best : dir);
	return EXIT_OURS;
}

/* Which of our options has set a variable; "": the environment had it before, or nobody. */
static char set_by[ARRAY_SIZE(settings)][300];

int config_set_by(const char *variable, const char *value, const char *option)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (!strcmp(settings[i].variable, variable) && !getenv(variable))
			snprintf(set_by[i], sizeof(set_by[i]), "%s", option);
	return setenv(variable, value, 0);
}

static void into_environment(void *arg, const char *variable, const char *value, unsigned line)
{
	config_set_by(variable, value, arg);
}

static int refuse_rule(void *arg, const struct rule *r, unsigned line)
{
	return -ENOSPC;
}

int profile_use(const char *name)
{
	static const struct conf_sink sink = { into_environment, refuse_rule };
	char own[PATH_MAX] = "", dir[PATH_MAX], path[PATH_MAX + 300], option[300];
	struct conf_error err;
	ssize_t n = -ENOENT;

	if (!profiles_dir(dir))
		snprintf(dir, sizeof(dir), "%s", PROFILES);
	if (!strchr(name, '/') && own_profiles(own)) {
		snprintf(path, sizeof(path), "%s/%.255s.conf", own, name);
		n = conf_read(path, true, text, &err);
	}
	if (n == -ENOENT && !strchr(name, '/')) {
		snprintf(path, sizeof(path), "%s/%.255s.conf", dir, name);
		n = conf_read(path, false, text, &err);
	}
	if (n == -ENOENT)
		return no_profile(own, dir, name);
	snprintf(option, sizeof(option), "-p %.255s", name);
	if (n < 0 || conf_parse(text, (size_t)n, &sink, option, &err)) {
		complain(path, &err);
		return EXIT_OURS;
	}
	return 0;
}

/* ---------------------------------------------------------------- files -- */

#define FILES 3

/* Those that a program would read from here, in their order; n of them. */
static int files_read(char paths[FILES][PATH_MAX])
{
	const char *named = getenv("SIDESTEP_CONFIG");
	int n = 0;

	if (named && *named)
		snprintf(paths[n++], PATH_MAX, "%s", named);
	if (conf_user_path(paths[n], PATH_MAX, getenv("XDG_CONFIG_HOME"), getenv("HOME")))
		n++;
	snprintf(paths[n++], PATH_MAX, "%s", CONF_SYSTEM);
	return n;
}

/* The user's own is the last but one, and nobody else may write it. */
static bool is_owned(int i, int n)
{
	const char *named = getenv("SIDESTEP_CONFIG");

	return i == n - 2 && (n == FILES || !(named && *named));
}

static int check_one(const char *path, bool owned, bool must)
{
	struct conf_error err;
	ssize_t n = conf_read(path, owned, text, &err);

	if (n == -ENOENT && !must)
		return 0;
	if (n < 0 || conf_parse(text, (size_t)n, NULL, NULL, &err))
		return complain(path, &err);
	printf("%s: ok\n", path);
	return 0;
}

int config_check(int n, char **files)
{
	char paths[FILES][PATH_MAX];
	int bad = 0;

	for (int i = 0; i < n; i++)
		bad |= check_one(files[i], false, true);
	if (n)
		return bad;
	n = files_read(paths);
	for (int i = 0; i < n; i++)
		bad |= check_one(paths[i], is_owned(i, n), i == 0 && n == FILES);
	return bad;
}

/* ----------------------------------------------------------------- show -- */

static struct value {
	char text[1024];
	char origin[PATH_MAX + 16];	/* "": nobody */
} values[ARRAY_SIZE(settings)];

static void note_setting(void *arg, const char *variable, const char *value, unsigned line)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		if (strcmp(settings[i].variable, variable) != 0 || values[i].origin[0])
			continue;
		snprintf(values[i].text, sizeof(values[i].text), "%s", value);
		if (line)
			snprintf(values[i].origin, sizeof(values[i].origin), "%s:%u",
				 (const char *)arg, line);
		else
			snprintf(values[i].origin, sizeof(values[i].origin), "%s",
				 set_by[i][0] ? set_by[i] : variable);
	}
}

static int skip_rule(void *arg, const struct rule *r, unsigned line)
{
	return 0;
}

static void skip_setting(void *arg, const char *variable, const char *value, unsigned line)
{
}

/* The line itself, without its comment: as it was meant. */
static int show_rule(void *arg, const struct rule *r, unsigned line)
{
	const char *p = text;

	for (unsigned i = 1; i < line; i++)
		p = strchr(p, '\n') + 1;
	printf("%-40.*s # %s:%u\n", (int)strcspn(p, "#\n"), p, (const char *)arg, line);
	return 0;
}

static int show_settings(void)
{
	static struct config scratch;
	int bad = 0;

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const struct value *v = &values[i];
		const char *value = v->origin[0] ? v->text : settings[i].def;
		const char *origin = v->origin[0] ? v->origin : "default";
		char both[1200];

		if (config_set(&scratch, settings[i].variable, value) && *value) {
			fprintf(stderr, "sidestep: %s cannot be \"%s\"; the default holds\n",
				settings[i].variable, value);
			value = settings[i].def;
			origin = "default";
			bad = EXIT_BAD;
		}
		snprintf(both, sizeof(both), "%s = %s", settings[i].name, *value ? value : "# none");
		printf("%-40s # %s\n", both, origin);
	}
	return bad;
}

static int unknown_variables(void)
{
	int bad = 0;

	for (char **e = environ; *e; e++) {
		const char *nearest = variable_unknown(*e);

		if (!nearest)
			continue;
		fprintf(stderr, "sidestep: no variable \"%.*s\"; did you mean \"%s\"?\n",
			(int)strcspn(*e, "="), *e, nearest);
		bad = EXIT_BAD;
	}
	return bad;
}

int config_show(void)
{
	static const struct conf_sink notes = { note_setting, skip_rule };
	static const struct conf_sink shows = { skip_setting, show_rule };
	char paths[FILES][PATH_MAX];
	bool good[FILES] = { false };
	struct conf_error err;
	int n, bad = unknown_variables();

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		const char *v = getenv(settings[i].variable);

		if (v && *v)
			note_setting(NULL, settings[i].variable, v, 0);
	}
	n = files_read(paths);
	for (int pass = 0; pass < 2; pass++) {
		if (pass)
			bad |= show_settings();
		for (int i = 0; i < n; i++) {
			ssize_t bytes = pass && !good[i] ? -ENOENT :
					conf_read(paths[i], is_owned(i, n), text, &err);

			if (bytes == -ENOENT && !(!pass && i == 0 && n == FILES))
				continue;
			good[i] = bytes >= 0 && !conf_parse(text, (size_t)bytes, NULL, NULL, &err);
			if (!good[i]) {
				bad |= complain(paths[i], &err);
				continue;
			}
			if ((size_t)bytes < sizeof(text))
				text[bytes] = '\0';
			conf_parse(text, (size_t)bytes, pass ? &shows : &notes, paths[i], &err);
		}
	}
	return bad;
}
