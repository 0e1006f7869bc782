/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Death under traffic, with many connections, and again and again; and how
 * soon it is known.
 *
 * Under traffic, what TCP could have said follows from what the two programs
 * had done when the one died.  Both keep count in shared memory, the victim
 * before and after each call:
 *	of what write() took, the survivor gets the beginning, all of it before
 *	an EOF, and nothing that was not offered;
 *	EOF is a lie if the victim left bytes unread that were written long ago;
 *	ECONNRESET is one if it had read all that was ever written.  (The
 *	kernel tells it once, to whoever calls first: reader or writer.)
 *
 * One limit is known and counted apart: a record of the survivor's that lies
 * unread in the victim's socket makes its kernel reset and drop what it had not
 * sent.  Where the injected fault makes records by the hundred, that is met.
 */
#include "crash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/pattern.h"

enum { PIECE = 20000, KILL_WITHIN_US = 60000, PLAIN_EVERY = 10 };
enum { CONNS_MAX = 900, ODD_BYTES = 10 };
#define BOUND_S 2.0

struct counts {
	atomic_ullong offered, wrote, read;	/* the victim's */
	atomic_ullong s_wrote;
};

struct ends_of {
	struct counts *n;
	bool victim, quiet;
	unsigned int style;	/* 0 blocking, two threads; poll; epoll; epoll, edges */
	uint64_t rng;
	int fd;
	int write_err;
};

static struct counts *counts_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct counts *n = mmap(NULL, sizeof(*n), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || n == MAP_FAILED)
		_exit(5);
	close(fd);
	return n;
}

/* ------------------------------------------------------------- traffic -- */

/* Return: 1 went on, 0 would block, -1 over. */
static int write_some(struct ends_of *e, uint64_t *off)
{
	char buf[PIECE];
	size_t n = pattern_rand(&e->rng) % PIECE + 1;
	unsigned int mine = e->victim ? SEED_VICTIM : SEED_SURVIVOR;

	pattern_fill(buf, n, *off, mine);
	if (e->victim)
		atomic_store(&e->n->offered, *off + n);
	ssize_t w = send(e->fd, buf, n, MSG_NOSIGNAL);
	if (w < 0 && errno == EAGAIN)
		return 0;
	if (w < 0) {
		e->write_err = errno;
		return -1;
	}
	*off += (uint64_t)w;
	atomic_store(e->victim ? &e->n->wrote : &e->n->s_wrote, *off);
	return (size_t)w == n;
}

static int read_some(struct ends_of *e, uint64_t *off, int *err)
{
	char buf[PIECE];
	ssize_t n = recv(e->fd, buf, pattern_rand(&e->rng) % PIECE + 1, 0);

	if (n < 0 && errno == EAGAIN)
		return 0;
	*err = n < 0 ? errno : 0;
	if (n <= 0)
		return -1;
	if (pattern_check(buf, (size_t)n, *off, e->victim ? SEED_SURVIVOR : SEED_VICTIM) >= 0) {
		*err = EBADMSG;
		return -1;
	}
	*off += (uint64_t)n;
	if (e->victim)
		atomic_store(&e->n->read, *off);
	return 1;
}

/* Now and then a reader is slow, so that rings and sockets fill. */
static void dawdle(struct ends_of *e)
{
	if (pattern_rand(&e->rng) % 64 == 0)
		poll(NULL, 0, (int)(pattern_rand(&e->rng) % 3));
}

static void *writer(void *arg)
{
	struct ends_of *to = arg, e = *to;
	uint64_t off = 0;

	e.rng ^= 0x5555;
	while (!e.quiet && write_some(&e, &off) >= 0)
		dawdle(&e);
	to->write_err = e.write_err;
	return NULL;
}

static int blocking(struct ends_of *e, uint64_t *got)
{
	pthread_t th;
	int err = 0;

	if (pthread_create(&th, NULL, writer, e))
		_exit(5);
	while (read_some(e, got, &err) > 0)
		dawdle(e);
	if (!e->victim)
		pthread_join(th, NULL);
	return err;
}

