/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* log.c - see log.h; one write(2) a line, the private fd lives at a high number */
#define _GNU_SOURCE
#include "base/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/privfd.h"
#include "base/sys.h"
#include "base/util.h"

int log_level = LOG_OFF;
static int log_file = -1;

static const char letters[] = "-eidt";

void log_open(enum log_level level, const char *file)
{
	if (level == LOG_OFF)
		return;
	if (file) {
		long fd = sys4(SYS_openat, AT_FDCWD, file,
			       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

		if (fd < 0)
			return;
		log_file = privfd_adopt((int)fd);
		if (log_file < 0)
			return;
	} else {
		char termios[256];	/* larger than any struct of the kernel's */

		if (sys_ioctl(2, TCGETS, termios) < 0)
			return;
	}
	log_level = level;
}

int log_fd(void)
{
	return log_file;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[512];
	uint64_t us = clock_ns() / NS_PER_US;
	va_list ap;
	int n = snprintf(line, sizeof(line), "sidestep[%d.%d] %llu.%06llu %c ", sys_getpid(),
			 sys_gettid(), (unsigned long long)(us / 1000000),
			 (unsigned long long)(us % 1000000), letters[level]);

	va_start(ap, fmt);
	int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n = MIN(n + MAX(m, 0), (int)sizeof(line) - 2);
	line[n++] = '\n';
	privfd_write(log_file >= 0 ? log_file : 2, line, (size_t)n);
}
