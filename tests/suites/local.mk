# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
EXTRA_DIST += tests/suites/README tests/suites/run tests/suites/suitelib.py \
	tests/suites/sources.py tests/suites/cpython.py tests/suites/stressng.py \
	tests/suites/redis.py tests/suites/libevent.py tests/suites/libuv.py \
	tests/suites/node.py

# Other people's suites: fetched, built and run below suites/, for most of an hour.
SUITES_FLAGS =
.PHONY: check-suites
check-suites: all
	$(srcdir)/tests/suites/run --build $(abs_builddir) $(SUITES_FLAGS)
