/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Several threads on one connection, and calls that act on another's sleep. */
#include "conform.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "tests/lib/pattern.h"

enum { WORDS = 20000, LOTS = 40 << 20, CLOSES = 500 };

static void thread_start(struct role *r, pthread_t *th, void *(*run)(void *), void *arg)
{
	if (pthread_create(th, NULL, run, arg) != 0)
		give_up(r, "pthread_create");
}

struct job {
	int fd;
	uint64_t first;
	long wrong;
	uint64_t count, sum;
	ssize_t rc;
	int err;
	pid_t tid;
};

static void *words_write(void *arg)
{
	struct job *j = arg;
	uint64_t i, w;

	for (i = 0; i < WORDS; i++) {
		w = j->first + i;
		j->wrong += write(j->fd, &w, sizeof(w)) != sizeof(w);
	}
	return NULL;
}

static void *words_read(void *arg)
{
	struct job *j = arg;
	uint64_t w;
	ssize_t n;

	while ((n = recv(j->fd, &w, sizeof(w), MSG_WAITALL)) == sizeof(w)) {
		j->count++;
		j->sum += w;
	}
	j->wrong += n != 0;
	return NULL;
}

/* Two writers: each word arrives whole, and each one once. */
static void two_writers(struct role *r)
{
	struct job a = { .first = 0 }, b = { .first = 1 << 20 }, in = { 0 };
	uint64_t all = (uint64_t)WORDS * (WORDS - 1);
	pthread_t th;

	conn_open(r);
	CLIENT(r) {
		a.fd = b.fd = r->c;
		thread_start(r, &th, words_write, &a);
		words_write(&b);
		pthread_join(th, NULL);
		TRY(r, 0, a.wrong + b.wrong);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
	}
	SERVER(r) {
		in.fd = r->s;
		words_read(&in);
		TRY(r, 2 * WORDS, in.count);
		CHECK(r, in.sum == all + ((uint64_t)WORDS << 20));
	}
	conn_close(r);
}

/* Two readers without WAITALL: together they get every byte. */
static void *bytes_read(void *arg)
{
	struct job *j = arg;
	unsigned char buf[1000];
	ssize_t n, i;

	while ((n = read(j->fd, buf, sizeof(buf))) > 0)
		for (i = 0; i < n; i++, j->count++)
			j->sum += buf[i];
	j->wrong += n != 0;
	return NULL;
}

static void two_readers(struct role *r)
{
	static unsigned char out[1 << 20];
	struct job a = { 0 }, b = { 0 };
	pthread_t th;
	uint64_t sum = 0;
	size_t i;

	conn_open(r);
	CLIENT(r) {
		pattern_fill(out, sizeof(out), 0, SEED_CLIENT);
		for (i = 0; i < sizeof(out); i++)
			sum += out[i];
		TRY(r, 1 << 20, send_all(r->c, out, sizeof(out)));
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		tell(r, (long)sum);
	}
	SERVER(r) {
		a.fd = b.fd = r->s;
		thread_start(r, &th, bytes_read, &a);
		bytes_read(&b);
		pthread_join(th, NULL);
		TRY(r, 0, a.wrong + b.wrong);
		TRY(r, 1 << 20, a.count + b.count);
		CHECK(r, a.sum + b.sum == (uint64_t)hear(r));
	}
	conn_close(r);
}

static void *recv_one(void *arg)
{
	struct job *j = arg;
	char c;

	errno = 0;
	__atomic_store_n(&j->tid, gettid(), __ATOMIC_RELEASE);
	j->rc = recv(j->fd, &c, 1, 0);
	j->err = errno;
	return NULL;
}

/* Until recv_one() sleeps in its call: it makes no other after it has told who it is. */
static void asleep_await(struct job *j)
{
	long long end = now_ms() + 5000;
	char path[64], line[256], *state;
	pid_t tid;
	ssize_t n;
	int fd;

	do {
		poll(NULL, 0, 1);
		tid = __atomic_load_n(&j->tid, __ATOMIC_ACQUIRE);
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
		fd = tid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
		close(fd);
		line[n > 0 ? n : 0] = '\0';
		state = strrchr(line, ')');
	} while (!(state && state[1] == ' ' && state[2] == 'S') && now_ms() < end);
}

