/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Signals: EINTR, SA_RESTART, masks, handlers that do I/O. */
#include "conform.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
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

static void timeout_set(struct role *r, int fd, int name, int sec)
{
	struct timeval tv = { .tv_sec = sec };

	MUST(r, setsockopt(fd, SOL_SOCKET, name, &tv, sizeof(tv)));
}

/* With a timeout set, and in waits, SA_RESTART makes no difference. */
static void not_restarted(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct timespec ts = { .tv_sec = 9 };
	struct timeval tv = { .tv_sec = 9 };
	struct iovec v = { 0 };
	struct mmsghdr mm = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	struct pollfd p;
	char buf[16];
	fd_set in;
	int ep;

	CLIENT(r)
		handler_set(SIGUSR1, on_signal, SA_RESTART);
	conn_open(r);
	CLIENT(r) {
		p = (struct pollfd){ .fd = r->c, .events = POLLIN };
		v = (struct iovec){ .iov_base = buf, .iov_len = 16 };
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		timeout_set(r, r->c, SO_RCVTIMEO, 9);
		NAGGED(r, -EINTR, recv(r->c, buf, 16, 0));
		NAGGED(r, -EINTR, read(r->c, buf, 16));
		NAGGED(r, -EINTR, readv(r->c, &v, 1));
		NAGGED(r, -EINTR, recvmsg(r->c, &mm.msg_hdr, 0));
		NAGGED(r, -EINTR, recvmmsg(r->c, &mm, 1, 0, NULL));
		timeout_set(r, r->c, SO_RCVTIMEO, 0);
		NAGGED(r, -EINTR, ppoll(&p, 1, &ts, NULL));
		NAGGED(r, -EINTR, epoll_wait(ep, &ev, 1, -1));
		FD_ZERO(&in);
		FD_SET(r->c, &in);
		NAGGED(r, -EINTR, select(r->c + 1, &in, NULL, NULL, &tv));
		CHECK(r, tv.tv_sec == 8 && FD_ISSET(r->c, &in));
		NAGGED(r, -EINTR, pselect(r->c + 1, &in, NULL, NULL, &ts, NULL));
		CHECK(r, ts.tv_sec == 9);
		MUST(r, close(ep));
	}
	conn_close(r);
}

/*
 * As much as goes in without a reader, down to the last byte.  Where room for
 * megabytes appears behind a single one, it is for large writes again.
 */
