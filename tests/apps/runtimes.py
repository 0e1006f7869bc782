# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Language runtimes with event loops of their own: an echo at both ends, every byte looked at."""
import os

from applib import PROGRAMS, PYTHON, case, check, free_port

CONNECTIONS = 8


def echo(run, serve, call):
    """Two commands that take serve or call, a port, and how many connections."""
    port = free_port()
    n = CONNECTIONS * run.options.scale
    server = run.server([*serve, "serve", port, n], port)
    run.client([*call, "call", port, n])
    run.ended(server)


ASYNCIO = (PYTHON, os.path.join(PROGRAMS, "echo_asyncio.py"))
NODE = ("node", os.path.join(PROGRAMS, "echo.js"))


def go(run):
    """The program, built so that it is static and makes all system calls itself."""
    r = run.plain(["env", "CGO_ENABLED=0", "GO111MODULE=off", "HOME=" + run.dir,
                   "GOCACHE=" + run.path("cache"), "go", "build", "-o", run.path("echo"),
                   os.path.join(PROGRAMS, "echo.go")], timeout=300)
    check(r.returncode == 0, "go build: %s" % r.stdout)
    return (run.path("echo"),)


@case((PYTHON,), rings=80)
def asyncio_echo(run):
    echo(run, ASYNCIO, ASYNCIO)


@case(("node",), rings=80)
def node_echo(run):
    echo(run, NODE, NODE)


@case(("node", PYTHON), rings=80)
def node_and_asyncio(run):
    echo(run, NODE, ASYNCIO)


@case(("go", PYTHON), rings=None, modes=("plain", "both", "server"))
def go_client(run):
    """The library is in the server only, whoever asks for more."""
    echo(run, ASYNCIO, go(run))


@case(("go", "node"), rings=None, modes=("plain", "both", "client"))
def go_server(run):
    echo(run, go(run), NODE)
