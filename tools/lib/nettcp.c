/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* nettcp.c - see nettcp.h */
#define _GNU_SOURCE
#include "nettcp.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned digit(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c & 7) + 9;
}

/* each eight digits are a word as it lies in memory */
static const char *addr_parse(const char *p, uint8_t addr[16], uint16_t *port, int words)
{
	for (int w = 0; w < words; w++) {
		uint32_t v = 0;

		for (int i = 0; i < 8; i++)
			v = v << 4 | digit(*p++);
		memcpy(addr + 4 * w, &v, sizeof(v));
	}
	p++;
	*port = 0;
	for (int i = 0; i < 4; i++)
		*port = (uint16_t)(*port << 4 | digit(*p++));
	return p;
}

static const char *skip_fields(const char *p, int n)
{
	for (p += strspn(p, " "); n > 0; n--) {
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return p;
}

/* sl local remote st tx:rx tr:when retransmits uid timeout inode */
static bool line_parse(const char *line, struct nettcp *s, int words)
{
	size_t need = (size_t)words * 8 + 5;
	const char *p = skip_fields(line, 1);

	if (strcspn(p, " \n") != need || strspn(p, "0123456789ABCDEF:") != need)
		return false;
	p = addr_parse(p, s->laddr, &s->lport, words) + 1;
	if (strcspn(p, " \n") != need || strspn(p, "0123456789ABCDEF:") != need)
		return false;
	p = addr_parse(p, s->raddr, &s->rport, words);
	p = skip_fields(p, 0);
	s->state = (unsigned)strtoul(p, NULL, 16);
	p = skip_fields(p, 4);
	s->uid = (uid_t)strtoul(p, NULL, 10);
	s->inode = strtoul(skip_fields(p, 2), NULL, 10);
	s->family = words == 1 ? AF_INET : AF_INET6;
	return true;
}

static void mapped_to_4(struct nettcp *s)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	if (s->family != AF_INET6 || memcmp(s->laddr, prefix, 12) || memcmp(s->raddr, prefix, 12))
		return;
	s->family = AF_INET;
	memcpy(s->laddr, s->laddr + 12, 4);
	memset(s->laddr + 4, 0, 12);
	memcpy(s->raddr, s->raddr + 12, 4);
	memset(s->raddr + 4, 0, 12);
}

/*
 * The kernel gives a page of lines for a call, however much is asked for; and
 * stdio asks for a kilobyte, which is what such a file calls its block.
 */
static bool each_line(FILE *f, int words, bool (*fn)(void *, const struct nettcp *), void *arg)
{
	static char buf[1 << 16];
	char line[512];
	bool go = true;

	setvbuf(f, buf, _IOFBF, sizeof(buf));
	while (go && fgets(line, sizeof(line), f)) {
		struct nettcp s = { 0 };

		if (!line_parse(line, &s, words))
			continue;
		mapped_to_4(&s);
		go = fn(arg, &s);
	}
	return go;
}

void nettcp_each(pid_t pid, bool (*fn)(void *arg, const struct nettcp *s), void *arg)
{
	static const struct {
		const char *name;
		int words;
	} files[] = { { "tcp", 1 }, { "tcp6", 4 } };
	char path[64], who[16] = "self";
	bool go = true;

	if (pid)
		snprintf(who, sizeof(who), "%d", (int)pid);
	for (int i = 0; go && i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%s/net/%s", who, files[i].name);
		FILE *f = fopen(path, "re");
		if (!f)
			continue;
		go = each_line(f, files[i].words, fn, arg);
		fclose(f);
	}
}
