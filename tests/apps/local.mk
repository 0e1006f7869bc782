# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
EXTRA_DIST += tests/apps/run tests/apps/faults tests/apps/applib.py tests/apps/cases.py \
	tests/apps/children.py tests/apps/listeners.py tests/apps/postgres.py \
	tests/apps/proxies.py tests/apps/runtimes.py \
	tests/apps/programs/Echo.java tests/apps/programs/children.py \
	tests/apps/programs/listeners.py tests/apps/programs/fetch.py \
	tests/apps/programs/echo.go tests/apps/programs/echo.js \
	tests/apps/programs/echo_asyncio.py

# Unmodified programs need minutes and packages: not a part of make check.
APPS_FLAGS =
.PHONY: check-apps
check-apps: all
	$(srcdir)/tests/apps/run --build $(abs_builddir) --mode both --mode server \
		--mode client $(APPS_FLAGS)
