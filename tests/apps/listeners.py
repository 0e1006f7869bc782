# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Servers whose listeners another has made: by exec, over a Unix socket, or both."""
import os
import signal
import socket
import struct

from applib import PROGRAMS, PYTHON, case, check, free_port, total, until
from cases import nginx_start, nginx_stop, wrk

PROGRAM = os.path.join(PROGRAMS, "listeners.py")
CALLS = 3


def call(run, port, *args):
    out = run.client([PYTHON, PROGRAM, "call", CALLS, port, *args])
    check(out == "", "it says: %s" % out)


def bound(*options):
    s = socket.socket()
    for level, name, value in options:
        s.setsockopt(level, name, value)
    s.bind(("127.0.0.1", 0))
    return s, s.getsockname()[1]


def served(run, s, port, *args, kind="serve", by=()):
    server = run.server([PYTHON, PROGRAM, kind, CALLS], port, third=s.fileno(), by=by)
    call(run, port, *args)
    run.ended(server)


@case((PYTHON,), rings=50)
def listener_activation(run):
    """One that listens when its server begins."""
    s, port = bound()
    with s:
        s.listen()
        served(run, s, port)


@case((PYTHON,), rings=50)
def listener_filtered(run):
    """The same behind a filter, where only what systemd names is asked about."""
    s, port = bound()
    with s:
        s.listen()
        served(run, s, port, by=[PYTHON, PROGRAM, "shut", 1])


@case((PYTHON,), rings=50)
def listener_bound(run):
    """One that is bound, and told to listen by the server."""
    s, port = bound()
    with s:
        served(run, s, port, kind="bound")


@case((PYTHON,), rings=50)
def listener_timeout(run):
    """What was set before is known: a wait ends in time on the ring."""
    s, port = bound((socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 300000)),
                    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
    with s:
        s.listen()
        served(run, s, port, "waits")


@case((PYTHON,), rings=False)
def listener_option(run):
    """With this, bytes that are urgent stay in line: not for the ring."""
    s, port = bound((socket.SOL_SOCKET, socket.SO_OOBINLINE, 1))
    with s:
        s.listen()
        served(run, s, port)
    if run.mode in ("both", "server"):
        check(not total(run.stats(), "ring_tx_bytes", "ring_rx_bytes"), "bytes on rings")
        check(any(line["reasons"].get("option") == CALLS for line in run.stats()),
              "no reason: %s" % [line["reasons"] for line in run.stats()])


@case((PYTHON,), rings=50)
def listener_passed(run):
    """One that comes by SCM_RIGHTS to a server that runs."""
    s, port = bound()
    with s, socket.socket(socket.AF_UNIX) as u:
        s.listen()
        u.bind(run.path("unix"))
        u.listen()
        server = run.server([PYTHON, PROGRAM, "passed", CALLS, run.path("unix")], port)
        with u.accept()[0] as there:
            socket.send_fds(there, [b"l"], [s.fileno()])
        call(run, port)
        run.ended(server)


@case((PYTHON,), rings=50)
def listener_again(run):
    """A server that makes another image of itself."""
    port = free_port()
    server = run.server([PYTHON, PROGRAM, "again", CALLS, port], port)
    call(run, port)
    run.ended(server)


@case(("nginx", "wrk", "curl"), rings=80)
def nginx_upgrade(run):
    """A new binary takes over the listener; the old one goes."""
    old, port, argv = nginx_start(run, keep="env LD_PRELOAD; env SIDESTEP_STATS_FILE;")
    run.write("www/page", "x" * 4096)
    os.kill(old, signal.SIGUSR2)
    until(lambda: os.path.exists(run.path("nginx.pid")) and
          os.path.exists(run.path("nginx.pid.oldbin")), 10, "no new binary")
    with open(run.path("nginx.pid")) as f:
        new = int(f.read())
    run.daemons.append(new)
    os.kill(old, signal.SIGQUIT)
    run.daemon_ended(old)
    wrk(run, port, "-c", "20")
    nginx_stop(run, new, argv)
