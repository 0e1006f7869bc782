# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 300
# sidestep-check --peer of another host: each answer that there is, and no byte to
# whom it connects to.  Guest 2 asks about servers of guest 1.
hosts_up
unset SIDESTEP_RNIC SIDESTEP_ATTACH SIDESTEP_LOG_FILE
# a second network, without a device
ip addr add "10.9.1.$G/24" dev eth1 && ip link set eth1 up || fail "no eth1"
(umask 077 && echo "one secret" >key && echo "another one" >other)
cat >server.py <<-EOF
	import socket, sys
	s = socket.create_server(("", int(sys.argv[1])))
	while True:
	    c = s.accept()[0]
	    n = 0
	    while d := c.recv(4096):
	        n += len(d)
	    print(n, flush=True)
	EOF

# server PORT COMMAND...: in guest 1, counts bytes
pids=
server() {
	port=$1
	shift
	[ "$G" -eq 2 ] || {
		"$@" python3 server.py "$port" >"heard.$port" 2>&1 &
		pids="$pids $!"
		listens "$port"
	}
	barrier "serves.$port"
}

# check ADDRESS:PORT STATUS REASON TEXT: in guest 2; REASON null: none.  Yes may want
# several tries, of a server that is slow on an emulated processor.
check() {
	[ "$G" -eq 2 ] || return 0
	for _ in 1 2 3; do
		begun=$(date +%s)
		timeout 60 "$BUILD/tools/sidestep-check" --json --peer "$1" >out 2>&1
		status=$?
		[ "$2" -eq 0 ] && [ $status -ne 0 ] || break
	done
	told=$(sed -n 's/.*"peer"://p' out | tr '\n' ' ')
	echo "$1: $status after $(($(date +%s) - begun)) s: $told"
	[ $status -eq "$2" ] || fail "status: $(cat out)"
	case $told in
	*"\"reason\":$3,"*"$4"*) ;;
	*) fail "not $3 or no \"$4\"" ;;
	esac
}

server 7041 "$S"
check 10.9.0.1:7041 0 null "a link over rxe0 was made"
check 10.9.1.1:7041 1 '"no-rnic"' "no RDMA device leads there"
SIDESTEP_RNIC=rxe9 check 10.9.0.1:7041 1 '"no-rnic"' "no RDMA device rxe9"
server 7042 env SIDESTEP_KEY_FILE=$work/key "$S"
SIDESTEP_KEY_FILE=$work/key check 10.9.0.1:7042 0 null "both ends have proven themselves"
SIDESTEP_KEY_FILE=$work/other check 10.9.0.1:7042 1 '"peer-unproven"' "the proof was not accepted"
server 7043
check 10.9.0.1:7043 1 '"peer-unproven"' "nobody there speaks for port 7043"
server 7044 env SIDESTEP_RNIC=soft "$S"
check 10.9.0.1:7044 1 '"peer-unproven"' "nobody there speaks for port 7044"
check 10.9.0.1:7045 1 null "nobody listens on port 7045"
barrier asked
if [ "$G" -eq 1 ]; then
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(cat heard.* | wc -l)" -lt 6 ] || break
		sleep 0.5
	done
	[ "$(cat heard.* | wc -l)" -ge 6 ] || fail "not all came: $(cat heard.*)"
	! cat heard.* | grep -vx 0 || fail "bytes came"
	# shellcheck disable=SC2086
	kill $pids
	for pid in $pids; do wait "$pid"; done
	rdma link delete rxe0 || fail "rxe0 stays"
fi
barrier gone
server 7046 "$S"
check 10.9.0.1:7046 1 '"peer-unproven"' "has not answered by RDMA"
barrier silent
[ "$G" -eq 1 ] || rdma link delete rxe0 || fail "rxe0 stays"
check 10.9.0.1:7046 1 '"other-netns-or-nat"' "no RDMA device with an active port is here"
barrier done
# shellcheck disable=SC2086
[ "$G" -eq 2 ] || kill ${pids##* }