static void shutdown_wakes(struct role *r)
{
	struct job j = { 0 };
	pthread_t th;

	conn_open(r);
	CLIENT(r) {
		j.fd = r->c;
		thread_start(r, &th, recv_one, &j);
		poll(NULL, 0, 20);	/* asleep by now, probably; both are right */
		TRY(r, 0, shutdown(r->c, SHUT_RDWR));
		pthread_join(th, NULL);
		TRY(r, 0, j.rc);
	}
	conn_close(r);
}

static void shutdown_rd_wakes(struct role *r)
{
	struct job j = { 0 };
	pthread_t th;

	conn_open(r);
	CLIENT(r) {
		j.fd = r->c;
		thread_start(r, &th, recv_one, &j);
		poll(NULL, 0, 20);
		TRY(r, 0, shutdown(r->c, SHUT_RD));
		pthread_join(th, NULL);
		TRY(r, 0, j.rc);
		TRY(r, 1, send(r->c, "x", 1, 0));
	}
	SERVER(r) {
		char c;

		TRY(r, 1, recv(r->s, &c, 1, 0));
	}
	conn_close(r);
}

#ifdef __SANITIZE_THREAD__
/* To close an fd that another thread sleeps on is the very point here. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:close_does_not_wake\nrace:close_under_reader\nrace:close_under_waiter\n"
	       "race:come_and_go\nrace:linger_by_sleeper\n"
	       /* ... and where the library calls libc's functions on such a number */
	       "race:io_kernel\nrace:by_kernel\nrace:plain_call\n";
}
#endif

/* A frame of its own, for what is said above: that of close()'s caller may be lost. */
static __attribute__((noinline)) int close_under_reader(int fd)
{
	return close(fd);
}

/* close does not wake a reader: it gets what comes, then the end. */
static void close_does_not_wake(struct role *r)
{
	struct job j = { 0 };
	pthread_t th;
	char c;

	conn_open(r);
	CLIENT(r) {
		j.fd = r->c;
		thread_start(r, &th, recv_one, &j);
		asleep_await(&j);
		TRY(r, 0, close_under_reader(r->c));
		meet(r);
		pthread_join(th, NULL);
		TRY(r, 1, j.rc);
	}
	SERVER(r) {
		quiet_check(r, r->s, POLLIN | POLLRDHUP);
		meet(r);
		TRY(r, 1, send(r->s, "x", 1, 0));
		TRY(r, 0, recv(r->s, &c, 1, 0));
		TRY(r, 0, close(r->s));
	}
}

/* The number of a sleeping reader becomes a file; it still gets what comes for the connection. */
static void dup2_under_reader(struct role *r)
{
	struct job j = { 0 };
	pthread_t th;
	int null;
	char c;

	conn_open(r);
	CLIENT(r) {
		null = (int)MUST(r, open("/dev/null", O_RDWR | O_CLOEXEC));
		j.fd = r->c;
		thread_start(r, &th, recv_one, &j);
		asleep_await(&j);
		CHECK(r, dup2(null, r->c) == r->c);
		TRY(r, -ENOTSOCK, recv(r->c, &c, 1, 0));
		TRY(r, 0, read(r->c, &c, 1));
		TRY(r, 3, write(r->c, "abc", 3));
		meet(r);
		pthread_join(th, NULL);
		TRY(r, 1, j.rc);
		TRY(r, 0, close(r->c));
		MUST(r, close(null));
	}
	SERVER(r) {
		meet(r);
		TRY(r, 1, send(r->s, "x", 1, 0));
		TRY(r, 0, recv(r->s, &c, 1, 0));
		TRY(r, 0, close(r->s));
	}
}

/* A new connection has the number of one that a reader still sleeps on. */
static void number_reused(struct role *r)
{
	struct job j = { 0 };
	int s2 = -1, c2 = -1, i;
	pthread_t th;
	char c;

	conn_open(r);
	CLIENT(r) {
		j.fd = r->c;
		thread_start(r, &th, recv_one, &j);
		asleep_await(&j);
		TRY(r, 0, close_under_reader(r->c));
	}
	conn_more(r, &s2, &c2);
	CLIENT(r)
		CHECK(r, c2 == r->c);
	for (i = 0; i < 200; i++) {
		CLIENT(r)
			MUST(r, send(c2, "p", 1, 0));
		SERVER(r)
			if (recv(s2, &c, 1, 0) != 1 || c != 'p' || send(s2, "q", 1, 0) != 1)
				give_up(r, "the new connection");
		CLIENT(r)
			if (recv(c2, &c, 1, 0) != 1 || c != 'q')
				give_up(r, "the new connection");
	}
	SERVER(r)
		TRY(r, 1, send(r->s, "x", 1, 0));
	CLIENT(r) {
		pthread_join(th, NULL);
		TRY(r, 1, j.rc);
		TRY(r, 0, close(c2));
	}
	SERVER(r) {
		TRY(r, 0, recv(r->s, &c, 1, 0));
		TRY(r, 0, close(r->s));
		TRY(r, 0, recv(s2, &c, 1, 0));
		TRY(r, 0, close(s2));
	}
}

