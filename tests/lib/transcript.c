/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Transcripts; see transcript.h. */
#include "transcript.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void transcript_line(struct transcript *t, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(t->fd, line, (size_t)n) != n)
		t->failures++;
}

static void value_name(char *buf, size_t size, long value, int err)
{
	const char *name = strerrorname_np(err);

	if (value >= 0 || err == 0)
		snprintf(buf, size, "%ld", value);
	else
		snprintf(buf, size, "-1 %s", name ? name : "unknown errno");
}

void transcript_result(struct transcript *t, const char *label, long want, long got, int got_errno)
{
	long have = got == -1 && got_errno ? -got_errno : got;
	char is[48], should[48];

	value_name(is, sizeof(is), got, got_errno);
	if (have == want) {
		transcript_line(t, "%s = %s", label, is);
		return;
	}
	value_name(should, sizeof(should), want, want < 0 ? (int)-want : 0);
	transcript_line(t, "%s = %s  WRONG, expected %s", label, is, should);
	t->failures++;
}

void transcript_check(struct transcript *t, const char *label, int holds)
{
	transcript_line(t, "%s: %s", label, holds ? "yes" : "no  WRONG");
	if (!holds)
		t->failures++;
}

static void bits_text(char *buf, size_t size, const struct bit_name *names, unsigned int bits)
{
	const struct bit_name *b;
	size_t n = 0;

	buf[0] = '\0';
	for (b = names; b->name; b++) {
		if (!(bits & b->bit))
			continue;
		n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "|" : "", b->name);
		bits &= ~b->bit;
	}
	if (bits || !n)
		snprintf(buf + n, size - n, "%s%#x", n ? "|" : "", bits);
}

void transcript_bits(struct transcript *t, const char *label, const struct bit_name *names,
		     unsigned int want, unsigned int got)
{
	char is[128], should[128];

	bits_text(is, sizeof(is), names, got);
	if (got == want) {
		transcript_line(t, "%s: %s", label, is);
		return;
	}
	bits_text(should, sizeof(should), names, want);
	transcript_line(t, "%s: %s  WRONG, expected %s", label, is, should);
	t->failures++;
}
