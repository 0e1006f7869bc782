/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * peer.c - would a connection from here to HOST:PORT be on a ring?
 *
 * On this host nothing is connected to or asked: the listener is looked up in the
 * kernel's tables, and its process in /proc.  What is found out in this order
 * decides: do the settings here let it, is the address ours, does somebody listen,
 * whose is it, does it run under the library, and is it told not to.  Another host
 * is asked (far.c), if this end has what it takes.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../lib/nettcp.h"
#include "../stat/stat.h"
#include "base/config.h"
#include "base/util.h"
#include "meet/meet.h"

#define MAX_LISTENERS 32

struct search {
	const struct addrinfo *to;
	int port, n;
	struct nettcp found[MAX_LISTENERS];
};

struct result *peer_add(struct peer_answer *a)
{
	static struct result spare;

	return a->n < PEER_RESULTS ? &a->results[a->n++] : &spare;
}

void peer_decide(struct peer_answer *a, enum verdict v, enum reason why)
{
	a->v = v;
	snprintf(a->reason, sizeof(a->reason), "%s", why == REASON_NONE ? "" : reason_name(why));
}

/* An address is ours if a socket can be bound to it. */
static bool is_ours(const struct addrinfo *ai)
{
	struct sockaddr_storage sa;
	int fd = socket(ai->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(&sa, ai->ai_addr, ai->ai_addrlen);
	if (ai->ai_family == AF_INET)
		((struct sockaddr_in *)&sa)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&sa)->sin6_port = 0;
	bool ours = fd >= 0 && bind(fd, (struct sockaddr *)&sa, ai->ai_addrlen) == 0;
	close(fd);
	return ours;
}

static bool listens_for(const struct nettcp *s, const struct addrinfo *ai)
{
	static const uint8_t any[16];

	if (!memcmp(s->laddr, any, sizeof(any)))	/* :: takes IPv4 too, mostly */
		return s->family == AF_INET6 || ai->ai_family == AF_INET;
	if (ai->ai_family != s->family)
		return false;
	size_t at = s->family == AF_INET ? offsetof(struct sockaddr_in, sin_addr)
					 : offsetof(struct sockaddr_in6, sin6_addr);
	return !memcmp(s->laddr, (const char *)ai->ai_addr + at, s->family == AF_INET ? 4 : 16);
}

static bool look(void *arg, const struct nettcp *s)
{
	struct search *q = arg;

	if (s->state == TCP_LISTEN && s->lport == q->port && listens_for(s, q->to))
		q->found[q->n++] = *s;
	return q->n < MAX_LISTENERS;
}

/* Does pid hold one of the sockets?  Return: 1, 0, -EACCES. */
static int holds(pid_t pid, const struct search *q)
{
	char path[64], text[64];
	unsigned long inode;
	int yes = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *d = opendir(path);
	if (!d)
		return errno == EACCES ? -EACCES : 0;
	for (struct dirent *e; !yes && (e = readdir(d)) != NULL;) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, text, sizeof(text) - 1);

		if (n <= 0)
			continue;
		text[n] = '\0';
		if (sscanf(text, "socket:[%lu]", &inode) != 1)
			continue;
		for (int i = 0; i < q->n; i++)
			yes |= q->found[i].inode == inode;
	}
	closedir(d);
	return yes;
}

static bool has_library(pid_t pid)
{
	char path[64], line[512];
	bool yes = false;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *f = fopen(path, "re");
	while (f && !yes && fgets(line, sizeof(line), f))
		yes = strstr(line, "/libsidestep.so") != NULL;
	if (f)
		fclose(f);
	return yes;
}

/* One process that listens there.  Return: V_OK or V_FAIL. */
static enum verdict judge(struct peer_answer *a, pid_t pid)
{
	struct result *r = peer_add(a);
	char program[32];
	struct shown s;

