# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 200
# What many does, with what an ordinary user may lock on most systems, and as many
# connections as it takes to use that up.
rxe_up
ip link set lo up
need python3
unset SIDESTEP_LOG_FILE
"$SRC/tests/torture/many" --build "$BUILD" --device verbs --count 540 --locked 8192 --least 400 \
	--timeout 800 || fail "many: $?"
