/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests that the kernel carries out past libc: io_uring, io_submit, aio.
 * The rings are made by hand; where there is no io_uring, libc does its part
 * and the transcript is the same.
 */
#include "conform.h"

#include <aio.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/lib/pattern.h"

enum { ROUNDS = 100, SIZE = 300, ENTRIES = 8 };

struct uring {
	int fd;				/* -1: there is none */
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static void uring_open(struct role *r, struct uring *u)
{
	struct io_uring_params p = { 0 };
	char *ring;

	u->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &p);
	if (u->fd < 0 || !(p.features & IORING_FEAT_SINGLE_MMAP))
		return;
	size_t sq = p.sq_off.array + p.sq_entries * sizeof(unsigned int);
	size_t cq = p.cq_off.cqes + p.cq_entries * sizeof(*u->cqes);
	ring = mmap(NULL, sq > cq ? sq : cq, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd,
		    IORING_OFF_SQ_RING);
	u->sqes = mmap(NULL, p.sq_entries * sizeof(*u->sqes), PROT_READ | PROT_WRITE, MAP_SHARED,
		       u->fd, IORING_OFF_SQES);
	if (ring == MAP_FAILED || u->sqes == MAP_FAILED)
		give_up(r, "mmap");
	u->sq_tail = (void *)(ring + p.sq_off.tail);
	u->sq_mask = (void *)(ring + p.sq_off.ring_mask);
	u->sq_array = (void *)(ring + p.sq_off.array);
	u->cq_head = (void *)(ring + p.cq_off.head);
	u->cq_tail = (void *)(ring + p.cq_off.tail);
	u->cq_mask = (void *)(ring + p.cq_off.ring_mask);
	u->cqes = (void *)(ring + p.cq_off.cqes);
}

