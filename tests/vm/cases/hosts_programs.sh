# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 600
# Unmodified programs of two hosts: the servers run in guest 1, the clients in
# guest 2.  They meet by rdma_cm, and what they send goes over soft-RoCE.
hosts_up
ip -6 addr add "fd09::$G/64" dev eth0 nodad || fail "no IPv6"
for p in redis-server iperf3 nginx wrk; do
	need $p
done

# with a key no bytes need to have passed, and with the fault hurry they wait for the ring
with_key() {
	(umask 077 && echo "a secret of both" >$work/key)
	export SIDESTEP_KEY_FILE=$work/key SIDESTEP_FAULT=hurry:4000
}

echo_checked() {
	serve "$2" "$S" "$BUILD/tests/conformance/fdecho" server "$2" --once --any
	[ "$G" -eq 1 ] || "$S" "$BUILD/tests/conformance/fdecho" client 10.9.0.1 "$2" 20000000 \
		--style "$1" || fail "echo: $?"
	served "echo, $1" 30
}

redis() {
	serve 7001 "$S" redis-server --port 7001 --bind 10.9.0.1 --protected-mode no --save "" \
		--appendonly no
	if [ "$G" -eq 2 ]; then
		"$S" redis-benchmark -h 10.9.0.1 -p 7001 -t set,get -c 6 -n 2000 -d 200 --csv \
			>bench.out || fail "redis-benchmark: $?"
		[ "$(grep -c '^"[SG]ET","[0-9.]*[1-9]' bench.out)" -eq 2 ] ||
			fail "redis: $(cat bench.out)"
		SIDESTEP=off redis-cli -h 10.9.0.1 -p 7001 shutdown nosave
	fi
	served redis 1
}

iperf() {
	serve 7002 "$S" iperf3 -s -1 -B 10.9.0.1 -p 7002
	[ "$G" -eq 1 ] || "$S" iperf3 -c 10.9.0.1 -p 7002 -l 16K -n 80M >iperf.c 2>&1 ||
		fail "iperf3: $(cat iperf.c)"
	served iperf3 20
}

iperf_6() {
	serve 7006 "$S" iperf3 -s -1 -B fd09::1 -p 7006
	[ "$G" -eq 1 ] || "$S" iperf3 -6 -c fd09::1 -p 7006 -l 16K -n 20M >iperf.c 2>&1 ||
		fail "iperf3, IPv6: $(cat iperf.c)"
	served "iperf3, IPv6" 20
}

# Two workers, of which one has the RDMA port of the TCP port's number: who comes for
# the other's connections is sent on.
nginx_wrk() {
	mkdir -p www
	[ -s www/page ] || head -c 8000 /dev/urandom >www/page
	cat >nginx.conf <<-EOF
		worker_processes 2; error_log $work/error.log; pid $work/nginx.pid; user root;
		events { }
		http { access_log off; keepalive_requests 100000000;
		  server { listen 10.9.0.1:7003 reuseport; root $work/www; } }
	EOF
	serve 7003 "$S" nginx -p $work -c $work/nginx.conf -e $work/error.log -g 'daemon off;'
	if [ "$G" -eq 2 ]; then
		"$S" wrk -t 1 -c 8 -d 10s http://10.9.0.1:7003/page >wrk.out || fail "wrk: $?"
		! grep -E 'Non-2xx|Socket errors: .*(connect|read|write) [1-9]' wrk.out || fail "wrk: $(cat wrk.out)"
	fi
	barrier wrk
	[ "$G" -eq 2 ] || kill -QUIT $pid
	served nginx 1
	# both workers have had some
	[ "$G" -eq 2 ] || [ "$(grep -c '"conns_ring_verbs":[1-9]' stats)" -eq 2 ] ||
		fail "nginx: $(cat stats)"
}

with_key
echo_checked blocking 7101
echo_checked epoll 7102
iperf
iperf_6
unset SIDESTEP_KEY_FILE SIDESTEP_FAULT
redis
nginx_wrk
