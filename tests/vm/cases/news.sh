# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 200
# A port goes down under a link: both processes read the device's news, once.
# Its link may break before that, so that a process stays whatever becomes of it.
rxe_up
[ -x "$BUILD/tests/contract/link" ] || skip "built without the contract tests (cmocka)"
"$BUILD/tests/contract/link" verbs listen 10.9.0.1 100000 stay >/tmp/stream &
a=$!
"$BUILD/tests/contract/link" verbs connect 10.9.0.1 100000 stay >/dev/null &
b=$!
streaming /tmp/stream $a
ip link set d0 down
n=0
until [ "$(grep -c 'rxe0: event 10' "$SIDESTEP_LOG_FILE")" -ge 2 ]; do
	n=$((n + 1))
	[ $n -lt 200 ] || fail "nobody has heard of it"
	sleep 0.1
done
sleep 1
kill $a $b
wait
cat "$SIDESTEP_LOG_FILE"
[ "$(grep -c 'rxe0: event' "$SIDESTEP_LOG_FILE")" -lt 8 ] || fail "read again and again"