static void *write_lots(void *arg)
{
	struct job *j = arg;
	char *buf = malloc(LOTS);

	memset(buf, 'w', LOTS);
	__atomic_store_n(&j->tid, gettid(), __ATOMIC_SEQ_CST);
	j->rc = write(j->fd, buf, LOTS);
	free(buf);
	return NULL;
}

static void *sendfile_lots(void *arg)
{
	struct job *j = arg;
	int in = memfd_create("lots", MFD_CLOEXEC);
	char buf[4096];

	memset(buf, 'w', sizeof(buf));
	for (int i = 0; i < LOTS / (int)sizeof(buf); i++)
		j->wrong += write(in, buf, sizeof(buf)) != sizeof(buf);
	lseek(in, 0, SEEK_SET);
	__atomic_store_n(&j->tid, gettid(), __ATOMIC_SEQ_CST);
	j->rc = sendfile(j->fd, in, NULL, LOTS);
	close(in);
	return NULL;
}

/* ... or that a writer of much sleeps on: what it has still to write is not for the new one. */
static void number_reused_by(struct role *r, void *(*writes)(void *))
{
	struct job j = { 0 };
	int s2 = -1, c2 = -1;
	char buf[4096];
	long wrong = 0;
	pthread_t th;
	ssize_t n;
	char c;

	conn_open(r);
	CLIENT(r) {
		j.fd = r->c;
		thread_start(r, &th, writes, &j);
		asleep_await(&j);
		TRY(r, 0, close_under_reader(r->c));
	}
	conn_more(r, &s2, &c2);
	CLIENT(r)
		CHECK(r, c2 == r->c);
	meet(r);
	SERVER(r) {
		while ((n = recv(r->s, buf, sizeof(buf), 0)) > 0)
			for (ssize_t i = 0; i < n; i++)
				wrong += buf[i] != 'w';
		TRY(r, 0, wrong);
		TRY(r, 0, n);
		TRY(r, 0, close(r->s));
		TRY(r, 1, send(s2, "q", 1, 0));
	}
	CLIENT(r) {
		TRY(r, 1, recv(c2, &c, 1, 0));
		TRY(r, 1, send(c2, "p", 1, 0));
	}
	SERVER(r) {
		TRY(r, 1, recv(s2, &c, 1, 0));
		CHECK(r, c == 'p');
		TRY(r, 0, close(s2));
	}
	CLIENT(r) {
		CHECK(r, pthread_join(th, NULL) == 0 && j.rc == LOTS && !j.wrong);
		TRY(r, 0, close(c2));
	}
}

static void number_reused_by_writer(struct role *r)
{
	number_reused_by(r, write_lots);
}

static void number_reused_by_sendfile(struct role *r)
{
	number_reused_by(r, sendfile_lots);
}

static void *accept_one(void *arg)
{
	struct job *j = arg;

	errno = 0;
	j->rc = accept(j->fd, NULL, NULL);
	j->err = errno;
	return NULL;
}

static void shutdown_wakes_accept(struct role *r)
{
	struct job j = { 0 };
	pthread_t th;

	listener_open(r);
	SERVER(r) {
		j.fd = r->listener;
		thread_start(r, &th, accept_one, &j);
		poll(NULL, 0, 20);
		TRY(r, 0, shutdown(r->listener, SHUT_RDWR));
		pthread_join(th, NULL);
		TRY(r, -1, j.rc);
		TRY(r, EINVAL, j.err);
	}
}

static void *write_much(void *arg)
{
	struct job *j = arg;
	static char buf[1 << 20];

	errno = 0;
	while ((j->rc = send(j->fd, buf, sizeof(buf), MSG_NOSIGNAL)) > 0)
		;
	j->err = errno;
	return NULL;
}

