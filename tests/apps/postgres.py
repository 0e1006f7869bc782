# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""PostgreSQL: one process a connection, accepted by the postmaster, served by its child."""
import glob
import os
import pwd
import re
import shutil
import signal

from applib import case, check, free_port, program, until


def pg(name):
    """Debian keeps the server's programs out of the path."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/" + name))
    return found[-1] if found else name


POSTGRES = (pg("postgres"), pg("initdb"), "psql", "pgbench")
SETTINGS = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off",
            "log_line_prefix=", "log_checkpoints=off",
            "log_error_verbosity=terse", "log_min_error_statement=panic", "max_connections=40",
            "client_connection_check_interval=200ms")
# said by chance: to who asks whether it is ready, and by processes that it ends
CHANCE = "^FATAL:  (the database system is|terminating connection)"


class Cluster:
    def __init__(self, run):
        self.run, self.port, self.dir = run, free_port(), run.path("pg")
        os.mkdir(self.dir, 0o700)
        self.user = []
        if os.geteuid() == 0:       # it refuses to run as root
            name = "postgres"
            os.chown(self.dir, pwd.getpwnam(name).pw_uid, pwd.getpwnam(name).pw_gid)
            self.user = [program("setpriv"), "--reuid", name, "--regid", name, "--init-groups"]
        argv = [*self.user, pg("initdb"), "-N", "-A", "trust", "-U", "test", "-D", self.dir]
        r = run.plain(argv, timeout=100)
        check(r.returncode == 0, "initdb: %s" % r.stdout)
        settings = [w for s in (*SETTINGS, "port=%d" % self.port) for w in ("-c", s)]
        self.server = run.server([*self.user, pg("postgres"), "-D", self.dir, *settings],
                                 self.port)
        until(lambda: run.plain([pg("pg_isready"), "-h", "127.0.0.1", "-p", self.port])
              .returncode == 0, 20, "not ready")
        self.to = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "test", "postgres"]

    def psql(self, *commands):
        return ["psql", "-X", "-A", "-t", "-q", *[w for c in commands for w in ("-c", c)],
                *self.to]

    def ask(self, command):
        r = self.run.plain(self.psql(command))
        check(r.returncode == 0, r.stdout)
        return r.stdout.strip()

    def sleeper(self, seconds=100):
        """A client with a query under way, and the server's process for it."""
        p = self.run.pipe(self.psql("select pg_backend_pid()", "select pg_sleep(%d)" % seconds))
        pid = int(p.stdout.readline())
        until(lambda: self.ask("select state from pg_stat_activity where wait_event = 'PgSleep'"
                               " and pid = %d" % pid) == "active", 20, "no pg_sleep")
        return p, pid

    def stop(self, sig=signal.SIGINT):
        self.run.ended(self.server, sig=sig)
        shutil.rmtree(self.dir, ignore_errors=True)


def pgbench(cluster, *args):
    run = cluster.run
    out = run.client(["pgbench", "-n", *args, *cluster.to])
    failed = re.search(r"^number of failed transactions: (\d+)", out, re.M)
    check(failed and failed.group(1) == "0", out)
    tps = re.search(r"^tps = ([0-9]+)", out, re.M).group(1)
    name = " ".join(map(str, args))
    run.notes.append("pgbench %s: %s/s, plain %s" % (name, tps, run.base.setdefault(name, tps)))


@case(POSTGRES, rings=50, noise=CHANCE)
def postgres_bench(run):
    cluster = Cluster(run)
    run.client(["pgbench", "-q", "-i", "-s", "2", *cluster.to])
    pgbench(cluster, "-c", "20", "-j", "2", "-T", 3 * run.options.scale)
    pgbench(cluster, "-S", "-M", "prepared", "-c", "8", "-j", "2", "-T", 3 * run.options.scale)
    pgbench(cluster, "-C", "-c", "4", "-T", 2 * run.options.scale)
    sums = cluster.ask("select (select sum(abalance) from pgbench_accounts) ="
                       " (select sum(bbalance) from pgbench_branches)")
    check(sums == "t", "the balances do not add up")
    cluster.stop()


@case(POSTGRES, rings=False, noise=CHANCE)
def postgres_large(run):
    """Rows of many megabytes out, and in by COPY."""
    cluster = Cluster(run)
    out = run.client(cluster.psql("select repeat(md5(i::text), 1000) from"
                                  " generate_series(1, 2000) i"))
    check(len(out) == 2000 * 32001, "%d bytes" % len(out))
    run.client(cluster.psql("create table t (x text)"))
    run.client(cluster.psql("copy t from stdin"), stdin=out)
    check(cluster.ask("select count(*), count(distinct x), min(length(x)) from t") ==
          "2000|2000|32000", "what went in is not there")
    check(run.client(cluster.psql("copy t to stdout")) == out, "what comes out is not it")
    cluster.stop()


@case(POSTGRES, rings=False, noise=CHANCE)
def postgres_cancel(run):
    """Cancelled by another session, and by a second connection of the client itself."""
    cluster = Cluster(run)
    client, pid = cluster.sleeper()
    check(run.client(cluster.psql("select pg_cancel_backend(%d)" % pid)) == "t\n", "not sent")
    run.ended(client, status=1)
    client, pid = cluster.sleeper()
    run.ended(client, status=1, sig=signal.SIGINT)
    with open(run.noise) as f:
        check("due to user request" in f.read(), "not cancelled but ended")
    until(lambda: cluster.ask("select count(*) from pg_stat_activity where pid = %d" % pid) ==
          "0", 20, "the backend is still there")
    client, pid = cluster.sleeper()
    check(run.client(cluster.psql("select pg_terminate_backend(%d)" % pid)) == "t\n", "not sent")
    run.ended(client, status=2)
    cluster.stop()


@case(POSTGRES, rings=False, noise=CHANCE)
def postgres_lost_client(run):
    """A server that is busy notices that its client was killed."""
    cluster = Cluster(run)
    client, pid = cluster.sleeper()
    run.ended(client, status=-signal.SIGKILL, sig=signal.SIGKILL)
    until(lambda: cluster.ask("select count(*) from pg_stat_activity where pid = %d" % pid) ==
          "0", 20, "the backend goes on")
    check(run.client(cluster.psql("select 1")) == "1\n", "the server does not go on")
    cluster.stop()


@case(POSTGRES, rings=False, noise="pgbench: error|server closed|^\t|connection to server|FATAL")
def postgres_fast_stop(run):
    """The server goes while clients are connected and busy."""
    cluster = Cluster(run)
    busy, _ = cluster.sleeper()
    bench = run.pipe(["pgbench", "-i", "-q", *cluster.to])
    run.ended(bench)
    bench = run.pipe(["pgbench", "-n", "-S", "-c", "4", "-T", "60", *cluster.to])
    until(lambda: int(cluster.ask("select count(*) from pg_stat_activity where query ~"
                                  " 'pgbench'")) > 3, 20, "no load")
    cluster.stop()
    run.ended(busy, status=2)
    run.ended(bench, status=(1, 2))
