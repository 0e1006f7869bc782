# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the application cases share: processes, ports, counters, checks.

A case is a function of one argument, a Run.  It starts a server and clients
through it, looks at their answers, and says with check() what must hold.  The
same function runs plain first: what the programs print to stderr there is what
they may print under sidestep.
"""
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import time

CASES = []
MODES = ("plain", "both", "server", "client")
OUR_FAULT = {"counts", "internal", "fault"}
ONE_SIDED_REASONS = {"peer-unproven", "not-warm", "closed-first"}
PYTHON = "/usr/bin/python3"
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
START_S = 20
STOP_S = 20


class Failed(Exception):
    """The case did not hold; the text says what."""


def check(condition, text):
    if not condition:
        raise Failed(text)


def case(needs=(), rings=True, modes=MODES, chained=False, noise=None):
    """Register a case.  needs: programs; rings: with both ends under sidestep
    nearly all bytes must go over rings, or this percentage of them, or (False)
    whatever comes, or (None) none at all; modes: those in which it means something; chained: servers talk to each other, over rings
    too; noise: lines on stderr that are there or not by chance."""
    def register(function):
        function.needs, function.rings, function.modes = needs, rings, modes
        function.chained, function.noise = chained, noise
        CASES.append(function)
        return function
    return register


def program(name):
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    """Look into /proc: a connection just to see would be counted."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name) as f:
                lines = f.readlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == "0A" and int(words[1].rsplit(":", 1)[1], 16) == port:
                return True
    return False


def wait_pid_gone(pid, seconds):
    """A daemon is no child of ours: wait by pidfd.  Return whether it has gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)


def proc_read(pid, name):
    try:
        with open("/proc/%s/%s" % (pid, name), "rb") as f:
            return f.read().decode(errors="replace")
    except OSError:
        return ""


def children(pid):
    """(pid, state letter) of each child, zombies too."""
    found = []
    for child in filter(str.isdigit, os.listdir("/proc")):
        words = proc_read(child, "stat").rpartition(")")[2].split()
        if words and int(words[1]) == pid:
            found.append((int(child), words[0]))
    return found


def holdings(pid):
    """What a process holds: descriptors, and mappings of memory that rings may lie in."""
    try:
        fds = len(os.listdir("/proc/%d/fd" % pid))
    except OSError:
        fds = 0
    return fds, proc_read(pid, "maps").count("/memfd:")


def until(question, seconds, text):
    """Ask until the answer is yes."""
    end = time.monotonic() + seconds
    while not question():
        check(time.monotonic() < end, text() if callable(text) else text)
        time.sleep(0.02)


class Run:
    """One run of a case in one mode."""

    def __init__(self, options, mode, directory, name, base):
        self.options, self.mode, self.dir, self.name = options, mode, directory, name
        self.base = base        # what the plain run has left for the others
        self.notes = []         # figures for the report
        self.stats_file = os.path.join(directory, "stats")
        self.noise = os.path.join(directory, "stderr")
        self.procs = []
        self.daemons = []
        with open(self.stats_file, "w"):
            os.chmod(self.stats_file, 0o666)

    def command(self, end, argv):
        argv = [program(argv[0]) or argv[0]] + [str(a) for a in argv[1:]]
        env = {k: v for k, v in os.environ.items() if k != "SIDESTEP_STATS_FILE"}
        env["SIDESTEP_APPS_RUN"] = self.dir
        if self.mode in ("both", end):
            env["SIDESTEP_STATS_FILE"] = self.stats_file
            argv = [self.options.launcher] + argv
        return argv, env

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def server(self, argv, port, out="server.out", third=None, by=()):
        """Start it and wait until it listens.  third: what it finds as descriptor 3; by: a
        command in front of it, not under sidestep."""
        argv, env = self.command("server", argv)
        argv = [*map(str, by), *argv]
        if third is not None:
            argv = ["bash", "-c", 'exec "$@" 3<&%d' % third, "bash", *argv]
        with open(self.path(out), "ab") as o, open(self.noise, "ab") as e:
            p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=o, stderr=e,
                                 cwd=self.dir, pass_fds=() if third is None else (third,))
        p.what = argv
        self.procs.append(p)
        self.wait_listening(p, port)
        return p

    def daemon(self, argv, port, pid_file):
        """Start a program that puts itself into the background."""
        argv, env = self.command("server", argv)
        with open(self.noise, "ab") as e:
            r = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, timeout=START_S,
                               stdout=subprocess.DEVNULL, stderr=e, cwd=self.dir)
        check(r.returncode == 0, "%s: status %d: %s" % (argv[0], r.returncode, self.tail()))
        end = time.monotonic() + START_S
        while not (os.path.exists(pid_file) and open(pid_file).read().strip()):
            check(time.monotonic() < end, "no " + pid_file)
            time.sleep(0.01)
        pid = int(open(pid_file).read())
        self.daemons.append(pid)
        self.wait_listening(None, port)
        return pid

    def wait_listening(self, p, port):
        end = time.monotonic() + START_S
        while not listening(port):
            check(p is None or p.poll() is None,
                  "server ended at once: %s" % self.tail())
            check(time.monotonic() < end, "server does not listen on %d: %s" % (port, self.tail()))
            time.sleep(0.01)

    def client(self, argv, timeout=120, text=True, status=0, stdin=None):
        """Run it to its end.  Return its stdout."""
        argv, env = self.command("client", argv)
        with open(self.noise, "ab") as e:
            try:
                r = subprocess.run(argv, env=env, input=stdin, stdout=subprocess.PIPE, stderr=e,
                                   timeout=timeout, text=text, cwd=self.dir,
                                   stdin=None if stdin is not None else subprocess.DEVNULL)
            except subprocess.TimeoutExpired:
                raise Failed("%s: no end within %d s" % (argv[-1], timeout)) from None
        check(r.returncode == status, "%s: status %d instead of %d: %s" %
              (" ".join(argv), r.returncode, status, self.tail()))
        return r.stdout

    def pipe(self, argv):
        """Start a client whose stdout the case reads itself."""
        argv, env = self.command("client", argv)
        with open(self.noise, "ab") as e:
            p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=e,
                                 stdout=subprocess.PIPE, cwd=self.dir)
        p.what = argv
        self.procs.append(p)
        return p

    def plain(self, argv, timeout=30):
        """A helper that is never under sidestep."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("SIDESTEP")}
        return subprocess.run([program(argv[0])] + [str(a) for a in argv[1:]], env=env,
                              timeout=timeout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, check=False, cwd=self.dir)

    def ended(self, p, status=0, sig=None):
        """End p (by sig, or it ends by itself) and look at its status."""
        if sig is not None and p.poll() is None:
            p.send_signal(sig)
        try:
            r = p.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise Failed("%s: does not end" % p.what[-1]) from None
        allowed = status if isinstance(status, tuple) else (status,)
        check(r in allowed, "%s: status %d instead of %s: %s" %
              (" ".join(p.what), r, allowed[0], self.tail()))

    def daemon_ended(self, pid):
        check(wait_pid_gone(pid, STOP_S), "daemon %d does not end" % pid)
        self.daemons.remove(pid)

    def cleanup(self):
        for p in self.procs:
            if p.poll() is None:
                p.kill()
            p.wait()
        for pid in self.daemons:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
            if not wait_pid_gone(pid, 5):
                os.kill(pid, signal.SIGKILL)
        for pid, _ in self.left_over():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def left_over(self):
        """Processes of this run that still live."""
        mark = "SIDESTEP_APPS_RUN=%s\0" % self.dir
        return [(int(p), proc_read(p, "cmdline").replace("\0", " ")[:80])
                for p in filter(str.isdigit, os.listdir("/proc"))
                if mark in proc_read(p, "environ")]

    def all_gone(self):
        until(lambda: not self.left_over(), STOP_S,
              lambda: "still there: %s" % self.left_over()[:3])

    def tail(self):
        try:
            with open(self.noise, errors="replace") as f:
                return " | ".join(f.read().splitlines()[-5:])
        except OSError:
            return ""

    def noise_lines(self):
        """Lines on stderr with every number made the same."""
        with open(self.noise, "a+", errors="replace") as f:
            f.seek(0)
            return {re.sub(r"[0-9]+", "#", l.replace(self.dir, "DIR")) for l in f.read().splitlines()}

    def stats(self):
        with open(self.stats_file) as f:
            return [json.loads(line) for line in f]


