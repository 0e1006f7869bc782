# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# seconds: 200
# A link between two processes over soft-RoCE.  Its credits keep all that is sent
# within the receives that are posted: the device has seen no RNR.
rxe_up
[ -x "$BUILD/tests/contract/link" ] || skip "built without the contract tests (cmocka)"
for _ in 1 2 3; do
	"$BUILD/tests/contract/link" verbs || fail "link: $?"
done
# libibverbs' own care for forks changes nothing
RDMAV_FORK_SAFE=1 "$BUILD/tests/contract/link" verbs 'messages*' || fail "link, fork safe: $?"
