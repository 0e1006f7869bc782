# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The tests of Redis: tclsh is the client, redis-server and the others the machine's."""
import os
import re
import shutil

import applib
from sources import Sources
from suitelib import FAIL, OK, SKIP, Part, Suite

UNITS = ("unit/auth", "unit/protocol", "unit/pubsub", "unit/networking", "unit/querybuf",
         "unit/obuf-limits", "unit/pendingquerybuf", "unit/shutdown", "unit/wait", "unit/other",
         "unit/quit", "unit/client-eviction", "unit/limits", "integration/block-repl",
         "integration/replication-3", "integration/redis-cli", "integration/redis-benchmark",
         "integration/psync2-reg")
QUICK = {"unit/networking", "unit/protocol", "unit/pubsub", "unit/limits"}
PROGRAMS = ("redis-server", "redis-cli", "redis-benchmark", "redis-check-aof",
            "redis-check-rdb")
WORDS = {"ok": OK, "err": FAIL, "exception": FAIL, "skip": SKIP, "ignore": SKIP}


class Redis(Suite):
    name = "redis"
    packages = ("redis-server", "redis-tools", "tcl", "dpkg-dev")
    source = "redis"

    def prepare(self):
        self.tree = Sources(self.place).tree("redis")
        for name in PROGRAMS:
            link = os.path.join(self.tree, "src", name)
            if not os.path.lexists(link):
                os.symlink(applib.program(name), link)

    def copy(self, unit):
        """The tests write below their own directory: each unit has one for itself."""
        to = os.path.join(self.place, "units", unit.replace("/", "-"))
        if not os.path.isdir(to):
            os.makedirs(to)
            for name in ("tests", "redis.conf", "sentinel.conf"):
                path = os.path.join(self.tree, name)
                (shutil.copytree if os.path.isdir(path) else shutil.copy)(
                    path, os.path.join(to, name))
            os.symlink(os.path.join(self.tree, "src"), os.path.join(to, "src"))
        return to

    def parts(self):
        for unit in UNITS:
            yield Part(unit, self.command(unit), cwd=self.copy(unit), quick=unit in QUICK)

    def command(self, unit, *more):
        return ["tclsh", "tests/test_helper.tcl", "--clients", "1", "--single", unit, *more]

    def only(self, part, case):
        return None if case.startswith("(") else self.command(part.name, "--only", case)

    def read(self, part, played):
        text = re.sub(r"\x1b\[[0-9;]*m", "", played.text())
        cases = {}
        for word, rest in re.findall(r"^\[(ok|err|exception|skip|ignore)\]: (.*)$", text, re.M):
            name = re.sub(r" \(\d+ ms\)$| in tests/\S+\.tcl$", "", rest)
            name = re.sub(r"\d{5,}", "#", name)
            cases[name] = FAIL if FAIL in (WORDS[word], cases.get(name)) else WORDS[word]
        if cases and played.status:
            cases.setdefault("(ends well)", FAIL)
        elif cases:
            cases["(ends well)"] = OK
        return cases
