/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * act.c - see act.h
 *
 * Order inside one round: kernel registrations follow the state first (so
 * that no record or missing OUT is ever reported by the kernel), then shared
 * words, link messages, kernel writes, as the bits of enum paction are ranked.
 * Carrying an action out may order more; the loop goes on until none is left.
 *
 * Longer than others: both directions are here, since either orders the other's
 * actions, and what pulls records is what carries them out.
 */
#define _GNU_SOURCE
#include "sock/act.h"

#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/sys.h"
#include "progress/bg.h"
#include "progress/wait.h"
#include "ring/ring.h"
#include "sock/back.h"
#include "sock/bind.h"
#include "sock/far.h"
#include "sock/io.h"
#include "sock/kin.h"
#include "sock/show.h"

#define SETTLE_MS	50	/* the peer's background thread has run, on a full machine too */
#define SETTLE_YIELD_US	300	/* ... which wants the CPU that we have, after a while */
#define WATCH_RETRY_MS	4
#define DROP_MOST	(1u << 30)	/* in one call, which copies nothing */

const struct conn_watcher *conn_watcher;

void conn_send(struct conn *c, enum wire_type type, uint16_t epoch, uint64_t a, uint8_t flags)
{
	log_trace("fd %d sends %s epoch %u a %llu", c->fd, wire_name(type), epoch,
		  (unsigned long long)a);
	if (c->link)
		link_send(c->link, &(struct wire_msg){ .type = type, .slot = c->peer_slot,
						       .epoch = epoch, .flags = flags, .a = a });
}

int conn_kernel_state(const struct conn *c)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return sys_getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? 0 : info.tcpi_state;
}

/*
 * A call of ours took the socket's error away from the program: it is kept
 * for its next read, write or SO_ERROR.  EPIPE is the socket's error too, of a
 * reset behind the peer's FIN; it is none after an own SHUT_WR.  Once the
 * program has been told, neither is news: we may have known before the kernel,
 * or been told by it behind our back.
 */
void conn_error_took(struct conn *c, int err)
{
	if (err == ENOTCONN || c->closing || ld_rlx(&c->reset) || (err == EPIPE && c->tx_fin_out))
		return;
	owed_add(&c->owed, err);
}

/* Had the peer shut down what it writes, before it died?  A lock of c held. */
static bool fin_before(const struct conn *c)
{
	uint8_t rx = ld_rlx(&c->rx.state);

	if (ld_rlx(&c->rx.eof) || (rx == PRX_ON && ld_rlx(&c->rx.finP) != PROTO_NO_FIN) ||
	    (rx == PRX_ENDED && !ld_rlx(&c->rx.end_reset)))
		return true;
	return c->rx_words && !conn_rx_far(c) && slot_said_fin(c->rx_words) &&
	       conn_kernel_state(c) == TCP_CLOSE_WAIT;
}

/* The kernel says FIN, or nothing yet, where TCP would have said RST: EPIPE in CLOSE_WAIT. */
static void conn_reset(struct conn *c)
{
	if (c->closing || ld_rlx(&c->reset))
		return;
	owed_add(&c->owed, fin_before(c) ? EPIPE : ECONNRESET);
	st_rel(&c->reset, true);
}

static void follow_tx(struct conn *c)
{
	bool on = conn_tx_on_ring(c);

	if (on == c->reg_tx)
		return;
	c->reg_tx = on;
	show_tx(c);
	conn_watcher->moved(c);
	wait_wake_ready();	/* who asks the kernel must ask it anew */
}

static void follow_rx(struct conn *c)
{
	uint8_t how = (uint8_t)(conn_rx_on_ring(c) | conn_rx_hidden(c) << 1);

	if (how == c->reg_rx)
		return;
	c->reg_rx = how;
	show_rx(c);
	conn_watcher->moved(c);
	wait_wake_ready();
}

/* ------------------------------------------------------------- sending -- */

static void set_bool(struct conn *c, int name, int on)
{
	sys_setsockopt(c->fd, IPPROTO_TCP, name, &on, sizeof(on));
}

/* No record waits for more bytes, an ACK or a timer. */
static void nodelay_begin(struct conn *c)
{
	if (ld_rlx(&c->cork))
		set_bool(c, TCP_CORK, 0);
	if (!ld_rlx(&c->nodelay))
		set_bool(c, TCP_NODELAY, 1);
}

