/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* test_base.c - settings, counters and their JSON, private descriptors */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/counters.h"
#include "base/privfd.h"
#include "base/reasons.h"
#include "base/util.h"

/* --- config --- */

static const struct {
	const char *variable, *value;
	int ret;
} values[] = {
	{ "SIDESTEP", "on", 0 }, { "SIDESTEP", "off", 0 }, { "SIDESTEP", "0", 0 },
	{ "SIDESTEP", "yes", -EINVAL }, { "SIDESTEP", "", -EINVAL },
	{ "SIDESTEP_ATTACH", "auto", 0 }, { "SIDESTEP_ATTACH", "eager", 0 },
	{ "SIDESTEP_ATTACH", "never", 0 }, { "SIDESTEP_ATTACH", "65536", 0 },
	{ "SIDESTEP_ATTACH", "-1", -EINVAL }, { "SIDESTEP_ATTACH", "64k", -EINVAL },
	{ "SIDESTEP_ATTACH", "1234567890123456789", -EINVAL },
	{ "SIDESTEP_RNIC", "soft", 0 }, { "SIDESTEP_RNIC", "mlx5_0", 0 },
	{ "SIDESTEP_RNIC", "", -EINVAL },
	{ "SIDESTEP_RNIC", "a-name-that-is-much-longer-than-any-that-the-kernel-gives-to-a-device", -EINVAL },
	{ "SIDESTEP_RING_BYTES", "4096", 0 }, { "SIDESTEP_RING_BYTES", "16777216", 0 },
	{ "SIDESTEP_RING_BYTES", "4095", -EINVAL }, { "SIDESTEP_RING_BYTES", "5000", -EINVAL },
	{ "SIDESTEP_RING_BYTES", "33554432", -EINVAL }, { "SIDESTEP_RING_BYTES", "0x1000", -EINVAL },
	{ "SIDESTEP_SPIN_US", "auto", 0 }, { "SIDESTEP_SPIN_US", "0", 0 },
	{ "SIDESTEP_SPIN_US", "1000000", 0 }, { "SIDESTEP_SPIN_US", "1000001", -EINVAL },
	{ "SIDESTEP_LOG", "trace", 0 }, { "SIDESTEP_LOG", "loud", -EINVAL },
	{ "SIDESTEP_STATS_FILE", "/a/%p", 0 },
	{ "SIDESTEP_FAULT", "retreat:20", 0 }, { "SIDESTEP_FAULT", "fail-mr:3,no-write-imm", 0 },
	{ "SIDESTEP_FAULT", "", 0 }, { "SIDESTEP_FAULT", "retreat:", -EINVAL },
	{ "SIDESTEP_FAULT", "retreat:x", -EINVAL }, { "SIDESTEP_FAULT", "retreats", -EINVAL },
	{ "SIDESTEP_NO_SUCH", "1", -EINVAL },
};

static void values_are_taken_or_refused(void **state)
{
	static struct config c;

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		int ret = config_set(&c, values[i].variable, values[i].value);

		if (ret != values[i].ret)
			fail_msg("%s=%s: %d", values[i].variable, values[i].value, ret);
	}
}

static void values_mean_what_they_say(void **state)
{
	static struct config c;

	config_set(&c, "SIDESTEP", "off");
	assert_false(c.enabled);
	config_set(&c, "SIDESTEP_ATTACH", "eager");
	assert_int_equal(c.attach, ATTACH_EAGER);
	config_set(&c, "SIDESTEP_ATTACH", "4096");
	assert_int_equal(c.attach, 4096);
	config_set(&c, "SIDESTEP_RNIC", "rxe0");
	assert_int_equal(c.rnic.choice, RNIC_NAMED);
	assert_string_equal(c.rnic.device, "rxe0");
	config_set(&c, "SIDESTEP_FAULT", "retreat:20, kill-link");
	assert_int_equal(c.fault.retreat, 20);
	assert_int_equal(c.fault.kill_link, 1);
	assert_int_equal(c.fault.fail_mr, 0);
}

static void environment_is_read(void **state)
{
	static char text[][32] = {
		"PATH=/bin", "SIDESTEP_RING_BYTES=65536", "SIDESTEP_SPIN_US=no", "SIDESTEP_LOG=",
		"SIDESTEPPING=1", "SIDESTEP_STATS_FILE=/x", "SIDESTEP",
	};
	char *env[ARRAY_SIZE(text) + 1] = { NULL };

	for (size_t i = 0; i < ARRAY_SIZE(text); i++)
		env[i] = text[i];

	assert_int_equal(config_load(env), 2);	/* SPIN_US, and a name that is none */
	assert_int_equal(config.ring_bytes, 65536);
	assert_int_equal(config.spin_us, SPIN_AUTO);
	assert_string_equal(config.stats_file, "/x");
	assert_true(config.enabled);
}

static void no_environment_gives_defaults(void **state)
{
	assert_int_equal(config_load(NULL), 0);
	assert_true(config.enabled);
	assert_int_equal(config.attach, ATTACH_AUTO);
	assert_int_equal(config.ring_bytes, 2097152);
	assert_string_equal(config.stats_file, "");
}

static void overlong_path_is_refused(void **state)
{
	static struct config c;
	char path[4200];

	memset(path, 'a', sizeof(path));
	path[4096] = '\0';
	assert_int_equal(config_set(&c, "SIDESTEP_LOG_FILE", path), -EINVAL);
	path[4095] = '\0';
	assert_int_equal(config_set(&c, "SIDESTEP_LOG_FILE", path), 0);
}

/* --- counters --- */

