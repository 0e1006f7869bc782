/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Signals: EINTR, SA_RESTART, masks, handlers that do I/O. */
#include "conform.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

static atomic_int hits;

static void on_signal(int sig)
{
	(void)sig;
	hits++;
}

static void handler_set(int sig, void (*handler)(int), int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	sigaction(sig, &sa, NULL);
	hits = 0;
}

/* A thread that signals another every 5 ms until that has come back. */
struct nagger {
	pthread_t victim, self;
	atomic_int stop;
};

static void *nag_main(void *arg)
{
	struct nagger *n = arg;

	while (!n->stop) {
		poll(NULL, 0, 5);
		if (!n->stop)
			pthread_kill(n->victim, SIGUSR1);
	}
	return NULL;
}

static void nag_start(struct role *r, struct nagger *n)
{
	atomic_init(&n->stop, 0);
	n->victim = pthread_self();
	if (pthread_create(&n->self, NULL, nag_main, n) != 0)
		give_up(r, "pthread_create");
}

static void nag_stop(struct nagger *n)
{
	n->stop = 1;
	pthread_join(n->self, NULL);
}

#define NAGGED(r, want, call) do {	\
	struct nagger n_;		\
	nag_start(r, &n_);		\
	TRY(r, want, call);		\
	nag_stop(&n_);			\
} while (0)

static void interrupted(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct timespec ts = { .tv_sec = 9 };
	struct iovec v = { 0 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	struct pollfd p;
	char buf[16];
	fd_set in;
	int ep;

	CLIENT(r)
		handler_set(SIGUSR1, on_signal, 0);
	conn_open(r);
	CLIENT(r) {
		p = (struct pollfd){ .fd = r->c, .events = POLLIN };
		v = (struct iovec){ .iov_base = buf, .iov_len = 16 };
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		NAGGED(r, -EINTR, recv(r->c, buf, 16, 0));
		NAGGED(r, -EINTR, read(r->c, buf, 16));
		NAGGED(r, -EINTR, recvmsg(r->c, &m, 0));
		NAGGED(r, -EINTR, recv(r->c, buf, 16, MSG_PEEK));
		NAGGED(r, -EINTR, recv(r->c, buf, 16, MSG_WAITALL));
		NAGGED(r, -EINTR, poll(&p, 1, 9000));
		NAGGED(r, -EINTR, ppoll(&p, 1, &ts, NULL));
		FD_ZERO(&in);
		FD_SET(r->c, &in);
		NAGGED(r, -EINTR, select(r->c + 1, &in, NULL, NULL, NULL));
		FD_SET(r->c, &in);
		NAGGED(r, -EINTR, pselect(r->c + 1, &in, NULL, NULL, &ts, NULL));
		NAGGED(r, -EINTR, epoll_wait(ep, &ev, 1, 9000));
		CHECK(r, hits >= 10);
		MUST(r, close(ep));
	}
	conn_close(r);
}

/* With SA_RESTART reads go on; poll and epoll_wait never do. */
static void restarted(struct role *r)
{
	struct pollfd p;
	char buf[16];

	CLIENT(r)
		handler_set(SIGUSR1, on_signal, SA_RESTART);
	conn_open(r);
	CLIENT(r) {
		struct nagger n;

		p = (struct pollfd){ .fd = r->c, .events = POLLIN };
		NAGGED(r, -EINTR, poll(&p, 1, 9000));
		meet(r);
		nag_start(r, &n);
		TRY(r, 4, recv(r->c, buf, 16, 0));
		nag_stop(&n);
	}
	SERVER(r) {
		meet(r);
		poll(NULL, 0, 60);	/* some signals fall into the sleep */
		TRY(r, 4, send(r->s, "data", 4, 0));
	}
	conn_close(r);
}

/* A signal in the middle of a blocking write of much: a short count. */
static void write_interrupted(struct role *r)
{
	static char buf[64 << 20];
	struct nagger n;
	long taken = 0;

	CLIENT(r)
		handler_set(SIGUSR1, on_signal, 0);
	conn_open(r);
	CLIENT(r) {
		nag_start(r, &n);
		taken = write(r->c, buf, sizeof(buf));
		nag_stop(&n);
		CHECK(r, taken > 0 && taken < (long)sizeof(buf));
		tell(r, taken);
	}
	SERVER(r) {
		static char in[65536];
		long left = r->client ? taken : hear(r), k;

		while (left > 0 && (k = recv(r->s, in, sizeof(in), 0)) > 0)
			left -= k;
		TRY(r, 0, left);
	}
	conn_close(r);
}

/* A masked signal is let in only while ppoll, pselect, epoll_pwait sleep. */
static void masks(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct timespec ts = { .tv_sec = 5 };
	struct pollfd p;
	sigset_t block, none;
	fd_set in;
	int ep;

	CLIENT(r)
		handler_set(SIGUSR2, on_signal, 0);
	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR2);
	conn_open(r);
	CLIENT(r) {
		p = (struct pollfd){ .fd = r->c, .events = POLLIN };
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		pthread_sigmask(SIG_BLOCK, &block, NULL);
		pthread_kill(pthread_self(), SIGUSR2);
		TRY(r, 0, poll(&p, 1, 20));
		TRY(r, 0, hits);
		TRY(r, -EINTR, ppoll(&p, 1, &ts, &none));
		TRY(r, 1, hits);
		pthread_kill(pthread_self(), SIGUSR2);
		FD_ZERO(&in);
		FD_SET(r->c, &in);
		TRY(r, -EINTR, pselect(r->c + 1, &in, NULL, NULL, &ts, &none));
		pthread_kill(pthread_self(), SIGUSR2);
		TRY(r, -EINTR, epoll_pwait(ep, &ev, 1, 5000, &none));
		pthread_kill(pthread_self(), SIGUSR2);
		TRY(r, -EINTR, epoll_pwait2(ep, &ev, 1, &ts, &none));
		TRY(r, 4, hits);
		pthread_sigmask(SIG_UNBLOCK, &block, NULL);
		MUST(r, close(ep));
	}
	conn_close(r);
}

