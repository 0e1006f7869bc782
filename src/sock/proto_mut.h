/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * proto_mut.h - rules that the simulator takes out, one at a time
 *
 * The library is built without PROTO_MUTANTS: MUT() is the constant false and
 * nothing of this is in it.  tests/sim builds its own copy of proto_*.c.
 */
#ifndef SOCK_PROTO_MUT_H
#define SOCK_PROTO_MUT_H

#ifdef PROTO_MUTANTS

#define MUTANTS(X) \
	X(NONE, "all rules in force") \
	X(B0, "the record begins with the nonce, not with ~b0") \
	X(DELAY, "SWITCHED before N is reached") \
	X(EPOCH_RELEASE, "epochs not checked, attach without RELEASED") \
	X(EPOCH, "epochs not checked") \
	X(RELEASE, "attach again without RELEASED") \
	X(LATCH, "K is read again when the resend starts") \
	X(REFUSE, "SWITCH noted in any state") \
	X(COUNT, "records and dropped bytes not counted in pos") \
	X(ABANDON, "RESUME before the SWITCH record on a live link") \
	X(FREE, "ring recycled without UNBIND") \
	X(HOLD, "kernel FIN right after the link FIN") \
	X(RSFIN, "kernel FIN in ON, without RESUME") \
	X(LINGER, "SO_LINGER never armed on verbs") \
	X(OLD_LINGER, "SO_LINGER armed on soft, and in every PUMP") \
	X(SHARED, "the slot is not looked at outside ON") \
	X(LEFT, "resent bytes not counted down") \
	X(BAR, "exec as soon as the direction looks raw") \
	X(VERDICT, "kernel FIN in ON taken for an orderly end") \
	X(REREAD, "P of the messages, not of the slot") \
	X(REPEAT, "want asks once, a later SWITCH is noted") \
	X(NOTICE, "a link that died at one end is not probed") \
	X(LAST, "dup closed at once") \
	X(QUIET, "CLOSING is not answered, own FIN's ACK not looked at") \
	X(QUIET_EARLY, "dup closed on QUIET before pos = count") \
	X(QUIET_RESUME, "a quiet end still sends RESUME on link death") \
	X(LEFT2, "dup closed in RAW with resent bytes outstanding") \
	X(REFCL, "SWITCH noted after the close") \
	X(ACKED, "dup not closed when own FIN is acknowledged") \
	X(UNREAD, "a dead peer's unread bytes end in EOF") \
	X(WHOLE, "a retreat may cut a record that has begun")

enum proto_mutant {
#define X(sym, text) MUT_##sym,
	MUTANTS(X)
#undef X
	MUT_COUNT_OF
};

extern int proto_mutant;
#define MUT(sym) (proto_mutant == MUT_##sym)
#else
#define MUT(sym) 0
#endif

#endif
