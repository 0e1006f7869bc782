# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""libevent's regression tests: by epoll, by poll, by select."""
import os
import re

from sources import Sources, shell
from suitelib import FAIL, OK, SKIP, Part, Suite

BACKENDS = {"epoll": {}, "poll": {"EVENT_NOEPOLL": "1"},
            "select": {"EVENT_NOEPOLL": "1", "EVENT_NOPOLL": "1"}}


class LibEvent(Suite):
    name = "libevent"
    packages = ("dpkg-dev", "autoconf", "automake", "libtool", "make", "gcc")
    source = "libevent"
    hurry_ms = 3        # http/bad_request ends itself after 10 ms, and both ends wait

    def prepare(self):
        self.tree = Sources(self.place).tree("libevent")
        self.program = os.path.join(self.tree, "test", "regress")
        if os.path.exists(self.program):
            return
        shell(["./autogen.sh"], self.tree)
        shell(["./configure", "-q", "--disable-openssl", "--disable-samples",
               "--disable-shared"], self.tree)
        for target in ("all", "test/regress"):
            shell(["make", "-s", "-j%d" % (os.cpu_count() or 1), target], self.tree)

    def parts(self):
        for backend, env in BACKENDS.items():
            yield Part(backend, [self.program, "--timeout", "60"], limit_s=900, env=env)

    def only(self, part, case):
        return [self.program, "--timeout", "60", case] if "/" in case else None

    def read(self, part, played):
        """Between "group/case: " and the next there may be words of the case itself."""
        pieces = re.split(r"^([a-z_0-9]+/[A-Za-z_0-9/]+): ", played.text(), flags=re.M)
        cases = {}
        for name, text in zip(pieces[1::2], pieces[2::2]):
            if re.search(r"^(\[forking\] )?(SKIPPED|DISABLED)$", text, re.M):
                cases[name] = SKIP
            elif re.search(r"OK$", text, re.M) and "FAILED]" not in text:
                cases[name] = OK
            else:
                cases[name] = FAIL
        return cases
