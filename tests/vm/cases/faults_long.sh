# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 7200
# long
# The same with a gigabyte each way, ten times each.
rxe_pair_up
unset SIDESTEP_LOG_FILE
"$SRC/tests/vm/faults" --build "$BUILD" --runs 10 --bytes 1000000000 \
	some loss down delete kill-server kill-client || fail "faults: $?"
