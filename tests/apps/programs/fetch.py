#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""fetch.py PORT SECONDS FILE: get /page over connections that stay open, again and again.

A server that goes may close a connection between two requests, and a request may
cross that on its way: such a one had no byte of an answer and is asked again.
Whatever came of an answer must be whole, and what FILE says.
Prints: requests answered, connections closed without an answer.
"""
import re
import socket
import sys
import time

REQUEST = b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Connection:
    def __init__(self, port):
        self.port, self.socket = port, None

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def more(self, got):
        """The next bytes, None when there is no answer at all."""
        try:
            piece = self.socket.recv(65536)
        except ConnectionResetError:
            piece = b""
        if not piece and got:
            raise EOFError("an answer ends after %d bytes" % len(got))
        return piece or None

    def get(self):
        """The body, or None for a connection that was closed without an answer."""
        if not self.socket:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        try:
            self.socket.sendall(REQUEST)
        except (BrokenPipeError, ConnectionResetError):
            return None
        got = b""
        while b"\r\n\r\n" not in got:
            piece = self.more(got)
            if piece is None:
                return None
            got += piece
        head, body = got.split(b"\r\n\r\n", 1)
        if not head.startswith(b"HTTP/1.1 200 "):
            raise ValueError("answer: %r" % head[:200])
        wanted = int(re.search(rb"(?i)^content-length: *(\d+)", head, re.M).group(1))
        while len(body) < wanted:
            body += self.more(got)
        if re.search(rb"(?i)^connection: *close", head, re.M):
            self.close()
        return body


def main():
    port, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    with open(sys.argv[3], "rb") as f:
        page = f.read()
    connections = [Connection(port) for _ in range(4)]
    answers = closed = 0
    while time.monotonic() < end:
        for c in connections:
            body = c.get()
            if body is None:
                c.close()
                closed += 1
            elif body != page:
                raise ValueError("another page came: %d bytes" % len(body))
            else:
                answers += 1
    print(answers, closed)


main()
