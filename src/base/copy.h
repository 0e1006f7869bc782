/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * copy.h - copying many bytes that another core reads or has written
 *
 * What was measured is in sidestep-bench rnic and ab stream:65536, and in
 * doc/observed.md.  dst and src never overlap here.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define COPY_LINE 64u
#define COPY_MANY 2048u

/*
 * A plain loop: beyond 2 KiB glibc's memcpy() is "rep movsb" where the processor
 * calls that fast, which between the caches of two cores it is not.
 */
static inline void copy_bytes(void *dst, const void *src, size_t n)
{
	char *d = dst;
	const char *s = src;

	if (n >= COPY_MANY)
		for (; n >= COPY_LINE; d += COPY_LINE, s += COPY_LINE, n -= COPY_LINE) {
			/* or the compiler makes a call of memcpy() of the whole */
			__asm__("" : "+r"(d), "+r"(s));
			memcpy(d, s, COPY_LINE);
		}
	memcpy(d, s, n);
}

/*
 * Past the caches to memory: the writer need not get the lines from a core that
 * shares no cache with it, nor the reader from the writer.  Seen in order by
 * who acquires what is released after this.
 */
static inline void copy_past_caches(void *dst, const void *src, size_t n)
{
#ifdef __SSE2__
	char *d = dst;
	const char *s = src;
	size_t head = -(uintptr_t)d & (COPY_LINE - 1);

	if (n >= COPY_MANY) {
		memcpy(d, s, head);
		d += head;
		s += head;
		n -= head;
		for (; n >= COPY_LINE; d += COPY_LINE, s += COPY_LINE, n -= COPY_LINE)
			for (size_t i = 0; i < COPY_LINE; i += sizeof(__m128i))
				_mm_stream_si128((__m128i *)(void *)(d + i),
						 _mm_loadu_si128((const __m128i *)(const void *)(s + i)));
		_mm_sfence();	/* such stores keep no order of their own */
	}
	memcpy(d, s, n);
#else
	copy_bytes(dst, src, n);
#endif
}

#endif
