#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# The same program with and without the library in front: same text, same
# exit, nothing on standard error; one line of counters a process that ends by
# itself, none of a vfork child.
# shellcheck disable=SC2016

lib=$(pwd)/.libs/libsidestep.so
probe=tests/unit/preload_probe
launch=tools/sidestep
tmp=tests/unit/test_preload_door.tmp
fail=0

unset SIDESTEP SIDESTEP_STATS_FILE SIDESTEP_LOG SIDESTEP_LOG_FILE
rm -rf "$tmp"
mkdir -p "$tmp" || exit 99
trap 'rm -rf "$tmp"' EXIT

# check WHAT CONDITION...
check() {
	what=$1
	shift
	"$@" && return 0
	echo "FAIL: $what"
	fail=1
}

same() {
	check "$2: text differs" diff "$tmp/plain" "$1"
}

"$probe" >"$tmp/plain" 2>"$tmp/plain.err" || exit 99
SIDESTEP_STATS_FILE=$tmp/stats "$launch" "$probe" >"$tmp/on" 2>"$tmp/on.err"
check "exit status" [ $? -eq 0 ]
same "$tmp/on" "on"
check "standard error" cmp "$tmp/plain.err" "$tmp/on.err"
SIDESTEP=off "$launch" "$probe" >"$tmp/off" 2>&1
same "$tmp/off" "SIDESTEP=off"

# the probe, its children by two clones, a fork by number and quick_exit(), and
# the one that writes before it installs a filter
check "counters are written" [ "$(grep -c '"program":"preload_probe"' "$tmp/stats")" -eq 6 ]
check "counters are JSON lines" [ "$(grep -vc '^{"program":.*}}$' "$tmp/stats")" -eq 0 ]
check "each process writes once" [ -z "$(sed 's/.*"pid":\([0-9]*\),.*/\1/' "$tmp/stats" | sort | uniq -d)" ]
SIDESTEP=off SIDESTEP_STATS_FILE=$tmp/none "$launch" true
check "no counters when off" [ ! -e "$tmp/none" ]

# a log file is a private descriptor
SIDESTEP_LOG=info SIDESTEP_LOG_FILE=$tmp/log "$launch" "$probe" private >"$tmp/private"
check "private descriptors: $?, $(cat "$tmp/private")" grep -q '^1 private, 1 after' "$tmp/private"

# a filter that was there before the library
check "begins behind a filter" "$launch" "$probe" shut-in true
check "ends behind a filter" [ "$("$launch" "$probe" shut-in sh -c 'echo a | cat')" = a ]

# the launcher
check "status is the program's" [ "$("$launch" sh -c 'exit 42'; echo $?)" = 42 ]
check "not found is 127" [ "$("$launch" /no/such/program 2>/dev/null; echo $?)" = 127 ]
check "not executable is 126" [ "$("$launch" / 2>/dev/null; echo $?)" = 126 ]
check "own trouble is 125" [ "$("$launch" -o nonsense=1 true 2>/dev/null; echo $?)" = 125 ]
check "the environment wins" [ "$(SIDESTEP_ATTACH=never "$launch" -o attach=eager sh -c 'echo $SIDESTEP_ATTACH')" = never ]
check "-o sets" [ "$("$launch" -o ring-bytes=65536 sh -c 'echo $SIDESTEP_RING_BYTES')" = 65536 ]
check "LD_PRELOAD stays" [ "$(LD_PRELOAD=libc.so.6 "$launch" sh -c 'echo $LD_PRELOAD')" = "$lib:libc.so.6" ]
check "once is enough" [ "$("$launch" "$launch" sh -c 'echo $LD_PRELOAD')" = "$lib" ]
for word in --help --version; do
	check "$word" [ "$("$launch" $word | grep -c sidestep)" -ge 1 ]
done
exit $fail
