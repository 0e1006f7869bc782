# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 200
# A server that accepts, forks and closes its own copy: each child serves its
# connection over verbs.  The first is forked while its parent looks for a device.
hosts_up
need python3
(umask 077 && echo "a secret of both" >key)
export SIDESTEP_KEY_FILE=$work/key SIDESTEP_LOG=info
export PYTHONPATH="$SRC/tests/vm"
cat >ends.py <<-'EOF'
	import os, socket, sys, threading
	from pieces import echo, speak

	SECONDS, CLIENTS = 20, 3
	there = ("10.9.0.1", 7107)
	piece = bytes(16384)


	def serve():
	    listener = socket.create_server(there)
	    for _ in range(CLIENTS):
	        c = listener.accept()[0]
	        if not os.fork():
	            listener.close()
	            echo(c, piece)
	            sys.exit()
	        c.close()
	    for _ in range(CLIENTS):
	        if os.wait()[1]:
	            sys.exit("a child has failed")


	def ask():
	    if not speak(socket.create_connection(there), piece, SECONDS):
	        print("the stream ended early")
	        os._exit(1)


	if sys.argv[1] == "serve":
	    serve()
	else:
	    for t in [threading.Thread(target=ask) for _ in range(CLIENTS)]:
	        t.start()
	EOF

serve 7107 "$S" python3 ends.py serve
if [ "$G" -eq 2 ]; then
	"$S" python3 ends.py speak || fail "$?"
fi
served "children" 1
if [ "$G" -eq 1 ]; then
	[ "$(grep -c '"conns_ring_verbs":1' stats)" -eq 3 ] || fail "not each child: $(cat stats)"
else
	[ "$(sum conns_ring_verbs)" -eq 3 ] || fail "not each connection: $(cat stats)"
fi
