/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * act.c - see act.h
 *
 * Order inside one round: kernel registrations follow the state first (so
 * that no record or missing OUT is ever reported by the kernel), then shared
 * words, link messages, kernel writes, as the bits of enum paction are ranked.
 * Carrying an action out may order more; the loop goes on until none is left.
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
#include "progress/wait.h"
#include "ring/ring.h"
#include "sock/bind.h"
#include "sock/io.h"

const struct conn_watcher *conn_watcher;

void conn_send(struct conn *c, enum wire_type type, uint16_t epoch, uint64_t a, uint8_t flags)
{
	log_trace("fd %d sends type %u epoch %u a %llu", c->fd, type, epoch, (unsigned long long)a);
	if (c->link)
		link_send(c->link, &(struct wire_msg){ .type = type, .slot = c->peer_slot,
						       .epoch = epoch, .flags = flags, .a = a });
}

int conn_kernel_state(const struct conn *c)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return sys_getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? TCP_CLOSE
									  : info.tcpi_state;
}

/*
 * A call of ours took the socket's error away from the program: it is kept
 * for its next read, write or SO_ERROR.  EPIPE is no error of the socket's.
 */
static void conn_error_took(struct conn *c, int err)
{
	if (err != EPIPE && err != ENOTCONN && !c->closing)
		st_rel(&c->rx_err, err);
}

static void follow_tx(struct conn *c)
{
	bool on = conn_tx_on_ring(c);

	if (on == c->reg_tx)
		return;
	c->reg_tx = on;
	conn_watcher->moved(c);
	wait_wake_ready();	/* who asks the kernel must ask it anew */
}

static void follow_rx(struct conn *c)
{
	uint8_t how = (uint8_t)(conn_rx_on_ring(c) | conn_rx_hidden(c) << 1);

	if (how == c->reg_rx)
		return;
	c->reg_rx = how;
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
		if ((size_t)n == len)
			count(CNT_records_tx, 1);
		acts |= ptx_record_wrote(&c->tx, (size_t)n);
	}
	nodelay_end(c);
	return acts;
}

static uint32_t pump(struct conn *c)
{
	uint64_t mask = (1ull << c->tx_wlog) - 1, from, left;
	uint32_t acts = 0;

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
	return acts;
}

