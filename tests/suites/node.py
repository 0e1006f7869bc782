# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Node's own tests of net, one file each, with the machine's node."""
import glob
import os
import re
import shutil

from sources import Sources, shell
from suitelib import Missing, Part, Suite


class Node(Suite):
    name = "node"
    packages = ("dpkg-dev", "xz-utils")
    source = "nodejs"

    def prepare(self):
        if not shutil.which("node"):
            raise Missing("no node")
        self.tests = os.path.join(self.place, "test")
        if os.path.isdir(self.tests):
            return
        files = Sources(self.place).files("nodejs")
        orig = [f for f in files if re.search(r"\.orig\.tar\.\w+$", f)][-1]
        half = self.tests + ".half"
        shutil.rmtree(half, ignore_errors=True)
        os.makedirs(half)
        shell(["tar", "-xf", orig, "--strip-components=2", "--wildcards", "-C", half,
               "*/test/parallel/test-net-*", "*/test/common", "*/test/fixtures/keys",
               "*/test/fixtures/*.js", "*/test/fixtures/*.txt"], self.place)
        os.rename(half, self.tests)

    def flags(self, path):
        with open(path, errors="replace") as f:
            found = re.search(r"^// Flags: (.*)$", f.read(), re.M)
        return found.group(1).split() if found else []

    def parts(self):
        for path in sorted(glob.glob(os.path.join(self.tests, "parallel", "test-net-*.js"))):
            name = os.path.basename(path)[:-3]
            yield Part(name, ["node", *self.flags(path), path], limit_s=120, cwd=self.tests,
                       env={"NODE_TEST_DIR": "@DIR@/tmp"})
