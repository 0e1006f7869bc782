/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * countverbs.so: what a program that is linked with libibverbs posts and polls
 *
 * Preloaded.  At exit a line "WRS DOORBELLS CQES" is appended to the file in
 * $COUNTVERBS.  (sidestep counts by itself, and libibverbs that is loaded with
 * dlopen() is not seen here.)  One driver only: its calls are replaced in the
 * table of the context.  A line "listens" says when an rsocket does: no table of the
 * kernel can be asked for it while the device works (`rdma resource show` has locked
 * up Linux 6.1 beside rxe).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

int rlisten(int socket, int backlog);

static int (*real_post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int (*real_poll_cq)(struct ibv_cq *cq, int num, struct ibv_wc *wc);
static atomic_ullong wrs, doorbells, cqes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	doorbells++;
	for (const struct ibv_send_wr *w = wr; w; w = w->next)
		wrs++;
	return real_post_send(qp, wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int num, struct ibv_wc *wc)
{
	int n = real_poll_cq(cq, num, wc);

	if (n > 0)
		cqes += (unsigned int)n;
	return n;
}

static void replace(struct ibv_context *ctx)
{
	pthread_mutex_lock(&lock);
	if (ctx->ops.post_send != post_send) {
		real_post_send = ctx->ops.post_send;
		real_poll_cq = ctx->ops.poll_cq;
		ctx->ops.post_send = post_send;
		ctx->ops.poll_cq = poll_cq;
	}
	pthread_mutex_unlock(&lock);
}

SHOWN struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
				   struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq *(*real)(struct ibv_context *c, int n, void *x, struct ibv_comp_channel *ch,
			       int v) = dlsym(RTLD_NEXT, "ibv_create_cq");

	replace(ctx);
	return real(ctx, cqe, cq_context, channel, comp_vector);
}

static void say(const char *line)
{
	const char *path = getenv("COUNTVERBS");
	size_t n = strlen(line);
	int fd;

	if (!path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, n) != (ssize_t)n)
		fprintf(stderr, "countverbs: cannot write %s\n", path);
	if (fd >= 0)
		close(fd);
}

SHOWN int rlisten(int socket, int backlog)
{
	int (*real)(int s, int n) = dlsym(RTLD_NEXT, "rlisten");
	int r = real(socket, backlog);

	if (!r)
		say("listens\n");
	return r;
}

__attribute__((destructor)) static void report(void)
{
	char line[80];

	if (!real_post_send)
		return;
	snprintf(line, sizeof(line), "%llu %llu %llu\n", (unsigned long long)wrs,
		 (unsigned long long)doorbells, (unsigned long long)cqes);
	say(line);
}
