/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proc.h - the processes that sidestep-bench starts
 *
 * Every process gets its arguments as a vector, its output in a file, and is
 * ended by its pid; it dies with the tool that started it.
 */
#ifndef BENCH_PROC_H
#define BENCH_PROC_H

#include <limits.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

struct spawn {
	char *const *argv;
	const char *out;	/* file for stdout */
	const char *err;	/* file for stderr */
	const char *stats_file;	/* SIDESTEP_STATS_FILE; NULL: no variable */
	const char *dir;	/* to work in; NULL: ours */
	bool count_calls;
	int core;		/* -1: any */
	uid_t uid;		/* 0: as we are */
	gid_t gid;
};

struct proc {
	pid_t pid;		/* 0: none */
	int status;		/* as of waitpid, once ended */
	bool ended;
	int calls_fd;		/* of callcount_open(), or -1 */
	/* once ended: of it and of the descendants that were waited for */
	struct rusage usage;
	double calls;		/* if they were to be counted */
};

/* From now on SIGINT, SIGTERM and SIGHUP end waits, so that everything is
 * ended and removed in the usual way. */
void proc_catch_signals(void);

/* Return: 0 or -errno. */
int proc_start(struct proc *p, const struct spawn *s);

/* Wait until p has ended, or other (may be NULL) has, or the time is over.
 * Return: 0 if p has, -ECHILD if only other has, -ETIMEDOUT, -EINTR if the
 * user wants to stop. */
int proc_wait(struct proc *p, struct proc *other, int timeout_ms);

bool proc_succeeded(const struct proc *p);

/* Send sig (0: none), wait, and after the time SIGKILL.
 * Return: 0 or -ETIMEDOUT if it had to be killed. */
int proc_end(struct proc *p, int sig, int timeout_ms);

/* Full path of a program: PATH, then where Debian keeps daemons.
 * Return: malloc'ed or NULL. */
char *proc_find(const char *name);

/* A port of 127.0.0.1 that nobody uses, or -errno. */
int proc_free_port(void);

/* Wait until somebody listens on it; looks at /proc, makes no connection.
 * Return: 0, -ECHILD if p has ended, -ETIMEDOUT. */
int proc_wait_listening(struct proc *p, int port, int timeout_ms);

/* Print the last lines of a file to stderr, indented. */
void proc_print_tail(const char *path);

/* The whole file as a string, malloc'ed, or NULL. */
char *proc_read_file(const char *path);

/* Remove a directory and what is in it; never follows a link. */
void proc_remove_tree(const char *dir);

#endif