static void nodelay_end(struct conn *c)
{
	if (!ld_rlx(&c->nodelay))
		set_bool(c, TCP_NODELAY, 0);
	if (ld_rlx(&c->cork))
		set_bool(c, TCP_CORK, 1);
}

void conn_push(struct conn *c)
{
	if (ld_rlx(&c->cork))
		return;
	set_bool(c, TCP_NODELAY, 1);	/* which sends what waits, set or not */
	if (!ld_rlx(&c->nodelay))
		set_bool(c, TCP_NODELAY, 0);
}

static void stick(struct conn *c)
{
	st_rlx(&c->tx_stuck, true);
	conn_todo(c, JOB_WATCH);
}

static uint32_t write_record(struct conn *c)
{
	uint32_t acts = 0;
	const uint8_t *p;
	size_t len;

	nodelay_begin(c);
	while ((p = ptx_record(&c->tx, &len)) != NULL) {
		ssize_t n = sys_sendto(c->fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN) {
			stick(c);
			break;
		}
		if (n < 0) {
			conn_error_took(c, (int)-n);
			n = (ssize_t)len;	/* a dead socket takes everything */
		}
		if ((size_t)n == len) {
			count(CNT_records_tx, 1);
			log_trace("fd %d record sent, epoch %u", c->fd, c->tx.e);
		}
		acts |= ptx_record_wrote(&c->tx, (size_t)n);
	}
	nodelay_end(c);
	return acts;
}

static uint32_t pump(struct conn *c)
{
	uint64_t mask = (1ull << c->tx_wlog) - 1, from, left;
	uint32_t acts = 0;

	nodelay_begin(c);	/* on TCP they would have gone long ago, and no record before them */
	while ((left = ptx_pump(&c->tx, &from)) > 0) {
		size_t run = ring_run(mask, from, left);
		ssize_t n = sys_sendto(c->fd, c->tx_ring + (from & mask), run,
				       MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN) {
			stick(c);
			break;
		}
		if (n < 0) {
			conn_error_took(c, (int)-n);
			n = (ssize_t)run;
		} else {
			count(CNT_resent_bytes, (uint64_t)n);
			count(CNT_tcp_tx_bytes, (uint64_t)n);
		}
		acts |= ptx_pumped(&c->tx, (uint64_t)n);
	}
	nodelay_end(c);
	return acts;
}

static void tx_act_link(struct conn *c, uint32_t acts)
{
	if (acts & PA_SEND_SWITCH)
		conn_send(c, WIRE_SWITCH, c->tx.e, c->tx.N, c->tx.b0);
	if ((acts & PA_SEND_FIN) && (!conn_tx_far(c) || conn_far_fin(c)))
		conn_send(c, WIRE_FIN, c->tx.e, c->tx.P, 0);
	if (acts & PA_SEND_UNBIND)
		conn_send(c, WIRE_UNBIND, c->tx.e, 0, 0);
	if (acts & PA_SEND_QUIET)
		conn_send(c, WIRE_QUIET, c->tx.e, c->tx.kc, 0);
}

void tx_act(struct conn *c, uint32_t acts)
{
	bool wake = false;

	while (acts) {
		uint32_t more = 0;

		follow_tx(c);
		if ((acts & PA_SLOT) && c->tx_words)
			slot_state_set(c->tx_words, ptx_slot_state(&c->tx));
		if (acts & PA_ARM_LINGER)
			conn_far_linger_arm(c);
		if (acts & PA_SEND_SWITCH) {
			bg_expect();	/* the reader has nothing until our record is out */
			tx_act_link(c, PA_SEND_SWITCH);
		}
		if (acts & PA_WRITE_RECORD)
			more |= write_record(c);
		if (acts & PA_RESTORE_LINGER)
			conn_far_linger_restore(c);
		if (acts & PA_PUMP)
			more |= pump(c);
		tx_act_link(c, acts & ~(uint32_t)PA_SEND_SWITCH);
		if (acts & PA_SHUT_WR) {
			conn_end_say(c, SLOT_END_FIN);
			sys_shutdown(c->fd, SHUT_WR);
			c->tx_fin_out = true;
		}
		if (acts & (PA_BREAK_LINK | PA_RESET) && c->link)
			link_kill(c->link);
		wake |= acts & PA_WAKE;
		acts = more;
	}
	follow_tx(c);
	if (wake) {
		conn_watcher->event(c, EPOLLOUT);
		wait_wake_ready();
	}
}

