/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sim_world.c - the kernel's TCP connection and the links
 *
 * Close is the kernel's real one: with anything unread in the receive queue,
 * or a byte arriving after it, the answer is RST and the closer's own unsent
 * bytes are thrown away; what lies in the peer's receive queue stays readable.
 */
#include <string.h>
#include "sim.h"

size_t kernel_room(const struct end *e)
{
	struct kdir *k = &w.k[e->x];

	if (e->kerr)
		return 64;
	return w.sc.room > k->wr - k->rd ? w.sc.room - (k->wr - k->rd) : 0;
}

/* false: the socket is dead, the bytes go nowhere */
bool kernel_send(struct end *e, const struct byte *b, size_t n)
{
	struct kdir *k = &w.k[e->x];

	if (e->kerr)
		return false;
	if (k->fin) {
		/* with a rule taken out, only what the applications see counts */
		if (!proto_mutant)
			sim_fail("end %d writes to the kernel after its FIN", e->x);
		return false;
	}
	if (k->wr + n > KBYTES) {
		sim_fail("simulator: kernel direction too short");
		return false;
	}
	memcpy(k->b + k->wr, b, n * sizeof(*b));
	k->wr += n;
	return true;
}

size_t kernel_queued(const struct end *e)
{
	const struct kdir *k = &w.k[!e->x];

	return k->mv - k->rd;
}

size_t kernel_take(struct end *e, struct byte *b, size_t n)
{
	struct kdir *k = &w.k[!e->x];

	n = MIN(n, (size_t)(k->mv - k->rd));
	memcpy(b, k->b + k->rd, n * sizeof(*b));
	k->rd += n;
	return n;
}

bool kernel_at_fin(const struct end *e)
{
	const struct kdir *k = &w.k[!e->x];

	return k->mv == k->rd && k->fin_moved;
}

bool kernel_at_rst(const struct end *e)
{
	const struct kdir *k = &w.k[!e->x];

	return k->mv == k->rd && e->kerr && !k->fin_moved;
}

void kernel_shut_wr(struct end *e)
{
	if (!e->kerr)
		w.k[e->x].fin = true;
}

bool kernel_fin_acked(const struct end *e)
{
	return w.k[e->x].fin_moved || e->kerr;
}

static void kernel_rst(struct end *from, bool tcp)
{
	struct end *p = peer(from);

	w.k[from->x].wr = w.k[from->x].mv;
	w.k[from->x].fin = w.k[from->x].fin_moved;
	if (!p->open)
		return;
	p->kerr = true;
	p->kerr_tcp |= tcp;
	w.k[p->x].wr = w.k[p->x].mv;
	w.k[p->x].fin = w.k[p->x].fin_moved;
}

void kernel_close(struct end *e, bool linger)
{
	struct kdir *k = &w.k[e->x];

	sim_note("end %d closes its socket%s", e->x, linger ? " (linger)" : "");
	e->open = false;
	if (linger && !e->kerr) {	/* any suffix of what the kernel holds may be lost */
		unsigned int keep = sim_rnd(k->wr - k->rd + 1);

		k->wr = k->rd + keep;
		k->mv = MIN(k->mv, k->wr);
		k->mv = k->wr;
		kernel_rst(e, kernel_queued(e));
	} else if (kernel_queued(e)) {
		kernel_rst(e, true);
	} else if (!e->kerr) {
		k->fin = true;
	}
}

/* one step of end dir's bytes towards the other kernel */
bool kernel_move(int dir)
{
	struct kdir *k = &w.k[dir];
	struct end *to = &w.end[!dir];

	if (k->mv < k->wr) {
		if (!to->open) {
			sim_note("kernel: bytes of end %d meet a closed socket: RST", dir);
			kernel_rst(to, true);
			w.k[dir].wr = w.k[dir].mv;
			return true;
		}
		k->mv += 1 + sim_rnd(k->wr - k->mv);
		return true;
	}
	if (k->fin && !k->fin_moved && !w.end[dir].kerr) {
		k->fin_moved = true;
		return true;
	}
	return false;
}

/* ------------------------------------------------------------- links -- */

void link_post(unsigned int l, int from, struct msg m)
{
	struct queue *q = &w.link[l].q[from];

	if (w.link[l].dead)
		return;
	if (q->tail == QMSGS) {
		sim_fail("simulator: link queue too short");
		return;
	}
	q->m[q->tail++] = m;
}

void link_kill(unsigned int l)
{
	if (!w.link[l].dead)
		sim_note("link %u dies", l);
	w.link[l].dead = true;
}
