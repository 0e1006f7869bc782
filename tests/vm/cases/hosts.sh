# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 300
# A link between two hosts: messages both ways and a stream, and no RNR; then one
# on a line that is cut, where the sender finds out.
rxe_up
[ -x "$BUILD/tests/contract/link" ] || skip "built without the contract tests (cmocka)"

barrier up
link_whole 8 || fail "never whole on a good line"
barrier good

link_stream 100000 >/tmp/stream &
streaming /tmp/stream $!
barrier run
[ "$G" -eq 1 ] || tc qdisc add dev eth0 root netem loss 100% || fail "no netem"
wait $!
status=$?
# a QP that sends nothing hears nothing: the receiver has waited in vain, or its
# last credit was not answered
case $G.$status in
1.63 | 1.23 | 2.23) ;;
*) fail "on a line that was cut: $status" ;;
esac
barrier cut
