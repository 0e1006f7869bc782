/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proto.h - the protocol of one direction of a connection, as pure code
 *
 * Events in, actions out: no system call, no lock, no global, no clock.  The
 * caller holds the direction's lock (tx lock for struct ptx, rx lock for
 * struct prx) around every call and until it has carried the actions out.
 * Names and rules are those of doc/model/PROTOCOL.md, section 2.
 *
 * A sends, B receives; each end of a connection has one ptx and one prx.
 *
 *	e	epoch of the direction, 1.. never reused on a conn
 *	N	A's kernel count when it switches; b0 the byte after N
 *	P K C	bytes put into the ring, highest consumed count A knows,
 *		B's consumed count; per epoch, K <= C <= P, P - K <= window
 *	kc pos	kernel counts: every byte on the kernel socket, records too
 *
 * How it is driven (tests/sim/sim_{tx,rx,end}.c are a complete driver)
 *  write   ptx_where(): PTX_TO_KERNEL write, then ptx_kernel_wrote(); or, when
 *          ptx_may_switch(), ptx_switch() and ptx_put(); PTX_TO_RING store the
 *          bytes, ptx_put(), publish; PTX_WAIT block or EAGAIN
 *  output  while ptx_record() gives bytes: write them, ptx_record_wrote();
 *          then while ptx_pump() gives a range: write it, ptx_pumped()
 *  read    prx_avail() first, prx_consumed(); else prx_end(); else, unless
 *          prx_no_kernel_read(), a kernel read of at most prx_next_read()
 *          bytes, all of them through prx_eat(); at its end prx_on_kfin() or
 *          prx_on_krst() and prx_verdict()
 *  link    one function a message; the slot number has led to the conn
 *  timers  no progress for T, exit: ptx_retreat(); T_last: prx_last(late)
 * PA_ASK_TX and PA_RETREAT_TX cross from rx to tx: they may be carried out
 * after the rx lock has been dropped (the epoch in them makes late ones
 * harmless).  Why a conn retreats is the caller's to count.
 *
 * Invariants
 *  1. A peer can make an event illegal, never make this code assert: the
 *     answer is PA_BREAK_LINK or PA_RESET.
 *  2. No record byte is ever handed out as application data (PSEG_APP), and
 *     no byte is handed out after an end of stream.
 *  3. A record that has begun is finished before any other kernel byte of
 *     that direction (ptx_record() is non-NULL until it is out).
 *  4. state, e, P, C, finP and drop are stored whole (relaxed): predicates look
 *     at them without the direction's lock and are asked again under it.
 *  5. Messages of another link or epoch than the current one are ignored.
 */
#ifndef SOCK_PROTO_H
#define SOCK_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/atomic.h"

#define PREC_SIZE	32u			/* R */
#define PROTO_EPOCH_MAX	65535u			/* no attach after this one */
#define PROTO_COUNT_MAX	((1ull << 48) - 1)	/* P and C fit 48 bits */
#define PROTO_NO_FIN	UINT64_MAX

/*
 * Actions, to be carried out in the order of their bits.  "Link" actions are
 * only returned while the epoch's link is believed alive.
 */
enum paction {
	/* tx: own send direction */
	PA_SLOT		 = 1u << 0,	/* soft: slot_state_set(shm, ptx_slot_state()) */
	PA_ARM_LINGER	 = 1u << 1,	/* kernel SO_LINGER{1,0}, hidden */
	PA_SEND_SWITCH	 = 1u << 2,	/* link: SWITCH{e,N,b0} */
	PA_WRITE_RECORD	 = 1u << 3,	/* kernel: ptx_record(), ptx_record_wrote() */
	PA_RESTORE_LINGER = 1u << 4,	/* the application's own SO_LINGER again */
	PA_PUMP		 = 1u << 5,	/* kernel: ptx_pump(), ptx_pumped() */
	PA_SEND_FIN	 = 1u << 6,	/* link: FIN{e,P} */
	PA_SEND_UNBIND	 = 1u << 7,	/* link: UNBIND{e} */
	PA_SEND_QUIET	 = 1u << 8,	/* link: QUIET{e, kc} */
	PA_SHUT_WR	 = 1u << 9,	/* kernel: shutdown(SHUT_WR) */
	/* rx: own receive direction; e is prx->e unless said otherwise */
	PA_ANSWER	 = 1u << 10,	/* pos has reached N: call prx_answer() */
	PA_SEND_SWITCHED = 1u << 11,	/* link: SWITCHED{e} */
	PA_SEND_REFUSED	 = 1u << 12,	/* link: REFUSED{prx->refused} */
	PA_SEND_CREDIT	 = 1u << 13,	/* link: CREDIT prx_credit_take() */
	PA_SEND_PLEASE	 = 1u << 14,	/* link: PLEASE{e} */
	PA_SEND_RELEASED = 1u << 15,	/* link: RELEASED{e} */
	PA_SEND_CLOSING	 = 1u << 16,	/* link: CLOSING{e,C} */
	PA_ASK_TX	 = 1u << 17,	/* own tx: ptx_request(tx, prx->e) */
	PA_RETREAT_TX	 = 1u << 18,	/* own tx: ptx_on_request(tx, seg->other) */
	/* both */
	PA_WAKE		 = 1u << 19,	/* broadcast the condition, event fd readable */
	PA_BREAK_LINK	 = 1u << 20,	/* the peer broke the rules: kill the link */
	PA_RESET	 = 1u << 21,	/* the stream is lost: reset the connection */
	PA_ILLEGAL	 = 1u << 22,	/* the caller broke the rules: nothing was done */
};

