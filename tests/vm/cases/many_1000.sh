# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 200
# A thousand connections of two processes over soft-RoCE: one link, few registrations.
rxe_up
ip link set lo up
need python3
unset SIDESTEP_LOG_FILE
"$SRC/tests/torture/many" --build "$BUILD" --device verbs --count 1000 --timeout 1000 ||
	fail "many: $?"
