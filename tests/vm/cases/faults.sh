# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 300
# A connection over verbs, every byte checked, while its path, its device or one of
# its ends goes: once each.
rxe_pair_up
unset SIDESTEP_LOG_FILE
"$SRC/tests/vm/faults" --build "$BUILD" --bytes 40000000 || fail "faults: $?"