/* One request, and its answer waited for. */
static long uring_do(struct uring *u, unsigned char op, int fd, void *buf, size_t n)
{
	unsigned int tail = *u->sq_tail, i = tail & *u->sq_mask, head = *u->cq_head;
	struct io_uring_sqe *s = &u->sqes[i];

	memset(s, 0, sizeof(*s));
	s->opcode = op;
	s->fd = fd;
	if (op == IORING_OP_POLL_ADD) {
		s->poll32_events = POLLIN;
	} else {
		s->addr = (uintptr_t)buf;
		s->len = (unsigned int)n;
	}
	u->sq_array[i] = i;
	__atomic_store_n(u->sq_tail, tail + 1, __ATOMIC_RELEASE);
	while (syscall(SYS_io_uring_enter, u->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		if (errno != EINTR)
			return -errno;
	while (__atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE) == head)
		syscall(SYS_io_uring_enter, u->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	long res = u->cqes[head & *u->cq_mask].res;

	__atomic_store_n(u->cq_head, head + 1, __ATOMIC_RELEASE);
	return res;
}

enum { READS = 1, WRITES = 2, POLLS = 4 };

static long do_read(struct uring *u, unsigned int how, int fd, void *buf, size_t n)
{
	if (u->fd >= 0 && how & POLLS)
		uring_do(u, IORING_OP_POLL_ADD, fd, NULL, 0);
	return u->fd >= 0 && how & READS ? uring_do(u, IORING_OP_RECV, fd, buf, n)
					 : recv(fd, buf, n, 0);
}

static long do_write(struct uring *u, unsigned int how, int fd, void *buf, size_t n)
{
	return u->fd >= 0 && how & WRITES ? uring_do(u, IORING_OP_SEND, fd, buf, n)
					  : send(fd, buf, n, 0);
}

static void serve(struct role *r, unsigned int how)
{
	unsigned char buf[SIZE];
	struct uring u;
	size_t done;
	long n;
	int i;

	uring_open(r, &u);
	for (i = 0; i < ROUNDS; i++) {
		for (done = 0; done < SIZE; done += (size_t)n)
			if ((n = do_read(&u, how, r->s, buf + done, SIZE - done)) <= 0)
				give_up(r, "read");
		for (done = 0; done < SIZE; done += (size_t)n)
			if ((n = do_write(&u, how, r->s, buf + done, SIZE - done)) <= 0)
				give_up(r, "write");
	}
	if (u.fd >= 0)
		MUST(r, close(u.fd));
}

static void client(struct role *r)
{
	unsigned char out[SIZE], in[SIZE];
	long wrong = 0;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		pattern_fill(out, SIZE, (uint64_t)i * SIZE, SEED_CLIENT);
		wrong += send_all(r->c, out, SIZE) != SIZE;
		wrong += recv_all(r->c, in, SIZE) != SIZE;
		wrong += memcmp(out, in, SIZE) != 0;
		if (i > ROUNDS / 2 && i % 10 == 0)	/* time for an attach, if it comes */
			poll(NULL, 0, 2);
	}
	TRY(r, 0, wrong);
}

static void play_uring(struct role *r, unsigned int how)
{
	conn_open(r);
	SERVER(r)
		serve(r, how);
	CLIENT(r)
		client(r);
	conn_close(r);
}

static void reads(struct role *r)
{
	play_uring(r, READS);
}

static void writes(struct role *r)
{
	play_uring(r, WRITES);
}

static void both(struct role *r)
{
	play_uring(r, READS | WRITES | POLLS);
}

/* It waits by io_uring and reads by libc, also on a connection that is on the ring. */
static void polls(struct role *r)
{
	play_uring(r, POLLS);
}

/* ------------------------------------------------------------------- aio -- */

static long aio_do(int (*fn)(struct aiocb *cb), int fd, void *buf, size_t n)
{
	struct aiocb cb = { .aio_fildes = fd, .aio_buf = buf, .aio_nbytes = n };
	const struct aiocb *list[1] = { &cb };

	if (fn(&cb))
		return -errno;
	while (aio_error(&cb) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	return aio_return(&cb);
}

/* libc's threads read and write a socket as a pipe, whatever the offset. */
static void posix_aio(struct role *r)
{
	char buf[8] = "", out[] = "hello";

	conn_open(r);
	CLIENT(r)
		TRY(r, 5, aio_do(aio_write, r->c, out, 5));
	SERVER(r) {
		TRY(r, 5, readable_await(r->s, 5));
		TRY(r, 5, aio_do(aio_read, r->s, buf, 5));
		CHECK(r, strcmp(buf, "hello") == 0);
		TRY(r, 2, send(r->s, "ok", 2, 0));
	}
	CLIENT(r)
		TRY(r, 2, recv(r->c, buf, 8, 0));
	conn_close(r);
}

static long submit(unsigned short op, int fd, void *buf, size_t n)
{
	struct iocb cb = { .aio_lio_opcode = op, .aio_fildes = (uint32_t)fd,
			   .aio_buf = (uintptr_t)buf, .aio_nbytes = n };
	struct iocb *list[1] = { &cb };
	struct io_event ev;
	aio_context_t ctx = 0;
	long ret = -1;

	if (syscall(SYS_io_setup, 4, &ctx))
		return -errno;
	if (syscall(SYS_io_submit, ctx, 1, list) == 1 &&
	    syscall(SYS_io_getevents, ctx, 1, 1, &ev, NULL) == 1)
		ret = (long)ev.res;
	syscall(SYS_io_destroy, ctx);
	return ret;
}

static void kernel_aio(struct role *r)
{
	char buf[8] = "", out[] = "hello";

	conn_open(r);
	CLIENT(r)
		TRY(r, 5, submit(IOCB_CMD_PWRITE, r->c, out, 5));
	SERVER(r) {
		TRY(r, 5, readable_await(r->s, 5));
		TRY(r, 1, POLLIN == submit(IOCB_CMD_POLL, r->s, (void *)(uintptr_t)POLLIN, 0) ||
			  errno == EINVAL);
		TRY(r, 5, submit(IOCB_CMD_PREAD, r->s, buf, 5));
		CHECK(r, strcmp(buf, "hello") == 0);
		TRY(r, 2, send(r->s, "ok", 2, 0));
	}
	CLIENT(r)
		TRY(r, 2, recv(r->c, buf, 8, 0));
	conn_close(r);
}

const struct conf_case uring_cases[] = {
	{ "uring-reads", reads, COLD | TOGETHER },
	{ "uring-writes", writes, COLD | TOGETHER },
	{ "uring-both", both, COLD | TOGETHER },
	{ "uring-polls", polls, TOGETHER },
	{ "aio-posix", posix_aio, 0 },
	{ "aio-kernel", kernel_aio, 0 },
	{ NULL, NULL, 0 }
};