/* A writer asleep in a full connection is woken by a shutdown. */
static void shutdown_wakes_writer(struct role *r)
{
	struct job j = { 0 };
	pthread_t th;

	conn_open(r);
	CLIENT(r) {
		j.fd = r->c;
		thread_start(r, &th, write_much, &j);
		poll(NULL, 0, 50);
		TRY(r, 0, shutdown(r->c, SHUT_WR));
		pthread_join(th, NULL);
		TRY(r, -1, j.rc);
		TRY(r, EPIPE, j.err);
	}
	conn_close(r);
}

static void *poll_one(void *arg)
{
	struct job *j = arg;
	struct pollfd p = { .fd = j->fd, .events = POLLIN };

	j->rc = poll(&p, 1, 10000);
	j->err = p.revents;
	return NULL;
}

/* Several sleepers in poll: one piece of news wakes all. */
static void all_pollers_wake(struct role *r)
{
	struct job j[4] = { { 0 } };
	pthread_t th[4];
	char c;
	int i;

	conn_open(r);
	SERVER(r) {
		for (i = 0; i < 4; i++) {
			j[i].fd = r->s;
			thread_start(r, &th[i], poll_one, &j[i]);
		}
		meet(r);
		for (i = 0; i < 4; i++) {
			pthread_join(th[i], NULL);
			TRY(r, 1, j[i].rc);
			poll_show(r, "poller", POLLIN, (short)j[i].err);
		}
		TRY(r, 1, recv(r->s, &c, 1, 0));
	}
	CLIENT(r) {
		meet(r);
		poll(NULL, 0, 20);
		TRY(r, 1, send(r->c, "x", 1, 0));
	}
	conn_close(r);
}

static void *pingpong_main(void *arg)
{
	struct job *j = arg;
	uint64_t i, w;

	for (i = 0; i < 1000; i++) {
		if (j->first) {
			w = i;
			j->wrong += write(j->fd, &w, 8) != 8;
		}
		j->wrong += recv(j->fd, &w, 8, MSG_WAITALL) != 8 || w != i;
		if (!j->first)
			j->wrong += write(j->fd, &w, 8) != 8;
	}
	return NULL;
}

/* Eight connections, a thread each at both ends. */
static void eight_pairs(struct role *r)
{
	struct job mine[8] = { { 0 } };
	int s[8], c[8], i;
	long wrong = 0;
	pthread_t th[8];

	conn_open(r);
	for (i = 0; i < 8; i++)
		conn_more(r, &s[i], &c[i]);
	for (i = 0; i < 8; i++) {
		mine[i].fd = r->server ? s[i] : c[i];
		mine[i].first = r->client;
		thread_start(r, &th[i], pingpong_main, &mine[i]);
	}
	for (i = 0; i < 8; i++) {
		pthread_join(th[i], NULL);
		wrong += mine[i].wrong;
		MUST(r, close(mine[i].fd));
	}
	TRY(r, 0, wrong);
	conn_close(r);
}

/* One thread receives by a dup, another sends by the first number. */
static void dup_for_reader(struct role *r)
{
	struct job out = { 0 }, in = { 0 };
	pthread_t th;

	conn_open(r);
	out.fd = own_fd(r);
	in.fd = dup(out.fd);
	thread_start(r, &th, words_read, &in);
	words_write(&out);
	TRY(r, 0, shutdown(out.fd, SHUT_WR));
	pthread_join(th, NULL);
	TRY(r, 0, in.wrong + out.wrong);
	TRY(r, WORDS, in.count);
	TRY(r, 0, close(in.fd));
	conn_close(r);
}

enum { WRITERS = 4, RECORDS = 300, RECORD_MAX = 1000 };

/* Records of odd lengths, which say their length and are of one letter. */
static void *records_write(void *arg)
{
	struct job *j = arg;
	char buf[RECORD_MAX];
	uint64_t rng = j->first;
	int i;

	for (i = 0; i < RECORDS; i++) {
		uint16_t n = (uint16_t)(pattern_rand(&rng) % (RECORD_MAX - 3) + 3);

		memset(buf, 'a' + (int)j->first, n);
		memcpy(buf, &n, 2);
		j->wrong += i % 2 ? write(j->fd, buf, n) != n : send(j->fd, buf, n, 0) != n;
	}
	return NULL;
}

