# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# shellcheck shell=sh
# What the scripts of tests/vm/cases share.  $BUILD and $SRC are the build and
# source directories, $GUESTS is 1 or 2, $G says which of two this is.
G=${1:-$G}
export G
SHARE=/run/share
# what the contract tests log, for those who look into a failure
export SIDESTEP_LOG_FILE=$SHARE/sidestep.log.$G

skip() {
	echo "$*"
	exit 77
}

fail() {
	echo "$*"
	tail -n 30 "$SIDESTEP_LOG_FILE" 2>/dev/null
	exit 1
}

need() {
	command -v "$1" >/dev/null || skip "$1 is not installed"
}

# Soft-RoCE: on a veth pair in one guest, on the wire between two.
# Addresses are 10.9.0.$G; the device is rxe0.
rxe_up() {
	need rdma
	if [ "$GUESTS" -eq 2 ]; then
		net=eth0
	else
		net=d0
		ip link add d0 mtu 4200 type veth peer name d1 mtu 4200 || fail "no veth"
		ip link set d1 up
	fi
	rxe_on $net "10.9.0.$G" rxe0
}

# rxe_on NET ADDRESS DEVICE
rxe_on() {
	ip addr add "$2/24" dev "$1" || fail "no $1"
	ip link set "$1" up
	# the GID table is filled when the address is final
	for _ in 1 2 3 4 5; do
		sleep 1
		rdma link add "$3" type rxe netdev "$1" 2>/dev/null && break
	done
	[ -e "/sys/class/infiniband/$3" ] || fail "no $3"
	rxe_gid "$3"
}

# Soft-iWARP on the same; the device is siw0.
siw_up() {
	need rdma
	insmod "$BUILD/vm/siw.ko" || fail "no siw module"
	ulimit -l unlimited	# siw heeds it for root too
	net=eth0
	if [ "$GUESTS" -eq 1 ]; then
		net=d0
		ip link add d0 mtu 4200 type veth peer name d1 mtu 4200 || fail "no veth"
		ip link set d1 up
	fi
	ip addr add "10.9.0.$G/24" dev $net && ip link set $net up || fail "no $net"
	rdma link add siw0 type siw netdev $net || fail "no siw0"
	[ -e /sys/class/infiniband/siw0 ] || fail "no siw0"
}

