# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 300
# What src/rnic/rnic.h promises, on soft-RoCE: both ends in one process, two
# processes, one that dies; with immediates and, as iWARP must, without.  While
# credits bound a stream, nothing is sent that no receive waits for.
rxe_up
[ -x "$BUILD/tests/contract/data" ] || skip "built without the contract tests (cmocka)"
"$BUILD/tests/contract/procs" verbs credits_bound_a_stream || fail "credits: $?"
for c in rcvd_rnr_err send_rnr_err retry_rnr_exceeded_err retry_exceeded_err; do
	[ "$(rxe_counter $c)" -eq 0 ] || fail "$c is $(rxe_counter $c)"
done
"$BUILD/tests/contract/data" verbs || fail "data: $?"
# which has sent without credits: the counters do count
rnr_wanted=yes
[ "$(rxe_counter rcvd_rnr_err)" -gt 0 ] || fail "no RNR where there must be some"
"$BUILD/tests/contract/data" verbs-noimm || fail "data without immediates: $?"
"$BUILD/tests/contract/procs" verbs || fail "procs: $?"
