# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 200
# Some conformance cases, plain and over soft-RoCE, both ends under sidestep.
rxe_up
ip link set lo up
need python3
unset SIDESTEP_LOG_FILE
export SIDESTEP_RNIC=verbs
"$SRC/tests/conformance/run" --mode both --again 2 --conform "$BUILD/tests/conformance/conform" \
	--sidestep "$BUILD/tools/sidestep" -k '^stream' -k '^half' -k '^poll' -k '^close' \
	-k '^flags' || fail "conformance: $?"
