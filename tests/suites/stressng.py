# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""stress-ng's stressors that use sockets."""
from suitelib import Part, Suite

STRESSORS = ("sock", "sockmany", "sockabuse", "epoll", "sendfile", "poll", "sockfd")
QUICK = {"sock", "sockmany", "epoll"}
WAYS = ("sock-opts:send", "sock-opts:sendmsg", "sock-opts:sendmmsg", "sock-type:stream",
        "sock-nodelay:", "sock-zerocopy:")


class StressNg(Suite):
    name = "stress-ng"
    packages = ("stress-ng",)

    def parts(self):
        for name in STRESSORS:
            yield self.part(name, ["--" + name, "1"], name in QUICK)
        for way in WAYS:
            option, _, value = way.partition(":")
            yield self.part(way.strip(":"), ["--sock", "1", "--" + option] + [value] * bool(value))

    def part(self, name, argv, quick=False):
        return Part(name, ["stress-ng", *argv, "-t", "5", "--verify", "--temp-path", "@DIR@/tmp"],
                    limit_s=60, quick=quick)
