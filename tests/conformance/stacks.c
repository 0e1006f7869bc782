/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Little room on the stack, and stacks of a program's own making. */
#include "conform.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

enum { TURNS = 200, CONNS = 8, SMALL_STACK = 16384 };

struct party {
	int fd, ep;
	bool first;
	long wrong;
};

/* All waits and all forms of reading and writing in turn. */
static void *party_main(void *arg)
{
	struct party *p = arg;
	struct epoll_event ev;
	struct iovec v;
	char buf[16];
	fd_set in;
	ssize_t n;

	for (int i = 0; i < 2 * TURNS; i++) {
		if ((i % 2 == 0) == p->first) {
			memcpy(buf, &i, sizeof(i));
			v = (struct iovec){ buf, 8 };
			n = i % 8 < 2 ? write(p->fd, buf, 8) : i % 8 < 4 ? send(p->fd, buf, 8, MSG_NOSIGNAL) :
			    i % 8 < 6 ? writev(p->fd, &v, 1) :
					sendmsg(p->fd, &(struct msghdr){ .msg_iov = &v, .msg_iovlen = 1 }, 0);
			p->wrong += n != 8;
			continue;
		}
		if (i % 12 < 4) {
			p->wrong += poll(&(struct pollfd){ .fd = p->fd, .events = POLLIN }, 1, 5000) != 1;
		} else if (i % 12 < 8) {
			p->wrong += epoll_wait(p->ep, &ev, 1, 5000) != 1;
		} else {
			FD_ZERO(&in);
			FD_SET(p->fd, &in);
			p->wrong += select(p->fd + 1, &in, NULL, NULL, NULL) != 1;
		}
		v = (struct iovec){ buf, sizeof(buf) };
		n = i % 8 < 4 ? read(p->fd, buf, sizeof(buf)) : readv(p->fd, &v, 1);
		p->wrong += n != 8 || memcmp(buf, &i, sizeof(i)) != 0;
	}
	return NULL;
}

static void party_init(struct role *r, struct party *p, int fd)
{
	*p = (struct party){ .fd = fd, .ep = set_new(r), .first = r->client && !r->server };
	MUST(r, set_ctl(p->ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1));
}

enum { FILE_SIZE = 300000 };

/* A file out, and one in. */
static void *file_main(void *arg)
{
	struct party *p = arg;
	char c;

	if (p->first) {
		int file = memfd_create("file", MFD_CLOEXEC);

		p->wrong += ftruncate(file, FILE_SIZE) != 0 || sendfile(p->fd, file, NULL, FILE_SIZE) != FILE_SIZE;
		close(file);
	} else {
		for (int i = 0; i < FILE_SIZE; i++)
			p->wrong += read(p->fd, &c, 1) != 1 || c != 0;
	}
	return NULL;
}

static void *nothing(void *arg)
{
	return arg;
}

/*
 * On a stack of some 16 KiB behind what libc needs of it, which is found by asking
 * for more and more; nothing is mapped for a megabyte below it.
 */
