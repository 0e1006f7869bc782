/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * conn.h - what we know of one TCP connection (one open file description)
 *
 * Memory is type-stable: conns are cut from slabs that are never unmapped, so
 * whoever finds a stale pointer may still take its lock and then look whether
 * it is what he thought (fd table entry, or gen).
 *
 * Locks: rxl before txl; both inside engine.poll_lock, outside post_lock.
 *	txl	tx and everything named tx_*
 *	rxl	rx and everything named rx_*
 *	both	fd, nfds, binding (link, slot, peer_slot), meet; reading under one is enough
 * No lock is held across a call that may block.
 *
 * What is read without its lock (readiness, the warm-up, timers, exit) is
 * stored st_rlx() under the lock and loaded ld_rlx() without it.  Such a load
 * is a hint: whoever acts on it looks again under the lock, or is told of the
 * next change by wait_wake_ready().  meet and why become OVER under one lock
 * alone, and then stay; every other change of theirs is made under both.
 *
 * A conn is tracked from socket() on (or from accept()), becomes established
 * with connect() or accept(), is bound when the two ends have found and proven
 * each other, and unbound when its link is gone or it has closed.
 */
#ifndef SOCK_CONN_H
#define SOCK_CONN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/reasons.h"
#include "link/link.h"
#include "meet/ask.h"
#include "meet/proof.h"
#include "progress/bg.h"
#include "sock/owed.h"
#include "sock/proto.h"
#include "sock/proto_shm.h"

#define CONN_PIECE	(256u * 1024)	/* largest piece of a blocking kernel write */
#define CONN_WINDOW_MIN	(16u * 1024)
#define CONN_AHEAD	(64u * 1024)	/* a smaller window is no reason for EAGAIN */

/* directions, as bits */
#define CONN_TX		1u
#define CONN_RX		2u
#define CONN_BOTH	(CONN_TX | CONN_RX)

enum conn_meet {
	MEET_IDLE,		/* nothing under way */
	MEET_QUEUED,		/* the background thread has it */
	MEET_ASKING,		/* names of the port are being asked */
	MEET_BINDING,		/* BIND is out */
	MEET_BOUND,
	MEET_OVER		/* never again: why says the reason */
};

struct io;

/* What has been, for who asks (show.c): a direction's under its lock. */
struct conn_past {
	uint64_t ring_tx, ring_rx;	/* bytes of stays on the ring that are over */
	uint32_t attaches;
	uint32_t retreats;		/* atomic, as last: either lock */
	uint8_t tx_path, rx_path;	/* enum page_path, as shown last */
	uint8_t last;			/* reason of the last retreat */
};

/* entry of a conn in an epoll set; the list is under ready's lock */
struct eent;

struct conn {
	/* ---- sending ---- */
	struct lock txl cacheline_aligned;
	uint32_t tx_inside;		/* threads inside a kernel write */
	uint32_t tx_asking;		/* the same, but lowered (released) when all is counted */
	uint8_t *tx_ring;		/* the peer's ring, mapped; far: ours, to send from (far.h) */
	struct slot_shm *tx_words;	/* ... and the shared words beside it; far: rx_words */
	uint64_t tx_ring_bytes;
	uint64_t tx_grown;		/* memory found for the window */
	uint64_t tx_past_ticks;		/* until then bulk goes past the caches */
	uint32_t tx_slow;		/* slow copies of late, less quick ones */
	uint64_t tx_seq;		/* last notification posted */
	uint64_t tx_posted;		/* far: bytes of the epoch that are on their way, or there */
	uint8_t tx_wlog;		/* log2 of the present window */
	bool tx_fin_due;		/* far: FIN follows the last byte that is posted */
	bool tx_grow;			/* was full: double the window when that moves nothing */
	bool tx_granted;		/* the peer lets us switch */
	bool tx_wanted;			/* WANT_CREDIT is out */
	bool tx_blocked;		/* a writer met a full ring: report OUT when there is room */
	uint32_t tx_dries;		/* how often there was no room for all, or none was seen */
	bool tx_stuck;			/* PUMP or a record waits for kernel room */
	bool tx_shut;			/* the application has shut down this direction */
	bool tx_doubt;			/* the peer has half-closed: its death says nothing more by the kernel */
	bool tx_fin_out;		/* the kernel's FIN is out */
	uint64_t tx_given;		/* stream bytes that the program has had taken */
	uint64_t tx_progress_ns;	/* when the reader last made progress, while full */
	uint64_t tx_looked_ns;		/* ... and when that was last looked at; the background thread's */
	uint64_t tx_retry_bytes;	/* no attach before kc reaches this */
	uint32_t tx_fails;		/* attaches that came to nothing, in a row */
	uint32_t tx_calls;		/* writes so far, saturating */
	uint64_t tx_retreat_ns;		/* fault injection: when to retreat next */
	const struct io *tx_owner;	/* a write that is half in the ring: others wait for it */
	uint64_t tx_owner_ns;		/* when it last got on */
	struct ptx tx;
	struct prefix tx_prefix;
	/* far: */
	uint64_t tx_more_ns;		/* not before that is a larger ring asked for */
	uint64_t tx_last_P;		/* bytes that are on their way from the last ring */
	uint64_t tx_told;		/* of rx_credit, by what goes along with bytes */
	uint64_t tx_heard;		/* the peer's, as credit_pack(); written under poll_lock */
	uint32_t tx_flight;		/* small writes that are not done */
	uint16_t tx_last_e;		/* tx_last_P is of this epoch */
	bool tx_more;			/* a larger ring is to be asked for, or has been */
	bool tx_expects;		/* bytes wait for a write that is done */
	uint64_t tx_ping, tx_ping_ns;	/* a PING sent at the kernel's end, 0: none; how long to wait */

