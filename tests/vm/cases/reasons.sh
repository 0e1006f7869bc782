# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# Where there is no verbs device to be had: why not is told by the error alone,
# nothing is printed, and libibverbs is loaded only when a device may exist.
try="$BUILD/tests/vm/rnic_open"

# expect WHAT COMMAND...
expect() {
	want=$1
	shift
	got=$("$@" 2>&1)
	[ "$got" = "$want" ] || fail "wanted \"$want\", got \"$got\""
	echo "$got"
}

user_with_memlock() {
	(
		ulimit -l "$1" || exit
		shift
		as_user "$@"
	)
}

rmdir /dev/infiniband 2>/dev/null
expect "open: ENODEV, not loaded" "$try"
rxe_up
expect "register: ok, loaded" "$try" 1048576
expect "register: ok, loaded" as_user "$try" 1048576
expect "open: ENOMEM, not loaded" user_with_memlock 64 "$try"
expect "open: ok, loaded" user_with_memlock 1024 "$try"
expect "register: ENOMEM, loaded" user_with_memlock 1024 "$try" 2097152
expect "register: ok, loaded" "$try" 2097152
chmod 600 /dev/infiniband/uverbs0
expect "open: EACCES, not loaded" as_user "$try"
chmod 666 /dev/infiniband/uverbs0
ip link set d0 down
expect "open: ENETDOWN, loaded" "$try"
ip link set d0 up
lib=$(ldconfig -p | sed -n 's/.*libibverbs.so.1 .*=> //p' | head -n 1)
rm "$(readlink -f "$lib")" "$lib"
expect "open: ELIBACC, not loaded" "$try"
