/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_area.c - registered memory in steps, and rings cut from it (software RNIC, fault far) */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/counters.h"
#include "link/area.h"

#define BASE	(3 * AREA_PAGE)
#define RINGS	2000

static struct area a;
static struct rnic_slab slab;
static struct rnic *rnic;
static struct ibv_pd *pd;
static struct place rings[RINGS];

static uint64_t registrations(void)
{
	struct counters sum;

	counters_sum(&sum);
	return sum.v[CNT_mr_registrations];
}

/* far: KiB that may be registered, 1: as many as are wanted */
static void begin(uint32_t far)
{
	config.fault.far = far;
	assert_int_equal(rnic_soft_ops.open(&rnic, NULL), 0);
	pd = rnic_soft_ops.pd_new(rnic);
	assert_non_null(pd);
}

static void end(void)
{
	area_close(&a);
	rnic_soft_ops.slab_free(&slab);
	rnic_soft_ops.pd_free(pd);
	rnic_soft_ops.close(rnic);
	rnic = NULL;
}

static bool take(uint32_t bytes, struct place *p)
{
	return !area_room(&a, bytes) && area_take(&a, bytes, p);
}

/* In registered memory, at a multiple of its size, and nobody else's. */
static void check(const struct place *p, int others)
{
	assert_int_equal((p->off - BASE) % p->bytes, 0);
	assert_true(p->off >= BASE && p->off + p->bytes <= a.end);
	for (int i = 0; i < others; i++)
		assert_true(rings[i].off + rings[i].bytes <= p->off || p->off + p->bytes <= rings[i].off);
	memset((uint8_t *)slab.addr + p->off, 1, p->bytes);
}

static void a_thousand_rings_in_few_registrations(void **state)
{
	uint64_t before = registrations();

	begin(1);
	assert_int_equal(area_open(&a, rnic->ops, pd, &slab, true, BASE), 0);
	assert_int_equal(a.end, BASE + AREA_STEP);
	for (int i = 0; i < 1000; i++) {
		assert_true(take(16384, &rings[i]));
		check(&rings[i], i);
	}
	/* 256 KiB to 4 MiB, and that again for the rest of 16 MiB */
	assert_in_range(registrations() - before, 5, 8);
	assert_true(a.end < BASE + 1000 * 16384 + AREA_STEP_MOST);
	end();
}

static void sizes_fit_between_each_other(void **state)
{
	unsigned int seed = 1;

	begin(1);
	assert_int_equal(area_open(&a, rnic->ops, pd, &slab, true, BASE), 0);
	for (int i = 0; i < 400; i++) {
		assert_true(take(AREA_PAGE << rand_r(&seed) % 7, &rings[i]));
		check(&rings[i], i);
	}
	size_t end_then = a.end;
	for (int i = 0; i < 400; i++) {
		uint32_t bytes = rings[i].bytes;

		area_put(&a, &rings[i]);
		assert_int_equal(rings[i].off, 0);
		area_put(&a, &rings[i]);	/* none: nothing happens */
		assert_true(area_take(&a, bytes, &rings[i]));
	}
	assert_int_equal(a.end, end_then);
	end();
}

static void what_may_be_locked_is_used_to_the_last_step(void **state)
{
	int n = 0;

	begin(1024);
	assert_int_equal(area_open(&a, rnic->ops, pd, &slab, true, BASE), 0);
	while (n < RINGS && take(AREA_PAGE, &rings[n])) {
		check(&rings[n], n);
		n++;
	}
	assert_in_range(n, (1024 - 64 - 12) / 4, (1024 - 12) / 4);
	/* what one gives back is another's; a larger one has no room */
	assert_false(take(AREA_PAGE, &rings[n]));
	area_put(&a, &rings[7]);
	assert_true(take(AREA_PAGE, &rings[7]));
	assert_int_equal(area_room(&a, 8192), -ENOMEM);
	end();
	/* and all of it is there again */
	begin(1024);
	assert_int_equal(area_open(&a, rnic->ops, pd, &slab, true, BASE), 0);
	end();
}

static void too_little_for_the_first_part(void **state)
{
	begin(64);
	assert_int_equal(area_open(&a, rnic->ops, pd, &slab, true, BASE), -ENOMEM);
	end();
}

static void no_more_than_there_are_addresses(void **state)
{
	int n = 0;

	begin(1);
	assert_int_equal(area_open(&a, rnic->ops, pd, &slab, true, BASE), 0);
	while (n < RINGS && take(AREA_RING_MOST, &rings[n]))
		n++;
	assert_int_equal(n, AREA_BYTES / AREA_RING_MOST);
	assert_int_equal(a.end, slab.len);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thousand_rings_in_few_registrations),
		cmocka_unit_test(sizes_fit_between_each_other),
		cmocka_unit_test(what_may_be_locked_is_used_to_the_last_step),
		cmocka_unit_test(too_little_for_the_first_part),
		cmocka_unit_test(no_more_than_there_are_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
