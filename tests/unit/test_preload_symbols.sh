#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Every function of the libc that we run on is accounted for: the door exports
# it (src/base/calls.h), or test_preload_symbols.list says why it need not.
# What the library exports is that table and nothing else.
#
# A pattern of class no-fd does not account for a name that smells of
# descriptors or processes: such a one wants a line of its own.

top=${srcdir:-.}
lib=.libs/libsidestep.so
list=$top/tests/unit/test_preload_symbols.list
tmp=tests/unit/test_preload_symbols.tmp
fail=0

command -v nm >/dev/null || exit 77
libc=$(ldd "$lib" | awk '$1 ~ /^libc\.so/ { print $3 }')
[ -r "$libc" ] || exit 77
mkdir -p "$tmp" || exit 99
trap 'rm -rf "$tmp"' EXIT

# functions and IFUNCs, but for those that libc keeps for its own parts
functions() {
	nm -D --defined-only "$1" | awk '$2 ~ /^[TWi]$/ && $3 !~ /@GLIBC_PRIVATE/ {
		sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u
}

complain() {
	[ -s "$1" ] || return 0
	echo "FAIL: $2:"
	sed 's/^/	/' "$1"
	fail=1
}

functions "$libc" >"$tmp/libc"
functions "$lib" | grep -v '^sidestep_' >"$tmp/exported"
tests/unit/preload_table | LC_ALL=C sort >"$tmp/table"
[ "$(wc -l <"$tmp/libc")" -gt 1000 ] && [ -s "$tmp/table" ] || exit 99

LC_ALL=C comm -3 "$tmp/exported" "$tmp/table" >"$tmp/differ"
complain "$tmp/differ" "exported only (left), in src/base/calls.h only (right)"

LC_ALL=C awk -v bad="$tmp/bad" '
function regex(glob) {
	gsub(/\./, "\\.", glob); gsub(/\*/, ".*", glob); gsub(/\?/, ".", glob)
	return "^" glob "$"
}
FILENAME ~ /\.list$/ {
	sub(/#.*/, "")
	if (NF && $1 !~ /^(no-fd|path|file|stdio|kernel|internal|hooked|via|obsolete)$/)
		print "class " $1 > bad
	for (i = 2; i <= NF; i++) {
		if ($i ~ /[*?]/) {
			n++; pattern[n] = regex($i); class[n] = $1; text[n] = $i
		} else {
			if ($i in name)
				print "twice: " $i > bad
			name[$i] = $1
		}
	}
	next
}
FILENAME ~ /table$/ { if ($1 in name) print "exported and listed: " $1 > bad; exported[$1]; next }
{
	if ($1 in exported || $1 in name)
		next
	smells = $1 ~ /(fd|sock|recv|send|poll|select|pipe|accept|connect|listen|dup[0-9]|splice|spawn|exec|fork|clone|uring)/
	for (i = 1; i <= n; i++)
		if ($1 ~ pattern[i] && !(smells && class[i] == "no-fd"))
			next
	print $1
}' "$list" "$tmp/table" "$tmp/libc" >"$tmp/unaccounted"
[ -f "$tmp/bad" ] && complain "$tmp/bad" "test_preload_symbols.list is wrong"
complain "$tmp/unaccounted" "functions of $libc not accounted for"

exit $fail
