/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_page.c - what a process shows is what it counts, also to a reader who
 * comes in the middle; and no page, however made, hurts the reader
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tools/stat/stat.h"
#include "base/privfd.h"

static bool none(int fd)
{
	return false;
}

/* A page of our own, empty. */
static void fresh(void)
{
	privfd_close_all(none);
	page_allow();
	counters_reset();
	page_allow();
	counters_get();
}

static void what_is_counted_is_shown(void **state)
{
	struct shown s;

	fresh();
	assert_non_null(page_mine);
	count(CNT_ring_tx_bytes, 5000000000ull);
	count_reason(REASON_FORK);
	assert_int_equal(find_one(&s, getpid(), true), 0);
	assert_false(s.other_layout);
	assert_int_equal(s.sum.v[CNT_ring_tx_bytes], 5000000000ull);
	assert_int_equal(s.sum.v[CNT_ring_rx_bytes], 0);
	assert_int_equal(s.sum.reason[REASON_FORK], 1);
	assert_int_equal(s.nconns, 0);
	assert_int_equal(s.pid, getpid());
	read_free(&s);
}

static void *count_a_little(void *arg)
{
	count(CNT_wr_posted, 3);
	pthread_barrier_wait(arg);
	return arg;
}

static void every_thread_is_shown(void **state)
{
	enum { THREADS = 300 };
	pthread_t t[THREADS];
	pthread_barrier_t all;
	struct shown s;

	fresh();
	pthread_barrier_init(&all, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count_a_little, &all), 0);
	pthread_barrier_wait(&all);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	pthread_barrier_destroy(&all);
	assert_int_equal(find_one(&s, getpid(), true), 0);
	assert_int_equal(s.sum.v[CNT_wr_posted], 3 * THREADS);
	assert_int_equal(s.blocks_lost, 0);
	read_free(&s);
}

/* What a child of a fork sees of itself; 0: right. */
static int child(bool announced)
{
	struct shown s;

	if (!announced)
		return find_one(&s, getpid(), true) == -ENOENT ? 0 : 1;
	privfd_close_all(none);
	counters_reset();
	count(CNT_doorbells, 7);
	if (find_one(&s, getpid(), true))
		return 2;
	if (s.sum.v[CNT_doorbells] != 7)
		return 3;
	return s.sum.v[CNT_wakes] ? 4 : 0;
}

static void a_child_shows_its_own(void **state)
{
	struct shown s;

	fresh();
	count(CNT_wakes, 1);
	for (int announced = 0; announced < 2; announced++) {
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(child(announced));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	assert_int_equal(find_one(&s, getpid(), true), 0);
	assert_int_equal(s.sum.v[CNT_doorbells], 0);
	assert_int_equal(s.sum.v[CNT_wakes], 1);
	read_free(&s);
}

static void without_a_file_the_page_is_memory(void **state)
{
	static const struct {
		int what;
		rlim_t to;
		bool memory;
	} limits[] = { { RLIMIT_FSIZE, 0, true }, { RLIMIT_NOFILE, 3, true }, { RLIMIT_AS, 1, false } };

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit old, low;
		struct counters sum;

		privfd_close_all(none);
		counters_reset();
		page_allow();
		assert_int_equal(getrlimit(limits[i].what, &old), 0);
		low = (struct rlimit){ limits[i].to, old.rlim_max };
		setrlimit(limits[i].what, &low);
		count(CNT_links, 2);
		setrlimit(limits[i].what, &old);
#ifndef __SANITIZE_ADDRESS__
		assert_int_equal(page_mine != NULL, limits[i].memory);
#endif
		assert_true(privfd_next(0) < 0);
		counters_sum(&sum);
		assert_int_equal(sum.v[CNT_links], 2);
	}
}

static void nobody_else_can_write_it(void **state)
{
	fresh();
	int fd = privfd_next(0);
	assert_true(fd >= 0);
	int seals = fcntl(fd, F_GET_SEALS);
	assert_true(seals & F_SEAL_SHRINK);
	assert_true(seals & F_SEAL_GROW);
	assert_true(seals & F_SEAL_SEAL);
	if (!(seals & 0x10))
		skip();
	assert_int_equal(write(fd, "x", 1), -1);
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
}

/* ------------------------------------------------------------ connections -- */

static struct page_conn *conn(uint32_t i)
{
	page_mine->head.conns = i + 1;
	return &page_mine->conns[i];
}

static void only_entries_in_use_are_shown(void **state)
{
	struct shown s;

	fresh();
	*conn(0) = (struct page_conn){ .gen = 1, .fd = 5, .why = REASON_OPTION, .lport = 80,
				       .rport = 9, .family = AF_INET, .flags = SHOW_ESTABLISHED };
	*conn(1) = (struct page_conn){ .gen = 2, .fd = 6 };
	*conn(2) = (struct page_conn){ .gen = 3, .fd = 7, .tx_path = PATH_RING,
				       .rx_path = PATH_RING, .flags = SHOW_ESTABLISHED };
	assert_int_equal(find_one(&s, getpid(), true), 0);
	assert_int_equal(s.nconns, 2);
	assert_string_equal(conn_path(&s.conns[0]), "tcp");
	assert_string_equal(conn_reason(&s.conns[0]), "option");
	assert_string_equal(conn_state(&s.conns[0]), "cold");
	assert_string_equal(conn_path(&s.conns[1]), "soft");
	assert_string_equal(conn_reason(&s.conns[1]), "none");
	assert_true(conn_wanted(&s.conns[0], &(struct filter){ .port = 9 }));
	assert_false(conn_wanted(&s.conns[0], &(struct filter){ .port = 8 }));
	assert_false(conn_wanted(&s.conns[0], &(struct filter){ .path = "soft" }));
	read_free(&s);
}