/* ------------------------------------------------------------ sender -- */

/*
 * PTX_RAW	writes go to the kernel; left by ptx_switch()
 * PTX_SWITCHING SWITCH is out, writes go to the ring, no record may be sent;
 *		left by SWITCHED (ON), else by abandoning (PUMP from byte 0)
 * PTX_ON	writes go to the ring; left by a retreat (RESUME, PUMP from K)
 * PTX_PUMP	kept ring bytes go to the kernel; left when all are out (RAW)
 * PTX_QUIET	final: the peer has closed, no kernel byte of ours any more
 */
enum ptx_state { PTX_RAW, PTX_SWITCHING, PTX_ON, PTX_PUMP, PTX_QUIET, PTX_STATES };

struct ptx {
	uint8_t state;
	uint8_t b0;
	bool shared;		/* soft: the slot words are in shared memory */
	bool bound;		/* a ring on a link is there */
	bool link_up;		/* that link is not known to be dead */
	bool rel;		/* RELEASED or REFUSED seen for e, or first use of the ring */
	bool ab;		/* this PUMP is an abandon: no RESUME was sent */
	bool linger;		/* SO_LINGER{1,0} is armed */
	bool fin;		/* the application has ended this direction */
	bool fin_sent;		/* FIN{e,P} is out in this epoch */
	bool shut;		/* PA_SHUT_WR has been given */
	bool closing;		/* CLOSING was received */
	uint64_t rec_from;	/* kc before the last record, or those that touch */
	uint64_t rec_to;	/* ... and behind it */
	bool raw_after;		/* raw bytes followed the ring's in e */
	uint16_t e;
	uint16_t ask;		/* epoch of the other direction to be asked for, 0: none */
	uint16_t asked;		/* ... as composed into a record */
	uint32_t link;		/* the caller's number of the link */
	uint8_t rec_pend;	/* records to be written, bit per enum prec_type */
	uint8_t rec_cur;	/* type in rec[], 0: none begun */
	uint8_t rec_done;	/* bytes of rec[] that are out */
	uint8_t rec[PREC_SIZE];
	uint64_t nonce;
	uint64_t window;
	uint64_t N, P, K;
	uint64_t ps;		/* PUMP: next ring byte to go out */
	uint64_t kc;		/* bytes of this direction on the kernel socket */
	uint64_t closeC;	/* C of CLOSING{e,C}, when e is ours */
};

/* where a write of the application goes now */
enum ptx_where { PTX_TO_KERNEL, PTX_TO_RING, PTX_WAIT, PTX_EPIPE };

/* kc: bytes already on the kernel socket when counting starts */
void ptx_init(struct ptx *tx, uint64_t kc);
/* A new ring on a new link or slot.  -EBUSY unless RAW with nothing pending. */
int ptx_bind(struct ptx *tx, uint32_t link, bool shared, uint64_t nonce, uint64_t window);
enum ptx_where ptx_where(const struct ptx *tx);
uint64_t ptx_room(const struct ptx *tx);	/* bytes ptx_put() takes now */
void ptx_kernel_wrote(struct ptx *tx, uint64_t n); /* application bytes, in RAW */
void ptx_window(struct ptx *tx, uint64_t window); /* WINDOW agreed: never smaller than P - K */

