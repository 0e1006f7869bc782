# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# long
# seconds: 600
# Plain TCP, librspreload and sidestep over verbs beside each other, in one boot:
# messages there and back, and streams.
rxe_up
unset SIDESTEP_LOG_FILE
rnr_wanted=yes	# rivals asks for ours; librspreload may have some
"$SRC/tests/vm/rivals" --build "$BUILD" pingpong:64 stream:64 || fail "rivals: $?"
