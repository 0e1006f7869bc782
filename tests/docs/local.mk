# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
EXTRA_DIST += tests/docs/commands

dist_check_SCRIPTS += tests/docs/dropin tests/docs/figures
TESTS += tests/docs/dropin tests/docs/figures

# every command of README and the manuals
.PHONY: check-commands
check-commands: all
	$(srcdir)/tests/docs/commands --build $(abs_builddir)
