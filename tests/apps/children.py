# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Programs that make children while connections are open, or hand them on."""
import hashlib
import json
import os
import pwd
import re
import signal

from applib import PROGRAMS, PYTHON, case, check, free_port, program, total, until
from cases import (REDIS, make_file, nginx_start, nginx_stop, redis_bench, redis_stop,
                   ssh_options, ssh_start)

# ---------------------------------------------------------------- python

BOTH = ("plain", "both")        # one program has both ends


def python(run, *args):
    out = run.client([PYTHON, os.path.join(PROGRAMS, "children.py"), *args])
    check(out == "", "it says: %s" % out)


@case((PYTHON,), rings=False, modes=BOTH)
def python_subprocess(run):
    python(run, "children", "close-fds")
    python(run, "children", "keep-fds")


@case((PYTHON,), rings=False, modes=BOTH)
def python_posix_spawn(run):
    python(run, "children", "posix_spawn")


@case((PYTHON,), rings=False, modes=BOTH)
def python_filter(run):
    python(run, "filter")


@case((PYTHON,), rings=False, modes=BOTH)
def python_fork(run):
    python(run, "pass", "fork")


@case((PYTHON,), rings=False, modes=BOTH)
def python_spawn(run):
    python(run, "pass", "spawn")


@case((PYTHON,), rings=False, modes=BOTH)
def python_forkserver(run):
    python(run, "pass", "forkserver")


@case((PYTHON,), rings=False, modes=BOTH)
def python_keep(run):
    """Who has lost its reader to another program does not try for the ring again and again."""
    python(run, "keep")
    attaches = total(run.stats(), "attaches") if run.mode == "both" else 0
    check(attaches <= 4, "%d attaches" % attaches)


@case((PYTHON,), rings=False, modes=BOTH)
def python_forking_server(run):
    python(run, "server", "ForkingTCPServer")


@case((PYTHON,), rings=50, modes=BOTH)
def python_threading_server(run):
    python(run, "server", "ThreadingTCPServer")


@case((PYTHON,), rings=False, modes=BOTH)
def python_asyncio(run):
    python(run, "asyncio")


# ---------------------------------------------------------------- java

