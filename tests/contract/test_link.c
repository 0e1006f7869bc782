/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * test_link.c - a link between two processes, over any device
 *
 * The child asks, the parent answers; messages flow both ways, and on a device
 * that shares no memory (far.h) streams of bytes through a slot's ring, too.
 * The child is forked before there is an engine.  It reports by exit status.
 *
 *	link [DEVICE [PATTERN]]			the cases, on one host
 *	link DEVICE listen|connect ADDRESS MB [stay]
 *						one end of a stream between two
 *
 * The latter exits with the number of what went wrong: 23 for a broken link, 66
 * for a message or a byte that was not the next.  Told to stay, it is there until
 * it is killed, however its link has ended.
 */
#define _GNU_SOURCE
#include "ends.h"
#include "../../tools/device/params.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/privfd.h"
#include "base/counters.h"
#include "base/fault.h"
#include "link/far.h"
#include "link/link.h"
#include "progress/wait.h"

#define SLOT		1		/* both ends take the first */
#define CREDIT_AT	64		/* in the slot's words, as in proto_shm.h */

static struct {
	struct link *l;
	bool asker;
	uint64_t got, answered, sent;	/* messages */
	uint64_t arrived, eaten;	/* bytes of the stream */
	uint64_t got_before;		/* messages, before the last of them */
	uint32_t room, dead, wrong, writes_done, writes_done_of[2];
	uint32_t posts_more;		/* of slot 2, where the next write is done */
	uint16_t slots;			/* many: those whose byte has come are marked */
	bool got_of[FAR_SLOTS + 1];
} me;

static const struct link_user user;

/* PING n must be the n-th; every hundredth is answered. */
static void on_msg(struct link *l, void *owner, const struct wire_msg *m)
{
	if (ld_acq(&me.dead))
		add_rlx(&me.wrong, 1);
	if (m->type == WIRE_PONG) {
		st_rel(&me.answered, m->a);
		return;
	}
	if (m->type != WIRE_PING || m->a != me.got + 1 || m->payload[103] != (uint8_t)m->a)
		add_rlx(&me.wrong, 1);
	st_rel(&me.got, m->a);
	if (m->a % 100 == 0)
		link_send(l, &(struct wire_msg){ .type = WIRE_PONG, .a = m->a });
}

static void on_data(struct link *l, void *owner)
{
	add_rlx(&me.wrong, 1);
}

/* All 16 bits go along. */
static uint16_t note_of(uint64_t len)
{
	return (uint16_t)(0xbeef ^ len);
}

static void on_arrived(struct link *l, void *owner, uint32_t len, uint16_t note)
{
	if (note != note_of(len))
		add_rlx(&me.wrong, 1);
	if (owner != &me) {
		bool *of = owner;
		uint16_t slot = (uint16_t)(of - me.got_of);

		if (len != 1 || *of || link_ring(l, slot)[slot % 4096] != (uint8_t)slot)
			add_rlx(&me.wrong, 1);
		*of = true;
	}
	me.got_before = me.got;
	st_rel(&me.arrived, me.arrived + len);
}

static void on_sent(struct link *l, void *owner)
{
	me.writes_done_of[owner != &me]++;
	for (; me.posts_more; me.posts_more--)
		if (link_write(l, SLOT + 1, 0, 1, note_of(1), true))
			add_rlx(&me.wrong, 1);
	add_acqrel(&me.writes_done, 1);
}

static void on_room(struct link *l)
{
	add_acqrel(&me.room, 1);
}

static void on_dead(struct link *l)
{
	add_acqrel(&me.dead, 1);
}

static bool on_ended(struct link *l)
{
	return true;
}

static const struct link_user user = {
	.msg = on_msg,
	.data = on_data,
	.arrived = on_arrived,
	.sent = on_sent,
	.room = on_room,
	.dead = on_dead,
	.ended = on_ended,
};

/* Until cond is true or the link dead; the background thread takes completions as well. */
#define wait_for(cond) ({ \
	uint64_t _until = clock_ns() + BOUND_MS * NS_PER_MS; \
	while (!(cond) && !ld_acq(&me.dead) && clock_ns() < _until) { \
		engine_poll(); \
		sched_yield(); \
	} \
	(cond); })

/* ------------------------------------------------------------ meeting -- */

static struct join rdma;		/* where the device wants rdma_cm */