void tx_reader_look(struct conn *c)
{
	int state = conn_kernel_state(c);

	if (state == TCP_CLOSE_WAIT)
		st_rlx(&c->tx_doubt, true);
	if (state == TCP_CLOSE)
		tx_dead(c, false);
	else if (state == TCP_CLOSE_WAIT && c->rx_words && !rx_half_closed(c) &&
		 c->tx.state != PTX_PUMP)
		tx_dead(c, tx_left_unread(c));
}

void tx_retreat(struct conn *c, enum reason why)
{
	uint8_t before = c->tx.state;

	if (before != PTX_SWITCHING && before != PTX_ON)
		return;
	if (!c->closing)
		tx_reader_look(c);
	if (c->tx.state != before)
		return;
	/* what the reader has taken need not be sent again */
	if (c->tx_words)
		tx_credit(c);
	count(CNT_retreats, 1);
	count_reason(why);
	show_retreat(c, why);
	log_debug("fd %d tx retreat: %s", c->fd, reason_name(why));
	tx_act(c, ptx_retreat(&c->tx) | PA_WAKE);
}

void tx_unstick(struct conn *c)
{
	if (!c->tx_stuck)
		return;
	st_rlx(&c->tx_stuck, false);
	tx_act(c, PA_WRITE_RECORD);
	tx_act(c, PA_PUMP | PA_WAKE);
	if (!c->tx_stuck)
		conn_todo(c, JOB_WATCH);
}

/* ----------------------------------------------------------- receiving -- */

static void send_credit(struct conn *c)
{
	uint64_t w = prx_credit_take(&c->rx);

	if (unlikely(conn_rx_far(c)))
		conn_far_credit_all(c);
	conn_send(c, WIRE_CREDIT, credit_epoch(w), credit_count(w), 0);
	c->rx_wanted = false;
}

static void rx_act_link(struct conn *c, uint32_t acts)
{
	if (acts & PA_SEND_SWITCHED)
		conn_send(c, WIRE_SWITCHED, c->rx.e, 0, 0);
	if (acts & PA_SEND_REFUSED) {
		conn_send(c, WIRE_REFUSED, c->rx.refused, 0, 0);
		c->rx_ping = 0;		/* what the peer writes again is there behind another */
	}
	if ((acts & PA_SEND_CREDIT) && c->rx_wanted)
		send_credit(c);
	if (acts & PA_SEND_PLEASE)
		conn_send(c, WIRE_PLEASE, c->rx.e, 0, 0);
	if (acts & PA_SEND_RELEASED)
		conn_send(c, WIRE_RELEASED, c->rx.e, 0, 0);
	if (acts & PA_SEND_CLOSING)
		conn_send(c, WIRE_CLOSING, c->rx.e, c->rx.C, 0);
}

static void rx_act_other(struct conn *c, uint32_t acts, uint16_t other)
{
	lock_take(&c->txl);
	if (acts & PA_ASK_TX)
		tx_act(c, ptx_request(&c->tx, c->rx.e));
	if (acts & PA_RETREAT_TX) {
		bool on = conn_tx_in_ring(c);

		if (on && c->tx_words)
			tx_credit(c);	/* what the reader has taken need not be sent again */
		uint32_t a = ptx_on_request(&c->tx, other);

		if (on && a) {
			count(CNT_retreats, 1);
			count_reason(REASON_PEER_ASKED);
			show_retreat(c, REASON_PEER_ASKED);
		}
		tx_act(c, a);
	}
	lock_drop(&c->txl);
}

static bool wake_ok(struct conn *c)
{
	return c->rx_inside == 0 && ld_rlx(&c->rx_plain_polls) == 0 && conn_watcher->none_plain(c);
}

/* After our close the peer's program may have written behind QUIET: no record, no offence. */
static void rx_broken(struct conn *c, uint32_t acts)
{
	if (c->closing) {
		c->end_reset = true;
		return;
	}
	if (c->link)
		link_kill(c->link);
	if (acts & PA_RESET)
		owed_add(&c->owed, ECONNRESET);
}