static long on_little_stack(struct role *r, void *(*run)(void *), struct party *p)
{
	enum { BELOW = 1 << 20, STEP = 4096, MOST = 1 << 20 };
	char *m = mmap(NULL, BELOW + MOST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	size_t size = SMALL_STACK;
	pthread_attr_t attr;
	pthread_t th;
	int err;

	MUST(r, m == MAP_FAILED ? -1 : mprotect(m + BELOW, MOST, PROT_READ | PROT_WRITE));
	pthread_attr_init(&attr);
	do {
		MUST(r, -pthread_attr_setstack(&attr, m + BELOW, size));
		err = pthread_create(&th, &attr, nothing, NULL);
		size += STEP;
	} while (err == EINVAL && size < MOST);
	TRY(r, 0, err);
	pthread_join(th, NULL);
	MUST(r, -pthread_attr_setstack(&attr, m + BELOW, size + 2 * STEP));
	TRY(r, 0, pthread_create(&th, &attr, run, p));
	pthread_join(th, NULL);
	pthread_attr_destroy(&attr);
	munmap(m, BELOW + MOST);
	return p->wrong;
}

static __attribute__((unused)) void little_stack(struct role *r)
{
	struct party p;

	conn_open(r);
	party_init(r, &p, own_fd(r));
	TRY(r, 0, on_little_stack(r, party_main, &p));
	TRY(r, 0, on_little_stack(r, file_main, &p));
	close(p.ep);
	conn_close(r);
}

static volatile sig_atomic_t handled, handled_wrong;
static int handler_fd;

static void on_alternate(int sig)
{
	char c = 0;

	(void)sig;
	handled_wrong += write(handler_fd, "q", 1) != 1 || read(handler_fd, &c, 1) != 1 || c != 'a';
	handled++;
}

/* A handler on a stack of its own, of the size that the manual calls usual. */
static __attribute__((unused)) void alternate_stack(struct role *r)
{
	struct sigaction sa = { .sa_handler = on_alternate, .sa_flags = SA_ONSTACK };
	long answered = 0;
	char c;

	conn_open(r);
	CLIENT(r) {
		size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + 4096;
		char *m = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		stack_t ss = { .ss_sp = m + 4096, .ss_size = size };

		MUST(r, m == MAP_FAILED ? -1 : mprotect(m, 4096, PROT_NONE));
		MUST(r, sigaltstack(&ss, NULL));
		MUST(r, sigaction(SIGUSR1, &sa, NULL));
		handler_fd = r->c;
		for (int i = 0; i < TURNS; i++)
			raise(SIGUSR1);
		TRY(r, TURNS, handled);
		TRY(r, 0, handled_wrong);
		ss = (stack_t){ .ss_flags = SS_DISABLE };
		MUST(r, sigaltstack(&ss, NULL));
		munmap(m, size + 4096);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		while (read(r->s, &c, 1) == 1 && c == 'q')
			answered += write(r->s, "a", 1) == 1;
		TRY(r, TURNS, answered);
	}
	conn_close(r);
}

/* ------------------------------------------------------------ coroutines -- */

struct routine {
	ucontext_t self;
	char *stack;
	int fd, number;
	bool server, over;
	long wrong;
};

static ucontext_t scheduler;
static struct routine *running;

/* As a runtime does it: where a call would block, another routine runs. */
static void yield(short events)
{
	(void)events;
	swapcontext(&running->self, &scheduler);
}

static void routine_io(struct routine *me, char *buf, size_t n, bool out)
{
	size_t done = 0;
	ssize_t k;

	while (done < n) {
		k = out ? write(me->fd, buf + done, n - done) : read(me->fd, buf + done, n - done);
		if (k > 0)
			done += (size_t)k;
		else if (k < 0 && errno == EAGAIN)
			yield(out ? POLLOUT : POLLIN);
		else
			break;
	}
	me->wrong += done != n;
}

static void routine_main(void)
{
	struct routine *me = running;
	char buf[600];

	for (int i = 0; i < TURNS && !me->wrong; i++) {
		if (!me->server) {
			memset(buf, 'a' + (me->number + i) % 26, sizeof(buf));
			routine_io(me, buf, sizeof(buf), true);
		}
		routine_io(me, buf, sizeof(buf), false);
		for (size_t k = 0; k < sizeof(buf); k++)
			me->wrong += buf[k] != 'a' + (me->number + i) % 26;
		if (me->server)
			routine_io(me, buf, sizeof(buf), true);
	}
	me->over = true;
	swapcontext(&me->self, &scheduler);
}

static void routine_new(struct role *r, struct routine *me)
{
	me->stack = mmap(NULL, SMALL_STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(r, me->stack == MAP_FAILED ? -1 : mprotect(me->stack, 4096, PROT_NONE));
	MUST(r, getcontext(&me->self));
	me->self.uc_stack.ss_sp = me->stack + 4096;
	me->self.uc_stack.ss_size = SMALL_STACK;
	me->self.uc_link = NULL;
	makecontext(&me->self, routine_main, 0);
}

struct hub {
	struct routine *all;
	int ep, left;
};

/* The loop of a thread: waits, and runs whoever has something. */
static void hub_step(struct hub *h)
{
	struct epoll_event ev[CONNS];
	int n = epoll_wait(h->ep, ev, CONNS, 5000);

	for (int i = 0; i < n; i++) {
		struct routine *x = &h->all[ev[i].data.u32];

		if (x->over)
			continue;
		running = x;
		swapcontext(&scheduler, &x->self);
		h->left -= x->over;
	}
	if (n <= 0)
		h->left = -1;
}

static void *hub_part(void *arg)
{
	struct hub *h = arg;

	for (int i = 0; i < 20 && h->left > 0; i++)
		hub_step(h);
	return NULL;
}

/* Eight routines to a process, each with a connection; moved: from thread to thread. */
static void routines(struct role *r, bool moved)
{
	static struct routine all[CONNS];
	struct hub h = { .all = all, .left = CONNS };
	int s = -1, c = -1;
	long wrong = 0;

	conn_open(r);
	h.ep = set_new(r);
	for (int i = 0; i < CONNS; i++) {
		if (i == 0) {
			s = r->s;
			c = r->c;
		} else {
			conn_more(r, &s, &c);
		}
		all[i] = (struct routine){ .fd = r->server ? s : c, .number = i, .server = r->server };
		nonblock_set(r, all[i].fd);
		routine_new(r, &all[i]);
		MUST(r, set_ctl(h.ep, EPOLL_CTL_ADD, all[i].fd, EPOLLIN | EPOLLOUT | EPOLLET, (uint64_t)i));
	}
	meet(r);
	while (h.left > 0) {
		if (moved) {
			pthread_t th;

			MUST(r, -pthread_create(&th, NULL, hub_part, &h));
			pthread_join(th, NULL);
		} else {
			hub_step(&h);
		}
	}
	TRY(r, 0, h.left);
	for (int i = 0; i < CONNS; i++)
		wrong += all[i].wrong;
	TRY(r, 0, wrong);
	meet(r);
	for (int i = 0; i < CONNS; i++) {
		munmap(all[i].stack, SMALL_STACK + 4096);
		if (i)
			MUST(r, close(all[i].fd));
	}
	MUST(r, close(h.ep));
	conn_close(r);
}

static void routines_stay(struct role *r)
{
	routines(r, false);
}

static void routines_move(struct role *r)
{
	routines(r, true);
}

const struct conf_case stacks_cases[] = {
#ifndef SANITIZED	/* its run-time wants a megabyte, and more of a handler's stack */
	{ "stacks-little", little_stack, TOGETHER | WAIT_EPOLL },
	{ "stacks-alternate", alternate_stack, PROCESS },
#endif
	{ "stacks-coroutines", routines_stay, PROCESS | WAIT_EPOLL },
	{ "stacks-coroutines-move", routines_move, PROCESS | WAIT_EPOLL },
	{ NULL, NULL, 0 }
};
