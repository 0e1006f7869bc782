# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the suites share: how a part is played, its cases and its counters.

A suite is a class: it says what it needs, prepares itself in a directory, and
names its parts.  A part is one command; its outcome is a word for each case in
it, read from what the suite's own runner says.  Every part is played plain and
under sidestep, in the same surroundings.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

OK, FAIL, SKIP = "ok", "fail", "skip"
WHOLE = "(whole)"       # the case of a part whose runner has not said anything


class Missing(Exception):
    """A suite cannot be had here; the text says why."""


class Part:
    """One command of a suite, in which @DIR@ stands for the directory of the play.
    limit_s: it hangs, if it takes longer; quick: in the short selection too, or "only"
    there."""

    def __init__(self, name, argv, limit_s=300, env=None, cwd=None, quick=False):
        self.name, self.argv, self.limit_s = name, argv, limit_s
        self.env, self.cwd, self.quick = env or {}, cwd, quick


class Suite:
    """name; packages: of the distribution; source: the one whose source it is;
    daemon: does not run as root, but as daemon (nobody's number proves nothing);
    hurry_ms: how long a connection's calls may wait for its ring (doc/faults.md)."""
    name = ""
    packages = ()
    source = None
    daemon = False
    hurry_ms = 20

    def __init__(self, place):
        self.place = place      # a directory that stays

    def prepare(self):
        """Build what is to be built, once."""

    def parts(self):
        raise NotImplementedError

    def only(self, part, case):
        """The command for one case of a part, or None: the part's own."""

    def read(self, part, played):
        """{case: OK, FAIL or SKIP} of a play that has ended."""
        return {WHOLE: OK if played.status == 0 else FAIL}


def works(*argv):
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=20, check=False).returncode == 0
    except OSError:
        return False


LONELY = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
DAEMON = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups"]


def lonely():
    """The prefix that gives a command a network with loopback only, if we may."""
    return LONELY if works(*LONELY, "true") else []


def proc_environ(pid):
    try:
        with open("/proc/%s/environ" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


def kill_marked(mark):
    """End what a play, or all of ours, has left: it has a mark in its environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if mark in proc_environ(pid).split(b"\0"):
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass


class Counters:
    """Sums over the processes of a play that could write theirs."""
    NAMES = ("conns_total", "conns_ring_soft", "ring_tx_bytes", "ring_rx_bytes",
             "tcp_tx_bytes", "tcp_rx_bytes", "retreats")

    def __init__(self):
        self.sum = dict.fromkeys(self.NAMES, 0)
        self.processes = 0
        self.reasons = {}

    def load(self, path):
        with open(path, errors="replace") as f:
            for line in f:
                self.line(json.loads(line))

    def line(self, process):
        self.processes += 1
        for name in self.NAMES:
            self.sum[name] += process[name]
        for name, n in process["reasons"].items():
            self.reasons[name] = self.reasons.get(name, 0) + n

    def add(self, other):
        self.processes += other.processes
        for name in self.NAMES:
            self.sum[name] += other.sum[name]
        for name, n in other.reasons.items():
            self.reasons[name] = self.reasons.get(name, 0) + n


class Played:
    """One play of a part: its status (None: it hung), files, counters, seconds."""

    def __init__(self, options, suite, part, under, argv=None):
        self.dir = tempfile.mkdtemp(prefix="sidestep-suites.")
        os.chmod(self.dir, 0o777)
        self.out, self.err = self.path("out"), self.path("err")
        self.stats = self.path("stats")
        self.counters = Counters()
        os.mkdir(self.path("tmp"))
        with open(self.stats, "w"):
            pass
        for name in ("tmp", "stats"):
            os.chmod(self.path(name), 0o777)
        start = time.monotonic()
        self.status = self.run(self.command(options, suite, part, under, argv),
                               self.environment(options, suite, part, under), part)
        self.seconds = time.monotonic() - start
        self.counters.load(self.stats)
        self.cases = suite.read(part, self) or {WHOLE: FAIL}
        if self.status is None:
            self.cases[WHOLE] = FAIL

    def path(self, name):
        return os.path.join(self.dir, name)

    def text(self, name="out"):
        with open(self.path(name), errors="replace") as f:
            return f.read()

    def command(self, options, suite, part, under, argv):
        prefix = list(options.lonely)
        if suite.daemon and os.geteuid() == 0:
            prefix += DAEMON
        if under:
            prefix.append(options.launcher)
        return prefix + [a.replace("@DIR@", self.dir) for a in argv or part.argv]

    def environment(self, options, suite, part, under):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SIDESTEP")}
        env.update({k: v.replace("@DIR@", self.dir) for k, v in part.env.items()},
                   TMPDIR=self.path("tmp"), SIDESTEP_SUITES_PLAY=self.dir,
                   SIDESTEP_SUITES_RUN=str(os.getpid()))
        if under:
            env.update(SIDESTEP_ATTACH="eager", SIDESTEP_STATS_FILE=self.stats)
            env["SIDESTEP_FAULT"] = "hurry:%d" % suite.hurry_ms if options.fault is None \
                else options.fault
        return env

    def run(self, argv, env, part):
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            p = subprocess.Popen(argv, env=env, cwd=part.cwd or self.path("tmp"), stdout=out,
                                 stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
            try:
                return p.wait(part.limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                kill_marked(b"SIDESTEP_SUITES_PLAY=" + self.dir.encode())
                p.wait()

    def forget(self):
        shutil.rmtree(self.dir, ignore_errors=True)