/* The kernel has queued what it would have answered by a reset, had it known. */
static void shut_reset(struct conn *c)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	owed_add(&c->owed, ECONNRESET);
	sys3(SYS_connect, c->fd, &none, sizeof(none));
	st_rlx(&c->rx.left, 0);		/* nor is any of it to come */
}

/* shutdown(SHUT_RD) waits until the kernel's queue holds nothing of ours any more. */
static void rx_shut_late(struct conn *c)
{
	int queued = 0;

	if (!c->rx_shut || c->rx_shut_out || c->rx.state != PRX_RAW || c->rx.drop || c->fd < 0)
		return;
	if (!c->rx_shut_clean && rx_shut_waits(c)) {
		conn_todo(c, JOB_TIMER);
		return;		/* those came before: the kernel would reset for them */
	}
	st_rlx(&c->rx_shut_out, true);
	sys_shutdown(c->fd, SHUT_RD);
	conn_watcher->moved(c);
	if (c->rx_shut_clean && (c->rx.left || (!sys_ioctl(c->fd, FIONREAD, &queued) && queued)))
		shut_reset(c);
	if (kin_shared(c))
		st_rlx(&c->rx.left, 0);		/* all is there, and others read it too */
}

static void rx_act_with(struct conn *c, uint32_t acts, uint16_t other)
{
	bool wake = false;

	while (acts) {
		uint32_t more = 0;

		if (acts & PA_ANSWER)
			more |= prx_answer(&c->rx, wake_ok(c));
		follow_rx(c);
		rx_act_link(c, acts);
		if (acts & (PA_ASK_TX | PA_RETREAT_TX))
			rx_act_other(c, acts, other);
		if (acts & (PA_BREAK_LINK | PA_RESET))
			rx_broken(c, acts);
		wake |= acts & PA_WAKE;
		acts = more;
	}
	if (c->rx.state == PRX_READY)
		st_rlx(&c->rx_base, c->rx_given);
	if (unlikely(c->rx.eof))
		st_rlx(&c->tx_doubt, true);
	follow_rx(c);
	if (unlikely(c->rx_shut))
		rx_shut_late(c);
	if (conn_watch_wanted(c) != c->watch_events)
		conn_todo(c, JOB_WATCH);
	if (wake) {
		conn_watcher->event(c, EPOLLIN);
		wait_wake_ready();
	}
}

void rx_act(struct conn *c, uint32_t acts)
{
	rx_act_with(c, acts, 0);
}

/* txl held.  Of what is on its way back to the kernel, the kernel says it. */
bool tx_left_unread(struct conn *c)
{
	uint64_t P = ld_rlx(&c->tx.P);
	uint8_t s = ld_rlx(&c->tx.state);

	if (!c->tx_words || !P || (s == PTX_PUMP && !c->tx.rec_pend))
		return false;
	return s != PTX_RAW && s != PTX_QUIET && conn_consumed(c, c->tx_words) < P;
}

/*
 * The peer's program is gone: writes go to the kernel from now on, which earns
 * a RST as on TCP.  reset: it had not read all, so TCP would have sent that
 * RST by itself.  rxl held.
 */
static void peer_dead(struct conn *c, bool reset)
{
	lock_take(&c->txl);
	st_rlx(&c->tx_granted, false);
	tx_dead(c, reset);
	lock_drop(&c->txl);
}

void tx_dead(struct conn *c, bool reset)
{
	/* kept bytes that nobody reads earn the RST as they would on TCP */
	if (c->tx.state == PTX_PUMP && !reset && c->tx_words &&
	    conn_consumed(c, c->tx_words) < c->tx.P)
		return;
	if (reset)
		conn_reset(c);
	st_rlx(&c->tx_stuck, false);
	tx_act(c, ptx_dead(&c->tx) | PA_WAKE);
	if (!reset || c->closing)
		return;
	/* bytes on their way would meet a closed end, and RST */
	sys_shutdown(c->fd, conn_kernel_state(c) == TCP_CLOSE_WAIT ? SHUT_RDWR : SHUT_WR);
	c->tx_fin_out = true;
}

void conn_end_say(struct conn *c, enum slot_end end)
{
	if (c->tx_words && !conn_tx_far(c))
		slot_end_set(c->tx_words, end);
}