static int hello_make(struct link *l, struct link_hello *h, struct rnic_params *p)
{
	uint8_t rnic[RNIC_CM_BYTES];

	if (!engine.here->rnic->cm_only)
		return link_export(l, h, p);
	int err = link_export_cm(l, h, rnic);
	return err ? err : join_export(&rdma, engine.here->rnic->ops, l->qp, &l->slab, p);
}

static bool hello_send(int sock, struct link *l)
{
	struct link_hello h;
	struct rnic_params p;

	if (hello_make(l, &h, &p))
		return false;
	return send(sock, &h, sizeof(h), MSG_NOSIGNAL) == sizeof(h) && params_send(sock, &p);
}

/* The background thread does it, which may find the link dead at once, and frees it. */
static struct {
	struct bg_work work;
	struct link *l;
	struct link_hello h;
	struct rnic_params p;
	int sock, err;
	bool done;
} join;

static void join_work(struct bg_work *w)
{
	join.err = link_connect(join.l, &join.h, &join.p, privfd_dup(join.sock));
	st_rel(&join.done, true);	/* pairs with hello_take() */
}

/* Who answers connects before he is asked, so that what comes then finds him ready. */
static bool rdma_ask(struct link *l)
{
	int err = join_open(&rdma);

	if (!err && l->asker)
		err = join_ask(&rdma, &join.p, l->qp->qp_num);
	if (!err && l->asker)
		err = join_wait(&rdma);
	join.p = join_params(&rdma, &join.p);
	return !err;
}

static bool rdma_answer(struct link *l)
{
	return !engine.here->rnic->cm_only || !join_answer(&rdma, l->qp->qp_num);
}

static bool hello_take(int sock, struct link *l)
{
	join.l = l;
	join.sock = sock;
	join.work.fn = join_work;
	if (recv(sock, &join.h, sizeof(join.h), MSG_WAITALL) != sizeof(join.h) ||
	    !params_recv(sock, &join.p))
		return false;
	if (engine.here->rnic->cm_only && !rdma_ask(l))
		return false;
	bg_queue(&join.work);
	while (!ld_acq(&join.done))
		sched_yield();
	return !join.err;
}

static bool begin(bool asker)
{
	me.asker = asker;
	config.ring_bytes = 65536;
	config.rnic.choice = contract_device == &rnic_soft_ops ? RNIC_SOFT : RNIC_VERBS;
	link_set_user(&user);
	return !bg_start() && !engine_start(&link_sink) && (me.l = link_new(engine.here, asker));
}

/*
 * Both ends take slots in the same order, so what one has to offer is what the
 * other has.  Return: 0, or -errno.
 */
static int slot_take_for(void *owner, uint16_t slot)
{
	struct wire_bind b = { .slot = slot };
	int err = link_slot_room(me.l);

	if (err)
		return err;
	lock_take(&engine.poll_lock);
	err = link_slot_take(me.l, owner) == slot ? 0 : -ENOSPC;
	if (!err)
		link_slot_offer(me.l, slot, &b);
	lock_drop(&engine.poll_lock);
	if (!err)
		err = link_source_room(me.l, &b);
	if (err)
		return err;
	for (uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;; engine_poll()) {
		lock_take(&engine.poll_lock);
		err = link_slot_peer(me.l, slot, &b);
		lock_drop(&engine.poll_lock);
		/* the peer has not come so far */
		if (err != -EPROTO || clock_ns() > until)
			return err;
	}
}

static bool slot_take(void)
{
	return slot_take_for(&me, SLOT) == 0;
}

/* The asker's end is the last to connect: what it sends finds the other's, and its slot. */
static bool meet(int sock, bool asker)
{
	if (!begin(asker))
		return false;
	if (asker)
		return hello_send(sock, me.l) && hello_take(sock, me.l) && slot_take();
	return hello_take(sock, me.l) && slot_take() && hello_send(sock, me.l) &&
	       rdma_answer(me.l);
}

/* Who has accepted, on iWARP, sends nothing before the other is ready. */
static bool in_turn(int talk, bool asker)
{
	char c;

	if (!engine.here->rnic->cm_only)
		return true;
	return asker ? send(talk, "", 1, MSG_NOSIGNAL) == 1 : recv(talk, &c, 1, 0) == 1;
}

