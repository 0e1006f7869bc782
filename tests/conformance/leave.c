/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A process whose main thread leaves before others: it ends with its last
 * thread, whatever helpers a library has.
 *
 * The server's end is served by a child, so that its status can be told.
 */
#include "conform.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>

enum { BYTES = 150000, RAW_STATUS = 7 };

static struct role *served;
static pthread_t main_thread;
static int joined;

static void on_exit_say(void)
{
	NOTE(served, "handlers run, %s", joined ? "behind the worker" : "alone");
	if (served->t.failures)
		_exit(1);
}

static void reply(struct role *r)
{
	char byte;

	TRY(r, 1, recv(r->s, &byte, 1, 0));
	bulk_write(r, r->s, BYTES, SEED_SERVER);
}

/* The last thread; the main one is gone when it serves. */
static void *worker(void *arg)
{
	struct role *r = arg;

	TRY(r, 0, pthread_join(main_thread, NULL));
	joined = 1;
	reply(r);
	return NULL;
}

static void *canceler(void *arg)
{
	pthread_cancel(main_thread);
	return worker(arg);
}

static void worker_start(struct role *r, void *(*run)(void *))
{
	pthread_t th;

	main_thread = pthread_self();
	if (pthread_create(&th, NULL, run, r) != 0)
		give_up(r, "pthread_create");
}

static void ask(struct role *r)
{
	char byte;

	TRY(r, 1, send(r->c, "?", 1, 0));
	bulk_read(r, r->c, BYTES, SEED_SERVER);
	TRY(r, 0, read(r->c, &byte, 1));
	TRY(r, 0, close(r->c));
}

/* leave() does not come back, and ends the child when its last thread has ended. */
static void in_child(struct role *r, int want, void (*leave)(struct role *r))
{
	int status = -1;
	pid_t pid = 0;

	SERVER(r)
		pid = (pid_t)MUST(r, fork());
	if (pid) {
		CHECK(r, waitpid(pid, &status, 0) == pid);
		TRY(r, want, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
		return;
	}
	SERVER(r) {
		static struct role kept;

		kept = *r;		/* what lies in main()'s frames is gone when exit() runs over them */
		served = r = &kept;
		atexit(on_exit_say);
	}
	conn_open(r);
	SERVER(r)
		leave(r);
	ask(r);
}

static void leave_by_pthread(struct role *r)
{
	worker_start(r, worker);
	pthread_exit(NULL);
}

static void leave_by_thrd(struct role *r)
{
	worker_start(r, worker);
	thrd_exit(0);
}

static void leave_canceled(struct role *r)
{
	worker_start(r, canceler);
	for (;;)
		pause();
}

static void leave_last(struct role *r)
{
	reply(r);
	pthread_exit(NULL);
}

/* What a library had at work beside it ends before. */
static void leave_sandboxed(struct role *r)
{
	TRY(r, 0, unshare(CLONE_FS));
	leave_by_pthread(r);
}

static void leave_raw(struct role *r)
{
	worker_start(r, worker);
	syscall(SYS_exit, RAW_STATUS);
}

static void leave_raw_last(struct role *r)
{
	reply(r);
	syscall(SYS_exit, RAW_STATUS);
}

/* The worker takes its leave past libc, too. */
static void *raw_worker(void *arg)
{
	worker(arg);
	syscall(SYS_exit, RAW_STATUS);
	return NULL;
}

static void leave_raw_all(struct role *r)
{
	worker_start(r, raw_worker);
	syscall(SYS_exit, RAW_STATUS + 1);
}

__attribute__((unused)) static void main_exits(struct role *r)
{
	in_child(r, 0, leave_by_pthread);
}

__attribute__((unused)) static void main_thrd_exits(struct role *r)
{
	in_child(r, 0, leave_by_thrd);
}

__attribute__((unused)) static void main_canceled(struct role *r)
{
	in_child(r, 0, leave_canceled);
}

__attribute__((unused)) static void main_last(struct role *r)
{
	in_child(r, 0, leave_last);
}

__attribute__((unused)) static void main_sandboxed(struct role *r)
{
	in_child(r, 0, leave_sandboxed);
}

__attribute__((unused)) static void main_raw(struct role *r)
{
	in_child(r, 0, leave_raw);	/* the last to leave is the worker */
}

__attribute__((unused)) static void main_raw_last(struct role *r)
{
	in_child(r, RAW_STATUS, leave_raw_last);
}

__attribute__((unused)) static void all_raw(struct role *r)
{
	in_child(r, RAW_STATUS, leave_raw_all);
}

const struct conf_case leave_cases[] = {
#ifndef __SANITIZE_THREAD__	/* its run-time does not live through its main thread's end */
	{ "leave-main", main_exits, PROCESS },
	{ "leave-main-thrd", main_thrd_exits, PROCESS },
	{ "leave-main-canceled", main_canceled, PROCESS },
	{ "leave-main-last", main_last, PROCESS },
	{ "leave-main-sandboxed", main_sandboxed, PROCESS },
	{ "leave-main-raw", main_raw, PROCESS },
	{ "leave-main-raw-last", main_raw_last, PROCESS },
	{ "leave-all-raw", all_raw, PROCESS },
#endif
	{ NULL, NULL, 0 }
};