bool rx_shut_cut(struct conn *c, uint64_t P)
{
	socklen_t len = sizeof(int);
	int err;

	if (!c->rx_shut_over || c->rx.e != c->rx_shut_e || P <= c->rx_shut_P || c->closing)
		return false;
	if (c->rx_shut_P > c->rx.Pb)
		prx_on_data(&c->rx, c->rx.link, c->rx_shut_P - c->rx.Pb);
	log_debug("fd %d reset: bytes behind an end of both ways", c->fd);
	owed_add(&c->owed, ECONNRESET);
	prx_cut(&c->rx);
	conn_abort(c->fd);
	sys_getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);	/* it is owed */
	peer_dead(c, false);
	rx_act(c, PA_WAKE);
	return true;
}

/*
 * The kernel's FIN has come: is it that of a program that reads on?  Where no
 * memory is shared it may be: CLOSING or the end of the link says when not.
 */
bool rx_half_closed(const struct conn *c)
{
	return c->rx_words && (conn_rx_far(c) || slot_half_closed(c->rx_words));
}

/*
 * far: what the peer had posted before its kernel socket ended may be on its
 * way.  Its RESET or the end of the link comes behind all of that, and is the
 * time to judge; so is RX_END_MS.  Return: true, not now.
 */
static bool rx_end_waits(struct conn *c, int err)
{
	if (c->rx.state != PRX_ON || !c->rx.link_up || c->closing || c->rx_end_due ||
	    ld_acq(&c->peer_gone) || c->rx.finP == c->rx.Pb)
		return false;	/* pairs with to_tx(): its last bytes are in P */
	if (!c->rx_end_ns) {
		st_rlx(&c->rx_end_ns, clock_ns());
		conn_todo(c, JOB_TIMER | JOB_WATCH);
	}
	if (err)
		conn_error_took(c, err);
	return true;
}

void rx_end_now(struct conn *c)
{
	if (!c->rx_end_ns || c->rx_end_due)
		return;
	st_rlx(&c->rx_end_due, true);
	rx_kernel_end(c, 0);
}

/* The window of an epoch that may never have been noted here. */
static void rx_last_window(struct conn *c)
{
	unsigned int wlog = slot_p_window_log2(ld_acq(&c->rx_words->p));

	if (wlog >= 48 || 1ull << wlog > c->rx_ring_bytes)
		return;
	c->rx_wlog = (uint8_t)wlog;
	c->rx.window = 1ull << wlog;
}

bool conn_end_look(struct conn *c)
{
	uint8_t rx = c->rx.state, tx = ld_rlx(&c->tx.state);

	if (c->closing || c->fd < 0 || c->rx_inside)
		return false;
	if (conn_rx_on_ring(c))
		rx_pull(c);
	lock_take(&c->txl);
	if (conn_tx_on_ring(c))
		tx_reader_look(c);
	bool moved = c->tx.state != tx;
	lock_drop(&c->txl);
	return moved || c->rx.state != rx;
}

bool conn_end_judge(struct conn *c)
{
	bool far = conn_tx_far(c), moved = false;

	if (unlikely(far)) {
		conn_get(c);
		lock_drop(&c->rxl);
		moved = conn_far_end_ask(c);
		lock_take(&c->rxl);
	}
	moved |= conn_end_look(c);
	lock_drop(&c->rxl);
	if (unlikely(far))
		conn_put(c);
	return moved;
}

