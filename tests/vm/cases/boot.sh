# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The guest has a device with an active port and an MTU of 4096, and the counters
# that other cases look at.
rxe_up
rdma link show
grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state || fail "port not active"
[ -e /dev/infiniband/uverbs0 ] || fail "no uverbs0"
for c in rcvd_rnr_err send_rnr_err; do
	[ -e /sys/class/infiniband/rxe0/ports/1/hw_counters/$c ] || fail "no counter $c"
done