rxe_gid() {
	for _ in 1 2 3 4 5; do
		grep -qs 0000:ffff: /sys/class/infiniband/"$1"/ports/1/gids/* && return 0
		sleep 1
	done
	fail "$1 has no GID of its IPv4 address"
}

# rxe_counter NAME [DEVICE]: its value, rxe0's; 0 if there is none of that name.
rxe_counter() {
	cat "/sys/class/infiniband/${2:-rxe0}/ports/1/hw_counters/$1" 2>/dev/null || echo 0
}

# A second network between two guests, on eth1: 10.9.1.$G and rxe1.
rxe_second_up() {
	rxe_on eth1 "10.9.1.$G" rxe1
}

# No message was ever sent that no receive waited for: credits have seen to that.
# Asked behind each case, of all devices that there are; unless it says rnr_wanted.
rnr_wanted=
no_rnr() {
	[ -z "$rnr_wanted" ] || return 0
	for c in /sys/class/infiniband/*/ports/1/hw_counters/*rnr*_err*; do
		[ ! -e "$c" ] || [ "$(cat "$c")" -eq 0 ] || fail "$c is $(cat "$c")"
	done
}

# Two devices of one guest with a wire between them: rxe0 on d0, 10.9.0.1, and rxe1
# on d1, 10.9.0.2.  What a device sends to its own address never leaves it, and
# would not be lost with the wire.
rxe_pair_up() {
	rxe_up
	ip addr add 10.9.0.2/24 dev d1 || fail "no address of d1"
	for n in all d0 d1; do
		echo 1 >/proc/sys/net/ipv4/conf/$n/accept_local
		echo 0 >/proc/sys/net/ipv4/conf/$n/rp_filter
	done
	# what comes out of the wire is ours, and what goes to the other end goes into it
	ip rule add pref 10 lookup local && ip rule del pref 0 || fail "no rule"
	for n in d0 d1; do
		ip rule add pref 1 dev $n lookup local
	done
	ip rule add pref 3 from 10.9.0.1 to 10.9.0.2 lookup 101
	ip rule add pref 4 from 10.9.0.2 to 10.9.0.1 lookup 102
	wire_routes
	rdma link add rxe1 type rxe netdev d1 || fail "no rxe1"
	rxe_gid rxe1
}

# Again when one of the two was down.
wire_routes() {
	ip route replace 10.9.0.2 dev d0 table 101
	ip route replace 10.9.0.1 dev d1 table 102
	ip neigh replace 10.9.0.2 lladdr "$(cat /sys/class/net/d1/address)" dev d0 nud permanent
	ip neigh replace 10.9.0.1 lladdr "$(cat /sys/class/net/d0/address)" dev d1 nud permanent
}

# barrier NAME: until both guests are there, three minutes at most: one may have booted
# while the machine was busy with other things
barrier() {
	: >"$SHARE/at.$1.$G"
	n=0
	until [ -e "$SHARE/at.$1.1" ] && [ -e "$SHARE/at.$1.2" ]; do
		n=$((n + 1))
		[ $n -lt 1800 ] || fail "nobody comes to $1"
		sleep 0.1
	done
}

# As an ordinary user, without privileges.
as_user() {
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

# link_stream MB: this guest's end of a link between two: messages and a stream
link_stream() {
	if [ "$G" -eq 1 ]; then
		"$BUILD/tests/contract/link" verbs listen 10.9.0.1 "$1"
	else
		"$BUILD/tests/contract/link" verbs connect 10.9.0.1 "$1"
	fi
}

# The same until it is whole.  A host that is not scheduled for half a second, as
# guests on a busy machine are, uses up its peer's retries and breaks the link:
# once more then, but never anything wrong (66).
link_whole() {
	for try in 1 2 3 4; do
		link_stream "$1"
		status=$?
		[ $status -ne 66 ] || fail "something arrived that was not sent"
		echo $status >"$SHARE/whole.$try.$G"
		barrier "whole.$try"
		grep -qvx 0 "$SHARE/whole.$try.1" "$SHARE/whole.$try.2" || return 0
		echo "the link broke ($status), once more"
	done
	return 1
}

# streaming FILE PID: until the link of process PID, which writes to FILE, is past
# its messages; a minute at most
streaming() {
	n=0
	until grep -q streaming "$1"; do
		n=$((n + 1))
		if [ $n -ge 600 ] || ! [ -e "/proc/$2/exe" ]; then
			kill "$2" 2>/dev/null
			wait "$2"
			fail "no stream has begun: $?"
		fi
		sleep 0.1
	done
}

# conformance [-k PATTERN]...: its cases, plain and over soft-RoCE, both ends under sidestep
conformance() {
	rxe_up
	ip link set lo up
	need python3
	unset SIDESTEP_LOG_FILE
	SIDESTEP_RNIC=verbs "$SRC/tests/conformance/run" --mode both --again 2 \
		--conform "$BUILD/tests/conformance/conform" --sidestep "$BUILD/tools/sidestep" "$@" ||
		fail "conformance: $?"
}

# ---- programs under sidestep: $S runs them, in $work they write their counters ----

# hosts_up [UP]: two hosts with programs that meet by rdma_cm, UP: rxe_up or siw_up
hosts_up() {
	"${1:-rxe_up}"
	ip link set lo up
	export SIDESTEP_RNIC=verbs SIDESTEP_ATTACH=eager
	S="$BUILD/tools/sidestep"
	work=/tmp/programs
	mkdir -p $work
	cd $work || exit 1
	export PATH="$PATH:/usr/sbin:/sbin"
}

# sum NAME: of a counter, over all processes of the present application
sum() {
	grep -o "\"$1\":[0-9]*" $work/stats | awk -F: '{ n += $2 } END { print n + 0 }'
}

# begin: a new application, whose processes write their counters
begin() {
	: >$work/stats
	export SIDESTEP_STATS_FILE=$work/stats
}

# told NAME LEAST [broken]: where its bytes went; at least LEAST per cent over verbs.
# No completion has an error, but where the link was broken.  A
# meeting takes a second on an emulated processor, and what comes before is on tcp.
told() {
	ring=$(($(sum ring_tx_bytes) + $(sum ring_rx_bytes)))
	tcp=$(($(sum tcp_tx_bytes) + $(sum tcp_rx_bytes)))
	echo "$1: $ring bytes over verbs, $tcp over tcp, $(sum conns_ring_verbs) connections on verbs," \
		"$(sum links) links, $(sum wr_posted) work requests, $(sum doorbells) doorbells"
	[ "$(sum conns_ring_soft)" -eq 0 ] || fail "$1: over the software RNIC"
	[ "${3-}" = broken ] || [ "$(($(sum wc_errors) + $(sum cq_errors)))" -eq 0 ] ||
		fail "$1: $(sum wc_errors) completions with an error, $(sum cq_errors) lost"
	[ $((ring * 100)) -ge $(((ring + tcp) * $2)) ] ||
		fail "$1: too few; $(grep -o '"reasons":{[^}]*}' $work/stats | tr '\n' ' ')"
}

# listens PORT: until somebody does
listens() {
	n=0
	until ss -ltnH "sport = :$1" | grep -q .; do
		n=$((n + 1))
		[ $n -lt 300 ] || fail "nobody listens on $1"
		sleep 0.1
	done
}

# ---- between two guests: servers are in guest 1, clients in guest 2 ----

# serve PORT COMMAND...: in guest 1; both go on when it listens
serve() {
	port=$1
	shift
	begin
	if [ "$G" -eq 1 ]; then
		"$@" >server.out 2>&1 &
		pid=$!
		listens "$port"
	fi
	barrier "listens.$port"
}

# served NAME LEAST: the server ends by itself, and where the bytes went
served() {
	if [ "$G" -eq 1 ]; then
		wait $pid || fail "$1: the server ended with $?: $(cat server.out)"
	fi
	told "$1" "$2"
	barrier "served.$port"
}