void rx_kernel_end(struct conn *c, int err)
{
	struct pslot slot = { 0 };
	bool reset = err || conn_kernel_state(c) == TCP_CLOSE;

	if (c->rx.state == PRX_ENDED)
		return;
	st_rlx(&c->err_left, reset && !err);
	if (reset)
		prx_on_krst(&c->rx);
	else
		prx_on_kfin(&c->rx);
	if (c->rx_words && conn_rx_far(c)) {
		if (rx_end_waits(c, err))
			return;
		if (c->rx.state == PRX_ON)
			rx_look(c);
	}
	bool shared = c->rx_words && !conn_rx_far(c);
	if (shared && !c->rx_shut_clean)	/* what came for nobody is not to be read */
		slot = slot_read(c->rx_words);
	uint8_t before = c->rx.state;
	if (err == ECONNRESET && prx_fin_known(&c->rx))
		err = EPIPE;		/* as TCP has it in CLOSE_WAIT */
	lock_take(&c->txl);
	bool unread = tx_left_unread(c);
	st_rlx(&c->tx_doubt, true);
	lock_drop(&c->txl);
	/* an orderly end leaves the ring first, and half a close says so */
	bool crash = before == PRX_ON || (c->rx_words && !rx_half_closed(c)) ||
		     (slot.e && slot.state != SLOT_RAW && slot.state != SLOT_BARRED);

	if (slot.e && before != PRX_ON)
		rx_last_window(c);
	/* the error first: who sees the end without a lock sees all of it */
	if (err)
		conn_error_took(c, err);
	else if (crash && !reset && unread)
		conn_reset(c);
	if (!prx_verdict(&c->rx, shared ? &slot : NULL, unread)) {
		prx_on_krst(&c->rx);	/* a crash, whatever the link says */
		prx_verdict(&c->rx, NULL, unread);
	}
	if (c->rx.end_reset && !reset)
		conn_reset(c);
	if ((reset || crash) && !c->closing) {
		log_debug("fd %d kernel end in state %u: %s, P %llu C %llu", c->fd, before,
			  reset ? "reset" : "crash", (unsigned long long)slot.P,
			  (unsigned long long)c->rx.C);
		peer_dead(c, !reset && unread);
	}
	rx_act(c, PA_WAKE);
}

/* Feed n bytes that are no application data by construction. */
static void feed(struct conn *c, const uint8_t *p, size_t n)
{
	while (n) {
		struct prx_seg seg;
		uint64_t drop = c->rx.drop;

		/* RESUME is judged by how far the ring and its window have come */
		if (c->rx.state == PRX_ON && c->rx_words)
			rx_look(c);
		size_t used = prx_eat(&c->rx, p, n, &seg);

		if (unlikely(seg.kind == PSEG_APP && !c->rx.closed && seg.n)) {
			/* cannot be; but a reset is better than a gap */
			log_error("fd %d: program's bytes where a record was due", c->fd);
			seg.act |= PA_RESET;
		}
		if (seg.kind == PSEG_RECORD) {
			count(CNT_records_rx, 1);
			log_trace("fd %d record read, epoch %u", c->fd, c->rx.e);
		}
		if (c->closing && seg.kind == PSEG_DROP && seg.n && !drop)
			c->end_reset = true;	/* the program's bytes, come too late */
		rx_act_with(c, seg.act, seg.other);
		if (!used && !seg.act)
			return;
		p += used;
		n -= used;
	}
}

/*
 * READY and nothing collected: look at one byte, which decides.  What was not
 * seen to be a record's first byte is never taken: it may be the program's.
 */
enum look { LOOK_NOTHING, LOOK_RECORD, LOOK_AGAIN };

static enum look pull_first(struct conn *c)
{
	uint8_t b;
	ssize_t n = sys_recvfrom(c->fd, &b, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n == -EAGAIN || n == -EINTR)
		return LOOK_NOTHING;
	if (n <= 0) {
		rx_kernel_end(c, (int)-n);
		return LOOK_AGAIN;
	}
	uint8_t before = c->rx.state;
	rx_act(c, prx_peek(&c->rx, b));
	return c->rx.state != before ? LOOK_AGAIN : LOOK_RECORD;
}

bool rx_pull(struct conn *c)
{
	bool moved = false;

	for (int i = 0; i < 256; i++) {
		uint8_t buf[PREC_SIZE * 16];	/* the stack may be a small one */
		bool on = conn_rx_on_ring(c);

		if (c->rx.state == PRX_ENDED || (!on && c->rx.drop == 0))
			break;
		/* RESUME is about what is there.  Where P is nonsense, the kernel has the
		 * last word all the same: RESUME, the end or an error. */
		if (c->rx.state == PRX_ON)
			rx_look(c);
		if (c->rx.state == PRX_READY && c->rx.have == 0) {
			enum look l = pull_first(c);

			if (l == LOOK_NOTHING)
				break;
			moved = true;
			if (l == LOOK_AGAIN)
				continue;
		}
		/* what was read from the ring nobody sees again, and it may be much */
		size_t want = (size_t)(on ? MIN(prx_next_read(&c->rx), (uint64_t)sizeof(buf)) :
				       MIN(c->rx.drop, (uint64_t)DROP_MOST));
		ssize_t n = sys_recvfrom(c->fd, on ? buf : NULL, want, MSG_DONTWAIT | (on ? 0 : MSG_TRUNC));

		if (n == -EAGAIN || n == -EINTR)
			break;
		moved = true;
		if (n <= 0) {
			rx_kernel_end(c, (int)-n);
			break;
		}
		feed(c, buf, (size_t)n);
	}
	return moved;
}

