# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 600
# Two hosts of which one end is not under sidestep, or that lack what a meeting by
# rdma_cm needs: all is plain TCP, with a reason.
hosts_up
need iperf3

# plain PORT NAME REASON SERVER CLIENT: the commands before the programs; no byte on a
# ring, and in guest 2 that reason, or any
plain() {
	# shellcheck disable=SC2086
	serve "$1" $4 iperf3 -s -1 -B 10.9.0.1 -p "$1"
	# shellcheck disable=SC2086
	[ "$G" -eq 1 ] || $5 iperf3 -c 10.9.0.1 -p "$1" -t 10 >iperf.c 2>&1 ||
		fail "$2: $(cat iperf.c)"
	served "$2" 0
	[ "$(sum ring_tx_bytes)" -eq 0 ] && [ "$(sum ring_rx_bytes)" -eq 0 ] ||
		fail "$2: bytes on a ring"
	[ "$G" -eq 1 ] || [ -z "$3" ] || grep -q "\"reasons\":{[^}]*\"$3\"" stats ||
		fail "$2: no $3: $(cat stats)"
}

plain 7013 "server without" peer-unproven "" "$S"
plain 7014 "client without" "" "$S" ""
# a key of one end, and another one
(umask 077 && echo "secret of $G" >key)
export SIDESTEP_KEY_FILE=$work/key
plain 7018 "keys that differ" peer-unproven "$S" "$S"
unset SIDESTEP_KEY_FILE
# without librdmacm, in the client and then in the server
lib=$(readlink -f "$(ldconfig -p | sed -n 's/.*librdmacm.so.1 .*=> //p' | head -n 1)")
[ "$G" -eq 1 ] || mv "$lib" $work/
plain 7015 "no librdmacm in the client" no-rnic "$S" "$S"
if [ "$G" -eq 1 ]; then mv "$lib" $work/; else mv "$work/$(basename "$lib")" "$lib"; fi
plain 7016 "no librdmacm in the server" peer-unproven "$S" "$S"
[ "$G" -eq 2 ] || mv "$work/$(basename "$lib")" "$lib"
# the software RNIC reaches no other host
export SIDESTEP_RNIC=soft
plain 7017 "no verbs asked for" other-netns-or-nat "$S" "$S"
