# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 1200
# module: siw
# long
# iWARP (soft-iWARP) between two hosts: what rnic.h promises there, a link, and
# unmodified programs, whose bytes go over verbs by WRITE and SEND.  Where a message
# meets no receive there is no RNR, as on RoCE: siw ends the connection with a
# TERMINATE, of which there may be none.
hosts_up siw_up
ip -6 addr add "fd09::$G/64" dev eth0 nodad || fail "no IPv6"
for p in redis-server iperf3; do
	need $p
done
[ -x "$BUILD/tests/contract/link" ] || skip "built without the contract tests (cmocka)"
SIDESTEP_CONTRACT_ADDRESS=10.9.0.$G
export SIDESTEP_CONTRACT_ADDRESS

# contract PROGRAM: what there is of it on iWARP
contract() {
	timeout 200 "$BUILD/tests/contract/$1" verbs >"$SHARE/$1.$G" 2>&1 ||
		fail "$1: $? $(grep -v 'RUN \|  OK ' "$SHARE/$1.$G")"
	echo "$1: $(grep -c '\[ *OK \]' "$SHARE/$1.$G") passed," \
		"$(grep '\[ *SKIPPED \] [a-z_]*$' "$SHARE/$1.$G" | sort -u | wc -l)" \
		"not for iWARP or not for verbs"
}

# The other end gone in the midst of a stream is no such thing.
no_terminate() {
	! dmesg | grep 'siw: got TERMINATE' || fail "a message has met no receive"
}

echo_checked() {
	serve "$2" "$S" "$BUILD/tests/conformance/fdecho" server "$2" --once --any
	[ "$G" -eq 1 ] || "$S" "$BUILD/tests/conformance/fdecho" client 10.9.0.1 "$2" 20000000 \
		--style "$1" || fail "echo: $?"
	served "echo, $1" 30
}

# iperf NAME PORT ADDRESS
iperf() {
	serve "$2" "$S" iperf3 -s -1 -B "$3" -p "$2"
	[ "$G" -eq 1 ] || "$S" iperf3 -c "$3" -p "$2" -l 16K -n 80M >iperf.c 2>&1 ||
		fail "$1: $(cat iperf.c)"
	served "$1" 20
}

redis() {
	serve 7001 "$S" redis-server --port 7001 --bind 10.9.0.1 --protected-mode no --save "" \
		--appendonly no
	if [ "$G" -eq 2 ]; then
		"$S" redis-benchmark -h 10.9.0.1 -p 7001 -t set,get -c 6 -n 10000 -d 200 --csv \
			>bench.out || fail "redis-benchmark: $?"
		[ "$(grep -c '^"[SG]ET","[0-9.]*[1-9]' bench.out)" -eq 2 ] ||
			fail "redis: $(cat bench.out)"
		SIDESTEP=off redis-cli -h 10.9.0.1 -p 7001 shutdown nosave
	fi
	served redis 20
}

# Two processes of one host would have no rdma_cm between them: plain TCP, and why.
one_host() {
	begin
	"$S" iperf3 -s -1 -B 127.0.0.1 -p 7010 >server.out 2>&1 &
	pid=$!
	listens 7010
	"$S" iperf3 -c 127.0.0.1 -p 7010 -t 5 >iperf.c 2>&1 || fail "one host: $(cat iperf.c)"
	wait $pid || fail "one host: $(cat server.out)"
	[ "$(sum ring_tx_bytes)" -eq 0 ] || fail "one host: bytes on a ring"
	grep -q '"reasons":{[^}]*"no-rnic"' stats || fail "one host: no reason: $(cat stats)"
	echo "one host: $(sum tcp_tx_bytes) bytes over tcp, no-rnic"
}

rdma link show
"$BUILD/tests/vm/rnic_open" 1000000 | grep -x "register: ok, loaded" || fail "siw0 cannot be opened"
contract data
contract procs
contract link
barrier contract
dmesg -C
link_whole 8 || fail "never whole"
no_terminate

(umask 077 && echo "a secret of both" >$work/key)
export SIDESTEP_KEY_FILE=$work/key SIDESTEP_FAULT=hurry:4000
echo_checked blocking 7101
echo_checked epoll 7102
iperf iperf3 7002 10.9.0.1
iperf "iperf3, IPv6" 7006 fd09::1
unset SIDESTEP_KEY_FILE SIDESTEP_FAULT
redis
one_host
no_terminate
