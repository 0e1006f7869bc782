# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The application cases: unmodified programs of Debian."""
import hashlib
import json
import os
import pwd
import re
import signal

from applib import case, check, free_port, program

# ---------------------------------------------------------------- silence

@case()
def idle_cpu(run):
    """Five seconds of silence on a busy connection cost each end 10 ms at most."""
    bench = os.path.join(os.path.abspath(run.options.build), "tools", "sidestep-bench")
    port = free_port()
    server = run.server([bench, "peer", "idle-server", "--port", port], port)
    out = run.client([bench, "peer", "idle-client", "--port", port, "--seconds", "5"])
    run.ended(server)
    for end in ("client", "server"):
        found = re.search(r"^%s ([0-9.]+)$" % end, out, re.M)
        check(found and float(found.group(1)) <= 10, "CPU time in ms: %s" % out)


# ---------------------------------------------------------------- system calls

def calls_made(run, end, messages):
    """System calls of one end of a ping-pong, counted by strace."""
    bench = os.path.join(os.path.abspath(run.options.build), "tools", "sidestep-bench")
    port, counts = free_port(), run.path("strace-%s-%d" % (end, messages))
    trace = ["strace", "-f", "-c", "-U", "calls,name", "-o", counts]
    server = run.server([*(trace if end == "server" else []), bench, "peer",
                         "pingpong-server", "--port", port], port)
    run.client([*(trace if end == "client" else []), bench, "peer", "pingpong-client",
                "--port", port, "--messages", messages])
    run.ended(server)
    with open(counts) as f:
        found = re.search(r"^ *([0-9]+) total$", f.read(), re.M)
    check(found, "no total in what strace says")
    return int(found.group(1))


@case(("strace",), rings=False, modes=("plain", "server", "client"))
def cold_calls(run):
    """Where the other end has no sidestep, a message costs its two calls and no more."""
    for end in ("server", "client") if run.mode == "plain" else (run.mode,):
        few, many = calls_made(run, end, 5000), calls_made(run, end, 15000)
        # a run that takes longer looks for the peer once more, some 100 calls
        check(abs(many - few - 20000) <= 300, "%s: %d calls for 10000 messages" %
              (end, many - few))


# ---------------------------------------------------------------- redis

REDIS = ("redis-server", "redis-benchmark", "redis-cli")


def redis_start(run, *before):
    port = free_port()
    server = run.server([*before, "redis-server", "--port", port, "--bind", "127.0.0.1",
                         "--save", "", "--appendonly", "no", "--dir", run.dir], port)
    return server, port


def redis_stop(run, server, port):
    run.plain(["redis-cli", "-h", "127.0.0.1", "-p", port, "shutdown", "nosave"])
    run.ended(server)


def redis_bench(run, port, *args):
    out = run.client(["redis-benchmark", "-h", "127.0.0.1", "-p", port, "-t", "set,get",
                      "--csv", *args])
    for name in ("SET", "GET"):
        found = re.search(r'^"%s","([0-9.]+)"' % name, out, re.M)
        check(found and float(found.group(1)) > 0, "no rate of %s in: %s" % (name, out))


def redis_case(run, *args):
    server, port = redis_start(run)
    redis_bench(run, port, *args)
    redis_stop(run, server, port)


@case(REDIS)
def redis_c1(run):
    redis_case(run, "-c", "1", "-n", 60000 * run.options.scale)


@case(REDIS)
def redis_c50(run):
    redis_case(run, "-c", "50", "-n", 200000 * run.options.scale, "-d", "200")


@case(REDIS)
def redis_pipeline(run):
    redis_case(run, "-c", "50", "-P", "16", "-n", 2000000 * run.options.scale, "-d", "500")


@case(REDIS)
def redis_c200(run):
    redis_case(run, "-c", "200", "-n", 500000 * run.options.scale, "-d", "500")


@case(REDIS, rings=False)
def redis_answers(run):
    """What is put in comes out, small and large, and the server counts right."""
    server, port = redis_start(run)
    cli = ["redis-cli", "-h", "127.0.0.1", "-p", port]
    big = os.urandom(3 << 20).hex()
    check(run.client([*cli, "-x", "set", "big"], stdin=big).strip() == "OK", "set big")
    check(run.client([*cli, "get", "big"]).rstrip("\n") == big, "get big")
    script = "".join("set key%d value%d\n" % (i, i) for i in range(2000))
    answers = run.client(cli, stdin=script).split()
    check(answers == ["OK"] * 2000, "2000 sets: %d answers" % len(answers))
    script = "".join("get key%d\n" % i for i in range(2000))
    answers = run.client(cli, stdin=script).split()
    check(answers == ["value%d" % i for i in range(2000)], "2000 gets")
    check(run.client([*cli, "dbsize"]).strip() == "2001", "dbsize")
    redis_stop(run, server, port)


