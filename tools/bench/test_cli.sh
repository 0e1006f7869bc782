#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# sidestep-bench from outside: exit codes, refusal, JSON, nothing left behind.
# The launchers here only execute the program; one of them makes up counters.
bench=$PWD/tools/sidestep-bench
TMPDIR=$(mktemp -d) || exit 99
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
bad=0

cat >"$TMPDIR/honest" <<'END'
#!/bin/sh
exec "$@"
END
cat >"$TMPDIR/ringing" <<'END'
#!/bin/sh
echo '{"ring_tx_bytes":99,"ring_rx_bytes":0,"tcp_tx_bytes":1,"conns_ring_soft":1}' \
	>>"$SIDESTEP_STATS_FILE"
exec "$@"
END
chmod +x "$TMPDIR/honest" "$TMPDIR/ringing"

# expect STATUS ARGUMENT...
expect() {
	want=$1
	shift
	"$bench" "$@" >"$TMPDIR/out" 2>"$TMPDIR/err"
	got=$?
	if [ $got -ne "$want" ]; then
		echo "FAIL: sidestep-bench $*: status $got, not $want"
		cat "$TMPDIR/out" "$TMPDIR/err"
		bad=1
	fi
}

# said FILE PATTERN
said() {
	grep -q -- "$2" "$TMPDIR/$1" || {
		echo "FAIL: no \"$2\" in:"
		cat "$TMPDIR/$1"
		bad=1
	}
}

# saved FILE FACTOR: results of ten pairs, sidestep FACTOR times as fast as plain
saved() {
	awk -v k="$2" 'BEGIN {
		for (i = 0; i < 10; i++) {
			plain = plain (i ? "," : "") 100 + i
			ring = ring (i ? "," : "") k * (103 + 7 * i % 5)
		}
		printf "{\"workload\":\"stream:64\",\"runs\":10,\"figures\":[{\"name\":\"bytes\","
		printf "\"unit\":\"bytes/s\",\"better\":\"higher\",\"plain\":104.5,\"sidestep\":%g,", k * 105
		printf "\"ratio\":%g,\"ratio_min\":%g,\"ratio_max\":%g,", k, k * 0.98, k * 1.02
		printf "\"samples\":{\"plain\":[%s],\"sidestep\":[%s]}}],", plain, ring
		printf "\"distribution\":{\"unit\":\"us\",\"plain\":[[9,5],[11,1]],\"sidestep\":[[2,7]]},"
		printf "\"machine\":{\"cpu\":\"a<b&\\\"c\\u0041\"}}\n"
	}' >"$TMPDIR/$1"
}

