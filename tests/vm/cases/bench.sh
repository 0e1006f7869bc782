# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 300
# sidestep-bench rnic goes through all its cases on soft-RoCE; the figures of an
# emulated machine say nothing.
rxe_up
"$BUILD/tools/sidestep-bench" rnic --device verbs --quick --messages 1 >/tmp/out ||
	fail "rnic: $?"
for t in pingpong stream depth signal ibv_reg_mr; do
	grep -q "^$t " /tmp/out || fail "no $t"
done
grep -q '^pingpong *write_with_imm event ' /tmp/out || fail "no event-driven completions"
[ "$(grep -c '^pingpong' /tmp/out)" -eq 12 ] || fail "cases are missing"