/* May ptx_switch() be called?  The caller knows the peer's GRANT and policy. */
bool ptx_may_switch(const struct ptx *tx);
/*
 * Inside a write, tx lock held, no thread in a kernel write, b0 in hand, N
 * read stable from the kernel and equal to kc (else PA_ILLEGAL).  soft: the
 * caller has won slot_attach() with ptx_next_epoch() before.  ptx_put() of b0
 * and more follows under the same lock: an epoch is never empty.
 */
uint32_t ptx_switch(struct ptx *tx, uint64_t N, uint8_t b0);
static inline uint16_t ptx_next_epoch(const struct ptx *tx) { return tx->e + 1; }
uint32_t ptx_put(struct ptx *tx, uint64_t n);	/* n bytes are in the ring */

/* link messages about this direction, from the peer's receiver */
uint32_t ptx_on_switched(struct ptx *tx, uint32_t link, uint16_t e);
uint32_t ptx_on_refused(struct ptx *tx, uint32_t link, uint16_t e);
uint32_t ptx_on_credit(struct ptx *tx, uint32_t link, uint16_t e, uint64_t C);
uint32_t ptx_on_please(struct ptx *tx, uint32_t link, uint16_t e);
uint32_t ptx_on_released(struct ptx *tx, uint32_t link, uint16_t e);
uint32_t ptx_on_closing(struct ptx *tx, uint32_t link, uint16_t e, uint64_t C);
uint32_t ptx_link_dead(struct ptx *tx, uint32_t link);
/* The kernel socket has ended for good (RST, or the peer is no more): QUIET, nothing is sent. */
uint32_t ptx_dead(struct ptx *tx);
/* in-band, met by own prx (PA_RETREAT_TX): REQUEST or RESUME with WANT_YOURS */
uint32_t ptx_on_request(struct ptx *tx, uint16_t e);
/* own wish: fork, exec, option, no progress for T, exit, fault */
uint32_t ptx_retreat(struct ptx *tx);
/* own prx wants epoch e of the other direction back (PA_ASK_TX) */
uint32_t ptx_request(struct ptx *tx, uint16_t e);
/* shutdown(SHUT_WR) or last close: FIN now, then RESUME once K = P.  A caller
 * that cannot wait (exit, no progress for T) calls ptx_retreat() as well. */
uint32_t ptx_shutdown(struct ptx *tx);
/* The FIN alone, where the link can tell it (0: it cannot); ptx_shutdown() is to
 * follow, for nothing leaves the ring by this. */
uint32_t ptx_tell_end(struct ptx *tx);

/* The record bytes to be written next, or NULL; begins the record. */
const uint8_t *ptx_record(struct ptx *tx, size_t *len);
uint32_t ptx_record_wrote(struct ptx *tx, size_t n);
/* PUMP: ring bytes [*from, *from + return) go to the kernel next; 0 while a record is pending */
uint64_t ptx_pump(const struct ptx *tx, uint64_t *from);
uint32_t ptx_pumped(struct ptx *tx, uint64_t n);
/* The peer ended without having consumed all of ours; C: its word in shared memory, else 0. */
bool ptx_unread(const struct ptx *tx, uint64_t C);
/* The transmit ring and credit word may serve another conn (or link gone: see FREE). */
bool ptx_ring_free(const struct ptx *tx);

/* ---------------------------------------------------------- receiver -- */

/*
 * PRX_RAW	kernel bytes are the application's (or drop); left by SWITCH
 * PRX_NOTED	N is noted, nothing promised; may be forgotten at any time
 * PRX_READY	pos = N, SWITCHED is out: the next kernel byte decides
 * PRX_ON	ring bytes are the application's; the kernel carries records
 * PRX_ENDED	the kernel's FIN or RST has been judged; what is left of the
 *		ring (prx_avail()) and then prx_end()
 */
enum prx_state { PRX_RAW, PRX_NOTED, PRX_READY, PRX_ON, PRX_ENDED, PRX_STATES };

enum prx_endkind { PRX_OPEN, PRX_EOF, PRX_CONNRESET };

