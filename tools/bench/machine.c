/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* machine.c - see machine.h */
#define _GNU_SOURCE
#include <config.h>

#include "machine.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/config.h"

/* First line of a file. */
static void line_of(const char *path, char *buf, size_t size, const char *otherwise)
{
	FILE *f = fopen(path, "re");

	if (!f || !fgets(buf, (int)size, f))
		snprintf(buf, size, "%s", otherwise);
	if (f)
		fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
}

/* x86 has "model name"; elsewhere the machine's own name will do. */
static void cpu_model(char *buf, size_t size, const char *otherwise)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char l[256];

	snprintf(buf, size, "%s", otherwise);
	while (f && fgets(l, sizeof(l), f)) {
		char *colon = strchr(l, ':');

		if (strncmp(l, "model name", 10) != 0 || !colon)
			continue;
		l[strcspn(l, "\n")] = '\0';
		snprintf(buf, size, "%s", colon + 1 + (colon[1] == ' '));
		break;
	}
	if (f)
		fclose(f);
}

static void settings(struct machine *m)
{
	const char *mode = "spin";

	config_load(environ);
	if (config.spin_us == SPIN_AUTO)
		mode = "adaptive";
	else if (config.spin_us == 0)
		mode = "event";
	snprintf(m->cq_mode, sizeof(m->cq_mode), "%s", mode);
	if (config.attach == ATTACH_AUTO)
		snprintf(m->attach, sizeof(m->attach), "auto");
	else if (config.attach == ATTACH_NEVER)
		snprintf(m->attach, sizeof(m->attach), "never");
	else if (config.attach == ATTACH_EAGER)
		snprintf(m->attach, sizeof(m->attach), "eager");
	else
		snprintf(m->attach, sizeof(m->attach), "%lld", (long long)config.attach);
	m->ring_bytes = config.ring_bytes;
}

const struct machine *machine_get(void)
{
	static struct machine m;
	struct utsname u = { .release = "?" };

	if (m.version[0])
		return &m;
	uname(&u);
	snprintf(m.version, sizeof(m.version), "%s", VERSION);
	snprintf(m.kernel, sizeof(m.kernel), "%s %s %s", u.sysname, u.release, u.machine);
	snprintf(m.libc, sizeof(m.libc), "glibc %s", gnu_get_libc_version());
	cpu_model(m.cpu, sizeof(m.cpu), u.machine);
	line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", m.governor,
		sizeof(m.governor), "none");
	line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource", m.clocksource,
		sizeof(m.clocksource), "?");
	line_of("/proc/sys/net/ipv4/tcp_congestion_control", m.congestion, sizeof(m.congestion),
		"?");
	settings(&m);
	return &m;
}
