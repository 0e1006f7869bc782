/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* check.h - what the parts of sidestep-check share */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/reasons.h"

/* Exit codes */
#define EXIT_NO		1
#define EXIT_USAGE	2
#define EXIT_UNKNOWN	3

enum verdict { V_OK, V_INFO, V_WARN, V_FAIL, V_UNKNOWN };

struct result {
	enum verdict v;
	char text[512];
	char fix[512];			/* commands to copy; "": none */
};

/*
 * X(function, name in the output, what it is about): the order of the output
 * and of the manual's list
 */
#define HOST_CHECKS(X) \
	X(memfd, "memfd", "sealed memory files, in which rings lie") \
	X(event_fd, "eventfd", "event descriptors, which wake the peer") \
	X(unix_names, "unix-names", "abstract Unix names, by which processes find each other") \
	X(passing, "passing", "passing descriptors and proving users over Unix sockets") \
	X(sock_diag, "sock-diag", "whose the other end of a connection is, from the kernel") \
	X(tcp_info, "tcp-info", "the kernel's byte counts of a TCP socket") \
	X(user, "user", "a user that proves who somebody is") \
	X(sandbox, "sandbox", "seccomp filters and security modules") \
	X(files, "files", "the limit of open files") \
	X(memlock, "memlock", "the limit of locked memory, for RDMA devices") \
	X(library, "library", "the library, and that it loads into a program") \
	X(settings, "settings", "what the environment and the files say") \
	X(verbs_libs, "verbs", "libibverbs and librdmacm") \
	X(devices, "devices", "RDMA devices and their ports") \
	X(dev_files, "device-files", "the right to use them")

struct check {
	const char *name, *about;
	void (*run)(struct result *r);
};

extern const struct check host_checks[];
extern const size_t host_check_count;

/*
 * What is missing for connections over that RDMA device (NULL: any); "" if
 * nothing is.  The devices' and the libraries' own checks say more.
 */
void device_lacks(const char *name, char *what, size_t size);

/* The connecting side of HOST:PORT from here.  Return: 0, or EXIT_USAGE. */
#define PEER_RESULTS 8
struct peer_answer {
	enum verdict v;			/* V_OK: yes, V_FAIL: no, V_UNKNOWN */
	char reason[32];		/* as in sidestep(7); "" */
	size_t n;
	struct result results[PEER_RESULTS];
};
int peer_check(const char *peer, struct peer_answer *a);

struct addrinfo;
/* Of HOST:PORT, to be freed.  Return: 0, EXIT_USAGE, or getaddrinfo()'s. */
int peer_addresses(const char *peer, struct addrinfo **all);
/* One more thing to be told; and what follows. */
struct result *peer_add(struct peer_answer *a);
void peer_decide(struct peer_answer *a, enum verdict v, enum reason why);

/* ---- far.c: a peer that is not here ---- */

void far_check(struct peer_answer *a, const char *peer, const char *host, int port);
/* What far_check() runs under the library.  Return: its exit status. */
int far_child(const char *peer);

/*
 * route.c: the device by which rdma_cm goes there, or in words why it does not.
 * Two seconds.  Return: 0 or -errno.
 */
int route_find(const struct sockaddr_storage *here, const struct sockaddr_storage *there,
	       char device[64], char *why, size_t size);

/* ---- host.c ---- */

/* The library's path.  false: there is none. */
bool library_path(char path[PATH_MAX]);
/*
 * Run ourselves under it, with fd (-1: /dev/null) for input and output.
 * Return: the pid, or -1.
 */
pid_t self_under(const char *lib, int fd, const char *option, const char *value);

__attribute__((format(printf, 3, 4)))
void result_set(struct result *r, enum verdict v, const char *fmt, ...);
__attribute__((format(printf, 2, 3)))
void result_fix(struct result *r, const char *fmt, ...);

#endif