static long records_read(int fd, int count)
{
	char buf[RECORD_MAX];
	long wrong = 0;
	uint16_t n;
	int i;

	while (count-- > 0) {
		if (recv(fd, &n, 2, MSG_WAITALL) != 2 || n < 3 || n > RECORD_MAX ||
		    recv(fd, buf, (size_t)n - 2, MSG_WAITALL) != n - 2)
			return -1;
		for (i = 1; i < n - 2; i++)
			wrong += buf[i] != buf[0];
	}
	return wrong;
}

/*
 * Writers of odd records, which all fit a socket's buffers: none is torn,
 * neither while the reader reads nor when it comes later.
 */
static void many_writers(struct role *r)
{
	struct job j[WRITERS] = { { 0 } };
	pthread_t th[WRITERS];
	int later, i;

	conn_open(r);
	for (later = 0; later < 2; later++) {
		CLIENT(r) {
			for (i = 0; i < WRITERS; i++) {
				j[i] = (struct job){ .fd = r->c, .first = (uint64_t)i + 1 };
				thread_start(r, &th[i], records_write, &j[i]);
			}
			for (i = 0; i < WRITERS; i++) {
				pthread_join(th[i], NULL);
				TRY(r, 0, j[i].wrong);
			}
		}
		if (later)
			meet(r);
		SERVER(r)
			TRY(r, 0, records_read(r->s, WRITERS * RECORDS));
	}
	conn_close(r);
}

struct shared_number {
	int fd;			/* -1: none */
	int stop;
	unsigned long calls;
};

struct caller {
	struct shared_number *of;
	unsigned int seed;
	int inside;
};

/*
 * By syscall(), of whose numbers a race detector knows nothing: what the library
 * does about them is to be looked at.
 */
static void *calls_on_number(void *arg)
{
	struct caller *me = arg;
	struct shared_number *of = me->of;
	char buf[400] = { 0 };

	while (!__atomic_load_n(&of->stop, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&me->inside, 1, __ATOMIC_SEQ_CST);
		int fd = __atomic_load_n(&of->fd, __ATOMIC_SEQ_CST);
		int n = rand_r(&me->seed);
		if (fd >= 0 && n & 64)
			syscall(SYS_write, fd, buf, (size_t)n % sizeof(buf) + 1);
		else if (fd >= 0)
			syscall(SYS_read, fd, buf, sizeof(buf));
		__atomic_store_n(&me->inside, 0, __ATOMIC_SEQ_CST);
		if (fd >= 0)
			__atomic_add_fetch(&of->calls, 1, __ATOMIC_SEQ_CST);
		else
			sched_yield();
	}
	return NULL;
}

static void number_given(struct shared_number *of, struct caller *who, int callers, int fd,
			 unsigned long calls)
{
	unsigned long until = __atomic_load_n(&of->calls, __ATOMIC_SEQ_CST) + calls;

	__atomic_store_n(&of->fd, fd, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&of->calls, __ATOMIC_SEQ_CST) < until)
		sched_yield();		/* the callers may have no other CPU */
	syscall(SYS_close, fd);
	__atomic_store_n(&of->fd, -1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < callers; i++)	/* the number may be another's now */
		while (__atomic_load_n(&who[i].inside, __ATOMIC_SEQ_CST))
			sched_yield();
}

/* Connections are closed while other threads go into calls on them and come out. */
static void close_under_calls(struct role *r)
{
	struct shared_number of = { .fd = -1 };
	struct caller who[2] = { { &of, 1, 0 }, { &of, 2, 0 } };
	int s = -1, c = -1, i;
	char buf[4096] = { 0 };
	pthread_t th[2];

	signal(SIGPIPE, SIG_IGN);
	conn_open(r);
	CLIENT(r)
		for (i = 0; i < 2; i++)
			thread_start(r, &th[i], calls_on_number, &who[i]);
	for (i = 0; i < CLOSES; i++) {
		conn_more(r, &s, &c);
		SERVER(r) {
			send(s, buf, 300, MSG_NOSIGNAL);
			while (recv(s, buf, sizeof(buf), 0) > 0)
				;
			MUST(r, close(s));
		}
		CLIENT(r) {
			nonblock_set(r, c);
			number_given(&of, who, 2, c, 3 + (unsigned long)i % 5);
		}
	}
	CLIENT(r) {
		__atomic_store_n(&of.stop, 1, __ATOMIC_SEQ_CST);
		for (i = 0; i < 2; i++)
			TRY(r, 0, pthread_join(th[i], NULL));
	}
	conn_close(r);
}

