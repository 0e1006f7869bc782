# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 400
# long
# A link between two hosts on a line that delays and loses: it may break (rxe
# takes each gap in a thousand messages under way for a retry); nothing that
# arrives is wrong.
rxe_up
[ -x "$BUILD/tests/contract/link" ] || skip "built without the contract tests (cmocka)"
barrier up
for loss in 0 0.01 0.2 2; do
	tc qdisc replace dev eth0 root netem loss $loss% delay 1ms limit 10000
	link_stream 2
	status=$?
	echo "$loss %: $status"
	[ $status -ne 66 ] || fail "something arrived that was not sent"
	barrier $loss
done
