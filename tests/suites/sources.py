# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Packages, and the sources of packages, by apt: with lists of our own, so that
nothing in /etc changes."""
import glob
import os
import shutil
import subprocess

from suitelib import Missing


def output(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          stdin=subprocess.DEVNULL, check=False).stdout


def installed(package):
    return output("dpkg-query", "-W", "-f", "${Status}", package).startswith("install ok")


def need(packages):
    """Complain about packages that are not installed: we install none by ourselves."""
    missing = [p for p in packages if not installed(p)]
    if missing:
        raise Missing("not installed: " + " ".join(missing))


def source_lines():
    """deb-src lines for the archives that the machine has as binary ones.  Security
    updates keep the upstream version, and with it the tests: they are left out."""
    out = output("apt-get", "indextargets", "--format",
                 "$(LABEL)|deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)",
                 "Created-By: Packages", "Origin: Debian")
    lines = sorted({line.split("|", 1)[1] for line in out.splitlines()
                    if not line.startswith("Debian-Security|")})
    if not lines:
        raise Missing("apt knows no archive of Debian")
    return lines


class Sources:
    def __init__(self, place):
        self.place = place
        self.options = None

    def apt(self, *argv):
        r = subprocess.run(["apt-get", "-qq", *self.options, *argv], cwd=self.place, text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False)
        if r.returncode:
            raise Missing("apt-get %s: %s" % (" ".join(argv), r.stdout.strip()[-300:]))

    def lists(self):
        if self.options:
            return
        apt = os.path.join(self.place, "apt")
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(apt, name), exist_ok=True)
        with open(os.path.join(apt, "sources.list"), "w") as f:
            f.write("\n".join(source_lines()) + "\n")
        self.options = ["-o", "Dir::Etc::sourcelist=%s/sources.list" % apt,
                        "-o", "Dir::Etc::sourceparts=%s/none" % apt,
                        "-o", "Dir::State::lists=%s/lists" % apt,
                        "-o", "Dir::Cache=%s/cache" % apt,
                        "-o", "APT::Sandbox::User=root"]
        self.apt("update")

    def files(self, name):
        """The files of a source package, not unpacked, as a list of paths."""
        os.makedirs(self.place, exist_ok=True)
        if not glob.glob(os.path.join(self.place, name + "_*.dsc")):
            self.lists()
            self.apt("source", "--download-only", "--only-source", name)
        return sorted(glob.glob(os.path.join(self.place, name + "_*")))

    def tree(self, name):
        """A source package, unpacked and patched.  Return its directory."""
        final = os.path.join(self.place, name)
        if not os.path.isdir(final):
            dsc = [f for f in self.files(name) if f.endswith(".dsc")][-1]
            half = final + ".half"
            shutil.rmtree(half, ignore_errors=True)
            shell(["dpkg-source", "-x", dsc, half], self.place)
            os.rename(half, final)
        return final


def shell(argv, cwd, env=None):
    """A command of a build: what it says matters if it fails only."""
    r = subprocess.run(argv, cwd=cwd, text=True, errors="replace", check=False,
                       env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if r.returncode:
        raise Missing("%s: %s" % (" ".join(argv), r.stdout.strip()[-500:]))
    return r.stdout
