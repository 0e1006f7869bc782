# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""libuv's tests.  They do not run as root."""
import os
import re

from sources import Sources, shell
from suitelib import FAIL, OK, SKIP, Part, Suite


class LibUv(Suite):
    name = "libuv"
    packages = ("dpkg-dev", "cmake", "make", "gcc")
    source = "libuv1"
    daemon = True

    def prepare(self):
        self.tree = Sources(self.place).tree("libuv1")
        build = os.path.join(self.tree, "b")
        self.program = os.path.join(build, "uv_run_tests")
        if not os.path.exists(self.program):
            os.makedirs(build, exist_ok=True)
            shell(["cmake", "-DBUILD_TESTING=ON", ".."], build)
            shell(["make", "-s", "-j%d" % (os.cpu_count() or 1), "uv_run_tests"], build)
        if os.geteuid() == 0:
            shell(["chown", "-R", "daemon:daemon", self.tree], "/")

    def parts(self):
        yield Part("uv_run_tests", [self.program], limit_s=900, cwd=self.tree)

    def only(self, part, case):
        return [self.program, case] if re.fullmatch(r"\w+", case) else None

    def read(self, part, played):
        cases = {}
        for bad, name, more in re.findall(r"^(not )?ok \d+ - (\S+)(.*)$", played.text(), re.M):
            cases[name] = FAIL if bad else SKIP if "# SKIP" in more else OK
        return cases