quick="--runs 1 --seconds 0.05 --no-syscalls"
# shellcheck disable=SC2086
{
	expect 2
	expect 0 --help
	expect 0 ab --help
	said out "redis-pipeline"
	expect 2 ab
	expect 2 ab no-such-workload
	expect 2 ab stream
	expect 2 ab connect:5
	expect 2 ab --runs 0 pingpong
	expect 2 ab --side left pingpong
	expect 2 ab --server true pingpong
	expect 2 ab --server true --client true --figure 'a=[0-9]+'
	expect 77 ab --server no-such-program --client true --figure 'a=([0-9]+)'
	said err "not installed"
	expect 1 ab --launcher "$TMPDIR/nowhere" pingpong

	expect 3 ab $quick --launcher "$TMPDIR/honest" pingpong
	said err "no process of the sidestep runs wrote its counters"
	expect 0 ab $quick --launcher "$TMPDIR/honest" --side server pingpong:1000
	expect 0 ab $quick --launcher "$TMPDIR/honest" connect
	expect 0 ab $quick --launcher "$TMPDIR/ringing" stream:100
	said out "ring bytes: 198 of 200 (99.0 %)"
	expect 0 ab $quick --launcher "$TMPDIR/ringing" conns:10
	expect 0 ab $quick --launcher "$TMPDIR/ringing" --json pingpong
	said out '^{"workload":"pingpong","runs":1,"figures":\[{"name":"p50","unit":"us","better":"lower","plain":'
	said out '"rnic":"soft"'
	said out '"costs":\[{"name":"cpu","unit":"us","better":"lower","plain":[0-9]'
	said out '"per":"round trip","syscalls_by":"not counted"'
	said out '"machine":{"sidestep":"[0-9].*"kernel":"Linux .*"governor":".*"ring_bytes":[0-9]'
	said out '"distribution":{"unit":"us","plain":\[\['
	expect 0 ab --runs 1 --seconds 0.05 --launcher "$TMPDIR/ringing" stream:100
	said out '^per message, of both ends:'
	said out '^switches '
	# by whom the kernel lets nobody count there is a reason
	grep -q '^syscalls ' "$TMPDIR/out" || said out 'system calls not counted: .'

	# several: what is refused does not take the others with it
	expect 3 ab $quick --launcher "$TMPDIR/honest" --json --save "$TMPDIR/two" connect pingpong
	said out '^\[{"workload":"connect",.*}\]$'
	said two '^\[{"workload":"connect",.*}\]$'
	expect 1 ab $quick --launcher "$TMPDIR/honest" --save "$TMPDIR/no/such" connect

	expect 2 rnic --no-such
	expect 0 rnic --help
	said out "--messages"
	expect 1 rnic --device no-such-device
	[ ! -s "$TMPDIR/out" ] || bad=1
	if [ "$(nproc)" -gt 1 ]; then
		expect 0 rnic --quick --messages 1 --json
		for t in pingpong stream depth signal slab_new; do
			said out "\"test\":\"$t\""
		done
		said out '"opcode":"write","cq_mode":"polled","bytes":64,"batch":1,"depth":512,"signal":16,"msgs_per_s":[1-9]'
		said out '"opcode":"write_with_imm","cq_mode":"event","bytes":8,.*"p50_us":[0-9]*\.[0-9]*,'
		! command -v python3 >/dev/null || python3 -m json.tool "$TMPDIR/out" >/dev/null || bad=1
	fi

	expect 2 --compare
	expect 2 --report "$TMPDIR/page"
	expect 1 --compare "$TMPDIR/none" "$TMPDIR/none"
	said err "none: No such file"
	echo '{"workload":"x"}' >"$TMPDIR/odd"
	expect 1 --compare "$TMPDIR/odd" "$TMPDIR/odd"
	said err "no results as"
	saved a 3
	saved b 3.001
	saved c 2
	expect 1 --compare "$TMPDIR/a" "$TMPDIR/two"
	said err "no workload is in both"
	expect 0 --compare "$TMPDIR/a" "$TMPDIR/b"
	said out '^stream:64 .* same$'
	expect 4 --compare "$TMPDIR/a" "$TMPDIR/c"
	said out '^stream:64 .* 0\.6[67][0-9] (.* worse$'
	expect 0 --compare "$TMPDIR/c" "$TMPDIR/a"
	said out '^stream:64 .* 1\.[45][0-9]* (.* better$'

	path=$PATH
	# shellcheck disable=SC2123
	PATH=/nonexistent
	expect 77 --report "$TMPDIR/page" "$TMPDIR/a"
	PATH=$path
	said err "gnuplot is not installed; see package gnuplot-nox"
	if command -v gnuplot >/dev/null; then
		expect 1 --report "$TMPDIR/no/such" "$TMPDIR/a"
		expect 1 --report "$TMPDIR/page" "$TMPDIR/odd"
		expect 0 --report "$TMPDIR/page" "$TMPDIR/a"
		said page/index.html 'a&lt;b&amp;&quot;cA'
		said page/index.html '<img src="sizes.svg"'
		said page/trips.svg '^</svg>'
		cmp "$TMPDIR/a" "$TMPDIR/page/results.json" || bad=1
		! grep -q 'costs.svg' "$TMPDIR/page/index.html" || bad=1
	else
		echo "no gnuplot: reports not tried"
	fi

	# a server that dies while its client waits
	expect 1 ab $quick --launcher "$TMPDIR/honest" --server "false {port}" --client true \
		--figure 'a=([0-9]+)'
	said err "has ended"
	# a client without figures
	expect 1 ab $quick --launcher "$TMPDIR/honest" \
		--server "$bench peer pingpong-server --port {port}" \
		--client "$bench peer pingpong-client --port {port} --messages 5" \
		--figure 'a=^nothing ([0-9]+)'
	said err "no figure a"
}
left=$(find "$TMPDIR" -name 'sidestep-bench.*')
[ -z "$left" ] || { echo "FAIL: left behind: $left"; bad=1; }
exit $bad
