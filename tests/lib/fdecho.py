# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One full-duplex echo by tests/conformance/fdecho, and what was wrong with it."""
import json
import os
import subprocess

ENDS = ("server", "client")
# why a connection stays on TCP for want of something, or of time
WANT = {"no-memory", "no-rnic", "owner-unknown", "closed-first", "link-lost", "counts",
        "peer-unproven", "foreign-io", "option", "not-warm"}


class Echo:
    """
    By end: settings: more environment; prepare: what to do before exec; programs: another build
    of fdecho.  plain: ends without the library.
    """

    def __init__(self, build, directory, plain=(), settings=None, prepare=None, programs=None):
        build = os.path.abspath(build)
        self.program = os.path.join(build, "tests/conformance/fdecho")
        self.programs = programs or {}
        self.tool = os.path.join(build, "tools/sidestep")
        self.directory, self.plain = directory, plain
        self.settings, self.prepare = settings or {}, prepare or {}

    def file(self, end, kind):
        return os.path.join(self.directory, "%s.%s" % (end, kind))

    def args(self, end, *rest):
        tool = [] if end in self.plain else [self.tool]
        env = {k: v for k, v in os.environ.items() if not k.startswith("SIDESTEP")}
        env.update(SIDESTEP_ATTACH="eager", SIDESTEP_STATS_FILE=self.file(end, "stats"),
                   SIDESTEP_LOG="error", SIDESTEP_LOG_FILE=self.file(end, "log"))
        env.update(self.settings.get(end, {}))
        return {"args": tool + [self.programs.get(end, self.program), end] + list(rest), "env": env, "text": True,
                "preexec_fn": self.prepare.get(end)}

    def play(self, style, count, host="127.0.0.1"):
        """The complaint, or None."""
        noise = os.path.join(self.directory, "noise")
        with open(noise, "w") as err:
            server = subprocess.Popen(**self.args("server", "0", "--once"), stderr=err,
                                      stdout=subprocess.PIPE)
            try:
                port = server.stdout.readline().strip()
                client = subprocess.run(
                    **self.args("client", host, port, str(count), "--style", style), stderr=err,
                    stdout=subprocess.PIPE, timeout=30, check=False)
                status = server.wait(30)
                more = server.stdout.read()
            except subprocess.TimeoutExpired:
                return "hangs"
            finally:
                server.kill()
                server.wait()
                server.stdout.close()
        if client.returncode or status:
            return "client %d, server %d: %s" % (client.returncode, status, client.stdout)
        with open(noise) as err:
            said = err.read() + more
        return "says " + said[:200] if said else None

    def log(self, end):
        try:
            with open(self.file(end, "log")) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def where(self, end):
        """Return (complaint, how the connection went: "ring", or the reasons why not)."""
        with open(self.file(end, "stats")) as f:
            lines = [json.loads(line) for line in f]
        if len(lines) != 1:
            return "%d lines of counters" % len(lines), set()
        if lines[0]["conns_ring_soft"]:
            return None, {"ring"}
        if not lines[0]["conns_total"]:
            return None, {"untracked"}
        why = {r for r, n in lines[0]["reasons"].items() if n}
        return (None, why) if why else ("%s stays on tcp for no reason" % end, why)