/* One socket for the meeting, on which nothing may be said later, one for the test. */
static pid_t child_of(int (*body)(int), int *sock)
{
	int meeting[2], talk[2];
	pid_t pid;
	bool met;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, meeting), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(meeting[0]);
		close(talk[0]);
		met = meet(meeting[1], true) && in_turn(talk[1], true);
		close(meeting[1]);
		_exit(met ? body(talk[1]) : 10);
	}
	close(meeting[1]);
	close(talk[1]);
	assert_true(meet(meeting[0], false) && in_turn(talk[0], false));
	close(meeting[0]);
	*sock = talk[0];
	return pid;
}

/* Links, engine and thread go with the process: each case has one of its own. */
static void in_a_process(int (*body)(void))
{
	int status = -1;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* -------------------------------------------------------------- birth -- */

static int asker_late(int sock)
{
	if (!begin(true) || !hello_send(sock, me.l))
		return 10;
	if (!wait_for(contract_device->qp_broken(me.l->qp)))
		return 11;
	if (!hello_take(sock, me.l))
		return 12;
	return wait_for(ld_acq(&me.dead)) ? 0 : 14;
}

static int owner_quick(void)
{
	int sock[2], status = -1;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return 1;
	pid = fork();
	if (!pid) {
		close(sock[0]);
		_exit(asker_late(sock[1]));
	}
	close(sock[1]);
	if (pid < 0 || !begin(false) || !hello_take(sock[0], me.l) || !hello_send(sock[0], me.l))
		return 2;
	link_kill(me.l);
	/* an exit status by itself is above the low byte, which is all that ours has */
	return waitpid(pid, &status, 0) == pid ? (WIFEXITED(status) ? WEXITSTATUS(status) : 4) : 3;
}

/* Where that was a failure to connect, it was taken for a want of memory. */
static void link_dies_before_it_is_up_here(void **state)
{
	if (!contract_shared())
		skip();		/* there the first post says so */
	in_a_process(owner_quick);
}

static bool ran;

static void note_ran(struct bg_work *w)
{
	st_rel(&ran, true);
}

/* The device says that the QP is broken, which the kernel connects on iWARP before we hear of it. */
static int lost_early(void)
{
	static struct bg_work next = { .fn = note_ran };

	if (!begin(true))
		return 1;
	lock_take(&engine.poll_lock);
	link_sink.lost(me.l, engine.here);
	lock_drop(&engine.poll_lock);
	bg_queue(&next);
	if (!wait_for(ld_acq(&ran)))
		return 2;
	link_discard(me.l);
	return 0;
}

static void a_broken_queue_pair_before_the_link_is_up(void **state)
{
	in_a_process(lost_early);
}

/* ----------------------------------------------------------- messages -- */

#define MESSAGES	5000u

static bool messages_send(void)
{
	for (uint64_t n = 1; n <= MESSAGES; n++) {
		struct wire_msg m = { .type = WIRE_PING, .a = n };

		m.payload[103] = (uint8_t)n;
		link_send(me.l, &m);
		/* far more than receives are posted, less than the backlog holds */
		if (!wait_for(n - ld_acq(&me.answered) < 3000))
			return false;
	}
	return true;
}

static bool messages_done(void)
{
	bool done = wait_for(ld_acq(&me.got) == MESSAGES && ld_acq(&me.answered) == MESSAGES) &&
		    !ld_acq(&me.wrong) && !ld_acq(&me.dead);

	if (!done)
		printf("# %s: got %llu, answered %llu, wrong %u, dead %u\n", me.asker ? "asker" : "asked",
		       (unsigned long long)me.got, (unsigned long long)me.answered, me.wrong, me.dead);
	return done;
}

/* What the library does in a child, and a link of the child's own; the parent's
 * objects are there and are not touched. */
static int kin(void)
{
	engine_forget();
	wait_forget();
	bg_forget();
	link_forget_all();
	privfd_close_all(NULL);
	if (bg_start() || engine_start(&link_sink))
		return 1;
	struct link *l = link_new(engine.here, true);
	if (!l)
		return 2;
	link_discard(l);
	return 0;
}

static bool kin_hurts_nobody(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(kin());
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static int child_messages(int sock)
{
	char c;

	if (!kin_hurts_nobody())
		return 13;
	if (!messages_send() || !messages_done())
		return 11;
	return recv(sock, &c, 1, 0) == 1 ? 0 : 12;
}

static int both_send_messages(void)
{
	int sock, status;
	pid_t pid = child_of(child_messages, &sock);

	if (!messages_send() || !messages_done())
		return 1;
	if (send(sock, "", 1, 0) != 1 || waitpid(pid, &status, 0) != pid || status)
		return 2;
	/* its Unix socket is closed: the link dies, once, after all was handed out */
	return wait_for(ld_acq(&me.dead)) && ld_acq(&me.dead) == 1 && !ld_acq(&me.wrong) ? 0 : 3;
}

static void messages_both_ways_then_death(void **state)
{
	in_a_process(both_send_messages);
}

/* ------------------------------------------------------------- stream -- */

static uint64_t stream_bytes = 3u << 20;

static uint8_t byte_of(uint64_t at)
{
	return (uint8_t)(at * 2654435761u >> 13);
}

static uint64_t consumed(void)
{
	/* pairs with the device: the peer has read what it counts */
	return ld_acq((uint64_t *)(void *)((uint8_t *)link_slot_words(me.l, SLOT) + CREDIT_AT));
}

/* One piece, short ones mostly.  Return: 0, or -errno of link_write(). */
static int piece_send(unsigned int *seed)
{
	uint64_t size = me.l->peer_ring_bytes, at = me.sent % size;
	uint64_t room = size - (me.sent - consumed());
	uint64_t len = rand_r(seed) % 4 ? 1 + (uint64_t)rand_r(seed) % 40 :
					  1 + (uint64_t)rand_r(seed) % 20000;

	room = MIN(room, stream_bytes - me.sent);
	room = MIN(room, size - at);
	len = MIN(len, room);
	if (!len)
		return -EAGAIN;
	for (uint64_t i = 0; i < len; i++)
		link_source_ring(me.l, SLOT)[at + i] = byte_of(me.sent + i);
	int err = link_write(me.l, SLOT, at, (uint32_t)len, note_of(len), len % 3 == 0);
	me.sent += err ? 0 : len;
	return err;
}

static int stream_send(void)
{
	unsigned int seed = 3;
	uint64_t until = clock_ns() + 3 * BOUND_MS * NS_PER_MS;

	while (me.sent < stream_bytes) {
		uint32_t room = ld_acq(&me.room);
		int err = piece_send(&seed);

		/* refused for want of receives: user->room() says when */
		if (err == -ENOMEM && !wait_for(ld_acq(&me.room) != room))
			return 21;
		if ((err && err != -ENOMEM && err != -EAGAIN) || clock_ns() > until)
			return err == -EIO ? 23 : 22;
		if (err)
			engine_poll();
	}
	return 0;
}

/* Return: false when a byte is wrong. */
static bool stream_eat(void)
{
	uint64_t P = ld_acq(&me.arrived), size = me.l->ring_bytes;

	for (; me.eaten < P; me.eaten++)
		if (link_ring(me.l, SLOT)[me.eaten % size] != byte_of(me.eaten)) {
			add_rlx(&me.wrong, 1);
			return false;
		}
	return true;
}

static bool stream_take(uint64_t limit)
{
	uint64_t told = 0;

	while (me.eaten < limit) {
		if (!wait_for(ld_acq(&me.arrived) != me.eaten) || !stream_eat())
			return false;
		if (me.eaten - told < me.l->ring_bytes / 4 && me.eaten < limit)
			continue;
		told = me.eaten;
		if (link_put_word(me.l, SLOT, CREDIT_AT, told))
			return false;
	}
	return true;
}

/* The receiver takes nothing until the sender has run out of receives. */
static int child_stream(int sock)
{
	unsigned int seed = 5;
	int err = 0;
	char c;

	while (me.sent < me.l->peer_ring_bytes / 2 && !(err = piece_send(&seed)))
		;
	while (!err) {
		uint64_t at = me.sent % me.l->peer_ring_bytes;

		link_source_ring(me.l, SLOT)[at] = byte_of(me.sent);
		err = link_write(me.l, SLOT, at, 1, note_of(1), false);
		me.sent += !err;
	}
	if (err != -ENOMEM)
		return 24;
	/* control messages still pass, or are kept */
	link_send(me.l, &(struct wire_msg){ .type = WIRE_PING, .a = 1, .payload[103] = 1 });
	if (send(sock, "", 1, 0) != 1 || !wait_for(ld_acq(&me.room)))
		return 25;
	err = stream_send();
	if (err)
		return err;
	if (!wait_for(consumed() == stream_bytes) || ld_acq(&me.wrong))
		return 26;
	return recv(sock, &c, 1, 0) == 1 ? 0 : 27;
}

static int stream_whole(void)
{
	int sock, status;
	char c;

	pid_t pid = child_of(child_stream, &sock);
	lock_take(&engine.poll_lock);
	bool starved = recv(sock, &c, 1, 0) == 1;
	lock_drop(&engine.poll_lock);
	if (!starved)
		return 1;
	if (!stream_take(stream_bytes))
		return 2;
	if (!wait_for(ld_acq(&me.got) == 1))
		return 3;
	if (send(sock, "", 1, 0) != 1 || waitpid(pid, &status, 0) != pid || status)
		return 4;
	return wait_for(ld_acq(&me.dead)) && ld_acq(&me.dead) == 1 && !ld_acq(&me.wrong) ? 0 : 5;
}

static void a_stream_without_overrun(void **state)
{
	if (contract_shared())
		skip();
	in_a_process(stream_whole);
}

static int child_stream_killed(int sock)
{
	return stream_send();
}

/* Whatever arrived before the end is right and is handed out; then dead(), once. */
static int stream_cut(void)
{
	int sock, status;
	pid_t pid = child_of(child_stream_killed, &sock);

	if (!stream_take(stream_bytes / 4))
		return 1;
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		return 2;
	if (!wait_for(ld_acq(&me.dead)) || ld_acq(&me.dead) != 1 || ld_acq(&me.wrong))
		return 3;
	uint64_t arrived = ld_acq(&me.arrived);
	if (!stream_eat() || me.eaten != arrived)
		return 4;
	/* nothing goes out any more, and says so */
	return link_put_word(me.l, SLOT, CREDIT_AT, 1) == -EIO &&
	       link_write(me.l, SLOT, 0, 1, 0, false) == -EIO ? 0 : 5;
}

static void a_killed_sender(void **state)
{
	if (contract_shared())
		skip();
	for (int i = 0; i < 5; i++)
		in_a_process(stream_cut);
}

/* A message that the device had no room for, and a byte behind it. */
static int child_kept(int sock)
{
	char c;

	lock_take(&engine.poll_lock);		/* or the background thread sends it first */
	config.fault.fail_mr = 1;		/* as fault_arm(), of what this lock guards */
	fault_device_armed = 1;
	link_send(me.l, &(struct wire_msg){ .type = WIRE_PING, .a = 1, .payload[103] = 1 });
	link_source_ring(me.l, SLOT)[0] = byte_of(0);
	int err = link_write(me.l, SLOT, 0, 1, note_of(1), false);
	lock_drop(&engine.poll_lock);
	return err ? 91 : recv(sock, &c, 1, 0) == 1 ? 0 : 92;
}

static int kept(void)
{
	int sock, status;
	pid_t pid = child_of(child_kept, &sock);

	if (!wait_for(ld_acq(&me.arrived) == 1) || me.got_before != 1 || ld_acq(&me.wrong))
		return 93;
	return send(sock, "", 1, 0) == 1 && waitpid(pid, &status, 0) == pid && !status ? 0 : 94;
}

/* SWITCH, WINDOW: what is written next is not to be there before them. */
static void bytes_do_not_overtake_a_message(void **state)
{
	if (contract_shared())
		skip();
	in_a_process(kept);
}

/* --------------------------------------------------------- many slots -- */

static uint64_t registrations(void)
{
	struct counters sum;

	counters_sum(&sum);
	return sum.v[CNT_mr_registrations];
}

/* Return: 0 or what slot_take_for() said of the first that could not be had. */
static int slots_take(void)
{
	int err = 0;

	me.slots = SLOT;
	while (me.slots < FAR_SLOTS &&
	       !(err = slot_take_for(&me.got_of[me.slots + 1], (uint16_t)(me.slots + 1))))
		me.slots++;
	return err;
}

/* A byte to each slot, at a place of its own. */
static int child_many(int sock)
{
	int err = slots_take();
	char c;

	if (err != (config.fault.far > 1 ? -ENOMEM : 0))
		return 31;
	if (recv(sock, &c, 1, 0) != 1)		/* the peer has its slots */
		return 32;
	for (uint16_t slot = SLOT + 1; slot <= me.slots; slot++) {
		uint32_t room = ld_acq(&me.room);

		link_source_ring(me.l, slot)[slot % 4096] = (uint8_t)slot;
		err = link_write(me.l, slot, slot % 4096, 1, note_of(1), true);
		if (err == -ENOMEM && !wait_for(ld_acq(&me.room) != room))
			return 33;
		slot -= err == -ENOMEM;
	}
	if (!wait_for(ld_acq(&me.writes_done) == me.slots - 1u))
		return 34;
	return recv(sock, &c, 1, 0) == 1 ? 0 : 35;
}

static int many(void)
{
	uint64_t before = registrations();
	int sock, status;
	pid_t pid = child_of(child_many, &sock);
	int err = slots_take();

	if (err != (config.fault.far > 1 ? -ENOMEM : 0))
		return 41;
	if (registrations() - before > 20 || send(sock, "", 1, 0) != 1)
		return 42;
	if (!wait_for(ld_acq(&me.arrived) == me.slots - 1u) || ld_acq(&me.wrong))
		return 43;
	if (send(sock, "", 1, 0) != 1 || waitpid(pid, &status, 0) != pid || status)
		return 44;
	return me.slots < FAR_SLOTS && !config.fault.far ? 45 : 0;
}

/* An immediate has 16 bits for them; the first conns have larger rings than the last. */
static void a_thousand_slots_on_one_link(void **state)
{
	if (contract_shared())
		skip();
	in_a_process(many);
}

static int many_in_2_mb(void)
{
	config.fault.far = 2048;
	int err = many();

	/* the first eight of 64 KiB take half of it */
	return err ? err : me.slots > 20 && me.slots < FAR_SLOTS ? 0 : 46;
}

static void slots_end_where_memory_does(void **state)
{
	if (contract_device != &rnic_soft_ops || contract_shared())
		skip();
	in_a_process(many_in_2_mb);
}

/*
 * As many as fit the queue are under way and done, and are taken: there is room
 * again while it is still to be said whose they were.
 */
static int child_full(int sock)
{
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;
	uint32_t n = 0;
	char c;

	if (slot_take_for(&me.got_of[2], 2))
		return 101;
	lock_take(&engine.poll_lock);
	while (n < LINK_RECVS && clock_ns() < until)
		n += !link_write(me.l, SLOT, 0, 1, note_of(1), true);
	/* the peer has receives for what is posted then: only the queue is in its way */
	while (!far_room(me.l, FAR_RESERVE + 32) && clock_ns() < until)
		sched_yield();
	me.posts_more = 32;
	lock_drop(&engine.poll_lock);
	if (!wait_for(ld_acq(&me.writes_done) == LINK_RECVS + 32))
		return 102;
	if (me.writes_done_of[0] != LINK_RECVS || me.writes_done_of[1] != 32 || ld_rlx(&me.wrong))
		return 103;
	return recv(sock, &c, 1, 0) == 1 ? 0 : 104;
}

static int full(void)
{
	int sock, status;
	pid_t pid = child_of(child_full, &sock);

	if (slot_take_for(&me, 2) || !wait_for(ld_acq(&me.arrived) == LINK_RECVS + 32))
		return 105;
	return send(sock, "", 1, 0) == 1 && waitpid(pid, &status, 0) == pid && !status ? 0 : 106;
}

static void whose_write_is_done_when_the_queue_is_full(void **state)
{
	if (contract_shared())
		skip();
	in_a_process(full);
}

/* A part, or a ring in it, that cannot be, and the link is given up. */
static int child_lies(int sock)
{
	struct far *f = me.l->far;
	struct wire_msg m = { .type = WIRE_PART, .a = f->rx.end + AREA_PAGE, .b = AREA_PAGE };

	link_send(me.l, &m);
	return wait_for(ld_acq(&me.dead)) ? 0 : 51;
}

static int lies(void)
{
	int sock, status;
	pid_t pid = child_of(child_lies, &sock);
	struct wire_bind b = { .slot = SLOT, .ring_log2 = 12 };

	for (int i = 0; i < 4; i++) {
		b.ring_off = (uint64_t[]){ me.l->far->peer_end - 4095, 1ull << 40, UINT64_MAX, 0 }[i];
		b.ring_log2 = i < 3 ? 12 : (uint8_t[]){ 11, 40, 19 }[i % 3];
		lock_take(&engine.poll_lock);
		int err = link_slot_peer(me.l, SLOT, &b);
		lock_drop(&engine.poll_lock);
		if (err != -EPROTO)
			return 52;
	}
	if (!wait_for(ld_acq(&me.dead)))
		return 53;
	return waitpid(pid, &status, 0) == pid && !status ? 0 : 54;
}

static void a_peer_that_lies_of_its_memory(void **state)
{
	if (contract_shared())
		skip();
	in_a_process(lies);
}

/* ------------------------------------------------------- larger rings -- */

#define LARGER	131072u

static struct link_place {
	uint64_t off, bytes;
} next_of(uint16_t slot)
{
	struct link_place p;

	lock_take(&engine.poll_lock);
	p.off = link_ring_next(me.l, slot, &p.bytes);
	lock_drop(&engine.poll_lock);
	return p;
}

/* Both ends find memory in the same order, so the peer's second ring is where ours is. */
static int second_ring(void)
{
	int err = link_ring_more(me.l, SLOT, &me, true, LARGER);

	if (!err)
		err = link_ring_more(me.l, SLOT, &me, false, LARGER);
	return err;
}

static int peer_next(uint64_t off, uint64_t bytes)
{
	lock_take(&engine.poll_lock);
	int err = link_peer_ring_next(me.l, SLOT, off, bytes);
	lock_drop(&engine.poll_lock);
	return err;
}

static bool move(bool ours)
{
	lock_take(&engine.poll_lock);
	bool moved = link_ring_move(me.l, SLOT, ours);
	lock_drop(&engine.poll_lock);
	return moved;
}

/* One byte through the old ring, one through the new one. */
static int child_larger(int sock)
{
	char c;

	if (second_ring())
		return 61;
	struct link_place p = next_of(SLOT);
	if (recv(sock, &c, 1, 0) != 1 || peer_next(p.off, p.bytes / 2) != -EPROTO ||
	    peer_next(1ull << 50, p.bytes) != -EPROTO || peer_next(p.off, p.bytes))
		return 62;
	link_source_ring(me.l, SLOT)[5] = 1;
	if (link_write(me.l, SLOT, 5, 1, note_of(1), false) || !move(false) || move(false))
		return 63;
	/* what is on its way has its own memory until it is no longer */
	link_source_ring(me.l, SLOT)[LARGER - 1] = 2;
	if (link_write(me.l, SLOT, LARGER - 1, 1, note_of(1), true) || !wait_for(ld_acq(&me.writes_done) == 1))
		return 64;
	lock_take(&engine.poll_lock);
	link_ring_last_free(me.l, SLOT);
	lock_drop(&engine.poll_lock);
	/* and once more, but the peer has none */
	if (link_ring_more(me.l, SLOT, &me, false, LARGER) || peer_next(0, 0) != -ENOMEM || move(false))
		return 65;
	return recv(sock, &c, 1, 0) == 1 ? 0 : 66;
}

static int larger(void)
{
	int sock, status;
	pid_t pid = child_of(child_larger, &sock);

	if (second_ring() || second_ring() != -ESTALE || send(sock, "", 1, 0) != 1)
		return 71;
	if (link_ring_more(me.l, SLOT + 1, &me, true, LARGER) != -ESTALE)
		return 72;	/* not ours */
	if (!wait_for(ld_acq(&me.arrived) == 2) || link_ring(me.l, SLOT)[5] != 1)
		return 73;
	if (!move(true) || move(true) || link_ring_size(me.l, SLOT) != LARGER ||
	    link_ring(me.l, SLOT)[LARGER - 1] != 2)
		return 74;
	if (send(sock, "", 1, 0) != 1 || waitpid(pid, &status, 0) != pid || status)
		return 75;
	return 0;
}

static void a_larger_ring_while_bytes_go_on(void **state)
{
	if (contract_shared())
		skip();
	in_a_process(larger);
}

static int child_idle(int sock)
{
	char c;

	return recv(sock, &c, 1, 0) == 1 ? 0 : 81;
}

static bool slot_alone(uint16_t slot)
{
	bool room = !link_slot_room(me.l);

	lock_take(&engine.poll_lock);
	bool taken = room && link_slot_take(me.l, &me.got_of[slot]) == slot;
	lock_drop(&engine.poll_lock);
	return taken;
}

/* Half of what may be locked is for the rings of those who come. */
static int half(void)
{
	int sock, status, n = 0;

	config.fault.far = 6144;
	pid_t pid = child_of(child_idle, &sock);
	uint16_t slot = SLOT;
	while (n < 100 && slot_alone((uint16_t)(slot + 1))) {
		slot++;
		if (link_ring_more(me.l, slot, &me.got_of[slot], true, AREA_RING_MOST))
			break;
		n++;
	}
	if (n != 3072 / 256)
		return 82;
	if (!slot_alone((uint16_t)(slot + 1)))
		return 83;
	return send(sock, "", 1, 0) == 1 && waitpid(pid, &status, 0) == pid && !status ? 0 : 84;
}

static void larger_rings_leave_half_to_others(void **state)
{
	if (contract_device != &rnic_soft_ops || contract_shared())
		skip();
	in_a_process(half);
}

/* ---------------------------------------------------------- two hosts -- */

#define PORT	7907

static int tcp_accept(const struct sockaddr_in *at, int *listener)
{
	int one = 1;

	if (*listener < 0) {
		*listener = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(*listener, (const void *)at, sizeof(*at)) || listen(*listener, 2))
			return -1;
	}
	return accept(*listener, NULL, NULL);
}

static int tcp_connect(const struct sockaddr_in *to)
{
	uint64_t until = clock_ns() + BOUND_MS * NS_PER_MS;

	for (;;) {
		int s = socket(AF_INET, SOCK_STREAM, 0);

		if (!connect(s, (const void *)to, sizeof(*to)))
			return s;
		close(s);
		if (clock_ns() > until)
			return -1;
		sched_yield();
	}
}

static int hosts_play(bool listens)
{
	int err;

	if (!messages_send() || !messages_done())
		return 62;
	puts("streaming");
	fflush(stdout);
	if (listens)
		return stream_take(stream_bytes) ? 0 : 63;
	err = stream_send();
	return err || wait_for(consumed() == stream_bytes) ? err : 64;
}

static int hosts(bool listens, const char *address)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int listener = -1, meeting, talk, err = 0;
	char c;

	if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
		return 60;
	meeting = listens ? tcp_accept(&a, &listener) : tcp_connect(&a);
	/* one after the other: connections of two processors are not accepted in order */
	if (meeting < 0 || (listens ? send(meeting, "", 1, 0) : recv(meeting, &c, 1, 0)) != 1)
		return 61;
	talk = listens ? tcp_accept(&a, &listener) : tcp_connect(&a);
	if (talk < 0 || !meet(meeting, !listens) || !in_turn(talk, !listens))
		return 61;
	err = hosts_play(listens);
	if (!err && (send(talk, "", 1, MSG_NOSIGNAL) != 1 || recv(talk, &c, 1, 0) != 1))
		err = 65;
	return me.wrong ? 66 : err && ld_acq(&me.dead) ? 23 : err;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_dies_before_it_is_up_here),
		cmocka_unit_test(a_broken_queue_pair_before_the_link_is_up),
		cmocka_unit_test(messages_both_ways_then_death),
		cmocka_unit_test(a_stream_without_overrun),
		cmocka_unit_test(a_killed_sender),
		cmocka_unit_test(bytes_do_not_overtake_a_message),
		cmocka_unit_test(a_thousand_slots_on_one_link),
		cmocka_unit_test(slots_end_where_memory_does),
		cmocka_unit_test(whose_write_is_done_when_the_queue_is_full),
		cmocka_unit_test(a_peer_that_lies_of_its_memory),
		cmocka_unit_test(a_larger_ring_while_bytes_go_on),
		cmocka_unit_test(larger_rings_leave_half_to_others),
	};
	int err = contract_pick(argc > 3 ? 2 : argc, argv);

	if (!err && argc > 4) {
		stream_bytes = strtoull(argv[4], NULL, 0) << 20;
		err = hosts(!strcmp(argv[2], "listen"), argv[3]);
		while (argc > 5)
			pause();
		/* no clean-up: the thread of the library may be at work */
		_exit(err);
	}
	return err ? err : cmocka_run_group_tests(tests, NULL, NULL);
}