static void await(struct ends_of *e, int ep, bool out)
{
	struct pollfd p = { .fd = e->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0)) };
	struct epoll_event ev = { .events = (uint32_t)(unsigned short)p.events };

	if (e->style == 1) {
		poll(&p, 1, -1);
		return;
	}
	if (e->style == 2)
		epoll_ctl(ep, EPOLL_CTL_MOD, e->fd, &ev);
	epoll_wait(ep, &ev, 1, -1);
}

static int event_loop(struct ends_of *e, uint64_t *got)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | (e->style == 3 ? EPOLLET : 0u) };
	int ep = epoll_create1(EPOLL_CLOEXEC), err = 0, r, w = e->quiet ? -1 : 1;
	uint64_t off = 0;

	fcntl(e->fd, F_SETFL, fcntl(e->fd, F_GETFL) | O_NONBLOCK);
	epoll_ctl(ep, EPOLL_CTL_ADD, e->fd, &ev);
	for (;;) {
		if (w >= 0)
			w = write_some(e, &off);
		r = read_some(e, got, &err);
		if (r < 0)
			return err;
		if (r == 0 && w <= 0)
			await(e, ep, w == 0);
		dawdle(e);
	}
}

static int connection(bool connects, int port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connects)
		return connect(fd, (struct sockaddr *)&sa, sizeof(sa)) ? -1 : fd;
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, CONNS_MAX) ||
	    getsockname(fd, (struct sockaddr *)&sa, &len))
		return -1;
	printf("port %d\n", ntohs(sa.sin_port));
	fflush(stdout);
	return accept(fd, NULL, NULL);
}

/* --more-round WHO PORT SEED COUNTS */
static int round_child(char **a)
{
	uint64_t seed = strtoull(a[4], NULL, 10), got = 0;
	struct ends_of e = {
		.n = counts_map(a[5]),
		.victim = a[2][0] == 'v',
		.rng = seed + (a[2][0] == 'v'),
	};

	e.quiet = !e.victim && seed % 3 == 0;
	e.style = (unsigned int)(e.victim ? seed / 4 : seed) % 4;
	e.fd = connection(e.victim == (seed / 16 % 2 == 0), atoi(a[3]));
	if (e.fd < 0)
		return 1;
	printf("ready\n");
	fflush(stdout);
	int err = e.style ? event_loop(&e, &got) : blocking(&e, &got);
	if (e.victim)
		pause();
	if (!err && e.write_err == ECONNRESET)
		err = ECONNRESET;
	printf("learnt %.6f\ngot %llu\nsaw %s\n", now_s(), (unsigned long long)got,
	       err ? strerrorname_np(err) : "EOF");
	fflush(stdout);
	_exit(0);
}

static const char over_record[] = "killed over an unread record";

static const char *judged(const struct counts *n, unsigned long long s_before,
			  unsigned long long got, const char *saw)
{
	unsigned long long read = atomic_load(&n->read), s_wrote = atomic_load(&n->s_wrote);

	if (got > atomic_load(&n->offered))
		return "more than was ever offered";
	if (strcmp(saw, "EOF") == 0) {
		if (got < atomic_load(&n->wrote))
			return "EOF, and not all that was accepted";
		if (s_before > read + PIECE)
			return "EOF, and the dead side had not read all";
		return NULL;
	}
	if (strcmp(saw, "ECONNRESET"))
		return "another end";
	if (s_wrote > read)
		return NULL;
	return getenv("SIDESTEP_FAULT") ? over_record : "ECONNRESET, and the dead side had read all";
}

static const char *const faults[] = { NULL, NULL, NULL, "retreat:5", "kill-link:20", "shrink-rings" };