	program_of(pid, program, sizeof(program));
	bool shows = find_one(&s, pid, false) == 0;
	if (!shows && !has_library(pid)) {
		result_set(r, V_FAIL, "%s, pid %d, does not run under sidestep", program, (int)pid);
		result_fix(r, "sidestep %s ...    # instead of: %s ...", program, program);
		peer_decide(a, V_FAIL, REASON_PEER_UNPROVEN);
	} else if (!shows || s.off) {
		result_set(r, V_FAIL, "%s, pid %d, has the library, but %s", program, (int)pid,
			   shows ? "its settings keep connections on TCP" :
			   "switched off, or inherited its socket from a program without it");
		result_fix(r, "start it without SIDESTEP, SIDESTEP_ATTACH and SIDESTEP_RNIC; see sidestep --show-config");
		peer_decide(a, V_FAIL, shows ? REASON_CONFIG : REASON_PEER_UNPROVEN);
	} else {
		result_set(r, V_OK, "%s, pid %d, runs under sidestep", program, (int)pid);
	}
	if (shows)
		read_free(&s);
	return r->v;
}

static void judge_all(struct peer_answer *a, const struct search *q)
{
	DIR *proc = opendir("/proc");
	int known = 0, denied = 0;
	enum verdict worst = V_OK;

	for (struct dirent *e; proc && known < 4 && (e = readdir(proc)) != NULL;) {
		pid_t pid = (pid_t)atoi(e->d_name);
		int h = pid > 0 ? holds(pid, q) : 0;

		denied += h == -EACCES;
		if (h != 1)
			continue;
		known++;
		if (judge(a, pid) != V_OK)
			worst = V_FAIL;
	}
	if (proc)
		closedir(proc);
	if (known && worst == V_OK)
		peer_decide(a, V_OK, REASON_NONE);
	if (known)
		return;
	struct result *r = peer_add(a);
	peer_decide(a, V_UNKNOWN, REASON_NONE);
	result_set(r, V_UNKNOWN, "uid %u listens there, in %s", (unsigned)q->found[0].uid,
		   denied ? "a process that may not be looked at" : "no process that is seen from here");
	result_fix(r, "sudo sidestep-check --peer ...");
}

/* A process that has accepted there under the library holds a name of the port. */
static bool name_held(const struct addrinfo *ai, int port)
{
	struct sockaddr_un sa;
	char line[512], want[128];
	bool yes = false;

	meet_name(&sa, ai->ai_family, (uint16_t)port, 0);
	snprintf(want, sizeof(want), " @%s", sa.sun_path + 1);
	want[strlen(want) - 1] = '\0';		/* any index */
	FILE *f = fopen("/proc/self/net/unix", "re");
	while (f && !yes && fgets(line, sizeof(line), f))
		yes = strstr(line, want) != NULL;
	if (f)
		fclose(f);
	return yes;
}

/* The first address at which somebody listens: connect() is tried in this order. */
static struct search who_listens(const struct addrinfo *ai, int port)
{
	struct search q = { .to = ai, .port = port };

	for (; ai && !q.n; ai = ai->ai_next) {
		q.to = ai;
		if (is_ours(ai))
			nettcp_each(0, look, &q);
	}
	return q;
}

/* For a peer on this host, too. */
static bool wants_device(void)
{
	return config.rnic.choice == RNIC_VERBS || config.rnic.choice == RNIC_NAMED;
}

static void ours(struct peer_answer *a, const struct addrinfo *all, int port)
{
	struct search q = who_listens(all, port);
	const struct addrinfo *ai = q.to;
	struct result *r = peer_add(a);

	if (!q.n) {
		result_set(r, V_FAIL, "nobody listens on port %d in this network namespace", port);
		result_fix(r, "ss -ltnp 'sport = :%d'    # in a container with a network of its own run it with the host's: --network host", port);
		peer_decide(a, V_FAIL, REASON_NONE);
		return;
	}
	if (!meet_uid_proves(q.found[0].uid)) {
		result_set(r, V_FAIL, "the listener's uid %u proves nothing", (unsigned)q.found[0].uid);
		result_fix(r, "run it as a user of its own; in containers map all users");
		peer_decide(a, V_FAIL, REASON_OWNER_UNKNOWN);
		return;
	}
	result_set(r, V_OK, "this host, and somebody listens%s",
		   name_held(ai, port) ? "; one who has accepted there runs under sidestep" : "");
	judge_all(a, &q);
	if (a->v == V_OK && wants_device())
		result_set(peer_add(a), V_INFO, "if SIDESTEP_RNIC asks for the device there, too; else: no-rnic");
	if (a->v == V_UNKNOWN && name_held(ai, port))
		peer_decide(a, V_OK, REASON_NONE);
}