@case((*REDIS, "valgrind"), rings=False)
def redis_valgrind(run):
    """A smoke test: no error that valgrind would find in the server."""
    server, port = redis_start(run, "valgrind", "-q", "--error-exitcode=99")
    redis_bench(run, port, "-c", "5", "-n", "2000")
    redis_stop(run, server, port)


# ---------------------------------------------------------------- iperf3

def iperf3_case(run, *args):
    port = free_port()
    server = run.server(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port], port)
    out = json.loads(run.client(["iperf3", "-c", "127.0.0.1", "-p", port, "-J",
                                 "-t", str(2 * run.options.scale), *args]))
    check("error" not in out, out.get("error"))
    run.ended(server)
    for way in ("", "_bidir_reverse") if "--bidir" in args else ("",):
        sent = out["end"]["sum_sent" + way]["bytes"]
        received = out["end"]["sum_received" + way]["bytes"]
        check(0 < received <= sent, "sent %d, received %d" % (sent, received))


@case(("iperf3",))
def iperf3_forward(run):
    iperf3_case(run)


@case(("iperf3",))
def iperf3_reverse(run):
    iperf3_case(run, "-R")


@case(("iperf3",))
def iperf3_parallel(run):
    iperf3_case(run, "-P", "4")


@case(("iperf3",))
def iperf3_bidir(run):
    iperf3_case(run, "--bidir")


# ---------------------------------------------------------------- nginx

NGINX = """
worker_processes %(workers)d;
error_log %(dir)s/error.log;
pid %(dir)s/nginx.pid;
%(user)s
%(keep)s
daemon on;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile %(sendfile)s;
  keepalive_requests 1000000000;
  default_type application/octet-stream;
  client_body_temp_path %(dir)s/body;
  proxy_temp_path %(dir)s/proxy;
  fastcgi_temp_path %(dir)s/fastcgi;
  uwsgi_temp_path %(dir)s/uwsgi;
  scgi_temp_path %(dir)s/scgi;
  server { listen 127.0.0.1:%(port)d; root %(dir)s/www; }
}
"""


def nginx_start(run, sendfile="on", workers=2, keep=""):
    port = free_port()
    user = "" if os.geteuid() else "user %s;" % pwd.getpwuid(0).pw_name
    os.makedirs(run.path("www"), exist_ok=True)
    conf = run.write("nginx.conf", NGINX % {"dir": run.dir, "user": user, "port": port,
                                            "sendfile": sendfile, "workers": workers,
                                            "keep": keep})
    argv = ["nginx", "-p", run.dir, "-c", conf, "-e", run.path("error.log")]
    return run.daemon(argv, port, run.path("nginx.pid")), port, argv


def nginx_stop(run, pid, argv):
    r = run.plain([*argv, "-s", "quit"])
    check(r.returncode == 0, "nginx -s quit: %s" % r.stdout)
    run.daemon_ended(pid)
    with open(run.path("error.log")) as f:
        bad = [line for line in f if re.search(r"\[(alert|crit|emerg|error)\]", line)]
    check(not bad, "nginx: %s" % bad[:3])


def wrk(run, port, *args):
    out = run.client(["wrk", "-t", "1", "-d", "%ds" % (2 * run.options.scale), *args,
                      "http://127.0.0.1:%d/page" % port])
    bad = re.search(r"(Non-2xx|Socket errors).*", out)
    check(not bad, bad and bad.group(0))
    rate = re.search(r"^Requests/sec: +([0-9.]+)", out, re.M)
    check(rate and float(rate.group(1)) > 0, "no rate in: %s" % out)


