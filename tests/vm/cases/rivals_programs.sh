# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 1800
# long
# The same with programs of others: what librspreload breaks works here.
rxe_up
unset SIDESTEP_LOG_FILE
rnr_wanted=yes	# rivals asks for ours; librspreload may have some
"$SRC/tests/vm/rivals" --build "$BUILD" pingpong:64 stream:64 stream:65536 redis iperf3 nginx memcached || fail "rivals: $?"
