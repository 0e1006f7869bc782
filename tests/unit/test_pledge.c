/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_pledge.c - how much of a stream must have passed where no kernel knows its owner */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/config.h"
#include "sock/pledge.h"

static char path[] = "/tmp/sidestep-key.XXXXXX";

static void key(const char *name)
{
	snprintf(config.key_file, sizeof(config.key_file), "%s", name);
	pledge_start();
}

static void without_a_key_4_kib(void **state)
{
	key("");
	assert_false(pledge_seen_enough(0));
	assert_false(pledge_seen_enough(4095));
	assert_true(pledge_seen_enough(4096));
	assert_true(pledge_seen_enough(UINT64_MAX));
}

/* Who set one does not want to be without it. */
static void with_one_that_cannot_be_read_never(void **state)
{
	key("/nonexistent/key");
	assert_false(pledge_seen_enough(4096));
	assert_false(pledge_seen_enough(UINT64_MAX));
}

static void with_a_key_at_once(void **state)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "secret\n", 7), 7);
	close(fd);
	key(path);
	unlink(path);
	assert_true(pledge_seen_enough(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_key_4_kib),
		cmocka_unit_test(with_one_that_cannot_be_read_never),
		cmocka_unit_test(with_a_key_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
