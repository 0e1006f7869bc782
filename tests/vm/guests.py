# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Boot a guest, or two with two wires between them, let each run a script, and bring back what it said."""
import os
import shlex
import shutil
import subprocess
import tempfile
import time

QEMU = "qemu-system-x86_64"


class Result:
    def __init__(self, status, output, console):
        self.status = status        # None: the guest left none
        self.output = output
        self.console = console


def text(path):
    try:
        with open(path, "rb") as f:
            return f.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def nine_p(tag, path, more):
    return ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{more}",
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def wire(share, number, net):
    # datagrams over Unix sockets: no order of starting, and none of the 50 ms
    # that a round trip takes over -netdev socket
    a, b = (os.path.join(share, f"wire.{net}.{n}") for n in (number, 3 - number))
    return ["-netdev", f"dgram,id=n{net},local.type=unix,local.path={a},"
                       f"remote.type=unix,remote.path={b}",
            "-device", f"virtio-net-pci,netdev=n{net},host_mtu=4200,"
                       f"mac=52:54:00:00:0{net}:0{number}"]


def clock(build):
    """
    What the kernel is told of its time stamp counter, which is the host's: it would
    measure it wrong, distrust it, and make a system call of each look at a clock.
    """
    program = os.path.join(build, "tests/vm/tsckhz")
    if not os.access(program, os.X_OK):
        return ""
    khz = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return f"tsc=reliable tsc_early_khz={khz}"


def command(image, share, number, count, tsc):
    cpus, memory = (2, "3G") if count == 1 else (1, "1536M")
    cmd = [QEMU, "-machine", "q35", "-cpu", "max", "-smp", str(cpus), "-m", memory,
           "-accel", "tcg,thread=multi", "-nographic", "-no-reboot", "-nodefaults",
           "-serial", f"file:{share}/console.{number}",
           "-kernel", os.path.join(image, "vmlinuz"), "-initrd", os.path.join(image, "initrd"),
           # without a check of the timer, which a busy machine fails and the kernel panics
           "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check "
                      f"{tsc} guest={number}"]
    cmd += nine_p("root", "/", ",readonly=on") + nine_p("share", share, "")
    return cmd + (wire(share, number, 0) + wire(share, number, 1) if count == 2 else [])


def prepare(share, lib, case, variables):
    with open(os.path.join(share, "script"), "w") as f:
        for name, value in variables.items():
            f.write(f"export {name}={shlex.quote(value)}\n")
        f.write(f". {shlex.quote(lib)}\n. {shlex.quote(case)} || exit\nno_rnr\n")


def wait_all(procs, seconds):
    """Until all have ended or the time is over; True: all have."""
    end = time.monotonic() + seconds
    for p in procs:
        try:
            p.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
    return True


def run(image, lib, case, variables, count, seconds, keep=None):
    """Return: a Result for each guest, in order, and whether the time was over."""
    # a short path: a Unix socket's has 108 bytes
    share = tempfile.mkdtemp(prefix="sidestep-vm.")
    procs, tsc = [], clock(variables["BUILD"])
    try:
        prepare(share, lib, case, dict(variables, GUESTS=str(count)))
        for n in range(1, count + 1):
            log = open(os.path.join(share, f"qemu.{n}"), "w")
            procs.append(subprocess.Popen(command(image, share, n, count, tsc),
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            log.close()
        in_time = wait_all(procs, seconds)
        return [collect(share, n) for n in range(1, count + 1)], not in_time
    finally:
        for p in procs:
            if p.poll() is None:
                p.kill()
            p.wait()
        if keep:
            shutil.copytree(share, keep, dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("wire.*"))
        shutil.rmtree(share, ignore_errors=True)


def collect(share, n):
    status = text(os.path.join(share, f"status.{n}")).strip()
    return Result(int(status) if status.isdigit() else None,
                  text(os.path.join(share, f"out.{n}")),
                  text(os.path.join(share, f"qemu.{n}")) + text(os.path.join(share, f"console.{n}")))
