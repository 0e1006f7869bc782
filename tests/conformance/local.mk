# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
check_PROGRAMS += tests/conformance/conform tests/conformance/fdecho

tests_conformance_conform_SOURCES = \
	tests/conformance/conform.h \
	tests/conformance/main.c \
	tests/conformance/play.c \
	tests/conformance/role.c \
	tests/conformance/warm.c \
	tests/conformance/bulk.c \
	tests/conformance/closing.c \
	tests/conformance/connect.c \
	tests/conformance/deaths.c \
	tests/conformance/dup.c \
	tests/conformance/ends.c \
	tests/conformance/epoll.c \
	tests/conformance/errors.c \
	tests/conformance/flags.c \
	tests/conformance/fork.c \
	tests/conformance/heir.c \
	tests/conformance/iov.c \
	tests/conformance/kin.c \
	tests/conformance/kinsets.c \
	tests/conformance/leave.c \
	tests/conformance/nonblock.c \
	tests/conformance/options.c \
	tests/conformance/raw.c \
	tests/conformance/readiness.c \
	tests/conformance/sandbox.c \
	tests/conformance/seams.c \
	tests/conformance/select.c \
	tests/conformance/sendfile.c \
	tests/conformance/sets.c \
	tests/conformance/settings.c \
	tests/conformance/shared.c \
	tests/conformance/signals.c \
	tests/conformance/stacks.c \
	tests/conformance/stdio.c \
	tests/conformance/stream.c \
	tests/conformance/threads.c \
	tests/conformance/urgent.c \
	tests/conformance/uring.c \
	tests/lib/pattern.c tests/lib/pattern.h \
	tests/lib/rights.c tests/lib/rights.h \
	tests/lib/step.c tests/lib/step.h \
	tests/lib/transcript.c tests/lib/transcript.h
tests_conformance_conform_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)

tests_conformance_fdecho_SOURCES = \
	tests/lib/echo.c \
	tests/lib/pattern.c tests/lib/pattern.h
tests_conformance_fdecho_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE -I$(top_srcdir)

# Plain kernel TCP is the oracle, so it is the part that make check runs;
# the rest needs the library and comes with make check-conformance.
dist_check_SCRIPTS += tests/conformance/plain.sh
TESTS += tests/conformance/plain.sh
EXTRA_DIST += tests/conformance/README tests/conformance/run tests/lib/stats.py tests/lib/fdecho.py tests/lib/shutin.py \
	tests/lib/between.c tests/lib/deep.c

CONFORMANCE_MODES = both server client thread same retreat far six mapped

.PHONY: check-conformance
check-conformance: all tests/conformance/conform$(EXEEXT)
	@bad=; for mode in $(CONFORMANCE_MODES); do \
		echo "conformance, mode $$mode:"; \
		CONFORM_BUILD=$(abs_builddir) $(srcdir)/tests/conformance/run --mode $$mode \
			$(CONFORMANCE_FLAGS) || bad="$$bad $$mode"; \
	done; test -z "$$bad" || { echo "conformance failed:$$bad"; exit 1; }