/* Do the settings of a program started here keep it on TCP? */
static bool told_not_to(struct peer_answer *a, const struct addrinfo *ai, int port)
{
	const void *sa = ai->ai_addr;
	const void *addr = ai->ai_family == AF_INET ?
		(const void *)&((const struct sockaddr_in *)sa)->sin_addr :
		(const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
	bool rule = config_rule((uint16_t)port, 0, ai->ai_family, addr) == RULE_TCP;

	if (!rule && config.enabled && config.attach != ATTACH_NEVER && config.rnic.choice != RNIC_NONE)
		return false;
	struct result *r = peer_add(a);
	result_set(r, V_FAIL, "%s", rule ? "a rule here keeps it on TCP" : "the settings here keep it on TCP");
	result_fix(r, "sidestep --show-config    # says which, and from where");
	peer_decide(a, V_FAIL, REASON_CONFIG);
	return true;
}

static bool lacks_device(struct peer_answer *a)
{
	char what[200];

	device_lacks(config.rnic.choice == RNIC_NAMED ? config.rnic.device : NULL, what, sizeof(what));
	if (!what[0])
		return false;
	struct result *r = peer_add(a);
	result_set(r, V_FAIL, "SIDESTEP_RNIC asks for a device, and %s", what);
	result_fix(r, "sidestep-check    # devices, device-files and verbs say what to do; on one host: unset SIDESTEP_RNIC");
	peer_decide(a, V_FAIL, REASON_NO_RNIC);
	return true;
}

static void elsewhere(struct peer_answer *a, const char *peer, const char *host, int port)
{
	char what[200];

	device_lacks(NULL, what, sizeof(what));
	if (config.rnic.choice == RNIC_SOFT || (config.rnic.choice == RNIC_AUTO && what[0])) {
		struct result *r = peer_add(a);

		result_set(r, V_FAIL, "%s is no address of this network namespace: another host, or a container with a network of its own; only RDMA devices lead there, and %s",
			   host, what[0] ? what : "SIDESTEP_RNIC allows none");
		result_fix(r, what[0] ? "sidestep-check    # two hosts: devices, device-files and verbs say what to do; one host: run both in one network namespace (--network host)" :
			   "unset SIDESTEP_RNIC    # two hosts with RDMA devices; one host: run both in one network namespace (--network host)");
		peer_decide(a, V_FAIL, REASON_OTHER_NETNS_OR_NAT);
		return;
	}
	if (!wants_device() || !lacks_device(a))
		far_check(a, peer, host, port);
	else
		result_set(peer_add(a), V_INFO, "%s is another host, or a container with a network of its own", host);
}

static int split(const char *peer, char *host, size_t size, const char **port)
{
	const char *colon = strrchr(peer, ':');
	size_t n = colon ? (size_t)(colon - peer) : 0;

	if (n >= 2 && peer[0] == '[' && peer[n - 1] == ']') {
		peer++;
		n -= 2;
	}
	if (!n || n >= size)
		return EXIT_USAGE;
	memcpy(host, peer, n);
	host[n] = '\0';
	*port = colon + 1;
	int v = atoi(*port);
	return v > 0 && v < 65536 && strspn(*port, "0123456789") == strlen(*port) ? 0 : EXIT_USAGE;
}

int peer_addresses(const char *peer, struct addrinfo **all)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	char host[256];
	const char *port;

	return split(peer, host, sizeof(host), &port) ? EXIT_USAGE :
	       getaddrinfo(host, port, &hints, all);
}

int peer_check(const char *peer, struct peer_answer *a)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
	char host[256];
	const char *port;

	memset(a, 0, sizeof(*a));
	config_load(environ);
	if (split(peer, host, sizeof(host), &port))
		return EXIT_USAGE;
	int err = getaddrinfo(host, port, &hints, &all);
	if (err) {
		result_set(peer_add(a), V_UNKNOWN, "%s: %s", host, gai_strerror(err));
		peer_decide(a, V_UNKNOWN, REASON_NONE);
	} else if (!told_not_to(a, all, atoi(port))) {
		if (!is_ours(all))
			elsewhere(a, peer, host, atoi(port));
		else if (!wants_device() || !lacks_device(a))
			ours(a, all, atoi(port));
	}
	if (all)
		freeaddrinfo(all);
	return 0;
}
