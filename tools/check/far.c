/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * far.c - would a connection from here to another host be on a ring?
 *
 * It is tried.  A child of ours, which is this program under the library, connects
 * to the peer by TCP, sends and reads nothing, and asks for a ring (far_child()).
 * The library then looks for the other end by rdma_cm, as it does for any
 * program, and shows on its page what became of it.  Before, we ask rdma_cm
 * for the way ourselves (route.c): the library says no more than that there is none.
 *
 *	TCP_MS	until the peer has answered TCP, all its addresses together
 *	ASK_MS	from then on, less than the library itself waits for an answer: if it has
 *		none by then, nobody has answered.  "Nobody listens" comes at once, but a
 *		program that has just accepted its first connection may not listen yet.
 *	PROVE_MS from the link on, until both ends have proven themselves.  No more is
 *		asked for then: who is refused would be given one link after the other
 *	END_MS	until the child has gone
 */
#define _GNU_SOURCE
#include "check.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../stat/stat.h"
#include "base/config.h"
#include "meet/proof.h"

#define TCP_MS	3000
#define ASK_MS	4000
#define PROVE_MS 1500
#define END_MS	3000
#define SLACK_MS 2000			/* for a machine with much to do, to start the child */
#define AGAIN_MS 100			/* the child asks again */
#define LOOK_MS	20

/* The child's only message. */
struct told {
	int err;			/* of connect(); 0: connected */
	struct sockaddr_storage here, there;
};

struct asking {
	const char *host;
	int port;
	pid_t pid;
	int fd;				/* -1: none.  A byte: it asks no more; closed: it ends */
	struct told told;
	char device[64];
	bool key;			/* one is set here */
	/* what the library shows */
	bool seen;
	enum reason why;
	bool linked, bound;
};

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ------------------------------------------------------------- the child -- */

/* Return: a connected socket, or -errno. */
static int connect_to(const struct addrinfo *ai, long ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) == 0)
		return fd;
	int err = errno == EINPROGRESS ? ETIMEDOUT : errno;
	close(fd);
	return -err;
}

/* The first address that answers, as programs do; each has its part of the time. */
static int connect_any(const struct addrinfo *all, struct told *t)
{
	long until = now_ms() + TCP_MS;
	socklen_t hl = sizeof(t->here), tl = sizeof(t->there);
	int n = 0, fd = -EADDRNOTAVAIL;

	for (const struct addrinfo *ai = all; ai; ai = ai->ai_next)
		n++;
	for (const struct addrinfo *ai = all; ai && fd < 0; ai = ai->ai_next, n--) {
		long left = (until - now_ms()) / n;

		fd = connect_to(ai, left > 1 ? left : 1);
	}
	if (fd < 0)
		t->err = -fd;
	else if (getsockname(fd, (struct sockaddr *)&t->here, &hl) ||
		 getpeername(fd, (struct sockaddr *)&t->there, &tl))
		t->err = errno;
	return fd;
}

int far_child(const char *peer)
{
	struct addrinfo *all = NULL;
	struct told t = { .err = 0 };
	struct pollfd parent = { .fd = 0, .events = POLLIN };
	int (*attach)(int fd);
	bool asks = true;
	char c;

	*(void **)&attach = dlsym(RTLD_DEFAULT, "sidestep_fd_attach");
	if (!attach || peer_addresses(peer, &all))
		return EXIT_NO;
	int fd = connect_any(all, &t);
	freeaddrinfo(all);
	if (write(1, &t, sizeof(t)) != sizeof(t) || fd < 0)
		return EXIT_NO;
	for (long until = now_ms() + ASK_MS + PROVE_MS + SLACK_MS; now_ms() < until;) {
		if (asks)
			attach(fd);	/* which waits longer each time, if nobody answers */
		if (poll(&parent, 1, AGAIN_MS) <= 0)
			continue;
		asks = false;
		if (read(0, &c, 1) <= 0)
			break;
	}
	close(fd);
	return 0;
}