/*
 * The peer has switched, and we do not know it yet or have refused; or it knows
 * that we have, and writes to the kernel what it had put into the ring.
 */
bool rx_unmet_to_come(const struct conn *c)
{
	const struct slot_shm *w = ld_rlx(&c->rx_words);

	if (ld_rlx(&c->rx.state) != PRX_RAW || !w)
		return false;
	if (conn_rx_far(c))
		return ld_rlx(&c->rx.pos) < conn_far_unmet(c);
	return slot_switching(w) || slot_unmet(w, ld_rlx(&c->rx.met));
}

bool rx_taken_back(const struct conn *c)
{
	const struct slot_shm *w = ld_rlx(&c->rx_words);

	return ld_rlx(&c->rx.state) == PRX_NOTED && w && !conn_rx_far(c) &&
	       slot_unmet(w, ld_rlx(&c->rx.met));
}

bool rx_shut_waits(struct conn *c)
{
	if (!rx_more_to_come(c) || conn_kernel_state(c) == TCP_CLOSE)
		return false;
	/* what is in the kernel's queue has come, and what a child, or a call inside, has read of it */
	return (rx_unmet_to_come(c) && !conn_rx_far(c)) || conn_still_to_come(c);
}

uint64_t rx_behind(const struct conn *c)
{
	bool raw = (c->rx.state == PRX_RAW && !c->rx_shut_clean) || c->rx.state == PRX_NOTED;

	if (!raw || !c->rx_words || conn_rx_far(c) || !slot_switching(c->rx_words))
		return 0;
	uint64_t P = slot_p_count(ld_acq(&c->rx_words->p));	/* pairs with slot_publish() */

	return slot_switching(c->rx_words) ? MIN(P, c->rx_ring_bytes) : 0;
}

bool rx_more_to_come(const struct conn *c)
{
	return conn_rx_on_the_way(c) || rx_unmet_to_come(c);
}

/* What the peer is in now; a wait is worth it once an epoch. */
static uint16_t peer_epoch(const struct conn *c)
{
	if (!c->rx_words)
		return c->rx.e;
	return conn_rx_far(c) ? c->rx.sw_e : slot_state_epoch(ld_acq(&c->rx_words->state));
}

/* What is in the ring will come by the kernel: it was asked back. */
static bool asked_back(const struct conn *c)
{
	return c->rx.state == PRX_ON && c->rx.want && conn_ring_readable(c);
}

/*
 * Four times the peer's bytes are neither here nor there, while on TCP they would
 * be readable: from the switch on until the record they lie in the ring and may
 * not be believed; asked back, they lie there and are not to be taken; of a switch that
 * was refused or taken back, and after RESUME, they are being written to the kernel
 * socket.
 */
static bool between(const struct conn *c)
{
	int queued = 0;

	if (c->closing || c->rx_inside || c->fd < 0)
		return false;
	if (conn_rx_coming(c) || asked_back(c) || rx_taken_back(c) || conn_end_judged_soon(c))
		return true;
	bool unmet = rx_unmet_to_come(c);
	if (unmet && !conn_rx_far(c))
		return true;
	if ((!unmet && !conn_rx_on_the_way(c)) || sys_ioctl(c->fd, FIONREAD, &queued))
		return false;
	return unmet ? c->rx.pos + (uint64_t)queued < conn_far_unmet(c) :
		       (uint64_t)queued <= c->rx.drop;
}

/* All has come, and once was waited for: what is missing now was read by another process. */
static void between_over(struct conn *c)
{
	lock_take(&c->rxl);
	if (c->rx.unbound && c->rx_settled == c->rx.sw_e && between(c))
		conn_far_forget(c);
	lock_drop(&c->rxl);
}

static void settle_pause(uint64_t left_ns)
{
	if (left_ns > SETTLE_MS * NS_PER_MS - SETTLE_YIELD_US * NS_PER_US)
		sys0(SYS_sched_yield);
	else
		sys_nap(50 * NS_PER_US);
}