static const char *round_play(struct end *s, struct end *v, struct counts *n, uint64_t *rng,
			      char *line, size_t size)
{
	if (!end_hear(s, "ready", 20) || !end_hear(v, "ready", 20))
		return "not set up";
	usleep(pattern_rand(rng) % KILL_WITHIN_US);	/* the random moment */
	unsigned long long s_before = atomic_load(&n->s_wrote);
	kill(v->pid, SIGKILL);
	waitid(P_PID, (id_t)v->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	if (!end_hear(s, "learnt ", BOUND_S))
		return "HANG";
	const char *h = end_hear(s, "got ", BOUND_S);
	unsigned long long got = h ? strtoull(h, NULL, 10) : 0;
	h = end_hear(s, "saw ", BOUND_S);
	snprintf(line, size, "accepted %llu of %llu, got %llu, survivor wrote %llu, read of it %llu: %s",
		 (unsigned long long)atomic_load(&n->wrote), (unsigned long long)atomic_load(&n->offered),
		 got, (unsigned long long)atomic_load(&n->s_wrote),
		 (unsigned long long)atomic_load(&n->read), h ? h : "-");
	return h ? judged(n, s_before, got, h) : "HANG";
}

int rounds_main(const char *launcher, int rounds)
{
	int mem = memfd_create("crash", MFD_CLOEXEC), bad = 0, limit = 0;
	char path[64], spec[32], port[16], line[256] = "";
	uint64_t rng = (uint64_t)getpid();

	if (ftruncate(mem, sizeof(struct counts)))
		return 2;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), mem);
	struct counts *n = counts_map(path);
	setenv("SIDESTEP_ATTACH", "eager", 1);
	for (int i = 0; i < rounds; i++) {
		uint64_t seed = pattern_rand(&rng);
		const char *l = i % PLAIN_EVERY ? launcher : NULL;
		const char *fault = faults[pattern_rand(&rng) % 6];
		struct end s, v, *server = seed / 16 % 2 == 0 ? &s : &v;

		memset(n, 0, sizeof(*n));
		snprintf(spec, sizeof(spec), "%llu", (unsigned long long)seed);
		snprintf(port, sizeof(port), "0");
		fault ? setenv("SIDESTEP_FAULT", fault, 1) : unsetenv("SIDESTEP_FAULT");
		char *sa[] = { NULL, (char *)"--more-round", (char *)"s", port, spec, path, NULL };
		char *va[] = { NULL, (char *)"--more-round", (char *)"v", port, spec, path, NULL };
		end_start(server, l, server == &s ? sa : va);
		const char *h = end_hear(server, "port ", 20);
		snprintf(port, sizeof(port), "%s", h ? h : "0");
		end_start(server == &s ? &v : &s, l, server == &s ? va : sa);
		const char *why = round_play(&s, &v, n, &rng, line, sizeof(line));
		if (why == over_record && l) {
			limit++;
		} else if (why) {
			bad++;
			printf("FAIL round %d, seed %s, %s, fault %s: %s\n    %s\n", i, spec,
			       l ? "sidestep" : "plain", fault ? fault : "none", why, line);
		}
		end_kill(&s);
		end_kill(&v);
	}
	unsetenv("SIDESTEP_FAULT");
	bad += limit > 1 + rounds / 50;
	printf("of %d rounds %d were %s\n%d passed, %d failed, 0 skipped\n", rounds, limit,
	       over_record, rounds - bad, bad);
	return bad != 0;
}

/* ----------------------------------------------------- many connections -- */

static int many_open(int *fds, int n, bool victim, int port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int l = -1;

	if (!victim) {
		l = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(l, (struct sockaddr *)&sa, sizeof(sa)) || listen(l, CONNS_MAX) ||
		    getsockname(l, (struct sockaddr *)&sa, &len))
			return -1;
		printf("port %d\n", ntohs(sa.sin_port));
		fflush(stdout);
	}
	for (int i = 0; i < n; i++) {
		fds[i] = victim ? socket(AF_INET, SOCK_STREAM, 0) : accept(l, NULL, NULL);
		if (fds[i] < 0 || (victim && connect(fds[i], (struct sockaddr *)&sa, sizeof(sa))))
			return -1;
	}
	return 0;
}

static int many_victim(const int *fds, int n)
{
	char m[MESSAGE] = { 0 };
	int ring = 0;

	for (int round = 0; round < 300 && ring < n; round++) {
		ring = 0;
		for (int i = 0; i < n; i++) {
			if (send(fds[i], m, sizeof(m), 0) != MESSAGE ||
			    recv(fds[i], m, sizeof(m), MSG_WAITALL) != MESSAGE)
				return 1;
			ring += path_of(fds[i]) == 3;
		}
	}
	printf("ready %d\n", ring);
	fflush(stdout);
	for (;;)
		pause();
}

