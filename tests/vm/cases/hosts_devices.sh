# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 300
# Two networks with a device each, and a server at a port below 1024 whose workers
# are an ordinary user's: what comes over either network goes over its device.
hosts_up
rxe_second_up
need nginx
need wrk
unset SIDESTEP_RNIC
chmod 666 /dev/infiniband/*
head -c 8000 /dev/zero >page
export SIDESTEP_LOG=info SIDESTEP_LOG_FILE=$work/log	# the workers' too
: >log
chmod 666 log
cat >conf <<-EOF
	worker_processes 2; error_log $work/error.log; pid $work/pid; user nobody nogroup;
	events { }
	http { access_log off; keepalive_requests 100000000;
	  server { listen 80; root $work; } }
	EOF
serve 80 "$S" nginx -p $work -c $work/conf -e $work/error.log -g "daemon off;"
chmod 666 stats
barrier writable
if [ "$G" -eq 2 ]; then
	for net in 0 1; do
		"$S" wrk -t 1 -c 4 -d 15s "http://10.9.$net.1/page" >wrk.out || fail "wrk: $?"
		grep -E "Requests/sec" wrk.out || fail "wrk: $(cat wrk.out)"
		! grep -E "Non-2xx|Socket errors" wrk.out || fail "requests failed: $(cat wrk.out)"
		n=$(sum conns_ring_verbs)
		[ "$n" -ge $((3 * net + 3)) ] || fail "10.9.$net.1: $n on rings, $(cat stats)"
	done
fi
barrier asked
[ "$G" -eq 2 ] || kill -QUIT "$pid"
served devices 10
for d in rxe0 rxe1; do
	echo "$d: $(rxe_counter sent_pkts $d) packets"
	[ "$(rxe_counter sent_pkts $d)" -ge 200 ] || fail "nothing over $d: $(cat stats)"
done