	/* ---- receiving ---- */
	struct lock rxl cacheline_aligned;
	uint32_t rx_inside;		/* threads inside a kernel read */
	uint8_t *rx_ring;
	struct slot_shm *rx_words;
	uint64_t rx_ring_bytes;
	uint64_t rx_told;		/* far: C as last written to the peer */
	uint64_t rx_ticked;		/* far: C at the last tick that found it untold */
	uint64_t rx_credit;		/* far: epoch and C, credit_pack(), for who tells them */
	uint64_t rx_switch_N;		/* far: of the last SWITCH; FAR_NO_SWITCH: it is forgotten */
	uint64_t rx_end_ns;		/* far: when the kernel's end came, of which the judgement waits */
	bool rx_end_due;		/* ... and waits no more */
	bool rx_end_read;		/* a read of the program's has come to the kernel's end */
	uint8_t rx_wlog;
	bool rx_wanted;			/* the peer's writer sleeps: send CREDIT */
	bool rx_granted;		/* GRANT is out */
	bool rx_read;			/* an intercepted read has happened */
	bool rx_waited;			/* an intercepted wait covered it */
	bool rx_shut;			/* shutdown(SHUT_RD) */
	bool rx_shut_out;		/* ... and the kernel has been told */
	uint8_t rx_shut_looks;		/* ... whether it may be, by timer */
	bool rx_shut_clean;		/* ... both ways, with nothing unread: no byte is welcome */
	bool rx_shut_over;		/* ... with this much in the ring: none behind that is welcome */
	uint16_t rx_shut_e;
	uint64_t rx_shut_P;
	uint32_t owed;			/* the socket's error (owed.h) */
	bool err_left;			/* a reset that reads as an end: the kernel has its error still */
	bool lowat;			/* SO_RCVLOWAT is above one: only the kernel knows IN */
	bool inq;			/* TCP_INQ: how much is left is told with what is read */
	bool reset;			/* the peer died over unread bytes: to the program a RST */
	uint32_t rx_polls;		/* reads since the CQ was looked at */
	bool past_us;			/* options and flags may change without our knowledge */
	uint64_t rx_given;		/* stream bytes that the program has had */
	uint16_t rx_settled;		/* the epoch whose record has been waited for once */
	uint32_t rx_dries;		/* how often the program has found no more */
	uint32_t rx_asking;		/* threads inside a cold read that is not counted yet */
	bool rx_looking;		/* ... or is about to: set ahead of rx_dries, which it releases */
	uint32_t rx_starved;		/* ... where more may be between ring and kernel */
	uint64_t rx_base;		/* rx_given when ring byte 0 of the epoch was next */
	struct prx rx;
	struct prefix rx_prefix;
	uint64_t rx_more;		/* far: bytes of the ring that the peer asks for; 0: it does not */
	uint64_t rx_ping;		/* behind the end of a GRANT (struct link), 0: none */