def nginx_wrk(run, *args, size=8192):
    pid, port, argv = nginx_start(run)
    page = os.urandom(size // 2).hex()
    run.write("www/page", page)
    wrk(run, port, *args)
    got = run.client(["curl", "-sS", "http://127.0.0.1:%d/page" % port])
    check(got == page, "the page is not what was put there")
    nginx_stop(run, pid, argv)


@case(("nginx", "wrk", "curl"))
def nginx_keepalive(run):
    nginx_wrk(run, "-c", "50")


@case(("nginx", "wrk", "curl"), rings=False)
def nginx_short(run):
    nginx_wrk(run, "-c", "20", "-H", "Connection: close", size=1024)


def make_file(path, size):
    """size bytes in which no block is like another.  Return: SHA-256."""
    digest, block = hashlib.sha256(), bytearray(os.urandom(1 << 20))
    with open(path, "wb") as f:
        for i in range(size >> 20):
            block[:8] = i.to_bytes(8, "little")
            block[4096:4104] = (i * 2654435761).to_bytes(8, "little")
            f.write(block)
            digest.update(block)
    return digest.hexdigest()


def curl_case(run, sendfile):
    pid, port, argv = nginx_start(run, sendfile)
    wanted = make_file(run.path("www/file"), run.options.file_mb << 20)
    curl = run.pipe(["curl", "-sS", "--fail", "http://127.0.0.1:%d/file" % port])
    digest = hashlib.sha256()
    while chunk := curl.stdout.read(1 << 20):
        digest.update(chunk)
    run.ended(curl)
    check(digest.hexdigest() == wanted, "wrong checksum")
    nginx_stop(run, pid, argv)


@case(("nginx", "curl"))
def curl_file(run):
    curl_case(run, "off")


@case(("nginx", "curl"))
def curl_sendfile(run):
    curl_case(run, "on")


# ---------------------------------------------------------------- memcached

@case(("memcached", "memcaslap"))
def memcached_t4(run):
    port = free_port()
    server = run.server(["memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "4",
                         "-u", pwd.getpwuid(os.geteuid()).pw_name], port)
    # its own default, which it would write into the home directory
    conf = run.write("memslap.cnf", "key\n64 64 1\nvalue\n1024 1024 1\ncmd\n0 0.1\n1 0.9\n")
    out = run.client(["memcaslap", "-F", conf, "-s", "127.0.0.1:%d" % port, "-T", "2", "-c", "32",
                      "-x", 150000 * run.options.scale, "-v", "0.1"])
    numbers = dict(re.findall(r"^(\w+): ([0-9]+)$", out, re.M))
    for name in ("get_misses", "verify_misses", "verify_failed"):
        check(numbers.get(name) == "0", "%s: %s" % (name, numbers.get(name)))
    found = re.search(r"Ops: ([0-9]+)", out)
    check(found and int(found.group(1)) >= 149000, "too few operations: %s" % out[-200:])
    run.ended(server, sig=signal.SIGTERM)


# ---------------------------------------------------------------- python

FETCH = """
import hashlib, sys, urllib.request
for i in range(3):
    with urllib.request.urlopen(sys.argv[1]) as answer:
        print(hashlib.sha256(answer.read()).hexdigest(), answer.status)
"""


@case(("/usr/bin/python3",), rings=False)
def python_http(run):
    port = free_port()
    wanted = make_file(run.path("file"), 16 << 20)
    server = run.server(["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1",
                         "--directory", run.dir, port], port)
    out = run.client(["/usr/bin/python3", "-c", FETCH, "http://127.0.0.1:%d/file" % port])
    check(out == "%s 200\n" % wanted * 3, "answers: %s" % out)
    run.ended(server, sig=signal.SIGINT)


# ---------------------------------------------------------------- ssh

SSHD = """
Port %(port)d
ListenAddress 127.0.0.1
HostKey %(dir)s/host
AuthorizedKeysFile %(dir)s/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
LogLevel ERROR
"""


def ssh_start(run):
    port = free_port()
    for name in ("host", "user"):
        r = run.plain(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", run.path(name)])
        check(r.returncode == 0, "ssh-keygen: %s" % r.stdout)
    conf = run.write("sshd_config", SSHD % {"port": port, "dir": run.dir})
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    return run.server([program("sshd"), "-D", "-e", "-f", conf], port), port


def ssh_options(run, port):
    return ["ssh", "-F", "none", "-q", "-i", run.path("user"), "-p", str(port),
            "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "BatchMode=yes"]


@case(("sshd", "ssh", "ssh-keygen"), rings=False)
def ssh_command(run):
    """A command, its status, and bytes through it both ways."""
    server, port = ssh_start(run)
    ssh = [*ssh_options(run, port), "%s@127.0.0.1" % pwd.getpwuid(os.geteuid()).pw_name]
    check(run.client([*ssh, "echo hello; exit 3"], status=3) == "hello\n", "no hello")
    data = os.urandom(8 << 20)
    check(run.client([*ssh, "cat"], text=False, stdin=data) == data, "8 MB through cat")
    run.ended(server, status=(0, 255), sig=signal.SIGTERM)  # differs by version