struct prx {
	uint8_t state;
	uint8_t b0;
	bool shared;		/* of the epoch's binding */
	bool link_up;		/* the epoch's link is not known to be dead */
	bool want;		/* sticky: we want this direction raw */
	bool closed;		/* the application has closed: swallow */
	bool eof;		/* end of stream reached by FIN{e,P}: stays */
	bool kfin, krst;	/* seen on the kernel socket, all before it parsed */
	bool end_reset;		/* PRX_ENDED: ECONNRESET after the data, else EOF */
	bool quiet;		/* QUIET came: qcount is where the peer stopped */
	bool unbound;		/* UNBIND{sw_e} came */
	uint8_t have;		/* bytes in rec[] */
	uint16_t e;		/* the epoch noted last */
	uint16_t met;		/* the epoch whose SWITCHREC was met last, 0: none */
	uint16_t refused;	/* PA_SEND_REFUSED: this one */
	uint16_t sw_e;		/* last SWITCH on the bound link, refused ones too */
	uint32_t link;		/* the epoch's */
	uint8_t rec[PREC_SIZE];
	/* of the present binding, taken over by the next SWITCH */
	uint32_t bind_link;
	bool bind_shared;
	bool bind_up;
	uint64_t bind_nonce;
	uint64_t bind_window;
	uint64_t nonce, window;	/* of the epoch */
	uint64_t N;
	uint64_t pos;		/* kernel bytes parsed, records and drops too */
	uint64_t C;		/* ring bytes consumed in e */
	uint64_t Pb;		/* ring bytes that have arrived in e */
	uint64_t credited;	/* C last told */
	uint64_t finP;		/* FIN's P or PROTO_NO_FIN */
	bool fin_seen;		/* a FIN has come; its ring may be left by now, the kernel's is to come */
	uint64_t drop;		/* raw bytes still to be dropped */
	uint64_t left;		/* resent bytes still to come */
	uint64_t since;		/* bytes the application got since RESUME{met} */
	uint64_t qcount;
};

/* The kernel's bytes are the program's, whatever comes. */
static inline bool prx_is_plain(const struct prx *rx)
{
	return rx->state == PRX_RAW && !rx->drop && !rx->left && !rx->closed && !rx->eof;
}

/* n bytes of a plain direction: as prx_eat(), which has nothing else to say of them. */
static inline void prx_plain_read(struct prx *rx, uint64_t n)
{
	st_rlx(&rx->pos, rx->pos + n);
	rx->since += n;
}

/* One homogeneous piece of what a kernel read returned. */
enum pseg_kind {
	PSEG_APP,		/* p[0..n) is for the application */
	PSEG_DROP,		/* n bytes are nobody's */
	PSEG_RECORD,		/* a record is complete */
	PSEG_PART,		/* n bytes of a record are kept inside */
};

struct prx_seg {
	enum pseg_kind kind;
	const uint8_t *p;	/* into the caller's bytes, or prx->rec */
	size_t n;
	uint32_t act;		/* actions to be carried out now */
	uint16_t other;		/* PA_RETREAT_TX: epoch of our own tx */
};

/* What the peer left in the slot's shared words (see proto_shm.h). */
struct pslot {
	uint16_t e;
	uint8_t state;		/* enum slot_state */
	uint8_t b0;
	uint64_t N, P;
};

void prx_init(struct prx *rx, uint64_t pos);
void prx_bind(struct prx *rx, uint32_t link, bool shared, uint64_t nonce, uint64_t window);
void prx_window(struct prx *rx, uint64_t window);	/* WINDOW agreed */

/* link messages from the peer's sender */
uint32_t prx_on_switch(struct prx *rx, uint32_t link, uint16_t e, uint64_t N, uint8_t b0,
		       bool evidence_ok, bool wake_ok);
uint32_t prx_on_data(struct prx *rx, uint32_t link, uint64_t n);
uint32_t prx_on_fin(struct prx *rx, uint32_t link, uint16_t e, uint64_t P);
uint32_t prx_on_unbind(struct prx *rx, uint32_t link, uint16_t e);
uint32_t prx_on_quiet(struct prx *rx, uint32_t link, uint16_t e, uint64_t count);
uint32_t prx_link_dead(struct prx *rx, uint32_t link);

/* NOTED with pos = N (PA_ANSWER): SWITCHED if nobody is inside a kernel read, else REFUSED */
uint32_t prx_answer(struct prx *rx, bool wake_ok);

/*
 * Parse the front of what a kernel read returned.  Returns how many of the n
 * bytes are used up (a segment taken from prx->rec may use none); call again
 * until all are.  seg->p of PSEG_APP is valid until the next call.
 */
