# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 200
# Two servers at one TCP port, of which the first has the RDMA port of that number.
# It is killed: who comes then, and has been told that nobody is there, gets a ring
# with the other one all the same, and so does who comes later, at once.
hosts_up
export SIDESTEP_LOG=info
(umask 077 && echo "a secret of both" >key)
export SIDESTEP_KEY_FILE=$work/key
echo="$BUILD/tests/conformance/fdecho"

# accepts NAME: one server more, until it has accepted, and listens there for rings.
# Which one gets a connection is for the kernel to say.
accepts() {
	SIDESTEP_LOG_FILE=$SHARE/log.$1 "$S" "$echo" server 7101 --any --shared >"$1.out" &
	pid=$!
	until [ -s "$1.out" ]; do
		sleep 0.1
	done
	n=0
	until grep -q "rdma port 7101: 0" "$SHARE/log.$1" 2>/dev/null; do
		n=$((n + 1))
		[ $n -lt 100 ] || fail "$1 has no rdma port"
		"$echo" client 127.0.0.1 7101 1000 >client.out || fail "$1: $(cat client.out)"
		sleep 0.1
	done
}

# ring BYTES: guest 2 begins an echo as $client
ring() {
	begin
	"$S" "$echo" client 10.9.0.1 7101 "$1" &
	client=$!
}

# ringed NAME LEAST: it ends well, and at least LEAST per cent went on a ring
ringed() {
	wait $client || fail "$1: $?"
	told "$1" "$2"
	[ "$(sum conns_ring_verbs)" -eq 1 ] || fail "$1: not on a ring"
}

# nobody: until it has been told that nobody is there
nobody() {
	n=0
	until grep -q "no link to another host: peer-unproven" "$SIDESTEP_LOG_FILE" 2>/dev/null; do
		n=$((n + 1))
		[ $n -lt 300 ] || fail "somebody has answered"
		sleep 0.1
	done
}

if [ "$G" -eq 1 ]; then
	accepts first
	first=$pid
	accepts second
	kill -STOP $pid		# it shall not be there at once
	kill -9 $first
	wait $first
fi
barrier killed
if [ "$G" -eq 2 ]; then
	ring 40000000
	nobody
fi
barrier told
if [ "$G" -eq 1 ]; then
	kill -CONT $pid
else
	ringed "told that nobody is there" 1
	ring 40000000
	ringed "a new one" 1
fi
barrier over
if [ "$G" -eq 1 ]; then
	grep "place 0 taken over" "$SHARE/log.second" || fail "the second did not take over"
	kill $pid
	wait $pid || :	# killed
fi
