# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# guests: 2
# seconds: 150
# A process without sidestep listens, and gives that to one with it: what the latter
# accepts is on a ring, what the former does stays on TCP, at the same port.
hosts_up
need python3
export SIDESTEP_LOG=info PYTHONPATH="$SRC/tests/vm"
# the ring is waited for, however long that takes on a busy machine
export SIDESTEP_FAULT=hurry:10000

cat >ends.py <<-'EOF'
	import os, socket, sys
	from pieces import echo, speak

	there = ("10.9.0.1", 7106)
	piece = bytes(65536)

	def listen():
	    s = socket.create_server(there)
	    s.set_inheritable(True)
	    from_child, to_parent = os.pipe()
	    os.set_inheritable(to_parent, True)
	    child = os.fork()
	    if not child:
	        os.execv(sys.argv[2], [sys.argv[2], sys.executable, sys.argv[0], "accept",
	                               str(s.fileno()), str(to_parent)])
	    os.read(from_child, 1)      # the first is the child's
	    echo(s.accept()[0], piece)
	    sys.exit(os.waitpid(child, 0)[1] != 0)

	def accept(listener, to_parent):
	    c = socket.socket(fileno=listener).accept()[0]
	    os.write(to_parent, b"a")
	    echo(c, piece)

	def connect():
	    one = socket.create_connection(there)
	    one.sendall(piece)
	    if len(one.recv(len(piece), socket.MSG_WAITALL)) < len(piece):
	        sys.exit("the first stream ended early")
	    if not speak(socket.create_connection(there), piece, 3) or not speak(one, piece, 3):
	        sys.exit("a stream ended early")

	kind = sys.argv[1]
	accept(int(sys.argv[2]), int(sys.argv[3])) if kind == "accept" else globals()[kind]()
	EOF

serve 7106 python3 ends.py listen "$S"
if [ "$G" -eq 2 ]; then
	"$S" python3 ends.py connect || fail "$?"
fi
served "inherited" 1
sed -n 's/.*\("conns_total":[0-9]*\).*\("reasons":{[^}]*}\).*/\1 \2/p' stats
[ "$(sum conns_ring_verbs)" -eq 1 ] || fail "not one on a ring: $(cat stats)"
[ "$(sum conns_total)" -eq "$G" ] || fail "not $G in all: $(cat stats)"
[ "$G" -eq 1 ] || grep -q '"reasons":{[^}]*"peer-unproven":1' stats || fail "no reason: $(cat stats)"