	/* ---- both ---- */
	int fd cacheline_aligned;	/* a number of ours or, when closing, a private dup; -1 */
	uint32_t nfds;			/* numbers of the program's */
	uint32_t refs;
	uint32_t gen;			/* bumped when the conn is freed */
	uint32_t id;			/* its place in memory, the same for ever and over forks */
	uint64_t kin_born;		/* forks of this process before it was made */
	uint64_t route_mark;		/* bytes both ways when an option was set; both */
	uint32_t sleepers;		/* calls that sleep in our wait; each has a reference */
	uint32_t rx_plain_polls;	/* threads in plain poll/select over it */
	bool tracked;			/* a stream socket that may one day attach */
	bool established;
	bool active;			/* we called connect() */
	bool listening;
	bool listen_there;		/* ... also for peers of other hosts */
	bool nonblock;
	bool closing;			/* the program has closed its last number */
	bool deferred;			/* ... but a call is still asleep on it */
	bool ever_ring;			/* was attached once, either direction */
	bool ever_bound;
	bool inherited;			/* came over a fork: does not attach before heir_take() */
	bool heir_over;			/* was in a fork: no will is made for it any more */
	uint8_t kin;			/* CONN_TX, CONN_RX: to be asked for before it is used (kin.h) */
	uint8_t kin_way;		/* whom to ask; 0: nobody */
	bool end_kin;			/* closing, while another process may hold the socket */
	bool passed;			/* one does, or did, by SCM_RIGHTS */
	int rest;			/* 1 + a file with what is left to read, for children too (rest.h); rxl */
	uint64_t rest_bytes;		/* ... how much of it this process has not read */
	int owed_once;			/* 1 + a socket with one message: which of parent and children takes it tells the error */
	bool counted;			/* in conns_total */
	bool nodelay, cork;		/* the program's TCP_NODELAY and TCP_CORK */
	bool reg_tx;			/* what the kernel registrations in epoll sets follow; txl */
	uint8_t reg_rx;			/* rxl */
	enum conn_meet meet;
	enum reason why;		/* so far, for the final count */
	bool asked;			/* the program has asked for a ring: warm at once */
	struct conn_past past;
	uint64_t rcvtimeo_ns, sndtimeo_ns;	/* 0: none */
	uint16_t listen_port, listen_family;
	uint32_t meet_calls;		/* next try when tx_calls reaches this */
	uint64_t meet_bytes;		/* ... or kc this */

	struct link *link;
	uint16_t slot, peer_slot;
	uint64_t challenge;		/* of the BIND under way */
	uint8_t bind_digest[2][SHA256_BYTES];	/* ... and what it proved: a to b, b to a */
	uint64_t grant_ticks;		/* when to look again whether the peer may switch */
	uint64_t rec_nonce;		/* what the peer's records must bear */
	uint32_t peer_uid;		/* whose the other end is, says the kernel */
	uint8_t only;			/* enum conn_only; a child's, too */
	bool elsewhere;			/* ... that there is none on this host */
	uint32_t owner_first;		/* ... by this reading of /proc or a later one; 0: not asked yet */
	uint64_t bind_ns;		/* when BIND went out */
	bool asked_again;		/* ... after some time, not for its traffic */
	uint32_t meet_tries;
	uint64_t release_wait_ns;	/* until the next look whether a dead link can be left */
	uint64_t hurried_us;		/* fault hurry: waited for its ring so far; rxl */
	uint32_t losses;		/* links that died soon after the binding, in a row */
	uint32_t hint_tried;		/* serial of the last known process tried */
	bool bind_asked;		/* the link of this BIND is one that said "mine" */
	bool bind_answered;		/* poll_lock: the answer is in the inbox, or was */
	bool peer_gone;			/* the peer's RESET came: no more attach on this slot */
	bool linger0;			/* SO_LINGER {1,0} is set */
	uint64_t linger_ns;		/* ... with a time; 0: none */
	bool lingers;			/* close() waits for the FIN to be acked */
	bool linger_last;		/* ... and makes the last close itself: c->fd is its to take */
	bool end_begun;
	bool end_reset;			/* what the program has not read came after its close: RST */

	struct will *will;		/* heir.c: the parent's and the child's */
	uint16_t will_word;

	struct meet_tuple tuple;
	bool tuple_known;