static int stop;

/* One entry, used for one connection after the other, each with a number all through. */
static void *reuse(void *arg)
{
	struct page_conn *e = arg;

	for (uint64_t n = 1; !ld_acq(&stop); n++) {
		st_rel(&e->gen, ld_rlx(&e->gen) + 1);
		fence_full();
		st_rlx(&e->at, n);
		st_rlx(&e->lport, (uint16_t)n);
		st_rlx(&e->rport, (uint16_t)n);
		st_rel(&e->gen, ld_rlx(&e->gen) + 1);
	}
	return NULL;
}

static void no_row_is_made_of_two_connections(void **state)
{
	pthread_t t;
	struct shown s;
	/* valgrind runs one thread at a time, for long */
	int rows = 0, reads = getenv("SIDESTEP_VALGRIND") ? 20 : 3000;

	fresh();
	*conn(0) = (struct page_conn){ .gen = 1, .family = AF_INET };
	st_rlx(&stop, 0);
	assert_int_equal(pthread_create(&t, NULL, reuse, conn(0)), 0);
	for (int i = 0; i < reads; i++) {
		assert_int_equal(find_one(&s, getpid(), true), 0);
		for (uint32_t j = 0; j < s.nconns; j++, rows++) {
			const struct page_conn *e = &s.conns[j].e;

			assert_int_equal(e->lport, (uint16_t)e->at);
			assert_int_equal(e->rport, (uint16_t)e->at);
		}
		read_free(&s);
	}
	st_rel(&stop, 1);
	pthread_join(t, NULL);
	print_message("%d rows\n", rows);
}

/* --------------------------------------------------------------- garbage -- */

static uint64_t x = 88172645463325252ull;

static uint64_t any(void)
{
	x ^= x << 13;
	x ^= x >> 7;
	return x ^= x << 17;
}

/* A page that lies: garbage behind a head that is right but for some of its words. */
static int liar(void)
{
	static struct page p;
	int fd = memfd_create(PAGE_NAME, MFD_CLOEXEC);
	size_t size = any() % 4 ? sizeof(p) : any() % sizeof(p);

	assert_true(fd >= 0);
	for (size_t i = any() % 4096; i + 8 < sizeof(p); i += 8 + any() % 512)
		memcpy((char *)&p + i, &(uint64_t){ any() >> (any() & 63) }, 8);
	p.head.magic = any() % 16 ? PAGE_MAGIC : any();
	p.head.layout = any() % 16 ? page_layout() : (uint32_t)any();
	p.head.pid = (uint32_t)getpid();
	assert_int_equal(write(fd, &p, size), size);
	return fd;
}

static void a_page_that_lies_hurts_nobody(void **state)
{
	const struct filter f = { .rows = true, .conns = true };
	int null = open("/dev/null", O_WRONLY), out = dup(1);

	privfd_close_all(none);
	counters_reset();
	fflush(stdout);
	dup2(null, 1);
	for (int i = 0; i < 60; i++) {
		struct shown *all = calloc(1, sizeof(*all));
		int fd = liar(), err;

		all->pid = getpid();
		err = read_page(all, &(struct source){ fd, 0 }, (uint32_t)getpid(), true);
		if (!err) {
			addr_fill(all, 1);
			text_show(all, 1, &f);
			json_show(all, 1, &f);
			prometheus_show(all, 1, &f);
			text_rates(stdout, all, 1, all, 1, 0.5, true, &f);
		}
		find_free(all, 1);
		close(fd);
	}
	fflush(stdout);
	dup2(out, 1);
	close(out);
	close(null);
}

static void an_impostor_does_not_hide_the_page(void **state)
{
	struct shown s;

	fresh();
	int fd = memfd_create(PAGE_NAME, MFD_CLOEXEC);	/* a lower number, so met first */
	count(CNT_wakes, 9);
	assert_int_equal(find_one(&s, getpid(), true), 0);
	assert_int_equal(s.sum.v[CNT_wakes], 9);
	read_free(&s);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_counted_is_shown),
		cmocka_unit_test(every_thread_is_shown),
		cmocka_unit_test(a_child_shows_its_own),
		cmocka_unit_test(without_a_file_the_page_is_memory),
		cmocka_unit_test(nobody_else_can_write_it),
		cmocka_unit_test(only_entries_in_use_are_shown),
		cmocka_unit_test(no_row_is_made_of_two_connections),
		cmocka_unit_test(a_page_that_lies_hurts_nobody),
		cmocka_unit_test(an_impostor_does_not_hide_the_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
