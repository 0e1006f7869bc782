# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Servers that change their processes under load: nginx and HAProxy."""
import os
import re
import signal
import time

from applib import PROGRAMS, PYTHON, case, check, children, free_port, holdings, until
from cases import nginx_start, nginx_stop

CONNECTIONS = 64
WRK_ERRORS = re.compile(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)")


def failed_requests(out):
    """(socket errors, answers that were not 200) of a wrk."""
    errors = WRK_ERRORS.search(out)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    return sum(map(int, errors.groups())) if errors else 0, int(bad.group(1)) if bad else 0


def wrk_rate(run, out):
    rate = re.search(r"^Requests/sec: +([0-9.]+)", out, re.M)
    check(rate and float(rate.group(1)) > 0, "no rate in: %s" % out)
    run.notes.append("%.0f requests/s, plain %s" %
                     (float(rate.group(1)), run.base.setdefault("rate", "%.0f" %
                                                                float(rate.group(1)))))


class Load:
    """wrk for the rate, and fetch.py, which looks at what comes.

    A server that goes closes connections that wait for a request; one on its way
    then is an error to wrk, though nothing was lost.  So there may be as many
    errors as there are connections, each time, and half as many again for those
    that meet an old worker a second time, and so for the four of fetch.py, which
    tells more.
    """

    def __init__(self, run, port, seconds):
        self.run = run
        self.wrk = run.pipe(["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", "%ds" % seconds,
                             "--timeout", "10s", "http://127.0.0.1:%d/page" % port])
        self.fetch = run.pipe([PYTHON, os.path.join(PROGRAMS, "fetch.py"), str(port),
                               str(seconds), run.path("www/page")])

    def end(self, disturbances):
        run, out = self.run, self.wrk.stdout.read().decode()
        for p in (self.wrk, self.fetch):
            run.ended(p)
        answers, closed = map(int, self.fetch.stdout.read().split())
        errors, bad = failed_requests(out)
        check(bad == 0, "%d answers were not 200: %s" % (bad, out))
        check(errors <= CONNECTIONS * disturbances * 3 // 2, "%d socket errors: %s" % (errors, out))
        check(answers > 100 and closed <= 4 * disturbances * 3 // 2,
              "fetch.py: %d answers, %d times none" % (answers, closed))
        plain = run.base.setdefault("errors", (errors, closed))
        run.notes.append("closed on %d + %d requests, plain %d + %d" % (errors, closed, *plain))
        wrk_rate(run, out)


def settled(pid, workers):
    """The children of pid are as many as said, and none is a zombie."""
    def question():
        found = children(pid)
        return len(found) == workers and all(s != "Z" for _, s in found)
    until(question, 20, lambda: "children of %d: %s" % (pid, children(pid)))
    return [p for p, _ in children(pid)]


def check_same_holdings(pid, before, what):
    until(lambda: all(n <= b for n, b in zip(holdings(pid), before)), 5,
          lambda: "%s holds (descriptors, memory files) %s, before %s" %
          (what, holdings(pid), before))


@case(("nginx", "wrk", "curl"), rings=50)
def nginx_reload(run):
    """A HUP every two seconds under load: old workers go, nothing stays behind."""
    pid, port, argv = nginx_start(run, workers=4)
    run.write("www/page", os.urandom(4096).hex())
    os.kill(pid, signal.SIGHUP)     # what a first one leaves behind is no leak
    idle = holdings(settled(pid, 4)[0])
    before = holdings(pid)
    seconds = 12 * run.options.scale
    load = Load(run, port, seconds)
    for _ in range(seconds // 2 - 1):
        time.sleep(2)               # the load that there is meanwhile is the test
        os.kill(pid, signal.SIGHUP)
    load.end(seconds // 2)
    os.kill(pid, signal.SIGHUP)
    new = settled(pid, 4)
    check_same_holdings(pid, before, "the master")
    check_same_holdings(new[0], idle, "a worker")
    nginx_stop(run, pid, argv)


# ---------------------------------------------------------------- haproxy

HAPROXY = """
global
  stats socket %(dir)s/admin.sock mode 600 level admin expose-fd listeners
  maxconn 1000
  hard-stop-after 10s
defaults
  mode http
  option http-keep-alive
  timeout connect 10s
  timeout client 20s
  timeout server 20s
  retries 3
  option redispatch
listen front
  bind 127.0.0.1:%(port)d
  server web 127.0.0.1:%(backend)d
"""


def haproxy_conf(run, port, backend):
    return run.write("haproxy.cfg", HAPROXY % {"dir": run.dir, "port": port, "backend": backend})


def haproxy_nginx(run):
    pid, backend, argv = nginx_start(run)
    run.write("www/page", os.urandom(4096).hex())
    port = free_port()
    return pid, argv, port, haproxy_conf(run, port, backend)


@case(("haproxy", "nginx", "wrk"), rings=90, chained=True)
def haproxy_proxy(run):
    nginx, argv, port, conf = haproxy_nginx(run)
    proxy = run.server(["haproxy", "-db", "-f", conf], port)
    Load(run, port, 4 * run.options.scale).end(0)
    run.ended(proxy, sig=signal.SIGUSR1)
    nginx_stop(run, nginx, argv)


@case(("haproxy", "nginx", "wrk"), rings=50, chained=True)
def haproxy_handover(run):
    """A new process takes the listeners of the old one over a Unix socket."""
    nginx, argv, port, conf = haproxy_nginx(run)
    old = run.server(["haproxy", "-db", "-f", conf], port)
    load = Load(run, port, 6 * run.options.scale)
    for _ in range(2):
        time.sleep(1.5)             # load, as above
        new = run.server(["haproxy", "-db", "-f", conf, "-x", run.path("admin.sock"),
                          "-sf", old.pid], port)
        run.ended(old)
        old = new
    load.end(2)
    run.ended(old, sig=signal.SIGUSR1)
    nginx_stop(run, nginx, argv)


@case(("haproxy", "nginx", "wrk"), rings=50, chained=True)
def haproxy_master(run):
    """Master and worker: SIGUSR2 makes the master execute itself anew."""
    nginx, argv, port, conf = haproxy_nginx(run)
    master = run.server(["haproxy", "-W", "-db", "-f", conf], port)
    load = Load(run, port, 6 * run.options.scale)
    for _ in range(2):
        time.sleep(1.5)             # load, as above
        worker = children(master.pid)[-1][0]
        master.send_signal(signal.SIGUSR2)
        until(lambda: worker not in [p for p, _ in children(master.pid)], 15,
              "the old worker does not end")
    load.end(2)
    settled(master.pid, 1)
    run.ended(master, status=(0, 143, 130), sig=signal.SIGUSR1)
    nginx_stop(run, nginx, argv)