static void tx_act_link(struct conn *c, uint32_t acts)
{
	if (acts & PA_SEND_SWITCH)
		conn_send(c, WIRE_SWITCH, c->tx.e, c->tx.N, c->tx.b0);
	if (acts & PA_SEND_FIN)
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
		if (acts & PA_SEND_SWITCH)
			tx_act_link(c, PA_SEND_SWITCH);
		if (acts & PA_WRITE_RECORD)
			more |= write_record(c);
		if (acts & PA_PUMP)
			more |= pump(c);
		tx_act_link(c, acts & ~(uint32_t)PA_SEND_SWITCH);
		if (acts & PA_SHUT_WR) {
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

void tx_retreat(struct conn *c, enum reason why)
{
	uint8_t before = c->tx.state;

	if (before != PTX_SWITCHING && before != PTX_ON)
		return;
	/* what the reader has taken need not be sent again */
	if (c->tx_words)
		tx_credit(c);
	count(CNT_retreats, 1);
	count_reason(why);
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

	conn_send(c, WIRE_CREDIT, credit_epoch(w), credit_count(w), 0);
	c->rx_wanted = false;
}

static void rx_act_link(struct conn *c, uint32_t acts)
{
	if (acts & PA_SEND_SWITCHED)
		conn_send(c, WIRE_SWITCHED, c->rx.e, 0, 0);
	if (acts & PA_SEND_REFUSED)
		conn_send(c, WIRE_REFUSED, c->rx.refused, 0, 0);
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
		bool on = c->tx.state == PTX_SWITCHING || c->tx.state == PTX_ON;
		uint32_t a = ptx_on_request(&c->tx, other);

		if (on && a) {
			count(CNT_retreats, 1);
			count_reason(REASON_PEER_ASKED);
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
		st_rel(&c->rx_err, ECONNRESET);
}

/* shutdown(SHUT_RD) waits until the kernel's queue holds nothing of ours any more. */
static void rx_shut_late(struct conn *c)
{
	if (c->rx_shut && !c->rx_shut_out && c->rx.state == PRX_RAW && !c->rx.drop && c->fd >= 0) {
		c->rx_shut_out = true;
		sys_shutdown(c->fd, SHUT_RD);
	}
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

/* Did the peer leave ring bytes of ours unread?  rxl may be the lock that is held. */
bool tx_left_unread(struct conn *c)
{
	uint64_t P = ld_rlx(&c->tx.P);

	return c->tx_words && ld_rlx(&c->tx.state) != PTX_RAW && P > 0 &&
	       credit_epoch(ld_acq(&c->tx_words->credit)) == ld_rlx(&c->tx.e) &&
	       credit_count(ld_acq(&c->tx_words->credit)) < P;
}

/*
 * The peer's program is gone: writes go to the kernel from now on, which earns
 * a RST as on TCP.  reset: it had not read all, so TCP would have sent that
 * RST by itself.  rxl held.
 */
static void peer_dead(struct conn *c, bool reset)
{
	lock_take(&c->txl);
	tx_dead(c, reset);
	lock_drop(&c->txl);
}

void tx_dead(struct conn *c, bool reset)
{
	st_rlx(&c->tx_stuck, false);
	tx_act(c, ptx_dead(&c->tx) | PA_WAKE);
	if (!reset || c->closing)
		return;
	st_rel(&c->rx_err, ECONNRESET);
	sys_shutdown(c->fd, SHUT_RDWR);
	c->tx_fin_out = true;
}

void rx_kernel_end(struct conn *c, int err)
{
	struct pslot slot = { 0 };
	bool reset = err || conn_kernel_state(c) == TCP_CLOSE;

	if (c->rx.state == PRX_ENDED)
		return;
	if (reset)
		prx_on_krst(&c->rx);
	else
		prx_on_kfin(&c->rx);
	if (c->rx_words)
		slot = slot_read(c->rx_words);
	uint8_t before = c->rx.state;
	bool unread = tx_left_unread(c);
	/* an orderly end leaves the ring first */
	bool crash = before == PRX_ON || (slot.e && slot.state != SLOT_RAW && slot.state != SLOT_BARRED);

	prx_verdict(&c->rx, c->rx_words ? &slot : NULL, unread);
	if (err)
		conn_error_took(c, err);
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
		if (seg.kind == PSEG_RECORD)
			count(CNT_records_rx, 1);
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

	for (int i = 0; i < 64; i++) {
		uint8_t buf[PREC_SIZE * 64];
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
		size_t want = (size_t)MIN(prx_next_read(&c->rx), (uint64_t)sizeof(buf));
		ssize_t n = sys_recvfrom(c->fd, buf, want, MSG_DONTWAIT);

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

static uint64_t quiet_left(const struct prx *rx)
{
	uint64_t at = rx->pos + rx->have;

	return rx->qcount > at ? rx->qcount - at : 0;
}

void rx_swallow(struct conn *c)
{
	uint8_t buf[16384];

	for (int i = 0; i < 256 && c->rx.state != PRX_ENDED; i++) {
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

	if (ld_rlx(&c->closing))
		ev = EPOLLIN | EPOLLRDHUP;
	else if (conn_rx_on_ring(c) || ld_rlx(&c->rx.drop) > 0)
		ev = EPOLLIN | EPOLLRDHUP;
	else if (conn_tx_on_ring(c))
		ev = EPOLLERR;		/* a RST, of which nobody else would hear */
	if (ld_rlx(&c->rx.state) == PRX_ENDED && !c->closing)
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
		c->watch.fd = -1;
		c->watch_events = 0;
		conn_put(c);
	}
	if (!want || want == c->watch_events)
		return;
	bool fresh = c->watch.fd < 0;
	c->watch.fd = c->fd;
	int err = fresh ? bg_watch(&c->watch, want) : bg_modify(&c->watch, want);
	if (err) {
		if (fresh)
			c->watch.fd = -1;
		return;
	}
	if (fresh)
		conn_get(c);
	c->watch_events = want;
}
