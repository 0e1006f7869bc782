#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# mutants.sh - take each rule of the protocol out, one at a time: the simulator
# must find a violation within STEPS steps, and none with all rules in force.
# One line a mutant: name, steps it took, what was violated.
sim=${SIM:-tests/sim/sim}
steps=${STEPS:-20000000}
seed=${SEED:-1}
missed=

[ -x "$sim" ] || { echo "mutants.sh: no $sim here; run from the build tree" >&2; exit 2; }
for m in $("$sim" --list); do
	out=$("$sim" --steps "$steps" --seed "$seed" --mutant "$m")
	case $? in
	1) echo "$out" | sed -n "1s/^violated after \([0-9]*\) steps[^)]*): /\1 /p" |
		while read -r n why; do printf '%-14s %9d steps  %s\n' "$m" "$n" "$why"; done ;;
	0) printf '%-14s NOT FOUND in %d steps\n' "$m" "$steps"; missed="$missed $m" ;;
	*) echo "mutants.sh: $sim failed: $out" >&2; exit 2 ;;
	esac
done
"$sim" --steps 1000000 --seed "$seed" || { echo "violated with all rules in force" >&2; exit 1; }
[ -z "$missed" ] || { echo "not found:$missed" >&2; exit 1; }