def total(lines, *names):
    return sum(line[n] for line in lines for n in names)


def check_accounts(lines):
    """Every connection of every process was on a ring, or says why not."""
    for line in lines:
        rings = total([line], "conns_ring_soft", "conns_ring_verbs")
        check(line["conns_total"] == rings + line["conns_tcp"] and
              sum(line["reasons"].values()) >= line["conns_tcp"],
              "%s: %d connections, %d on rings, %d on tcp; %s" %
              (line["program"], line["conns_total"], rings, line["conns_tcp"], line["reasons"]))
        for name in OUR_FAULT:
            check(name not in line["reasons"], "%s: %s" % (line["program"], line["reasons"]))


def check_counters(run, function):
    """What the counters must say after a run that went well."""
    lines = run.stats()
    check(lines, "no process wrote its counters")
    check_accounts(lines)
    ring = total(lines, "ring_tx_bytes", "ring_rx_bytes")
    tcp = total(lines, "tcp_tx_bytes", "tcp_rx_bytes")
    reasons = {}
    for line in lines:
        for name, n in line["reasons"].items():
            reasons[name] = reasons.get(name, 0) + n
    if run.mode == "both" and function.rings is not None:
        share = 100 * ring / (ring + tcp) if ring + tcp else 0
        note = "%.2f %% of %.1f MB on rings" % (share, (ring + tcp) / 1e6)
        if share < 99:
            note += ", " + str(reasons)
        wanted = run.options.share if function.rings is True else function.rings
        check(share >= wanted,
              "only %s; %s" % (note, reasons))
        return note
    if function.chained and run.mode == "server":
        return "%.1f MB on rings, %.1f MB on tcp" % (ring / 1e6, tcp / 1e6)
    check(ring == 0, "%d bytes on rings with one end only" % ring)
    strange = set(reasons) - ONE_SIDED_REASONS
    check(function.rings is False or not strange, "reasons %s" % reasons)
    return "%.1f MB on tcp, %s" % (tcp / 1e6, reasons)