static bool child_start(struct asking *q, const char *peer)
{
	char lib[PATH_MAX];
	int sv[2];

	if (!library_path(lib) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		return false;
	q->pid = self_under(lib, sv[1], "--ask", peer);
	close(sv[1]);
	q->fd = sv[0];
	return q->pid > 0;
}

/* Has it connected, or could it not?  false: it has said nothing. */
static bool child_told(struct asking *q)
{
	struct pollfd p = { .fd = q->fd, .events = POLLIN };

	return poll(&p, 1, TCP_MS + SLACK_MS) == 1 &&
	       recv(q->fd, &q->told, sizeof(q->told), MSG_WAITALL) == sizeof(q->told);
}

static void child_end(struct asking *q)
{
	long until = now_ms() + END_MS;
	pid_t gone = 0;

	if (q->fd >= 0)
		close(q->fd);
	if (q->pid <= 0)
		return;
	while ((gone = waitpid(q->pid, NULL, WNOHANG)) == 0 && now_ms() < until)
		poll(NULL, 0, LOOK_MS);
	if (gone)
		return;
	kill(q->pid, SIGKILL);
	waitpid(q->pid, NULL, 0);
}

/* -------------------------------------------------- what the library shows -- */

static void look(struct asking *q)
{
	const uint32_t ours = SHOW_ESTABLISHED | SHOW_ACTIVE;
	struct shown s;

	if (find_one(&s, q->pid, true))
		return;
	q->linked = s.sum.v[CNT_links] > 0;
	for (uint32_t i = 0; i < s.nconns; i++) {
		const struct page_conn *e = &s.conns[i].e;

		if ((e->flags & ours) != ours)
			continue;
		q->seen = true;
		q->why = e->why;
		q->bound = e->link != 0;
	}
	read_free(&s);
}

/* Does the library go on asking? */
static bool goes_on(const struct asking *q)
{
	return q->why == REASON_NONE || q->why == REASON_NOT_WARM || q->why == REASON_LINK_LOST ||
	       q->why == REASON_PEER_UNPROVEN;
}

static bool decided(const struct asking *q)
{
	return q->bound || !goes_on(q) || (q->linked && !q->key);
}

static void watch(struct asking *q)
{
	long until = now_ms() + ASK_MS;

	do {
		bool before = q->linked;

		poll(NULL, 0, LOOK_MS);
		look(q);
		if (before || !q->linked)
			continue;
		send(q->fd, "", 1, MSG_NOSIGNAL);
		until = now_ms() + PROVE_MS;
	} while (!decided(q) && now_ms() < until);
}

/* -------------------------------------------------------- what it means -- */

static void say_tcp(struct peer_answer *a, const struct asking *q)
{
	struct result *r = peer_add(a);
	int err = q->told.err;

	peer_decide(a, V_FAIL, REASON_NONE);
	if (err == ECONNREFUSED) {
		result_set(r, V_FAIL, "nobody listens on port %d of %s: %s", q->port, q->host, strerror(err));
		result_fix(r, "ss -ltn 'sport = :%d'    # on %s: at that address?", q->port, q->host);
	} else if (err == ETIMEDOUT) {
		result_set(r, V_FAIL, "%s does not answer TCP on port %d: nothing within %d s", q->host,
			   q->port, TCP_MS / 1000);
		result_fix(r, "ping %s    # if it answers, a filter drops what comes to port %d", q->host, q->port);
	} else {
		result_set(r, V_FAIL, "no TCP connection to port %d of %s: %s", q->port, q->host, strerror(err));
		result_fix(r, "ip route get %s", q->host);
	}
}

/* A link was made, or more. */
static void say_linked(struct peer_answer *a, const struct asking *q)
{
	struct result *r = peer_add(a);

	if (q->key && !q->bound) {
		result_set(r, V_FAIL, "a link over %s was made, but the proof was not accepted: SIDESTEP_KEY_FILE there is none or another one, or a rule there keeps the connection from the device",
			   q->device);
		result_fix(r, "cksum FILE    # on both hosts, of what SIDESTEP_KEY_FILE names; here %.250s", config.key_file);
		peer_decide(a, V_FAIL, REASON_PEER_UNPROVEN);
		return;
	}
	result_set(r, V_OK, "the program there runs under sidestep: a link over %s was made%s", q->device,
		   q->bound ? ", and both ends have proven themselves" : "");
	peer_decide(a, V_OK, REASON_NONE);
	if (!q->bound)
		result_set(peer_add(a), V_INFO, "without SIDESTEP_KEY_FILE the first 4 KiB of a connection stay on TCP, and all of it does if one is set there");
}

/* The library has an answer, and it is no. */
static void say_no(struct peer_answer *a, const struct asking *q)
{
	struct result *r = peer_add(a);

	peer_decide(a, V_FAIL, q->why);
	switch (q->why) {
	case REASON_NO_RNIC:
		result_set(r, V_FAIL, "%s leads there, but no queue pair could be made, here or at the other end",
			   q->device);
		result_fix(r, "sidestep-check    # on both hosts: devices, device-files, verbs and memlock");
		break;
	case REASON_OTHER_NETNS_OR_NAT:
		result_set(r, V_FAIL, "no device may be used for it here: a rule says so, or it has just gone");
		result_fix(r, "sidestep --show-config    # and sidestep-check");
		break;
	case REASON_NO_MEMORY:
		result_set(r, V_FAIL, "%s, here or at the other end", reason_text(q->why));
		result_fix(r, "ulimit -l unlimited    # and ulimit -n 20000; on both hosts");
		break;
	case REASON_CLOSED_FIRST:
		result_set(r, V_UNKNOWN, "%s has closed the connection before it answered by RDMA", q->host);
		peer_decide(a, V_UNKNOWN, q->why);
		break;
	default:
		result_set(r, V_FAIL, "refused, by the program there if nothing is wrong here: %s", reason_text(q->why));
		result_fix(r, "sidestep --show-config    # on %s, as it is for the program", q->host);
	}
}

/* It has none yet. */
static void say_silence(struct peer_answer *a, const struct asking *q)
{
	struct result *r = peer_add(a);

	peer_decide(a, V_FAIL, REASON_PEER_UNPROVEN);
	if (q->why == REASON_PEER_UNPROVEN) {
		result_set(r, V_FAIL, "%s answers by RDMA, but nobody there speaks for port %d: the program does not run under sidestep, is kept from the device by its settings, its rights or missing libraries, has another version, does not accept, or is slow with its first connection (ask once more)",
			   q->host, q->port);
		result_fix(r, "sidestep-check --peer localhost:%d    # on %s; then run the program by sidestep PROGRAM ...", q->port, q->host);
	} else {
		result_set(r, V_FAIL, "%s has not answered by RDMA within %d s: it has no device that leads here, or a filter drops it (RoCE: UDP port 4791), or the program there is slow",
			   q->host, ASK_MS / 1000);
		result_fix(r, "sidestep-check    # on %s: devices", q->host);
	}
}

static void say(struct peer_answer *a, const struct asking *q)
{
	if (!q->seen) {
		result_set(peer_add(a), V_UNKNOWN, "what the library does in a program of ours is not to be seen");
		peer_decide(a, V_UNKNOWN, REASON_NONE);
	} else if (q->bound || (q->linked && goes_on(q))) {
		say_linked(a, q);
	} else if (!goes_on(q)) {
		say_no(a, q);
	} else {
		say_silence(a, q);
	}
}

/* -------------------------------------------------------------- all of it -- */

/* A key that is set and cannot be used lets nobody prove himself. */
static bool key_usable(struct peer_answer *a, struct asking *q)
{
	uint8_t key[PROOF_KEY_BYTES];
	size_t len;

	q->key = config.key_file[0];
	int err = q->key ? proof_load_key(config.key_file, key, &len) : 0;
	if (!err)
		return true;
	struct result *r = peer_add(a);
	result_set(r, V_FAIL, "the key in %.250s cannot be used: %s", config.key_file,
		   err == -EPERM ? "others may look at it" : err == -ENODATA ? "it is empty" : strerror(-err));
	result_fix(r, "chmod 600 %.250s", config.key_file);
	peer_decide(a, V_FAIL, REASON_PEER_UNPROVEN);
	return false;
}

static bool way_there(struct peer_answer *a, struct asking *q)
{
	const char *named = config.rnic.choice == RNIC_NAMED ? config.rnic.device : NULL;
	char addr[INET6_ADDRSTRLEN] = "?", why[256];
	const struct sockaddr_storage *to = &q->told.there;
	const void *ip = to->ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)to)->sin_addr :
						    (const void *)&((const struct sockaddr_in6 *)to)->sin6_addr;
	int err = route_find(&q->told.here, to, q->device, why, sizeof(why));
	struct result *r = peer_add(a);

	inet_ntop(to->ss_family, ip, addr, sizeof(addr));
	if (err) {
		result_set(r, V_FAIL, "%s answers TCP, but no RDMA device leads there: %s", addr, why);
		result_fix(r, "ip route get %s    # and: rdma link; the device of that network, on both hosts", addr);
	} else if (named && strcmp(named, q->device)) {
		result_set(r, V_FAIL, "%s is reached by %s, and SIDESTEP_RNIC asks for %.60s", addr, q->device, named);
		result_fix(r, "export SIDESTEP_RNIC=%s", q->device);
	} else {
		result_set(r, V_OK, "another host: %s answers TCP, and %s leads there", addr, q->device);
		return true;
	}
	peer_decide(a, V_FAIL, REASON_NO_RNIC);
	return false;
}

void far_check(struct peer_answer *a, const char *peer, const char *host, int port)
{
	struct asking q = { .host = host, .port = port, .fd = -1, .why = REASON_NOT_WARM };

	if (!key_usable(a, &q))
		return;
	if (!child_start(&q, peer) || !child_told(&q)) {
		struct result *r = peer_add(a);

		result_set(r, V_UNKNOWN, "no program of ours can be run under the library to try it");
		result_fix(r, "sidestep-check    # library says what to do");
		peer_decide(a, V_UNKNOWN, REASON_NONE);
	} else if (q.told.err) {
		say_tcp(a, &q);
	} else if (way_there(a, &q)) {
		watch(&q);
		say(a, &q);
	}
	child_end(&q);
}