static void *count_many(void *arg)
{
	for (int i = 0; i < 1000; i++)
		count(CNT_wr_posted, 2);
	count_reason(REASON_FORK);
	return arg;
}

static void counts_of_ended_threads_stay(void **state)
{
	pthread_t t[40];
	struct counters sum;

	counters_reset();
	for (int round = 0; round < 5; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			assert_int_equal(pthread_create(&t[i], NULL, count_many, NULL), 0);
		for (size_t i = 0; i < ARRAY_SIZE(t); i++)
			pthread_join(t[i], NULL);
	}
	counters_sum(&sum);
	assert_int_equal(sum.v[CNT_wr_posted], 5 * ARRAY_SIZE(t) * 2000);
	assert_int_equal(sum.reason[REASON_FORK], 5 * ARRAY_SIZE(t));
}

static void json_is_one_line_with_every_counter(void **state)
{
	char buf[8192], want[64];

	counters_reset();
	count(CNT_ring_tx_bytes, 5000000000ull);
	count_reason(REASON_LINK_LOST);
	count_reason(REASON_LINK_LOST);
	size_t n = counters_json(buf, sizeof(buf));
	assert_int_equal(n, strlen(buf));
	assert_ptr_equal(strchr(buf, '\n'), buf + n - 1);
	for (int i = 0; i < CNT_COUNT; i++) {
		snprintf(want, sizeof(want), ",\"%s\":", counter_name((enum counter)i));
		if (!strstr(buf, want))
			fail_msg("%s is missing", want);
	}
	assert_non_null(strstr(buf, "\"ring_tx_bytes\":5000000000,"));
	assert_non_null(strstr(buf, "\"reasons\":{\"link-lost\":2}}"));
	assert_int_equal(strncmp(buf, "{\"program\":\"", 12), 0);
}

static void json_fits_what_it_is_given(void **state)
{
	char buf[8192];

	memset(buf, '#', sizeof(buf));
	for (size_t size = 1; size < 400; size++) {
		size_t n = counters_json(buf, size);

		assert_true(n < size);
		assert_int_equal(buf[size], '#');
	}
}

static void file_gets_one_line_a_write(void **state)
{
	char dir[] = "/tmp/sidestep-base-XXXXXX", path[64], real[64], line[8192];

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s.%%p", dir);
	snprintf(real, sizeof(real), "%s/s.%d", dir, (int)getpid());
	assert_int_equal(counters_write_file(path), 0);
	assert_int_equal(counters_write_file(path), 0);
	FILE *f = fopen(real, "r");
	assert_non_null(f);
	int lines = 0;
	while (fgets(line, sizeof(line), f)) {
		assert_int_equal(line[0], '{');
		lines++;
	}
	fclose(f);
	unlink(real);
	rmdir(dir);
	assert_int_equal(lines, 2);
	assert_int_equal(counters_write_file("/no/such/place"), -ENOENT);
}

static void every_reason_has_a_name_of_its_own(void **state)
{
	for (int i = 0; i < REASON_COUNT; i++) {
		assert_non_null(reason_name((enum reason)i));
		assert_true(strlen(reason_text((enum reason)i)) > 3);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(reason_name((enum reason)i), reason_name((enum reason)j));
	}
}

/* --- private descriptors --- */

static int fresh(void)
{
	int fd = open("/dev/null", O_RDONLY);

	assert_true(fd >= 0);
	return fd;
}

static void adopted_descriptor_moves_up_and_closes_on_exec(void **state)
{
	int fd = fresh();
	int high = privfd_adopt(fd);

	assert_true(high > fd);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(fcntl(high, F_GETFD), FD_CLOEXEC);
	assert_true(privfd_is(high));
	assert_false(privfd_is(fd));
	assert_false(privfd_is(-1));
	privfd_close(high);
	assert_false(privfd_is(high));
	assert_int_equal(fcntl(high, F_GETFD), -1);
}

static void next_finds_them_in_order(void **state)
{
	int a = privfd_adopt(fresh()), b = privfd_adopt(fresh()), c = privfd_adopt(fresh());

	assert_int_equal(privfd_next(0), a);
	assert_int_equal(privfd_next(a + 1), b);
	privfd_close(b);
	assert_int_equal(privfd_next(a + 1), c);
	assert_int_equal(privfd_next(c + 1), -1);
	privfd_close_all(NULL);
	assert_int_equal(privfd_next(0), -1);
	assert_int_equal(fcntl(a, F_GETFD), -1);
}

static void error_passes_through(void **state)
{
	assert_int_equal(privfd_adopt(-EMFILE), -EMFILE);
	assert_int_equal(privfd_adopt(1000000), -EBADF);
	privfd_close(-1);
}

static void closing_what_is_not_ours_does_nothing(void **state)
{
	int fd = fresh();

	privfd_close(fd);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_taken_or_refused),
		cmocka_unit_test(values_mean_what_they_say),
		cmocka_unit_test(environment_is_read),
		cmocka_unit_test(no_environment_gives_defaults),
		cmocka_unit_test(overlong_path_is_refused),
		cmocka_unit_test(counts_of_ended_threads_stay),
		cmocka_unit_test(json_is_one_line_with_every_counter),
		cmocka_unit_test(json_fits_what_it_is_given),
		cmocka_unit_test(file_gets_one_line_a_write),
		cmocka_unit_test(every_reason_has_a_name_of_its_own),
		cmocka_unit_test(adopted_descriptor_moves_up_and_closes_on_exec),
		cmocka_unit_test(next_finds_them_in_order),
		cmocka_unit_test(error_passes_through),
		cmocka_unit_test(closing_what_is_not_ours_does_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