def java_case(run, kind, *args):
    port = free_port()
    java = ["java", "-Xint", "-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
    r = run.plain(["javac", "-d", run.dir, os.path.join(PROGRAMS, "Echo.java")], timeout=60)
    check(r.returncode == 0, "javac: %s" % r.stdout)
    server = run.server([*java, "-cp", run.dir, "Echo", kind, port, "8"], port)
    run.client([*java, "-cp", run.dir, "Echo", "call", port, "8", *args])
    run.ended(server)


@case(("java", "javac"), rings=80)
def java_nio(run):
    java_case(run, "nio")


@case(("java", "javac"), rings=80)
def java_blocking(run):
    java_case(run, "blocking")


@case(("java", "javac"), rings=False)
def java_process_builder(run):
    java_case(run, "nio", "children")


# ---------------------------------------------------------------- rsync through ssh

def file_sum(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@case(("sshd", "ssh", "ssh-keygen", "rsync"), rings=False)
def ssh_rsync(run):
    """A file through a login that has been through re-exec, sandbox and a change of user."""
    server, port = ssh_start(run)
    wanted = make_file(run.path("file"), 100 * run.options.scale << 20)
    host = "%s@127.0.0.1" % pwd.getpwuid(os.geteuid()).pw_name
    rsh = " ".join(ssh_options(run, port))
    run.client(["rsync", "-W", "--inplace", "-e", rsh, run.path("file"),
                "%s:%s" % (host, run.path("there"))])
    check(file_sum(run.path("there")) == wanted, "wrong checksum there")
    run.client(["rsync", "-W", "--inplace", "-e", rsh, "%s:%s" % (host, run.path("there")),
                run.path("back")])
    check(file_sum(run.path("back")) == wanted, "wrong checksum of what came back")
    run.ended(server, status=(0, 255), sig=signal.SIGTERM)


# ---------------------------------------------------------------- redis

def redis_saving(run, *args):
    port = free_port()
    return run.server(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
                       "--repl-diskless-sync-delay", "0", *args], port), port


def info(run, port, name):
    out = run.plain(["redis-cli", "-p", port, "info"]).stdout
    return re.search("^%s:(.*?)\r?$" % name, out, re.M).group(1)


def told(run, port, *args):
    out = run.plain(["redis-cli", "-p", port, *args]).stdout
    check("started" in out or "scheduled" in out, out)


@case(REDIS, rings=False)
def redis_save_stream(run):
    """The server forks in the middle of a stream, and what it saves is whole."""
    os.mkdir(run.path("data"))
    server, port = redis_saving(run, "--appendonly", "no", "--dir", run.path("data"))
    stream = run.pipe(["redis-benchmark", "-p", port, "-t", "set", "-c", "20", "-d", "500",
                       "-r", "20000", "-n", 300000 * run.options.scale, "--csv"])
    for i in range(3):
        until(lambda: int(info(run, port, "total_commands_processed")) > 30000 * (i + 1), 60,
              "no commands")
        told(run, port, "bgsave")
        until(lambda: info(run, port, "rdb_bgsave_in_progress") == "0", 60, "no end of saving")
        check(info(run, port, "rdb_last_bgsave_status") == "ok", "saving failed")
    out = stream.stdout.read().decode()
    run.ended(stream)
    check('"SET"' in out, out)
    check(run.plain(["redis-check-rdb", run.path("data/dump.rdb")]).returncode == 0, "bad dump")
    redis_bench(run, port, "-c", "20", "-n", "50000")
    redis_stop(run, server, port)


@case(REDIS, rings=False)
def redis_rewrite(run):
    """Rewriting of the log: a child, and the log of meanwhile."""
    os.mkdir(run.path("data"))
    server, port = redis_saving(run, "--appendonly", "yes", "--appendfsync", "no", "--dir",
                                run.path("data"))
    stream = run.pipe(["redis-benchmark", "-p", port, "-t", "incr", "-c", "20",
                       "-n", 200000 * run.options.scale, "--csv"])
    until(lambda: int(info(run, port, "total_commands_processed")) > 20000, 60, "no commands")
    told(run, port, "bgrewriteaof")
    until(lambda: info(run, port, "aof_rewrite_in_progress") == "0" and
          info(run, port, "aof_rewrite_scheduled") == "0", 60, "no end of rewriting")
    check(info(run, port, "aof_last_bgrewrite_status") == "ok", "rewriting failed")
    stream.stdout.read()
    run.ended(stream)
    redis_stop(run, server, port)
    server, port = redis_saving(run, "--appendonly", "yes", "--dir", run.path("data"))
    until(lambda: info(run, port, "loading") == "0", 30, "still loading")
    count = run.client(["redis-cli", "-p", port, "get", "counter:__rand_int__"]).strip()
    check(count == str(200000 * run.options.scale), "the counter is %s" % count)
    redis_stop(run, server, port)


@case(REDIS, rings=False, chained=True)
def redis_replica(run):
    """A replica of a master, both under the server's end; the master forks for it."""
    for name in ("one", "two"):
        os.mkdir(run.path(name))
    master, port = redis_saving(run, "--dir", run.path("one"))
    redis_bench(run, port, "-c", "10", "-n", "50000", "-d", "1000", "-r", "5000")
    replica, port2 = redis_saving(run, "--dir", run.path("two"), "--replicaof",
                                  "127.0.0.1 %d" % port)
    until(lambda: info(run, port2, "master_link_status") == "up", 30, "no link to the master")
    redis_bench(run, port, "-c", "10", "-n", 100000 * run.options.scale, "-d", "500", "-r", "5000")
    check(run.plain(["redis-cli", "-p", port, "wait", "1", "20000"]).stdout.strip() == "1",
          "the replica lags")
    sums = [run.plain(["redis-cli", "-p", p, "debug", "digest"]).stdout for p in (port, port2)]
    check(sums[0] == sums[1] and len(sums[0]) > 20, "digests %s" % sums)
    redis_stop(run, replica, port2)
    redis_stop(run, master, port)


# ---------------------------------------------------------------- socat, nc, inetd

LISTEN = "TCP-LISTEN:%d,bind=127.0.0.1,fork,reuseaddr"


def through(run, port, size, *client):
    """size bytes to an echo and back."""
    data = os.urandom(size)
    back = run.client(client or ["socat", "-t", "20", "-", "TCP:127.0.0.1:%d" % port],
                      text=False, stdin=data)
    check(back == data, "%d of %d bytes came back" % (len(back), size))


@case(("socat",), rings=False)
def socat_exec(run):
    """A child a connection, whose standard input and output are pipes or the socket."""
    for how in ("EXEC:cat", "EXEC:cat,nofork"):
        port = free_port()
        server = run.server(["socat", "-t", "20", LISTEN % port, how], port)
        for size in (10, 8 << 20, 100000):
            through(run, port, size)
        run.ended(server, status=(0, 143, -signal.SIGTERM), sig=signal.SIGTERM)


@case(("socat",), rings=False, chained=True)
def socat_relay(run):
    """A relay that forks for each connection, in front of an echo."""
    port, relay = free_port(), free_port()
    server = run.server(["socat", "-t", "20", LISTEN % port, "EXEC:cat"], port)
    front = run.server(["socat", "-t", "20", LISTEN % relay, "TCP:127.0.0.1:%d" % port], relay)
    for size in (10, 8 << 20, 100000):
        through(run, relay, size)
    for p in (front, server):
        run.ended(p, status=(0, 143, -signal.SIGTERM), sig=signal.SIGTERM)


@case(("nc",), rings=False)
def nc_transfer(run):
    """nc at both ends: sent, half closed, received."""
    port, size = free_port(), 32 << 20
    server = run.server(["nc", "-l", "-N", "127.0.0.1", port], port)
    data = os.urandom(size)
    run.client(["nc", "-N", "127.0.0.1", port], text=False, stdin=data)
    run.ended(server)
    with open(run.path("server.out"), "rb") as f:
        check(f.read() == data, "other bytes arrived")


@case(("inetd", "nc"), rings=False)
def inetd_cat(run):
    """inetd: accepts, forks, executes with the socket as 0, 1 and 2."""
    port = free_port()
    user = pwd.getpwuid(os.geteuid()).pw_name
    conf = run.write("inetd.conf", "127.0.0.1:%d stream tcp nowait %s %s cat\n" %
                     (port, user, program("cat")))
    server = run.server(["inetd", "-i", conf], port)
    for size in (10, 4 << 20, 100000):
        through(run, port, size, "nc", "-N", "127.0.0.1", port)
    run.ended(server, status=(0, -signal.SIGTERM), sig=signal.SIGTERM)


# ---------------------------------------------------------------- ab, iperf3

@case(("ab", "nginx"), rings=False)
def ab_keepalive(run):
    pid, port, argv = nginx_start(run)
    run.write("www/page", os.urandom(4096).hex())
    for keep in ([], ["-k"]):
        out = run.client(["ab", "-q", *keep, "-n", 20000 * run.options.scale, "-c", "20",
                          "http://127.0.0.1:%d/page" % port])
        check(re.search(r"^Failed requests: +0$", out, re.M), out)
        rate = re.search(r"^Requests per second: +([0-9]+)", out, re.M).group(1)
        name = "ab " + "".join(keep)
        run.notes.append("%s: %s/s, plain %s" % (name, rate, run.base.setdefault(name, rate)))
    nginx_stop(run, pid, argv)


@case(("iperf3",))
def iperf3_many(run):
    """Sixteen streams at once, and backwards."""
    for extra in ([], ["-R"]):
        port = free_port()
        server = run.server(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port], port)
        out = json.loads(run.client(["iperf3", "-c", "127.0.0.1", "-p", port, "-J", "-P", "16",
                                     "-t", str(2 * run.options.scale), *extra]))
        check("error" not in out, out.get("error"))
        run.ended(server)
        rate = "%.1f" % (out["end"]["sum_received"]["bits_per_second"] / 1e9)
        name = "iperf3 -P 16 " + "".join(extra)
        run.notes.append("%s: %s Gbit/s, plain %s" %
                         (name, rate, run.base.setdefault(name, rate)))