/*
 * Either lasts microseconds (bg_expect()), so whoever will not wait waits for
 * that; once an epoch, lest a stopped peer delays us again and again.
 */
bool rx_settle(struct conn *c)
{
	uint64_t end = 0;
	bool on = true, moved = false;

	while (engine_poll(), on) {
		lock_take(&c->rxl);
		uint8_t before = c->rx.state;
		uint16_t e = peer_epoch(c);
		on = between(c) && (end || c->rx_settled != e);
		if (on) {
			c->rx_settled = e;
			end = end ? end : clock_ns() + SETTLE_MS * NS_PER_MS;
			rx_pull(c);
		}
		moved |= c->rx.state != before || (end && !on);
		if (moved && end)
			c->rx_settled = 0;	/* it does go on: the next wait is not in vain */
		on &= !moved && clock_ns() < end;
		lock_drop(&c->rxl);
		if (on)
			settle_pause(end - clock_ns());
	}
	if (unlikely(conn_rx_far(c)) && rx_unmet_to_come(c))
		between_over(c);
	return moved;
}

static uint64_t quiet_left(const struct prx *rx)
{
	uint64_t at = rx->pos + rx->have;

	return rx->qcount > at ? rx->qcount - at : 0;
}

void rx_swallow(struct conn *c)
{
	uint8_t buf[4096];

	for (int i = 0; i < 1024 && c->rx.state != PRX_ENDED; i++) {
		if (c->rx.state == PRX_READY && c->rx.have == 0) {
			enum look l = pull_first(c);

			if (l == LOOK_NOTHING)
				return;
			if (l == LOOK_AGAIN)
				continue;
		}
		size_t want = (size_t)MIN(prx_next_read(&c->rx), (uint64_t)sizeof(buf));

		if (c->rx.state == PRX_ON)
			rx_look(c);
		if (c->rx.quiet)	/* what the program writes after QUIET is left there */
			want = (size_t)MIN((uint64_t)want, quiet_left(&c->rx));
		if (!want || c->end_reset)
			return;
		ssize_t n = sys_recvfrom(c->fd, buf, want, MSG_DONTWAIT);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n <= 0) {
			rx_kernel_end(c, (int)-n);
			return;
		}
		feed(c, buf, (size_t)n);
	}
}

/* ------------------------------------------------------------- watching -- */

uint32_t conn_watch_wanted(const struct conn *c)
{
	uint32_t ev = 0;

	if (ld_rlx(&c->closing) && !c->end_kin)
		ev = EPOLLIN | EPOLLPRI | EPOLLRDHUP;
	else if (conn_rx_on_ring(c) || ld_rlx(&c->rx.drop) > 0)
		ev = EPOLLIN | EPOLLRDHUP;
	else if (conn_tx_on_ring(c))	/* a RST or a death, of which nobody else would hear */
		ev = EPOLLERR | (ld_rlx(&c->tx.state) == PTX_PUMP || rx_half_closed(c) ? 0 : EPOLLRDHUP);
	if ((ld_rlx(&c->rx.state) == PRX_ENDED || ld_rlx(&c->rx_end_ns)) && !c->closing)
		ev = 0;
	if (ld_rlx(&c->tx_stuck))
		ev |= EPOLLOUT;
	return ev;
}

/* Background thread. */
void conn_watch_update(struct conn *c)
{
	uint32_t want = c->fd < 0 ? 0 : conn_watch_wanted(c);

	if (c->watch.fd >= 0 && (c->watch.fd != c->fd || !want)) {
		bg_unwatch(&c->watch);
		st_rlx(&c->watch.fd, -1);
		c->watch_events = 0;
		conn_put(c);
	}
	if (!want || want == c->watch_events)
		return;
	bool fresh = c->watch.fd < 0;
	st_rlx(&c->watch.fd, c->fd);
	int err = fresh ? bg_watch(&c->watch, want) : bg_modify(&c->watch, want);
	if (err) {
		if (fresh)
			st_rlx(&c->watch.fd, -1);
		c->watch_missed = true;
		bind_timer_at(c, clock_ns() + WATCH_RETRY_MS * NS_PER_MS);
		return;
	}
	if (fresh)
		conn_get(c);
	c->watch_events = want;
}
