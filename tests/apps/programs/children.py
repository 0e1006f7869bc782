#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""children.py KIND [METHOD]: a server in one process, its clients in others.

It prints nothing unless something is wrong; the status is 0 if all went well.
"""
import asyncio
import hashlib
import multiprocessing
import os
import socket
import socketserver
import subprocess
import sys
import threading

BLOCK = bytes(range(256)) * 64
ROUNDS = 200
KEPT, KEPT_BLOCK = 20000, 20000         # blocks, bytes


def take(s, n):
    """n bytes, or an error."""
    got = b""
    while len(got) < n:
        piece = s.recv(min(65536, n - len(got)))
        if not piece:
            raise EOFError("end after %d of %d bytes" % (len(got), n))
        got += piece
    return got


def echo(s):
    while data := s.recv(65536):
        s.sendall(data)


def talk(s, rounds=ROUNDS):
    """Send blocks that differ, and want them back."""
    for i in range(rounds):
        block = hashlib.sha256(b"%d" % i).digest() + BLOCK[i % 256:]
        s.sendall(block)
        if take(s, len(block)) != block:
            raise ValueError("round %d: other bytes came back" % i)


def connect(address):
    s = socket.create_connection(address, timeout=60)
    s.settimeout(None)
    return s


def listen():
    s = socket.create_server(("127.0.0.1", 0))
    return s, s.getsockname()


def pair():
    """Both ends of a connection over TCP, and the threads' way to echo on it."""
    listener, address = listen()
    client = connect(address)
    server, _ = listener.accept()
    listener.close()
    return client, server


def start(fn, *args):
    t = threading.Thread(target=fn, args=args)
    t.start()
    return t


# ---------------------------------------------------------------- subprocess

def ends_well(argv, spawn):
    if spawn == "posix_spawn":
        pid = os.posix_spawn(argv[0], argv, os.environ)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return subprocess.run(argv, check=False, close_fds=spawn != "keep-fds").returncode


def children_while_talking(spawn):
    """Children come and go while connections are in use."""
    client, server = pair()
    echoing = start(echo, server)
    for _ in range(5):
        talk(client, 20)
        status = ends_well(["/bin/true"], spawn)
        if status:
            raise ValueError("status %d of true" % status)
    talk(client)
    client.shutdown(socket.SHUT_WR)
    echoing.join()
    server.close()
    if client.recv(1):
        raise ValueError("more bytes")
    client.close()


def child_as_filter():
    """A child whose standard input and output are a connection that was in use before."""
    client, server = pair()
    for i in range(50):
        client.sendall(BLOCK)
        server.sendall(take(server, len(BLOCK)))
        take(client, len(BLOCK))
    child = subprocess.Popen(["/bin/cat"], stdin=server, stdout=server)
    server.close()
    talk(client)
    client.shutdown(socket.SHUT_WR)
    if client.recv(1) or child.wait():
        raise ValueError("cat has not ended as it should")
    client.close()


# ---------------------------------------------------------------- multiprocessing

def serve_one(server):
    echo(server)
    server.close()


def call(address):
    s = connect(address)
    talk(s)
    s.close()


def pass_sockets(method):
    """Each accepted connection goes to a process of its own, cold or in use."""
    ctx = multiprocessing.get_context(method)
    listener, address = listen()
    callers = [ctx.Process(target=call, args=(address,)) for _ in range(3)]
    for p in callers:
        p.start()
    servers = []
    for i in range(3):
        s, _ = listener.accept()
        if i == 1:          # in use before it goes
            for _ in range(50):
                block = take(s, 32 + len(BLOCK[_ % 256:]))
                s.sendall(block)
        servers.append(ctx.Process(target=serve_one, args=(s,)))
        servers[-1].start()
        s.close()
    for p in callers + servers:
        p.join(60)
        if p.exitcode != 0:
            raise ValueError("exit code %s" % p.exitcode)
    listener.close()


def read_other(fd):
    """In a program without the library: a connection comes by SCM_RIGHTS, and is read."""
    with socket.socket(fileno=int(fd)) as u:
        s = socket.socket(fileno=socket.recv_fds(u, 1, 1)[1][0])
    s.setblocking(True)
    for i in range(KEPT):
        if take(s, KEPT_BLOCK) != bytes([i % 256]) * KEPT_BLOCK:
            raise ValueError("block %d is another" % i)
    if s.recv(1):
        raise ValueError("more bytes")


def pass_and_keep():
    """Another program reads a connection in use, which this one keeps open."""
    client, server = pair()
    echoing = start(lambda: [server.sendall(take(server, 1000)) for _ in range(3000)])
    for _ in range(3000):
        client.sendall(b"x" * 1000)
        take(client, 1000)
    echoing.join()
    here, there = socket.socketpair()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SIDESTEP", "LD_PRELOAD"))}
    reader = subprocess.Popen([sys.executable, sys.argv[0], "read", str(there.fileno())], env=env,
                              pass_fds=[there.fileno()])
    socket.send_fds(here, [b"s"], [server.fileno()])
    for i in range(KEPT):
        client.sendall(bytes([i % 256]) * KEPT_BLOCK)
    client.shutdown(socket.SHUT_WR)
    if reader.wait(60):
        raise ValueError("the reader has ended with %d" % reader.returncode)
    for s in (client, server, here, there):
        s.close()


# ---------------------------------------------------------------- socketserver

class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        echo(self.request)


def socket_server(kind):
    class Server(getattr(socketserver, kind)):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Echo) as server:
        serving = start(server.serve_forever)
        if kind.startswith("Forking"):      # in other processes, for threads and fork do not mix
            argv = [sys.executable, sys.argv[0], "call", str(server.server_address[1])]
            procs = [subprocess.Popen(argv) for _ in range(4)]
            bad = [p.wait() for p in procs]
            if any(bad):
                raise ValueError("status %s" % bad)
        else:
            threads = [start(call, server.server_address) for _ in range(8)]
            for t in threads:
                t.join()
        server.shutdown()
        serving.join()


# ---------------------------------------------------------------- asyncio

async def async_echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def async_call(address):
    reader, writer = await asyncio.open_connection(*address)
    for i in range(ROUNDS):
        block = hashlib.sha256(b"%d" % i).digest() + BLOCK[i % 256:]
        writer.write(block)
        await writer.drain()
        if await reader.readexactly(len(block)) != block:
            raise ValueError("round %d: other bytes came back" % i)
        if i == ROUNDS // 2:        # a child in the middle
            child = await asyncio.create_subprocess_exec("/bin/true")
            if await child.wait():
                raise ValueError("status of true")
    writer.close()
    await writer.wait_closed()


async def async_all():
    server = await asyncio.start_server(async_echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    await asyncio.gather(*[async_call(address) for _ in range(8)])
    server.close()
    await server.wait_closed()


KINDS = {
    "children": children_while_talking,
    "filter": child_as_filter,
    "pass": pass_sockets,
    "keep": pass_and_keep,
    "read": read_other,
    "server": socket_server,
    "asyncio": lambda: asyncio.run(async_all()),
    "call": lambda port: call(("127.0.0.1", int(port))),
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