/* ---- a number is taken away, or given, under calls that start on it ---- */

enum { COMINGS = 1000, HANDS = 100, COMER = 120, NUMBERED = 8 };

/* A thread uses its number as long as that is a connection's, and again when it is told to. */
struct comer {
	int fd, of;		/* the number, and the connection's other one */
	int null;
	sem_t there, used, away;
	int over;
	uint64_t n;		/* bytes so far */
	long wrong;
	int err;
};

static bool is_away(int err)
{
	return err == EBADF || err == ENOTSOCK;
}

static uint8_t comer_byte(uint64_t at)
{
	return (uint8_t)(at ^ at >> 8);
}

static ssize_t comer_send(struct comer *j)
{
	uint8_t b[NUMBERED];

	for (unsigned i = 0; i < NUMBERED; i++)
		b[i] = comer_byte(j->n + i);
	ssize_t k = send(j->fd, b, NUMBERED, MSG_NOSIGNAL);
	j->n += k > 0 ? (uint64_t)k : 0;
	return k;
}

static ssize_t comer_read(struct comer *j)
{
	uint8_t b[4096];
	ssize_t k = recv(j->fd, b, sizeof(b), MSG_DONTWAIT);

	for (ssize_t i = 0; i < k; i++)
		j->wrong += b[i] != comer_byte(j->n++);
	if (k < 0 && errno == EAGAIN) {
		sched_yield();
		return 1;
	}
	return k;
}

static void comer_run(struct comer *j, ssize_t (*step)(struct comer *j))
{
	ssize_t k = 1;

	while (k > 0) {
		sem_wait(&j->there);
		if (__atomic_load_n(&j->over, __ATOMIC_ACQUIRE))
			return;
		k = step(j);
		sem_post(&j->used);
		while (k > 0)
			k = step(j);
		if (k < 0 && is_away(errno))
			k = 1;
		j->err = k < 0 ? errno : 0;
		if (k <= 0)
			__atomic_store_n(&j->over, 1, __ATOMIC_RELEASE);
		sem_post(&j->away);
	}
}

static void *comer_sends(void *arg)
{
	comer_run(arg, comer_send);
	return NULL;
}

static void *comer_reads(void *arg)
{
	comer_run(arg, comer_read);
	return NULL;
}

/* It comes, is used, and goes while it is. */
static __attribute__((noinline)) void come_and_go(struct role *r, struct comer *j, int i)
{
	MUST(r, dup2(j->of, j->fd));
	sem_post(&j->there);
	sem_wait(&j->used);
	if (i % 2) {
		MUST(r, close(j->fd));
		sem_wait(&j->away);
	} else {
		MUST(r, dup2(j->null, j->fd));
		sem_wait(&j->away);
		MUST(r, close(j->fd));
	}
}

static void comer_end(struct comer *j, pthread_t th)
{
	__atomic_store_n(&j->over, 1, __ATOMIC_RELEASE);
	sem_post(&j->there);
	pthread_join(th, NULL);
	close(j->null);
}

static void comer_start(struct role *r, struct comer *j, pthread_t *th, void *(*run)(void *))
{
	j->null = (int)MUST(r, open("/dev/null", O_RDWR | O_CLOEXEC));
	j->fd = COMER;
	sem_init(&j->there, 0, 0);
	sem_init(&j->used, 0, 0);
	sem_init(&j->away, 0, 0);
	thread_start(r, th, run, j);
}

/* A call is for the connection, or for what its number is then; the stream stays whole. */
static void number_goes(struct role *r)
{
	struct comer out = { 0 }, in = { 0 };
	pthread_t writer, reader;

	conn_open(r);
	SERVER(r) {
		in.of = r->s;
		comer_start(r, &in, &reader, comer_reads);
	}
	CLIENT(r) {
		out.of = r->c;
		comer_start(r, &out, &writer, comer_sends);
		for (int i = 0; i < COMINGS && !out.over; i++)
			come_and_go(r, &out, i);
		comer_end(&out, writer);
		TRY(r, 0, out.err);
		MUST(r, shutdown(r->c, SHUT_WR));
		tell(r, (long)out.n);
	}
	SERVER(r) {
		for (int i = 0; !__atomic_load_n(&in.over, __ATOMIC_ACQUIRE); i++)
			come_and_go(r, &in, i);
		comer_end(&in, reader);
		TRY(r, 0, in.err);
		TRY(r, 0, in.wrong);
		CHECK(r, hear(r) == (long)in.n);
	}
	conn_close(r);
}