static long fill(int fd)
{
	static char buf[65536];
	long sent = 0, k;
	int quiet = 0;

	while (quiet < 15) {
		long before = sent;

		do {
			while ((k = send(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
				sent += k;
			k = send(fd, buf, 1, MSG_DONTWAIT);
			sent += k > 0;
		} while (k > 0);
		quiet = sent == before ? quiet + 1 : 0;
		poll(NULL, 0, 20);
	}
	return sent;
}

static void full_write(struct role *r)
{
	struct iovec v = { .iov_base = (char[]){ "x" }, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	long sent = 0, got = 0, k;
	static char in[65536];

	conn_open(r);
	CLIENT(r) {
		struct nagger n;

		sent = fill(r->c);
		handler_set(SIGUSR1, on_signal, 0);
		NAGGED(r, -EINTR, send(r->c, "x", 1, 0));
		NAGGED(r, -EINTR, write(r->c, "x", 1));
		NAGGED(r, -EINTR, sendmsg(r->c, &m, 0));
		handler_set(SIGUSR1, on_signal, SA_RESTART);
		timeout_set(r, r->c, SO_SNDTIMEO, 9);
		NAGGED(r, -EINTR, send(r->c, "x", 1, 0));
		timeout_set(r, r->c, SO_SNDTIMEO, 0);
		nag_start(r, &n);
		meet(r);
		TRY(r, 1, send(r->c, "x", 1, 0));
		nag_stop(&n);
		CHECK(r, hits > 0);
		MUST(r, shutdown(r->c, SHUT_WR));
		tell(r, sent + 1);
	}
	SERVER(r) {
		meet(r);
		poll(NULL, 0, 60);	/* some signals fall into the sleep */
		while ((k = recv(r->s, in, sizeof(in), 0)) > 0)
			got += k;
		TRY(r, 0, k);
		CHECK(r, hear(r) == got);
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

/* ThreadSanitizer lets a handler wait for a call that it knows, and keeps one of a kind. */
static bool all_hit(int n)
{
#ifdef __SANITIZE_THREAD__
	return hits > 0 && hits <= n;
#else
	return hits == n;
#endif
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
		CHECK(r, all_hit(4));
		pthread_sigmask(SIG_UNBLOCK, &block, NULL);
		MUST(r, close(ep));
	}
	conn_close(r);
}

static int handler_fd;
static volatile long handler_wrong, handler_rounds;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static volatile sig_atomic_t in_handler, allocated;

/* A handler may have interrupted this: what it calls must not come here. */
__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
	void *__libc_calloc(size_t n, size_t size);

	allocated += in_handler;
	return __libc_calloc(n, size);
}

static void on_echo(int sig)
{
	char c = 0;

	(void)sig;
	in_handler = 1;
	handler_wrong += write(handler_fd, "q", 1) != 1 || read(handler_fd, &c, 1) != 1 || c != 'a';
	in_handler = 0;
}

/* All that is said on a connection is said by a handler. */
static void handler_alone(struct role *r)
{
	long answered = 0;
	char c;

	conn_open(r);
	CLIENT(r) {
		handler_fd = r->c;
		handler_set(SIGUSR1, on_echo, 0);
		for (int i = 0; i < 20; i++)
			raise(SIGUSR1);
		TRY(r, 0, handler_wrong);
		TRY(r, 0, allocated);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		while (read(r->s, &c, 1) == 1 && c == 'q')
			answered += write(r->s, "a", 1) == 1;
		TRY(r, 20, answered);
	}
	conn_close(r);
}
#endif

static volatile sig_atomic_t tick_us;

/* The next one comes when a handler is over: where it is slow there must be time for more. */
static void tick_again(void)
{
	struct itimerval it = { .it_value.tv_usec = tick_us };

	setitimer(ITIMER_REAL, &it, NULL);
}

/* 0: no more of them */
static void tick(int us)
{
	tick_us = us;
	tick_again();
}

/* Ping-pong on the second connection, from inside a signal handler. */
static void on_tick(int sig)
{
	int saved = errno;
	char c = 't';

	(void)sig;
	if (write(handler_fd, &c, 1) != 1 || read(handler_fd, &c, 1) != 1 || c != 't')
		handler_wrong++;
	handler_rounds++;
	tick_again();
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
		tick(1000);
		bulk_write(r, r->c, 16 << 20, SEED_CLIENT);
		while (handler_rounds < 20)
			poll(NULL, 0, 1);
		tick(0);
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

/* Nobody sleeps on it any more: the last close ends it. */
static void jump_then_close(struct role *r)
{
	struct itimerval it = { .it_value.tv_usec = 30000 };
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		handler_set(SIGALRM, on_jump, 0);
		if (sigsetjmp(out_of_recv, 1) == 0) {
			MUST(r, setitimer(ITIMER_REAL, &it, NULL));
			recv(r->c, buf, 8, 0);
		}
		TRY(r, 0, close(r->c));
	}
	SERVER(r) {
		TRY(r, 0, recv(r->s, buf, 8, 0));
		TRY(r, 0, close(r->s));
	}
	meet(r);
}

static int same_fd;
static char same_byte;
static volatile long handler_sent;

/* The connection that was interrupted is written to and read by the handler. */
static void on_same(int sig)
{
	int saved = errno;
	long k;

	(void)sig;
	k = send(same_fd, "h", 1, MSG_DONTWAIT);
	if (k == 1)
		handler_sent++;
	else if (k != -1 || errno != EAGAIN)
		handler_wrong++;
	k = recv(same_fd, &same_byte, 1, MSG_DONTWAIT | MSG_PEEK);
	if (k < 0 && errno != EAGAIN)
		handler_wrong++;
	handler_rounds++;
	tick_again();
	errno = saved;
}

/* A 1 ms timer at both ends of one connection, whose handlers use it as well. */
static void handler_same(struct role *r)
{
	long rounds = 0, got = 0, extra = 0, k, i;
	char buf[256];

	conn_open(r);
	same_fd = own_fd(r);
	handler_set(SIGALRM, on_same, SA_RESTART);
	tick(700);
	while (handler_rounds < 50 || rounds < 20000) {
		if (send(same_fd, ".", 1, 0) != 1)
			handler_wrong++;
		rounds++;
		k = recv(same_fd, buf, sizeof(buf), MSG_DONTWAIT);
		for (i = 0; i < k; i++)
			extra += buf[i] == 'h';
		got += k > 0 ? k : 0;
	}
	tick(0);
	MUST(r, shutdown(same_fd, SHUT_WR));
	while ((k = recv(same_fd, buf, sizeof(buf), 0)) > 0) {
		for (i = 0; i < k; i++)
			extra += buf[i] == 'h';
		got += k;
	}
	TRY(r, 0, k);
	TRY(r, 0, handler_wrong);
	/* tell the other role what it should have got */
	CLIENT(r) {
		tell(r, rounds + handler_sent);
		tell(r, handler_sent);
		CHECK(r, hear(r) == got);
		CHECK(r, hear(r) == extra);
	}
	SERVER(r) {
		CHECK(r, hear(r) == got);
		CHECK(r, hear(r) == extra);
		tell(r, rounds + handler_sent);
		tell(r, handler_sent);
	}
	conn_close(r);
}

static siginfo_t pipe_info;
static pid_t pipe_tid;

static void on_pipe(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)uc;
	hits++;
	pipe_info = *si;
	pipe_tid = gettid();
}

#define RAISES(r, n, call) do {			\
	hits = 0;				\
	TRY(r, -EPIPE, call);			\
	TRY(r, n, hits);			\
} while (0)

static void *pipe_main(void *arg)
{
	struct role *r = arg;

	RAISES(r, 1, write(r->c, "x", 1));
	CHECK(r, pipe_tid == gettid());
	return NULL;
}

/* Every call that writes raises SIGPIPE, in its own thread, but with MSG_NOSIGNAL. */
__attribute__((unused)) static void sigpipe(struct role *r)
{
	struct sigaction sa = { .sa_sigaction = on_pipe, .sa_flags = SA_SIGINFO };
	struct iovec v = { .iov_base = (char[]){ "x" }, .iov_len = 1 };
	struct mmsghdr mm = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	pthread_t th;
	off_t off = 0;
	int file;

	conn_open(r);
	CLIENT(r) {
		sigaction(SIGPIPE, &sa, NULL);
		file = (int)MUST(r, open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		RAISES(r, 1, write(r->c, "x", 1));
		CHECK(r, pipe_info.si_code == SI_USER && pipe_info.si_pid == getpid());
		CHECK(r, pipe_info.si_uid == getuid());
		RAISES(r, 1, writev(r->c, &v, 1));
		RAISES(r, 1, send(r->c, "x", 1, 0));
		RAISES(r, 1, sendto(r->c, "x", 1, 0, NULL, 0));
		RAISES(r, 1, sendmsg(r->c, &mm.msg_hdr, 0));
		RAISES(r, 1, sendmmsg(r->c, &mm, 1, 0));
		RAISES(r, 1, pwritev2(r->c, &v, 1, -1, 0));
		RAISES(r, 1, sendfile(r->c, file, &off, 1));
		TRY(r, 0, off);
		RAISES(r, 0, send(r->c, "x", 1, MSG_NOSIGNAL));
		RAISES(r, 0, sendmsg(r->c, &mm.msg_hdr, MSG_NOSIGNAL));
		if (pthread_create(&th, NULL, pipe_main, r) != 0)
			give_up(r, "pthread_create");
		pthread_join(th, NULL);
		signal(SIGPIPE, SIG_IGN);
		TRY(r, -EPIPE, write(r->c, "x", 1));
		MUST(r, close(file));
	}
	conn_close(r);
}

#define KNOWN (SA_RESTART | SA_NODEFER | SA_SIGINFO | (int)SA_RESETHAND | SA_ONSTACK)

/* What sigaction() and its elders say is what they were told. */
__attribute__((unused)) static void dispositions(struct role *r)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NODEFER }, old;

	conn_open(r);
	CLIENT(r) {
		sigaddset(&sa.sa_mask, SIGUSR2);
		TRY(r, 0, sigaction(SIGUSR1, &sa, NULL));
		TRY(r, 0, sigaction(SIGUSR1, NULL, &old));
		CHECK(r, old.sa_handler == on_signal);
		CHECK(r, (old.sa_flags & KNOWN) == (SA_RESTART | SA_NODEFER));
		CHECK(r, sigismember(&old.sa_mask, SIGUSR2) == 1);
		CHECK(r, signal(SIGUSR1, SIG_IGN) == on_signal);
		CHECK(r, signal(SIGUSR1, SIG_DFL) == SIG_IGN);
		sa.sa_flags = (int)SA_RESETHAND;
		TRY(r, 0, sigaction(SIGUSR1, &sa, &old));
		CHECK(r, old.sa_handler == SIG_DFL);
		hits = 0;
		raise(SIGUSR1);
		TRY(r, 1, hits);
		TRY(r, 0, sigaction(SIGUSR1, NULL, &old));
		CHECK(r, old.sa_handler == SIG_DFL);
		CHECK(r, signal(SIGUSR1, on_signal) == SIG_DFL);
		TRY(r, 0, sigaction(SIGUSR1, NULL, &old));
		CHECK(r, (old.sa_flags & KNOWN) == SA_RESTART);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
		TRY(r, 0, siginterrupt(SIGUSR1, 1));
#pragma GCC diagnostic pop
		TRY(r, 0, sigaction(SIGUSR1, NULL, &old));
		CHECK(r, old.sa_handler == on_signal && !(old.sa_flags & SA_RESTART));
		CHECK(r, signal(SIGUSR1, on_signal) == on_signal);
		TRY(r, 0, sigaction(SIGUSR1, NULL, &old));
		CHECK(r, !(old.sa_flags & SA_RESTART));
		TRY(r, -EINVAL, sigaction(SIGKILL, &sa, NULL));
		TRY(r, -EINVAL, sigaction(77, &sa, NULL));
	}
	conn_close(r);
}

static siginfo_t info_seen;

static void on_info(int sig, siginfo_t *si, void *uc)
{
	(void)sig;
	(void)uc;
	hits += si->si_code == SI_QUEUE && si->si_value.sival_int == hits;
	info_seen = *si;
}

/* Queued signals with a value, while a connection streams: none lost, in order. */
static void queued(struct role *r)
{
	struct sigaction sa = { .sa_sigaction = on_info, .sa_flags = SA_SIGINFO | SA_RESTART };
	long i, sent = 0;
	char buf[64];

	sigaction(SIGRTMIN + 3, &sa, NULL);
	hits = 0;
	conn_open(r);
	CLIENT(r) {
		for (i = 0; i < 5000; i++) {
			if (sigqueue(getpid(), SIGRTMIN + 3, (union sigval){ (int)i }) != 0)
				break;
			sent += send(r->c, buf, 64, 0);
		}
		TRY(r, 5000 * 64, sent);
		TRY(r, 5000, hits);
		CHECK(r, info_seen.si_pid == getpid());
		MUST(r, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		long got = 0, k;

		while ((k = recv(r->s, buf, 64, 0)) > 0)
			got += k;
		TRY(r, 5000 * 64, got);
	}
	conn_close(r);
}

static atomic_int cleaned;

#ifdef __SANITIZE_ADDRESS__
/*
 * A frame that is cancelled away does not take back what AddressSanitizer has
 * marked around its variables; the sanitizer itself trips over that later.
 */
void __asan_unpoison_memory_region(const volatile void *p, size_t n);
static void forget_frames(void)
{
	__asan_unpoison_memory_region((char *)__builtin_frame_address(0) - 65536, 65536 + 1024);
}
#else
static void forget_frames(void)
{
}
#endif

static void on_cancel(void *arg)
{
	(void)arg;
	cleaned++;
	forget_frames();
}

static void *cancel_main(void *arg)
{
	char buf[8];

	pthread_cleanup_push(on_cancel, NULL);
	recv(*(int *)arg, buf, 8, 0);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancel_epoll(void *arg)
{
	struct epoll_event ev;

	pthread_cleanup_push(on_cancel, NULL);
	epoll_wait(*(int *)arg, &ev, 1, -1);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *cancel_busy(void *arg)
{
	pthread_cleanup_push(on_cancel, NULL);
	while (send(*(int *)arg, "b", 1, MSG_DONTWAIT) == 1 || errno == EAGAIN)
		;
	pthread_cleanup_pop(0);
	return NULL;
}

/* What follows is played with both types; on a full or an empty connection. */
static int cancel_type;

static void *cancel_typed(void *(*body)(int fd), void *arg)
{
	pthread_cleanup_push(on_cancel, NULL);
	pthread_setcanceltype(cancel_type, NULL);
	body(*(int *)arg);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *body_recv(int fd)
{
	char buf[8];

	for (;;)
		recv(fd, buf, 8, 0);
	return NULL;
}

static void *body_poll(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;)
		poll(&p, 1, -1);
	return NULL;
}

static void *body_select(int fd)
{
	fd_set in;

	for (;;) {
		FD_ZERO(&in);
		FD_SET(fd, &in);
		select(fd + 1, &in, NULL, NULL, NULL);
	}
	return NULL;
}

static void *body_send(int fd)
{
	static char buf[65536];

	for (;;)
		send(fd, buf, sizeof(buf), 0);
	return NULL;
}

/* In and out of the library all the time. */
static void *body_busy(int fd)
{
	char buf[8];

	for (;;) {
		send(fd, "b", 1, MSG_DONTWAIT);
		recv(fd, buf, 8, MSG_DONTWAIT | MSG_PEEK);
		if (cancel_type == PTHREAD_CANCEL_DEFERRED)
			pthread_testcancel();
	}
	return NULL;
}

#define TYPED(name) \
	static void *typed_##name(void *arg) { return cancel_typed(body_##name, arg); }
TYPED(recv)
TYPED(poll)
TYPED(select)
TYPED(send)
TYPED(busy)

static void cancel_one(struct role *r, void *(*start)(void *), int fd)
{
	pthread_t th;
	void *ret;

	if (pthread_create(&th, NULL, start, &fd) != 0)
		give_up(r, "pthread_create");
	poll(NULL, 0, 20);	/* mostly asleep by then; in time either way */
	pthread_cancel(th);
	pthread_join(th, &ret);
	CHECK(r, ret == PTHREAD_CANCELED);
}

/* Threads cancelled asleep in recv and epoll_wait leave the connection whole. */
static void cancel(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	char buf[8];
	int ep, i;

	conn_open(r);
	CLIENT(r) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		for (i = 0; i < 3; i++) {
			cancel_one(r, cancel_main, r->c);
			cancel_one(r, cancel_epoll, ep);
		}
		TRY(r, 6, cleaned);
		MUST(r, close(ep));
	}
	meet(r);
	SERVER(r)
		TRY(r, 5, send(r->s, "after", 5, 0));
	CLIENT(r) {
		TRY(r, 5, recv(r->c, buf, 8, 0));
		cancel_one(r, cancel_busy, r->c);
		MUST(r, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		long k;

		while ((k = recv(r->s, buf, 8, 0)) > 0)
			;
		TRY(r, 0, k);
	}
	conn_close(r);
}

static void *exit_in_recv(void *arg)
{
	pthread_cleanup_push(on_cancel, NULL);
	recv(*(int *)arg, &(char){ 0 }, 1, 0);
	pthread_cleanup_pop(0);
	return NULL;
}

static void on_exit_signal(int sig)
{
	(void)sig;
	pthread_exit(PTHREAD_CANCELED);
}

/* The thread leaves by a handler, in the middle of a call. */
static void exit_one(struct role *r, void *(*start)(void *), int fd)
{
	pthread_t th;
	void *ret;

	if (pthread_create(&th, NULL, start, &fd) != 0)
		give_up(r, "pthread_create");
	poll(NULL, 0, 20);	/* mostly asleep by then; in time either way */
	pthread_kill(th, SIGUSR2);
	pthread_join(th, &ret);
	CHECK(r, ret == PTHREAD_CANCELED);
}

/* Threads that end in a call that is the kernel's leave no trace: there is a ring afterwards. */
static void cancel_cold(struct role *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	char buf[8];
	int ep, fd;

	listener_open(r);
	conn_more(r, &r->s, &r->c);
	fd = own_fd(r);
	cleaned = 0;
	cancel_type = PTHREAD_CANCEL_DEFERRED;
	handler_set(SIGUSR2, on_exit_signal, 0);
	ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
	MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	cancel_one(r, cancel_main, fd);
	cancel_one(r, cancel_epoll, ep);
	cancel_one(r, typed_poll, fd);
	cancel_one(r, typed_select, fd);
	exit_one(r, exit_in_recv, fd);
	TRY(r, 5, cleaned);
	MUST(r, close(ep));
	meet(r);
	if (r->ring)
		conn_warm(r);
	SERVER(r)
		TRY(r, 5, send(r->s, "after", 5, 0));
	CLIENT(r)
		TRY(r, 5, recv(r->c, buf, 8, 0));
	conn_close(r);
}

static __thread sigjmp_buf out_of_thread;

static void on_thread_jump(int sig)
{
	siglongjmp(out_of_thread, sig);
}

static atomic_int jumped;

static __attribute__((noinline)) void stack_used_again(void)
{
	volatile char b[32768];

	memset((void *)(uintptr_t)b, 0xa5, sizeof(b));
}

/* Jumps out of a recv() that sleeps, and ends by itself, or waits until it is cancelled. */
static void *jump_and_end(void *arg)
{
	int fd = *(int *)arg;

	pthread_cleanup_push(on_cancel, NULL);
	if (sigsetjmp(out_of_thread, 1) == 0)
		recv(fd, &(char){ 0 }, 1, 0);
	stack_used_again();
	if (++jumped % 2)
		pthread_exit(PTHREAD_CANCELED);
	for (;;)
		pause();
	pthread_cleanup_pop(0);
	return NULL;
}

/* A jump out of a wait, and then the end of the thread. */
__attribute__((unused)) static void jump_then_end(struct role *r)
{
	char buf[8];

	conn_open(r);
	CLIENT(r) {
		cleaned = 0;
		handler_set(SIGUSR2, on_thread_jump, 0);
		for (int i = 0; i < 6; i++) {
			pthread_t th;
			void *ret;

			if (pthread_create(&th, NULL, jump_and_end, &r->c) != 0)
				give_up(r, "pthread_create");
			poll(NULL, 0, 20);	/* mostly asleep by then */
			pthread_kill(th, SIGUSR2);
			while (jumped <= i)
				poll(NULL, 0, 1);
			if (i % 2)
				pthread_cancel(th);
			pthread_join(th, &ret);
			CHECK(r, ret == PTHREAD_CANCELED);
		}
		TRY(r, 6, cleaned);
	}
	meet(r);
	SERVER(r)
		TRY(r, 5, send(r->s, "after", 5, 0));
	CLIENT(r)
		TRY(r, 5, recv(r->c, buf, 8, 0));
	conn_close(r);
}

/* Out of a send that sleeps in a full connection; what went in is a part of it. */
__attribute__((unused)) static void jump_out_of_send(struct role *r)
{
	struct itimerval it = { .it_value.tv_usec = 30000 };
	static char buf[1 << 20];
	volatile int i;
	long k;

	conn_open(r);
	CLIENT(r) {
		handler_set(SIGALRM, on_jump, SA_RESTART);
		for (i = 0; i < 4; i++) {
			if (sigsetjmp(out_of_recv, 1) != 0)
				continue;
			MUST(r, setitimer(ITIMER_REAL, &it, NULL));
			for (;;)
				send(r->c, buf, sizeof(buf), 0);
		}
		NOTE(r, "jumped");
		MUST(r, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		while ((k = recv(r->s, buf, sizeof(buf), 0)) > 0)
			;
		TRY(r, 0, k);
		TRY(r, 2, send(r->s, "ok", 2, 0));
	}
	CLIENT(r)
		TRY(r, 2, recv(r->c, buf, 8, 0));
	conn_close(r);
}

__attribute__((unused)) static void cancel_types(struct role *r)
{
	static void *(*const ways[])(void *) = { typed_recv, typed_poll, typed_select, typed_busy,
						 typed_busy, typed_send };
	static char in[65536];
	char buf[8];
	long k;
	size_t i;

	conn_open(r);
	CLIENT(r) {
		cleaned = 0;
		for (i = 0; i < 2 * sizeof(ways) / sizeof(ways[0]); i++) {
			cancel_type = i % 2 ? PTHREAD_CANCEL_DEFERRED : PTHREAD_CANCEL_ASYNCHRONOUS;
			cancel_one(r, ways[i / 2], r->c);
		}
		TRY(r, 12, cleaned);
		MUST(r, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		while ((k = recv(r->s, in, sizeof(in), 0)) > 0)
			;
		TRY(r, 0, k);
		TRY(r, 2, send(r->s, "ok", 2, 0));
	}
	CLIENT(r)
		TRY(r, 2, recv(r->c, buf, 8, 0));
	conn_close(r);
}

/* A jump out of every kind of wait, again and again; then it still works. */
__attribute__((unused)) static void jump_often(struct role *r)
{
	struct itimerval it = { .it_value.tv_usec = 2000 };
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p[80];
	volatile int i;
	char buf[8];
	fd_set in;
	int ep, k;

	conn_open(r);
	CLIENT(r) {
		ep = (int)MUST(r, epoll_create1(EPOLL_CLOEXEC));
		MUST(r, epoll_ctl(ep, EPOLL_CTL_ADD, r->c, &ev));
		for (k = 0; k < 80; k++)
			p[k] = (struct pollfd){ .fd = r->c, .events = POLLIN };
		handler_set(SIGALRM, on_jump, SA_RESTART);
		for (i = 0; i < 60; i++) {
			if (sigsetjmp(out_of_recv, 1) != 0)
				continue;
			MUST(r, setitimer(ITIMER_REAL, &it, NULL));
			FD_ZERO(&in);
			FD_SET(r->c, &in);
			if (i % 5 == 0)
				recv(r->c, buf, 8, 0);
			else if (i % 5 == 1)
				epoll_wait(ep, &ev, 1, -1);
			else if (i % 5 == 2)
				select(r->c + 1, &in, NULL, NULL, NULL);
			else
				poll(p, i % 5 == 3 ? 1 : 80, -1);
			NOTE(r, "came back  WRONG");
			r->t.failures++;
			break;
		}
		MUST(r, close(ep));
	}
	meet(r);
	SERVER(r)
		TRY(r, 2, send(r->s, "ok", 2, 0));
	CLIENT(r)
		TRY(r, 2, recv(r->c, buf, 8, 0));
	conn_close(r);
}

const struct conf_case signals_cases[] = {
	{ "signals-interrupted", interrupted, 0 },
	{ "signals-restarted", restarted, TOGETHER },
	{ "signals-not-restarted", not_restarted, 0 },
	{ "signals-full-write", full_write, TOGETHER },
	{ "signals-write-interrupted", write_interrupted, 0 },
	{ "signals-masks", masks, WAIT_POLL },
	{ "signals-handler-io", handler_io, PROCESS },
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	{ "signals-handler-alone", handler_alone, PROCESS },
#endif
	{ "signals-handler-same", handler_same, PROCESS },
	{ "signals-jump-out", jump_out, PROCESS },
	{ "signals-jump-then-close", jump_then_close, PROCESS },
#ifndef __SANITIZE_THREAD__	/* its run-time holds signals back until a call of its own */
	{ "signals-jump-often", jump_often, PROCESS },
	{ "signals-jump-then-end", jump_then_end, PROCESS },
	{ "signals-dispositions", dispositions, PROCESS },
	{ "signals-jump-out-of-send", jump_out_of_send, TOGETHER | PROCESS },
	{ "signals-cancel-types", cancel_types, TOGETHER },
	{ "signals-sigpipe", sigpipe, 0 },
#endif
	{ "signals-queued", queued, PROCESS },
	{ "signals-cancel", cancel, TOGETHER },
	{ "signals-cancel-cold", cancel_cold, TOGETHER | PROCESS },
	{ NULL, NULL, 0 }
};
