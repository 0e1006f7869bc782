# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# long
# libibverbs works under the library: its calls of libc come through our door, in
# a program that uses RDMA itself.
rxe_up
rnr_wanted=yes	# the contract sends without credits
[ -x "$BUILD/tests/contract/data" ] || skip "built without the contract tests (cmocka)"
SIDESTEP_ATTACH=eager
export SIDESTEP_ATTACH
"$BUILD/tools/sidestep" "$BUILD/tests/contract/data" verbs || fail "data: $?"
"$BUILD/tools/sidestep" "$BUILD/tests/contract/procs" verbs 'both_asleep*' || fail "procs: $?"
"$BUILD/tools/sidestep" "$BUILD/tests/contract/link" verbs || fail "link: $?"
