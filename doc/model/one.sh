#!/bin/bash
# one.sh NAME "-Dflags" [MODEL.pml]: build and run one verification, print one line.
# CMP=-DCOLLAPSE (default, exact) or CMP=-DHC4 (hash compaction: smaller, a tiny chance of a missed state); -DHC4 in flags also works
ulimit -v 14000000; n=$1; f=$2; src=${3:-stream.pml}; d=$(cd "$(dirname "$0")" && pwd)/out/$n; mkdir -p "$d"; cd "$d" || exit; rm -f *
c=${CMP:--DCOLLAPSE}; case $f in *-DHC4*) c=-DHC4; f=${f/-DHC4/};; esac
spin $f -a ../../$src >spin.log 2>&1 || { echo "$n SPINFAIL"; cat spin.log; exit 1; }
gcc ${OPT:--O2} -DSAFETY -DMEMLIM=9000 $c -DVECTORSZ=2048 -o pan pan.c >gcc.log 2>&1 || { echo "$n GCCFAIL"; head gcc.log; exit 1; }
timeout ${TMO:-300} ./pan -m20000 -w${HASH:-24} >pan.log 2>&1; rc=$?
err=$(grep -o 'errors: [0-9]*' pan.log|head -1); st=$(grep -E 'states, stored' pan.log|head -1|awk '{print $1}')
why=$(grep -m1 '^pan:1' pan.log); trunc=$(grep -m1 -E 'max search depth too small|out of memory|reached -DMEMLIM' pan.log)
printf '%-22s rc=%s %s states=%s %s %s\n' "$n" $rc "$err" "${st:-?}" "$why" "$trunc"
