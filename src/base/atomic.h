/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * atomic.h - the only atomics of the project; the order is in the name
 *
 * Every use that is not relaxed says at the place of use what it pairs with.
 */
#ifndef BASE_ATOMIC_H
#define BASE_ATOMIC_H

#define ld_rlx(p)	__atomic_load_n((p), __ATOMIC_RELAXED)
#define ld_acq(p)	__atomic_load_n((p), __ATOMIC_ACQUIRE)
#define st_rlx(p, v)	__atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define st_rel(p, v)	__atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define add_rlx(p, v)	__atomic_add_fetch((p), (v), __ATOMIC_RELAXED)
#define sub_rlx(p, v)	__atomic_sub_fetch((p), (v), __ATOMIC_RELAXED)
#define add_acqrel(p, v) __atomic_add_fetch((p), (v), __ATOMIC_ACQ_REL)
/* One less, but not below 0: a fork may have come between, and cleared it in the child. */
#define down_acqrel(p) \
	do { \
		uint32_t down_ = ld_rlx(p); \
		while (down_ && !__atomic_compare_exchange_n((p), &down_, down_ - 1, true, \
							     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) \
			; \
	} while (0)
#define sub_acqrel(p, v) __atomic_sub_fetch((p), (v), __ATOMIC_ACQ_REL)
#define or_acqrel(p, v)	__atomic_or_fetch((p), (v), __ATOMIC_ACQ_REL)
#define and_acqrel(p, v) __atomic_and_fetch((p), (v), __ATOMIC_ACQ_REL)
#define xchg_acqrel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define cas_acqrel(p, old, new) ({ \
	__typeof__(*(p)) _old = (old); \
	__atomic_compare_exchange_n((p), &_old, (new), 0, \
				    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); })

/* store-load order: the two sides of a Dekker pair (set flag, re-check) */
#ifdef __SANITIZE_THREAD__
extern unsigned fence_word;
#endif

static inline void fence_full(void)
{
#if defined(__SANITIZE_THREAD__)
	/* ThreadSanitizer knows no fences; it sees this as one word all threads meet at */
	__atomic_fetch_add(&fence_word, 0, __ATOMIC_SEQ_CST);
#elif defined(__x86_64__)
	/* half the cost of mfence, and as strong for cached memory */
	__asm__ __volatile__("lock; orl $0,(%%rsp)" ::: "memory", "cc");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* the compiler alone: a thread against its own signal handlers */
#define fence_signal()	__atomic_signal_fence(__ATOMIC_SEQ_CST)

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("isb" ::: "memory");
#endif
}

#endif