struct words {
	int fd;
	int over, err;
	uint64_t n;
};

static void *words_send(void *arg)
{
	struct words *j = arg;

	while (!__atomic_load_n(&j->over, __ATOMIC_ACQUIRE)) {
		uint64_t w = j->n;

		if (send(j->fd, &w, sizeof(w), 0) != sizeof(w)) {
			j->err = errno;
			break;
		}
		__atomic_store_n(&j->n, w + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* All that comes on fd: each is more than the last.  Return: how many. */
static long words_rise(struct role *r, int fd)
{
	uint64_t w, last = 0;
	long count = 0, wrong = 0;
	ssize_t k;

	while ((k = recv(fd, &w, sizeof(w), MSG_WAITALL)) == sizeof(w)) {
		wrong += count++ && w <= last;
		last = w;
	}
	TRY(r, 0, k);
	TRY(r, 0, wrong);
	return count;
}

/* A number is now one connection's, now another's; who writes to it always writes to one. */
static void number_changes_hands(struct role *r)
{
	struct words j = { .fd = COMER };
	int s2 = -1, c2 = -1;
	pthread_t th;

	conn_open(r);
	conn_more(r, &s2, &c2);
	CLIENT(r) {
		MUST(r, dup2(r->c, j.fd));
		thread_start(r, &th, words_send, &j);
		for (int i = 0; i < HANDS; i++) {
			uint64_t n = __atomic_load_n(&j.n, __ATOMIC_RELAXED);

			MUST(r, dup2(i % 2 ? r->c : c2, j.fd));
			for (int k = 0; k < 1000 && __atomic_load_n(&j.n, __ATOMIC_RELAXED) == n; k++)
				sched_yield();
		}
		__atomic_store_n(&j.over, 1, __ATOMIC_RELEASE);
		pthread_join(th, NULL);
		TRY(r, 0, j.err);
		MUST(r, close(j.fd));
		MUST(r, shutdown(r->c, SHUT_WR));
		MUST(r, close(c2));
		tell(r, (long)j.n);
	}
	SERVER(r) {
		struct job second = { .fd = s2 };
		pthread_t reader;

		thread_start(r, &reader, words_read, &second);
		long first = words_rise(r, r->s);
		pthread_join(reader, NULL);
		TRY(r, 0, second.wrong);
		CHECK(r, hear(r) == first + (long)second.count);
		MUST(r, close(s2));
	}
	conn_close(r);
}

const struct conf_case threads_cases[] = {
	{ "threads-two-writers", two_writers, TOGETHER },
	{ "threads-many-writers", many_writers, TOGETHER },
	{ "threads-two-readers", two_readers, TOGETHER },
	{ "threads-shutdown-wakes", shutdown_wakes, 0 },
	{ "threads-shutdown-rd-wakes", shutdown_rd_wakes, 0 },
	{ "threads-close-does-not-wake", close_does_not_wake, TOGETHER },
	{ "threads-dup2-under-reader", dup2_under_reader, TOGETHER },
	{ "threads-number-reused", number_reused, TOGETHER | PROCESS },
	{ "threads-number-reused-by-writer", number_reused_by_writer, TOGETHER | PROCESS },
	{ "threads-number-reused-by-sendfile", number_reused_by_sendfile, TOGETHER | PROCESS },
	{ "threads-close-under-calls", close_under_calls, TOGETHER | COLD },
	{ "threads-shutdown-wakes-accept", shutdown_wakes_accept, COLD },
	{ "threads-shutdown-wakes-writer", shutdown_wakes_writer, 0 },
	{ "threads-all-pollers-wake", all_pollers_wake, TOGETHER | WAIT_POLL },
	{ "threads-eight-pairs", eight_pairs, TOGETHER },
	{ "threads-dup-for-reader", dup_for_reader, TOGETHER },
	{ "threads-number-goes", number_goes, TOGETHER | PROCESS },
	{ "threads-number-changes-hands", number_changes_hands, TOGETHER | PROCESS },
	{ NULL, NULL, 0 }
};
