# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 300
# Nothing is asked for: a server with clients of its own host and of another one
# serves the former by the software RNIC and the latter over soft-RoCE, at once.
hosts_up
unset SIDESTEP_RNIC
for p in redis-server redis-benchmark redis-cli; do
	need $p
done

bench() {	# ADDRESS REQUESTS
	"$S" redis-benchmark -h "$1" -p 7031 -t set,get -c 4 -n "$2" -d 200 --csv >bench.out ||
		fail "redis-benchmark of $1: $?"
	[ "$(grep -c '^"[SG]ET","[0-9.]*[1-9]' bench.out)" -eq 2 ] || fail "redis: $(cat bench.out)"
}

serve 7031 "$S" redis-server --port 7031 --bind 10.9.0.1 127.0.0.1 --protected-mode no --save "" \
	--appendonly no
if [ "$G" -eq 1 ]; then
	bench 127.0.0.1 20000 &
	here=$!
else
	bench 10.9.0.1 2000
fi
barrier benched
if [ "$G" -eq 1 ]; then
	wait $here || fail "the local clients: $?"
	SIDESTEP=off redis-cli -h 127.0.0.1 -p 7031 shutdown nosave
	wait $pid || fail "the server ended with $?: $(cat server.out)"
	[ "$(sum conns_ring_soft)" -ge 8 ] || fail "on one host: $(cat stats)"
fi
echo "$(sum conns_ring_soft) connections on soft, $(sum conns_ring_verbs) on verbs, $(sum links) links"
[ "$(sum conns_ring_verbs)" -ge 4 ] || fail "between hosts: $(cat stats)"
[ "$(($(sum wc_errors) + $(sum cq_errors)))" -eq 0 ] || fail "errors: $(cat stats)"