	struct list accepted;		/* by peer port, accept_lock */
	struct list waiting;		/* for a meeting at the same port; background only */
	struct list eents;		/* memberships, ready's lock */
	struct list all;		/* every conn in use, conns_lock */
	struct list lurk;		/* something came for it lately, lurk_lock (unseen.c) */
	bool lurks;
	bool tx_offered;		/* room, to a writer that wants it */
	uint32_t lurk_looks;		/* at something that did not move */
	uint64_t lurk_C, lurk_P;	/* rx.C and tx.P as they were then */
	struct bg_src watch;		/* kernel socket, while the ring is in use or it is closing */
	uint32_t watch_events;
	bool watch_missed;		/* the kernel had no room for it: the timer looks */
	struct bg_work work;		/* something to do in the background */
	uint32_t todo;			/* bits of enum conn_job */
	struct bg_timer timer;
	bool timer_armed;		/* the background thread looks at this conn soon */
	uint64_t close_begun_ns;
	uint64_t close_wait_ns;
};

/* By a rule: no other kind of RNIC.  Set before anybody looks for its peer. */
enum conn_only { CONN_ONLY_SOFT = 1, CONN_ONLY_VERBS };

enum conn_job {
	JOB_MEET	= 1u << 0,	/* start or go on with the meeting */
	JOB_GRANT	= 1u << 1,	/* see whether the peer may switch */
	JOB_WATCH	= 1u << 2,	/* (re)register the kernel socket */
	JOB_PUMP	= 1u << 3,	/* records or kept bytes wait for kernel room */
	JOB_CLOSE	= 1u << 4,	/* the program has closed it */
	JOB_TIMER	= 1u << 5,	/* a deadline is to be watched: full ring, fault injection */
	JOB_LISTEN	= 1u << 6,	/* hold a name for the port (a listener) */
	JOB_HEIR	= 1u << 7,	/* the parent has left it to us */
	JOB_BACK	= 1u << 8,	/* a child by vfork() gives it to a new image */
	JOB_RING	= 1u << 9,	/* far: a larger ring is asked for, here or by the peer */
	JOB_CREDIT	= 1u << 10,	/* far: what was read is told, if no write has told it */
};

/* ---- life (conn.c) ---- */

/* NULL: no memory.  One reference: the fd table's. */
struct conn *conn_new(int fd);
void conn_get(struct conn *c);
void conn_put(struct conn *c);

/* Take the lock and make sure that fd still is this conn; NULL: it is not tracked. */
struct conn *conn_lock_tx(int fd);
struct conn *conn_lock_rx(int fd);
struct conn *conn_lock_both(int fd);
/* The same of who has the conn itself. */
static inline void conn_take_both(struct conn *c)
{
	lock_take(&c->rxl);
	lock_take(&c->txl);
}
static inline void conn_unlock_both(struct conn *c)
{
	lock_drop(&c->txl);
	lock_drop(&c->rxl);
}

/*
 * A thread comes out of a kernel call that it went into without a reference: is c
 * still what it was then?  If not it may be free, or another's, and is left alone.
 * A lock of c held, which keeps it from being either; who has no number of the
 * program's and no dup of ours any more may be without references.
 */
static inline bool conn_lives(const struct conn *c, uint32_t gen)
{
	return likely(ld_rlx(&c->gen) == gen && ld_rlx(&c->fd) >= 0);
}

/* A lock of c held: a call goes to sleep on c; it may go on with c whatever becomes of its number. */
static inline void conn_sleeper_in(struct conn *c)
{
	conn_get(c);
	add_acqrel(&c->sleepers, 1);
}
/*
 * No lock held.  The call is over: where the program has closed c meanwhile, this waits
 * as the last close does (SO_LINGER).
 */
void conn_sleeper_back(struct conn *c);
/* The same where a handler, or the end of the thread, interrupts that: nothing waits. */
void conn_sleeper_out(struct conn *c);

/*
 * The socket's error, to be told now.  Return: errno; 0: there is none, or another
 * thread, or process, has told it.
 */
int conn_owed_take(struct conn *c);
/* ... to be seen only. */
int conn_owed(struct conn *c);

/* By number and generation, with a reference; NULL: it is over. */
struct conn *conn_find(uint32_t id, uint32_t gen);

/* Is there one that a child of a fork would have to know more of than its number? */
bool conn_any_to_share(void);

