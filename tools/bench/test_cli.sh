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

quick="--runs 1 --seconds 0.05"
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