/* One event of the survivor's.  Return: 1 the right end, 0 no end, -1 wrong. */
static int many_event(int fd, int i)
{
	char m[MESSAGE];
	ssize_t n = recv(fd, m, sizeof(m), MSG_DONTWAIT);

	if (n > 0)
		return send(fd, m, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	return (i % 2 ? n < 0 && errno == ECONNRESET : n == 0) ? 1 : -1;
}

static int many_survivor(const int *fds, int n)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), over = 0, wrong = 0;
	struct epoll_event ev[64];

	for (int i = 0; i <= n; i++) {
		ev[0] = (struct epoll_event){ .events = EPOLLIN, .data.u32 = (uint32_t)i };
		epoll_ctl(ep, EPOLL_CTL_ADD, i < n ? fds[i] : STDIN_FILENO, &ev[0]);
	}
	while (over < n) {
		int k = epoll_wait(ep, ev, 64, -1);

		for (int j = 0; j < k; j++) {
			int i = (int)ev[j].data.u32;

			if (i == n) {
				char go;

				if (read(STDIN_FILENO, &go, 1) != 1)
					return 1;
				for (int o = 1; o < n; o += 2)
					wrong += send(fds[o], "0123456789", ODD_BYTES, 0) != ODD_BYTES;
				printf("going\n");
				fflush(stdout);
				continue;
			}
			int r = many_event(fds[i], i);
			if (r) {
				over++;
				wrong += r < 0;
				epoll_ctl(ep, EPOLL_CTL_DEL, fds[i], &ev[j]);
			}
		}
	}
	printf("learnt %.6f\nsaw %d wrong\n", now_s(), wrong);
	fflush(stdout);
	return 0;
}

/* --more-many WHO PORT CONNS */
static int many_child(char **a)
{
	static int fds[CONNS_MAX];
	bool v = a[2][0] == 'v';
	int n = atoi(a[4]);

	if (n > CONNS_MAX || many_open(fds, n, v, atoi(a[3])))
		return 1;
	return v ? many_victim(fds, n) : many_survivor(fds, n);
}

static bool many_one(const char *launcher, int conns)
{
	char port[16] = "0", count[16];
	struct end s, v;
	bool ok = false;

	snprintf(count, sizeof(count), "%d", conns);
	char *sa[] = { NULL, (char *)"--more-many", (char *)"s", port, count, NULL };
	char *va[] = { NULL, (char *)"--more-many", (char *)"v", port, count, NULL };
	setenv("SIDESTEP_ATTACH", "eager", 1);
	end_start(&s, launcher, sa);
	const char *h = end_hear(&s, "port ", 20);
	snprintf(port, sizeof(port), "%s", h ? h : "0");
	end_start(&v, launcher, va);
	h = end_hear(&v, "ready ", 60);
	int ring = h ? atoi(h) : 0;
	end_tell(&s, TELL_GO);
	if (h && end_hear(&s, "going", 20) && end_asleep(&s)) {
		double at = now_s();

		kill(v.pid, SIGKILL);
		h = end_hear(&s, "learnt ", BOUND_S);
		double after = h ? atof(h) - at : BOUND_S;
		h = h ? end_hear(&s, "saw ", BOUND_S) : NULL;
		ok = h && strcmp(h, "0 wrong") == 0 && ring == conns;
		printf("%s %d connections to a dead process, %d on a ring: %s, all known after %.1f ms\n",
		       ok ? "ok  " : "FAIL", conns, launcher ? ring : 0, h ? h : "HANG", 1e3 * after);
	} else {
		printf("FAIL many: not set up\n");
	}
	end_kill(&s);
	end_kill(&v);
	return ok;
}

int many_main(const char *launcher, int conns)
{
	int ok = many_one(NULL, conns) + (launcher ? many_one(launcher, conns) : 1);

	printf("%d passed, %d failed, 0 skipped\n", ok, 2 - ok);
	return ok != 2;
}

/* ------------------------------------------------------ many dead peers -- */

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int n = 0, c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

/* What a dead peer had is given back soon, not at once: the least in a while. */
static void usage_say(void)
{
	int fds = 1 << 30, maps = 1 << 30;

	for (int i = 0; i < 50; i++) {
		int f = entries("/proc/self/fd"), m = mappings();

		fds = f < fds ? f : fds;
		maps = m < maps ? m : maps;
		poll(NULL, 0, 10);
	}
	printf("used %d %d\n", fds, maps);
	fflush(stdout);
}

