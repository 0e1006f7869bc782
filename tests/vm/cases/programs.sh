# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 300
# Unmodified programs of one host over soft-RoCE: whose bytes went over verbs, and
# how many over tcp, is printed for each; a good part must have gone over verbs.
# Credits keep what is sent within the receives that are posted: no RNR.
rxe_up
ip link set lo up
export SIDESTEP_RNIC=verbs SIDESTEP_ATTACH=eager
unset SIDESTEP_LOG_FILE
S="$BUILD/tools/sidestep"
work=/tmp/programs
mkdir -p $work/www
cd $work || exit 1

# none_left PID: it ends by itself
none_left() {
	wait "$1" || fail "a server ended with $?"
}

redis() {
	begin
	"$S" redis-server --port 7001 --bind 127.0.0.1 --save "" --appendonly no >redis.out 2>&1 &
	pid=$!
	listens 7001
	"$S" redis-benchmark -h 127.0.0.1 -p 7001 -t set,get -c 6 -n "$1" -d 200 --csv >bench.out ||
		fail "redis-benchmark: $?"
	[ "$(grep -c '^"[SG]ET","[0-9.]*[1-9]' bench.out)" -eq 2 ] || fail "redis: $(cat bench.out)"
	SIDESTEP=off redis-cli -h 127.0.0.1 -p 7001 shutdown nosave
	none_left $pid
	told redis 70
}

iperf() {
	begin
	"$S" iperf3 -s -1 -B 127.0.0.1 -p 7002 >iperf.s 2>&1 &
	pid=$!
	listens 7002
	"$S" iperf3 -c 127.0.0.1 -p 7002 -l 16K -n "$1" >iperf.c 2>&1 || fail "iperf3: $(cat iperf.c)"
	none_left $pid
	told iperf3 20
}

nginx_conf() {
	cat <<-EOF
		worker_processes 2; error_log $work/error.log; pid $work/nginx.pid; user root;
		events { }
		http { access_log off; keepalive_requests 100000000;
		  server { listen 127.0.0.1:7003; root $work/www; } }
	EOF
}

nginx_wrk() {
	begin
	nginx_conf >nginx.conf
	head -c 8000 /dev/urandom >www/page
	"$S" nginx -p $work -c $work/nginx.conf -e $work/error.log -g 'daemon off;' &
	pid=$!
	listens 7003
	"$S" wrk -t 1 -c 4 -d "$1" http://127.0.0.1:7003/page >wrk.out || fail "wrk: $?"
	! grep -E 'Non-2xx|Socket errors' wrk.out || fail "wrk: $(cat wrk.out)"
	"$S" curl -sS http://127.0.0.1:7003/page | cmp - www/page || fail "nginx: another page"
	kill -QUIT $pid
	none_left $pid
	told nginx 10
}

memcached_slap() {
	begin
	printf 'key\n64 64 1\nvalue\n1024 1024 1\ncmd\n0 0.1\n1 0.9\n' >slap.cnf
	"$S" memcached -l 127.0.0.1 -p 7004 -U 0 -t 2 -u root &
	pid=$!
	listens 7004
	timeout 60 "$S" memcaslap -F slap.cnf -s 127.0.0.1:7004 -T 1 -c 4 -x "$1" -v 0.1 >slap.out ||
		fail "memcaslap: $?, $("$BUILD/tools/sidestep-stat")"
	[ "$(grep -cE '^(get_misses|verify_misses|verify_failed): 0$' slap.out)" -eq 3 ] ||
		fail "memcached: $(cat slap.out)"
	kill $pid
	none_left $pid
	told memcached 20
}

# echo_checked STYLE BYTES LEAST: every byte is looked at
echo_checked() {
	begin
	"$S" "$BUILD/tests/conformance/fdecho" server 0 --once >port &
	pid=$!
	until [ -s port ]; do sleep 0.1; done
	"$S" "$BUILD/tests/conformance/fdecho" client 127.0.0.1 "$(cat port)" "$2" --style "$1" ||
		fail "echo: $?"
	none_left $pid
	rm port
	told "echo, $1" "$3"
}

# one_sided: with one end under sidestep nothing is tried that could be seen
one_sided() {
	begin
	SIDESTEP=off "$S" iperf3 -s -1 -B 127.0.0.1 -p 7005 >iperf.s 2>&1 &
	pid=$!
	listens 7005
	"$S" iperf3 -c 127.0.0.1 -p 7005 -n 2M >iperf.c 2>&1 || fail "iperf3: $(cat iperf.c)"
	none_left $pid
	[ "$(sum ring_tx_bytes)" -eq 0 ] || fail "one end only, and bytes on a ring"
	echo "iperf3, one end only: $(sum tcp_tx_bytes) bytes over tcp," \
		"$(grep -o '"reasons":{[^}]*}' $work/stats | tail -n 1)"
}

export PATH="$PATH:/usr/sbin:/sbin"
for p in redis-server iperf3 nginx wrk memcached memcaslap curl; do
	need $p
done
echo_checked blocking 30000000 0
redis 30000
iperf 150M
nginx_wrk 4s
memcached_slap 3000
one_sided
