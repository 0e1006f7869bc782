/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The inner side: play one role, both by threads, or both in one thread. */
#include "conform.h"

#include <pthread.h>

struct player {
	const struct conf_case *c;
	struct role r;
};

static void role_init(struct role *r, const struct conf_case *c, bool ring, int nth)
{
	memset(r, 0, sizeof(*r));
	r->ring = ring;
	r->waiting = c->flags & (WAIT_POLL | WAIT_SELECT | WAIT_EPOLL);
	r->step = FD_STEP + nth;
	r->t.fd = FD_TRANSCRIPT + nth;
	r->listener = r->s = r->c = -1;
}

static void *player_main(void *arg)
{
	struct player *p = arg;

	p->c->run(&p->r);
	return NULL;
}

static int play_threads(struct player p[2])
{
	pthread_t th;

	if (pthread_create(&th, NULL, player_main, &p[0]) != 0)
		return 1;
	player_main(&p[1]);
	pthread_join(th, NULL);
	return p[0].r.t.failures || p[1].r.t.failures;
}

int play(const struct conf_case *c, bool ring, const char *who)
{
	struct player p[2] = { { .c = c }, { .c = c } };
	int nth;

	role_init(&p[0].r, c, ring, 0);
	role_init(&p[1].r, c, ring, 1);
	p[0].r.server = p[1].r.client = true;
	if (strcmp(who, "threads") == 0)
		return play_threads(p);
	nth = strcmp(who, "client") == 0;
	p[nth].r.alone = true;
	if (strcmp(who, "same") == 0) {
		p[0].r.client = true;
		p[0].r.alone = false;
		p[0].r.step = -1;
	}
	player_main(&p[nth]);
	return p[nth].r.t.failures != 0;
}
