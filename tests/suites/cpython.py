# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CPython's own tests, as the distribution ships them."""
import os
import xml.etree.ElementTree

from suitelib import FAIL, OK, SKIP, Part, Suite

PYTHON = "/usr/bin/python3"

# module: seconds on a quiet machine
MODULES = {
    "test_socket": 28, "test_selectors": 10, "test_asyncio": 170, "test_ssl": 24,
    "test_socketserver": 5, "test_epoll": 5, "test_poll": 10, "test_select": 5,
    "test_httplib": 5, "test_httpservers": 10, "test_ftplib": 5, "test_poplib": 5,
    "test_imaplib": 10, "test_smtplib": 5, "test_telnetlib": 5, "test_urllib2_localnet": 5,
    "test_xmlrpc": 5, "test_wsgiref": 5, "test_asyncore": 5, "test_asynchat": 5,
    "test_eintr": 15, "test_logging": 20, "test_subprocess": 43, "test_os": 15,
    "test_signal": 57, "test_multiprocessing_fork": 171, "test_multiprocessing_forkserver": 115,
    "test_concurrent_futures": 174,
}
QUICK = {"test_socketserver", "test_epoll", "test_httplib", "test_asynchat"}
# test_socket for the quick selection: what moves bytes over TCP
QUICK_SOCKET = ("*TCP*", "*FileObject*", "*NonBlocking*", "*CreateServer*", "*SendfileUsingSend*")
QUICK_ASYNCIO = ("test.test_asyncio.test_streams.*", "test.test_asyncio.test_sendfile.*",
                 "test.test_asyncio.test_sock_lowlevel.*", "test.test_asyncio.test_server.*")


def command(module, *matches):
    chosen = [a for m in matches for a in ("-m", m)]
    # with a /dev/vsock in the machine, test_socket's tests of it wait for ever
    return [PYTHON, "-m", "test", "-v", "-u", "network", "-i", "*VSOCK*",
            "--junit-xml", "@DIR@/tmp/report.xml", *chosen, module]


class CPython(Suite):
    name = "cpython"
    packages = ("python3", "libpython3.11-testsuite")

    def parts(self):
        for module, seconds in MODULES.items():
            yield Part(module, command(module), limit_s=300 + 5 * seconds, quick=module in QUICK)
        yield Part("test_socket-quick", command("test_socket", *QUICK_SOCKET), quick="only")
        yield Part("test_asyncio-quick", command("test_asyncio", *QUICK_ASYNCIO), quick="only")

    def only(self, part, case):
        return command(part.argv[-1], case) if case.startswith("test.") else None

    def read(self, part, played):
        path = played.path("tmp/report.xml")
        if not os.path.exists(path):
            return {}
        cases = {}
        for case in xml.etree.ElementTree.parse(path).iter("testcase"):
            kinds = {child.tag for child in case}
            word = FAIL if kinds & {"failure", "error"} else SKIP if "skipped" in kinds else OK
            name = case.get("name")
            cases[name] = FAIL if FAIL in (word, cases.get(name)) else word
        return cases