static int handler_fd;
static volatile long handler_wrong, handler_rounds;

/* Ping-pong on the second connection, from inside a signal handler. */
static void on_tick(int sig)
{
	int saved = errno;
	char c = 't';

	(void)sig;
	if (write(handler_fd, &c, 1) != 1 || read(handler_fd, &c, 1) != 1 || c != 't')
		handler_wrong++;
	handler_rounds++;
	errno = saved;
}

static void *tick_server(void *arg)
{
	int fd = *(int *)arg;
	char c;

	while (read(fd, &c, 1) == 1)
		if (write(fd, &c, 1) != 1)
			break;
	return NULL;
}

/* A 1 ms timer writes and reads one connection while another streams. */
static void handler_io(struct role *r)
{
	struct itimerval it = { .it_interval.tv_usec = 1000, .it_value.tv_usec = 1000 };
	struct itimerval off = { { 0 } };
	int s2 = -1, c2 = -1;
	pthread_t th;

	conn_open(r);
	conn_more(r, &s2, &c2);
	SERVER(r) {
		if (pthread_create(&th, NULL, tick_server, &s2) != 0)
			give_up(r, "pthread_create");
		bulk_read(r, r->s, 16 << 20, SEED_CLIENT);
		pthread_join(th, NULL);
		MUST(r, close(s2));
	}
	CLIENT(r) {
		handler_fd = c2;
		handler_set(SIGALRM, on_tick, SA_RESTART);
		MUST(r, setitimer(ITIMER_REAL, &it, NULL));
		bulk_write(r, r->c, 16 << 20, SEED_CLIENT);
		while (handler_rounds < 20)
			poll(NULL, 0, 1);
		MUST(r, setitimer(ITIMER_REAL, &off, NULL));
		TRY(r, 0, handler_wrong);
		MUST(r, close(c2));
	}
	conn_close(r);
}

static sigjmp_buf out_of_recv;

static void on_jump(int sig)
{
	(void)sig;
	siglongjmp(out_of_recv, 1);
}

/* A handler that jumps out of a sleeping recv; the connection goes on. */
static void jump_out(struct role *r)
{
	struct itimerval it = { .it_value.tv_usec = 30000 };
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		handler_set(SIGALRM, on_jump, 0);
		if (sigsetjmp(out_of_recv, 1) == 0) {
			MUST(r, setitimer(ITIMER_REAL, &it, NULL));
			recv(r->c, buf, 8, 0);
			NOTE(r, "came back  WRONG");
			r->t.failures++;
		}
		NOTE(r, "jumped");
		TRY(r, 3, send(r->c, "abc", 3, 0));
	}
	SERVER(r) {
		TRY(r, 3, recv(r->s, buf, 8, 0));
		TRY(r, 2, send(r->s, "ok", 2, 0));
	}
	CLIENT(r)
		TRY(r, 2, recv(r->c, buf, 8, 0));
	conn_close(r);
}

const struct conf_case signals_cases[] = {
	{ "signals-interrupted", interrupted, 0 },
	{ "signals-restarted", restarted, TOGETHER },
	{ "signals-write-interrupted", write_interrupted, 0 },
	{ "signals-masks", masks, WAIT_POLL },
	{ "signals-handler-io", handler_io, PROCESS },
	{ "signals-jump-out", jump_out, PROCESS },
	{ NULL, NULL, 0 }
};