size_t prx_eat(struct prx *rx, const uint8_t *p, size_t n, struct prx_seg *seg);
/* Most bytes the next kernel read may take; in READY with have = 0 peek one byte first. */
uint64_t prx_next_read(const struct prx *rx);
/*
 * Short cut for cold and plain conns: while prx_plain(), what a kernel read
 * returned is all the application's, and prx_took() does for prx_eat().
 */
static inline bool prx_plain(const struct prx *rx)
{
	return rx->state == PRX_RAW && !(rx->drop | rx->left) && !rx->closed && !rx->eof;
}
static inline void prx_took(struct prx *rx, uint64_t n)
{
	rx->pos += n;
	rx->since += n;
}
/* READY, have = 0: the first byte in the kernel queue, left there.  b0: leaves the epoch. */
uint32_t prx_peek(struct prx *rx, uint8_t byte);

/* Ring bytes for the application now: [*from, *from + return), taken modulo the ring. */
uint64_t prx_avail(const struct prx *rx, uint64_t *from);
uint32_t prx_consumed(struct prx *rx, uint64_t n);
uint32_t prx_before_sleep(struct prx *rx);	/* a credit must not wait for us */
uint64_t prx_credit_take(struct prx *rx);	/* the word to send: e << 48 | C */

/* want raw: exec, fd passing, an unseen waiter */
uint32_t prx_want(struct prx *rx);
void prx_unwant(struct prx *rx);
/* The link has told of the end, which the program may not have come to yet. */
bool prx_fin_known(const struct prx *rx);
/* A SWITCH that is noted and not answered: not this time. */
uint32_t prx_decline(struct prx *rx);
/* The kernel socket may be handed over.  soft: and slot_bar() must succeed.  queued: FIONREAD. */
bool prx_is_raw(const struct prx *rx, uint64_t queued);

/* the application's last close */
uint32_t prx_close(struct prx *rx);
/* The kernel socket (private dup) may be closed: after SHUT_WR, rules LAST. */
bool prx_last(const struct prx *rx, const struct ptx *tx, bool fin_acked, bool late);

/* the kernel's end of stream, everything before it parsed */
void prx_on_kfin(struct prx *rx);
void prx_on_krst(struct prx *rx);
/* ON: the stream ends by a reset behind what has arrived. */
void prx_cut(struct prx *rx);
/* Ended: what is left in the ring is somewhere else from now on. */
void prx_moved(struct prx *rx);
/* As one that has ended, with nothing in a ring. */
void prx_over(struct prx *rx, bool reset);
/*
 * VERDICT: judge the kernel's end.  Without shared memory in ON that is only
 * possible once the link has ended; a caller that sees the FIN there bounds
 * its wait and kills the link itself.  slot: the highest epoch's slot words of
 * this direction, read after the FIN, NULL without shared memory.  unread:
 * the peer had not consumed all our own ring bytes.  true: PRX_ENDED now;
 * false: nothing to judge, or call again after prx_link_dead().
 */
bool prx_verdict(struct prx *rx, const struct pslot *slot, bool unread);
enum prx_endkind prx_end(const struct prx *rx);	/* once prx_avail() is 0 */
/* The receive ring may serve another conn (rule FREE, link alive). */
bool prx_ring_free(const struct prx *rx, uint32_t link);

static inline bool prx_in_epoch(const struct prx *rx)
{
	return rx->state == PRX_NOTED || rx->state == PRX_READY || rx->state == PRX_ON;
}
static inline bool prx_no_kernel_read(const struct prx *rx)	/* GATE */
{
	return rx->state == PRX_ON || rx->drop > 0;
}

/* ------------------------------------------------------------ records -- */

enum prec_type { PREC_SWITCH = 1, PREC_REQUEST = 2, PREC_RESUME = 3 };
#define PREC_WANT_YOURS	1u

struct prec {
	uint8_t type;
	uint8_t mark;		/* SWITCH: ~b0 */
	uint8_t flags;
	uint16_t e;
	uint16_t other;		/* REQUEST, WANT_YOURS: epoch of the other direction */
	uint64_t nonce;
	uint64_t K, P;		/* RESUME */
};

void prec_encode(uint8_t buf[PREC_SIZE], const struct prec *r);
int prec_decode(struct prec *r, const uint8_t buf[PREC_SIZE]);	/* 0 or -EPROTO */

#endif
