# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What a process can be shut in by, between fork and exec: filters, namespaces, limits."""
import ctypes
import errno
import os
import re
import resource
import struct
import subprocess

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

ALLOW, KILL, ERRNO = 0x7fff0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
NEWNS, NEWUSER, NEWNET = 0x00020000, 0x10000000, 0x40000000


def numbers():
    """System calls of this machine, by name."""
    out = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-xc", "/dev/null"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    return {m[1]: int(m[2]) for m in re.finditer(r"#define __NR_(\w+) (\d+)$", out, re.M)}


NR = numbers()


def _check(ret, what):
    if ret < 0:
        raise OSError(ctypes.get_errno(), what)
    return ret


def _install(code):
    prog = b"".join(struct.pack("HBBI", *line) for line in code)
    buf = ctypes.create_string_buffer(prog)
    fprog = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buf))
    _check(_libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    _check(_libc.prctl(22, 2, ctypes.c_char_p(fprog)), "seccomp")


def deny(calls, err=errno.EPERM):
    """These calls fail; err None: they kill."""
    ret = KILL if err is None else ERRNO | err
    code = [(_LOAD, 0, 0, 0)]
    for name in calls:
        if name in NR:
            code += [(_EQUAL, 0, 1, NR[name]), (_RETURN, 0, 0, ret)]
    return lambda: _install(code + [(_RETURN, 0, 0, ALLOW)])


def allow(calls):
    """All others kill."""
    code = [(_LOAD, 0, 0, 0)]
    for name in calls:
        if name in NR:
            code += [(_EQUAL, 0, 1, NR[name]), (_RETURN, 0, 0, ALLOW)]
    return lambda: _install(code + [(_RETURN, 0, 0, KILL)])


def families(allowed):
    """socket() of any other family: EAFNOSUPPORT, as systemd has it."""
    code = [(_LOAD, 0, 0, 0), (_EQUAL, 0, 1 + 2 * len(allowed) + 1, NR["socket"]),
            (_LOAD, 0, 0, 16)]
    for family in allowed:
        code += [(_EQUAL, 0, 1, int(family)), (_RETURN, 0, 0, ALLOW)]
    code += [(_RETURN, 0, 0, ERRNO | errno.EAFNOSUPPORT), (_RETURN, 0, 0, ALLOW)]
    return lambda: _install(code)


def namespaces(flags, uid_map=None):
    def prepare():
        uid, gid = os.getuid(), os.getgid()
        _check(_libc.unshare(flags), "unshare")
        if flags & NEWUSER:
            for name, text in (("setgroups", "deny"), ("gid_map", "%d %d 1" % (gid, gid)),
                               ("uid_map", uid_map or "%d %d 1" % (uid, uid))):
                with open("/proc/self/" + name, "w") as f:
                    f.write(text)
    return prepare


def no_proc():
    _check(_libc.unshare(NEWNS), "unshare")
    _check(_libc.mount(b"none", b"/", None, 0x44000, None), "private")     # MS_PRIVATE | MS_REC
    _check(_libc.umount2(b"/proc", 2), "umount")


def read_only():
    _check(_libc.unshare(NEWNS), "unshare")
    _check(_libc.mount(b"none", b"/", None, 0x44000, None), "private")
    _check(_libc.mount(None, b"/", None, 0x1021, None), "remount")         # MS_REMOUNT | MS_BIND | MS_RDONLY


def full_shm():
    _check(_libc.unshare(NEWNS), "unshare")
    _check(_libc.mount(b"none", b"/", None, 0x44000, None), "private")
    _check(_libc.mount(b"none", b"/dev/shm", b"tmpfs", 0, b"size=4096"), "tmpfs")
    with open("/dev/shm/full", "wb") as f:
        f.write(bytes(4096))


def chrooted():
    """The same files, but for /proc, /sys and /dev."""
    _check(_libc.unshare(NEWNS), "unshare")
    _check(_libc.mount(b"none", b"/", None, 0x44000, None), "private")
    _check(_libc.mount(b"none", b"/mnt", b"tmpfs", 0, None), "tmpfs")
    for name in set(os.listdir("/")) - {"proc", "sys", "dev", "mnt"}:
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), "/mnt/" + name)
        elif os.path.isdir("/" + name):
            os.mkdir("/mnt/" + name)
            _check(_libc.mount(("/" + name).encode(), ("/mnt/" + name).encode(), None, 0x5000, None),
                   "bind")
    cwd = os.getcwd()
    os.chroot("/mnt")
    os.chdir(cwd)


def landlock_scope():
    """No abstract Unix names but those of its own domain; None where the kernel has no such thing."""
    attr = struct.pack("QQQ", 0, 0, 1)
    fd = _libc.syscall(ctypes.c_long(444), ctypes.c_char_p(attr), ctypes.c_long(len(attr)), 0)
    if fd < 0:
        return None
    os.close(fd)

    def prepare():
        _check(_libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
        fd = _check(_libc.syscall(ctypes.c_long(444), ctypes.c_char_p(attr),
                                  ctypes.c_long(len(attr)), 0), "ruleset")
        _check(_libc.syscall(ctypes.c_long(446), ctypes.c_long(fd), 0), "restrict")
        os.close(fd)
    return prepare


def mdwe():
    _check(_libc.prctl(65, 1, 0, 0, 0), "mdwe")


def limit(which, value):
    return lambda: resource.setrlimit(which, (value, value))


def user(uid):
    def prepare():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    return prepare


def all_of(*steps):
    def prepare():
        for step in steps:
            step()
    return prepare