/* Call fn for every conn in use, without locks held; fn may sleep not. */
void conn_for_each(void (*fn)(struct conn *c, void *arg), void *arg);

/* The page has been made: fn for every conn in use, under conns_lock. */
struct page;
void conn_show_all(struct page *p, void (*fn)(struct page *p, struct conn *c));

/* Queue something for the background thread. Any lock may be held but post_lock. */
void conn_todo(struct conn *c, uint32_t bits);
/* The same where nobody waits for it: the thread does not wake up beside the caller. */
void conn_todo_soon(struct conn *c, uint32_t bits);

/* It is on a ring, for the first time or not: count it once.  A lock of c held. */
void conn_count_ring(struct conn *c);

/* The conn is over: count its final reason. */
void conn_count_final(struct conn *c);

struct prefix_pool;
extern const struct prefix_pool conn_prefix_pool;

/* After a fork in the child. */
void conn_forget_engine(void);

/*
 * The readiness room above is told of two things (set at start-up, never NULL
 * afterwards); both are called with conn locks held and take its lock only.
 */
#define CONN_EDGES 0xffffffffu	/* what is there now is an edge: shutdown() tells all sleepers */
struct conn_watcher {
	/* Something may have become readable or writable; what is EPOLLIN, EPOLLOUT. */
	void (*event)(struct conn *c, uint32_t what);
	/* A direction went to the ring or came back: kernel registrations follow. */
	void (*moved)(struct conn *c);
	/* Threads asleep in a plain wait over it must come out and wait in ours. */
	void (*bound)(struct conn *c);
	/* It is the kernel's for good: waits on its sets may be plain again. */
	void (*unbound)(struct conn *c);
	/* No thread sleeps in a plain wait over it. */
	bool (*none_plain)(struct conn *c);
	/* Does the set with this number hold c?  1, 0, or -1: no set that we know. */
	int (*set_holds)(int ep, struct conn *c);
	/* The program has closed its last number: out of all epoll sets. */
	void (*closed)(struct conn *c);
	/*
	 * Number fd of c is about to be closed while others live: is it in a set?
	 * orphan: what the kernel has of it stays as it is.
	 */
	bool (*in_set)(struct conn *c, int fd, bool orphan);
	/* A first socket is tracked: waits must come by. */
	void (*tracked)(void);
	/* Its own descriptor, if any, is closed: sleepers cannot be told any more.  How many. */
	int (*shut)(void);
	/* A number that may be an epoll set's goes (true: it is one, and marked), or was
	 * duplicated.  No lock held. */
	bool (*set_gone)(int fd);
	void (*set_duped)(int oldfd, int newfd);
	/* Others may wait on the set with this number, if it is one.  No lock held. */
	void (*set_passed)(int fd);
};
extern const struct conn_watcher *conn_watcher;

/* ---- state questions, readable without a lock (a snapshot) ---- */

/* Of a bound conn: is its link over a device without shared memory?  txl; rxl */
static inline bool conn_tx_far(const struct conn *c)
{
	return !ld_rlx(&c->tx.shared);
}

static inline bool conn_rx_far(const struct conn *c)
{
	return !ld_rlx(&c->rx.bind_shared);
}

/* What is written goes to the ring. */
static inline bool conn_tx_in_ring(const struct conn *c)
{
	uint8_t s = ld_rlx(&c->tx.state);

	return s == PTX_SWITCHING || s == PTX_ON;
}

/* ... or is on its way back from it. */
static inline bool conn_tx_on_ring(const struct conn *c)
{
	uint8_t s = ld_rlx(&c->tx.state);

	return s == PTX_SWITCHING || s == PTX_ON || s == PTX_PUMP;
}

static inline bool conn_rx_on_ring(const struct conn *c)
{
	uint8_t s = ld_rlx(&c->rx.state);

	return s == PRX_READY || s == PRX_ON;
}

/*
 * What the kernel says of IN is not the program's: records, bytes that are to
 * be dropped, nothing yet of an end that the ring has told, and of an own
 * SHUT_RD it does not know (sock_shutdown()).  Of an end that has been judged
 * only we know what it was.
 */
static inline bool conn_rx_hidden(const struct conn *c)
{
	return conn_rx_on_ring(c) || ld_rlx(&c->rx.drop) || ld_rlx(&c->rx.eof) ||
	       ld_rlx(&c->rx_shut) || ld_rlx(&c->rx.state) == PRX_ENDED;
}

