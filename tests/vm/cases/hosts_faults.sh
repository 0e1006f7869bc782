# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 600
# Two hosts, and their connection is on a ring: the line is cut for two seconds, and
# every byte arrives all the same; the device goes away, likewise; a server that is
# killed is an end as TCP has it.
hosts_up
export SIDESTEP_LOG=info

# begun PORT BYTES: the server in guest 1 and the client in guest 2 run as $pid, and
# both are on a ring
begun() {
	begin
	export SIDESTEP_LOG_FILE=$SHARE/log.$1.$G
	if [ "$G" -eq 1 ]; then
		"$S" "$BUILD/tests/conformance/fdecho" server "$1" --once --any &
		pid=$!
		listens "$1"
	fi
	barrier "listens.$1"
	if [ "$G" -eq 2 ]; then
		"$S" "$BUILD/tests/conformance/fdecho" client 10.9.0.1 "$1" "$2" &
		pid=$!
	fi
	n=0
	until grep -q bound "$SIDESTEP_LOG_FILE" 2>/dev/null; do
		n=$((n + 1))
		if [ $n -ge 300 ] || ! [ -e "/proc/$pid/exe" ]; then
			fail "$1: not bound"
		fi
		sleep 0.1
	done
	barrier "bound.$1"
}

# whole PORT NAME: the echo ends well, and has used the ring
whole() {
	wait $pid || fail "$2: $?"
	told "$2" 0 broken
	[ "$(sum conns_ring_verbs)" -eq 1 ] || fail "$2: was never on a ring"
	grep -o '"reasons":{[^}]*}' stats
	barrier "whole.$1"
}

begun 7101 80000000
if [ "$G" -eq 2 ]; then
	tc qdisc add dev eth0 root netem loss 100% || fail "no netem"
	sleep 2
	tc qdisc del dev eth0 root
fi
whole 7101 "the line was cut"

begun 7102 200000000
[ "$G" -eq 2 ] || kill -9 $pid
wait $pid
status=$?
case $G.$status in
1.137 | 2.1) ;;
*) fail "the server was killed: $status" ;;
esac
barrier killed

begun 7103 80000000
[ "$G" -eq 1 ] || rdma link delete rxe0 || fail "rxe0 stays"
whole 7103 "the device went away"