/* --more-leak: serve one victim after the other */
static int leak_child(void)
{
	const struct cell c = { .state = BOTH };
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM, 0);
	char m[MESSAGE], what;

	if (bind(l, (struct sockaddr *)&sa, sizeof(sa)) || listen(l, 8) ||
	    getsockname(l, (struct sockaddr *)&sa, &len))
		return 1;
	printf("port %d\n", ntohs(sa.sin_port));
	fflush(stdout);
	while (read(STDIN_FILENO, &what, 1) == 1) {
		if (what == TELL_DIE) {
			usage_say();
			continue;
		}
		int fd = accept(l, NULL, NULL);

		reach(&c, fd, false);
		printf("ready %d\n", path_of(fd));
		fflush(stdout);
		while (recv(fd, m, sizeof(m), 0) > 0)
			;
		close(fd);
		printf("over\n");
		fflush(stdout);
	}
	return 0;
}

static bool leak_used(struct end *s, int used[2])
{
	end_tell(s, TELL_DIE);
	const char *h = end_hear(s, "used ", 20);

	return h && sscanf(h, "%d %d", &used[0], &used[1]) == 2;
}

int leak_main(const char *launcher, int peers)
{
	char port[16] = "0";
	char *sa[] = { NULL, (char *)"--more-leak", NULL };
	char *va[] = { NULL, (char *)"--victim", (char *)"0,0,0,3,0,1,0", port, NULL };
	int half[2] = { 0, 0 }, full[2] = { 0, 0 }, ring = 0;
	struct end s, v;
	bool ok = true;

	setenv("SIDESTEP_ATTACH", "eager", 1);
	end_start(&s, launcher, sa);
	const char *h = end_hear(&s, "port ", 20);
	snprintf(port, sizeof(port), "%s", h ? h : "0");
	for (int i = 0; i < peers && ok; i++) {
		if (i == peers / 2)
			ok = leak_used(&s, half);
		end_tell(&s, TELL_GO);
		end_start(&v, launcher, va);
		h = end_hear(&s, "ready ", 20);
		ring += h && atoi(h) == 3;
		ok = ok && h && end_hear(&v, "ready ", 20);
		kill(v.pid, SIGKILL);
		ok = ok && end_hear(&s, "over", BOUND_S);
		end_kill(&v);
	}
	ok = ok && leak_used(&s, full);
	end_kill(&s);
	ok = ok && ring > peers * 9 / 10 && full[0] <= half[0] + 2 && full[1] <= half[1] + 4;
	printf("%s %d dead peers, %d on a ring: %d descriptors, %d mappings half way, %d and %d at the end\n",
	       ok ? "ok  " : "FAIL", peers, ring, half[0], half[1], full[0], full[1]);
	printf("%d passed, %d failed, 0 skipped\n", ok, !ok);
	return !ok;
}

/* ------------------------------------------------------------- latency -- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int latency_main(const char *launcher, int times)
{
	const enum kind kinds[] = { IN_RECV, IN_SPIN, IN_POLL, IN_EPOLL };
	int bad = 0;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		const struct cell c = { .kind = kinds[k], .state = BOTH, .victim_connects = true };
		double *t[2] = { calloc((size_t)times, sizeof(double)), calloc((size_t)times, sizeof(double)) };

		for (int i = 0; i < 2 * times; i++) {
			double s = cell_latency(&c, i % 2 ? launcher : NULL);

			bad += s < 0;
			t[i % 2][i / 2] = s;
		}
		for (int i = 0; i < 2; i++)
			qsort(t[i], (size_t)times, sizeof(double), by_size);
		printf("death known in %-5s  plain median %.3f ms, worst %.3f; sidestep median %.3f ms, worst %.3f\n",
		       kind_names[c.kind], 1e3 * t[0][times / 2], 1e3 * t[0][times - 1],
		       1e3 * t[1][times / 2], 1e3 * t[1][times - 1]);
		free(t[0]);
		free(t[1]);
	}
	return bad != 0;
}

int more_child(char **a)
{
	signal(SIGPIPE, SIG_IGN);
	if (!strcmp(a[1], "--more-round"))
		return round_child(a);
	if (!strcmp(a[1], "--more-many"))
		return many_child(a);
	return leak_child();
}
