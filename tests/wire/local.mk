# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# contrib/sidestep.lua against captures; wants tshark
EXTRA_DIST += tests/wire/test_dissector
.PHONY: check-wire
check-wire: all $(check_PROGRAMS)
	$(srcdir)/tests/wire/test_dissector