/*
 * An own SHUT_WR that the kernel will hear of when the ring is empty: of the
 * other half of HUP only the kernel knows.
 */
static inline bool conn_hup_by_kernel(const struct conn *c)
{
	return ld_rlx(&c->tx_shut) && conn_tx_on_ring(c) && !conn_rx_hidden(c);
}

/*
 * A reader may have found no more, and not counted it yet.  Asked before rx_dries and
 * rx_starved, by who knows from the kernel that something has come: a reader who
 * begins after that finds it.
 */
static inline bool conn_rx_looking(const struct conn *c)
{
	return ld_acq(&c->rx_looking) || ld_acq(&c->rx_asking);
}

/* ring bytes to be read now?  Without rxl: inside a guard (base/guard.h) */
static inline bool conn_ring_readable(const struct conn *c)
{
	const struct slot_shm *w = ld_rlx(&c->rx_words);

	if (ld_rlx(&c->rx.state) == PRX_ON) {
		uint64_t C = ld_rlx(&c->rx.C);

		return (w && slot_p_count(ld_acq(&w->p)) != C) || ld_rlx(&c->rx.finP) == C;
	}
	return ld_rlx(&c->rx.state) == PRX_ENDED || owed_error(&c->owed) || ld_rlx(&c->reset);
}

/*
 * Bytes that could be read from the ring before its end and that the peer is
 * writing to the kernel socket now.  They do not stop being readable for that.
 */
static inline uint64_t conn_rx_on_the_way(const struct conn *c)
{
	uint64_t left = ld_rlx(&c->rx.left), drop = ld_rlx(&c->rx.drop);

	return ld_rlx(&c->rx.state) == PRX_RAW && left > drop ? left - drop : 0;
}

/* The peer has switched and written; only its record is still to come.  Inside a guard */
static inline bool conn_rx_coming(const struct conn *c)
{
	const struct slot_shm *w = ld_rlx(&c->rx_words);

	return ld_rlx(&c->rx.state) == PRX_READY && w && slot_p_count(ld_acq(&w->p)) != 0;
}

/* far: the kernel has told an end, of which what the peer had posted before it may be missing. */
static inline bool conn_end_judged_soon(const struct conn *c)
{
	return ld_rlx(&c->rx_end_ns) && !ld_rlx(&c->rx_end_due) && ld_rlx(&c->rx.state) == PRX_ON;
}

/* The peer has left the ring, which we do not know yet.  Inside a guard */
static inline bool conn_rx_left(const struct conn *c)
{
	const struct slot_shm *w = ld_rlx(&c->rx_words);

	if (ld_rlx(&c->rx.state) != PRX_ON || !w)
		return false;
	return conn_rx_far(c) ? ld_rlx(&c->rx.unbound) : slot_left(w);
}

/* What the peer has consumed of the epoch, as far as is known.  Without txl: inside a guard */
static inline uint64_t conn_consumed(const struct conn *c, const struct slot_shm *words)
{
	uint16_t e = ld_rlx(&c->tx.e);
	uint64_t w = ld_acq(&words->credit);	/* pairs with rx_publish_credit() */
	uint64_t K = credit_epoch(w) == e ? credit_count(w) : 0;

	if (likely(!conn_tx_far(c)))
		return K;
	w = ld_acq(&c->tx_heard);		/* pairs with conn_far_arrived() */
	return credit_epoch(w) == e ? MAX(K, credit_count(w)) : K;
}

/* Without txl: inside a guard */
static inline uint64_t conn_ring_room(const struct conn *c)
{
	const struct slot_shm *words = ld_rlx(&c->tx_words);

	if (!words)
		return 0;
	uint64_t used = ld_rlx(&c->tx.P) - conn_consumed(c, words);
	uint64_t window = 1ull << ld_rlx(&c->tx_wlog);

	return used < window ? window - used : 0;
}

/* as the kernel reports OUT: a third of the buffer free */
static inline bool conn_ring_writable(const struct conn *c)
{
	uint8_t s = ld_rlx(&c->tx.state);

	if (s == PTX_PUMP)
		return false;
	if (s != PTX_SWITCHING && s != PTX_ON)
		return true;
	return conn_ring_room(c) >= (1ull << ld_rlx(&c->tx_wlog)) / 4;
}

#endif
