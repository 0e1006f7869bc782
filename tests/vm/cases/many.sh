# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 300
# Connections of one pair of processes over soft-RoCE share one link, and few
# registrations.  Where an ordinary user may lock little, as many as fit are on
# rings and the rest on tcp; all of them work.  No RNR.
rxe_up
ip link set lo up
need python3
unset SIDESTEP_LOG_FILE
many() {
	"$SRC/tests/torture/many" --build "$BUILD" --device verbs --timeout 110 "$@" ||
		fail "many: $*"
}
many --count 60
many --count 40 --locked 2048 --least 20
