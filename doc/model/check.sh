#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# check.sh SRCDIR: a small part of run.sh, some seconds each, for `make check-model`.
# Base lines must end with no error, mutant lines with one.
command -v spin >/dev/null || { echo "check-model: skipped, spin is not installed"; exit 0; }
src=$1
dir=$(mktemp -d model.XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT
cp "$src"/*.pml "$src"/one.sh "$dir" && chmod +x "$dir"/one.sh || exit 1
S="-DNB=2 -DNEP=1 -DNL=1"
export OPT=-O0 HASH=20 TMO=60
fail=0
# want NAME ERRORS FLAGS MODEL
want() {
	line=$("$dir"/one.sh "$1" "$3" "$4")
	echo "$line"
	case $line in
	*"rc=0 errors: $2 "*) ;;
	*) echo "check-model: $1: expected errors: $2"; fail=1 ;;
	esac
}
want wake-1-1	0 "-DNR=1 -DNP=1"		wake.pml
want wake-NO_ONE 1 "-DNR=2 -DNP=0 -DNO_ONE"	wake.pml
want base-small	0 "$S"				stream.pml
want NO_B0	1 "$S -DREQRESP -DNO_B0"	stream.pml
want NO_ABANDON	1 "$S -DNO_ABANDON"		stream.pml
want NO_SHARED	1 "$S -DCRASH -DSOFT -DNO_SHARED" stream.pml
want close-HOLD	0 "-DMAXVOL=0 -DMAXKILL=0 -DKIND1=2" close.pml
exit $fail
