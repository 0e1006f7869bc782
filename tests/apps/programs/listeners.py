#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A server whose listener another has made, and its clients.

listeners.py serve N		the listener is descriptor 3; N connections, then the end
listeners.py bound N		... which does not listen yet
listeners.py passed N PATH	... comes by SCM_RIGHTS over the Unix socket at PATH
listeners.py again N PORT	makes it, and then is another image of itself, which serves
listeners.py shut N COMMAND...	the command behind a filter that allows all; as systemd does
				it is told that N listeners begin at descriptor 3
listeners.py call N PORT	N connections to it, one after the other

Of what it accepts each block is sent back.  Where the listener has SO_RCVTIMEO, the
server waits once for nothing, and for as long as that says.
"""
import ctypes
import os
import socket
import struct
import sys
import time

sys.dont_write_bytecode = True
from children import BLOCK, take  # noqa: E402

ROUNDS = 300


def timeout_holds(s, begun):
    """What has been waited for nothing, against what the option says."""
    seconds, us = struct.unpack("ll", s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16))
    want, waited = seconds + us / 1e6, time.monotonic() - begun
    if not want or not want * 0.9 <= waited < want + 5:
        sys.exit("waited for %.3f s, wanted %.3f" % (waited, want))


def echo(s):
    while True:
        begun = time.monotonic()
        try:
            data = s.recv(65536)
        except BlockingIOError:
            timeout_holds(s, begun)
            s.sendall(b"t")
            continue
        if not data:
            return
        s.sendall(data)


def serve(listener, n):
    for _ in range(n):
        with listener.accept()[0] as s:
            echo(s)


def passed(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as u:
        u.connect(path)
        return socket.socket(fileno=socket.recv_fds(u, 1, 1)[1][0])


def again(n, port):
    s = socket.create_server(("127.0.0.1", port))
    os.set_inheritable(s.fileno(), True)
    if s.fileno() != 3:
        os.dup2(s.fileno(), 3)
        s.close()
    os.execv(sys.executable, [sys.executable, __file__, "serve", str(n)])


def shut(n, command):
    """struct sock_fprog of one instruction: allow."""
    libc = ctypes.CDLL(None, use_errno=True)
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(allow)))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        sys.exit("no filter: errno %d" % ctypes.get_errno())
    os.set_inheritable(3, True)
    os.execvpe(command[0], command, dict(os.environ, LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(n)))


def call(n, port, waits):
    for _ in range(n):
        with socket.create_connection(("127.0.0.1", port)) as s:
            for i in range(ROUNDS):
                block = bytes([i % 256]) + BLOCK[i:]
                s.sendall(block)
                if take(s, len(block)) != block:
                    sys.exit("round %d has come back as something else" % i)
            if waits and take(s, 1) != b"t":
                sys.exit("no wait for nothing")


def main():
    kind, n = sys.argv[1], int(sys.argv[2])
    if kind == "call":
        call(n, int(sys.argv[3]), len(sys.argv) > 4)
    elif kind == "shut":
        shut(n, sys.argv[3:])
    elif kind == "again":
        again(n, int(sys.argv[3]))
    elif kind == "passed":
        serve(passed(sys.argv[3]), n)
    else:
        listener = socket.socket(fileno=3)
        if kind == "bound":
            listener.listen()
        serve(listener, n)


main()
