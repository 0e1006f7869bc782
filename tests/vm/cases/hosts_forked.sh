# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 200
# Processes that have met by rdma_cm fork, and so do their children: each generation
# meets by itself, those that accept in guest 1 and those that connect in guest 2.
hosts_up
need python3
(umask 077 && echo "a secret of both" >key)
export SIDESTEP_KEY_FILE=$work/key SIDESTEP_LOG=info
# the ring is waited for, however long that takes on a busy machine
export SIDESTEP_FAULT=hurry:10000

export PYTHONPATH="$SRC/tests/vm"
cat >ends.py <<-'EOF'
	import os, socket, sys
	from pieces import echo, speak

	SECONDS, GENERATIONS = 3, 3
	there = ("10.9.0.1", 7105)
	piece = bytes(65536)

	listener = socket.create_server(there) if sys.argv[1] == "accept" else None
	for generation in range(GENERATIONS):
	    if listener:
	        echo(listener.accept()[0], piece)
	    elif not speak(socket.create_connection(there), piece, SECONDS):
	        sys.exit("the stream ended early")
	    if generation + 1 < GENERATIONS:
	        child = os.fork()
	        if child:
	            sys.exit(os.waitpid(child, 0)[1] != 0)
	EOF

serve 7105 "$S" python3 ends.py accept
if [ "$G" -eq 2 ]; then
	"$S" python3 ends.py connect || fail "$?"
fi
served "forked" 1
grep -o '"conns_ring_verbs":[0-9]*\|"reasons":{[^}]*}' stats | tr '\n' ' '
[ "$(grep -c '"conns_ring_verbs":1' stats)" -eq 3 ] || fail "not each generation: $(cat stats)"
