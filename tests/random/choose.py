# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Random steps: what a program might call next, mostly something that the model takes."""
import socket

import model as m

WAITING = (0, 0, 1 << 4, 1 << 5, 1 << 6)    # conform.h: blocking, by poll, select, epoll
SMALL = (0, 1, 2, 7, 100, 1000, 1460, 4096)
SIZES = SMALL + (1, 10, 3000, 8192, 10000, 16384, 20000, 33000)
BULKS = (50000, 100000, 262143, 262144, 262145, 300000, 700000)

TCP = socket.IPPROTO_TCP
SOL = socket.SOL_SOCKET
# level, name, values, effect on the model
INT_OPTIONS = (
    (TCP, 1, (0, 1), None), (TCP, 1, (0, 1), None),         # TCP_NODELAY
    (TCP, 3, (0, 1), "cork"),                               # TCP_CORK
    (TCP, 4, (10, 200), None), (TCP, 5, (5, 9), None), (TCP, 6, (3, 4), None),   # TCP_KEEP*
    (TCP, 8, (5, 7), None),                                 # TCP_LINGER2; below 0: close() may be a reset
    (TCP, 12, (0, 1), None),                                # TCP_QUICKACK
    (TCP, 18, (0, 5000, -1), None),                         # TCP_USER_TIMEOUT
    (TCP, 25, (0, 100000), None),                           # TCP_NOTSENT_LOWAT
    (TCP, 36, (0, 1), None),                                # TCP_INQ
    (TCP, 9999, (1,), None),
    (SOL, socket.SO_KEEPALIVE, (0, 1), None),
    (SOL, socket.SO_OOBINLINE, (0, 1), "inline"),
    (SOL, socket.SO_PRIORITY, (0, 5), None),
    (SOL, socket.SO_RCVLOWAT, (1, 1, 0, 2, 100, 5000), "lowat"),
    (SOL, socket.SO_SNDBUF, (200000, 400000), None),
    (SOL, socket.SO_RCVBUF, (200000, 400000), None),
    (SOL, socket.SO_TIMESTAMP if hasattr(socket, "SO_TIMESTAMP") else 29, (0, 1), None),
    (SOL, socket.SO_REUSEADDR, (0, 1), None),
    (SOL, 46, (0, 20), None),                               # SO_BUSY_POLL
    (SOL, socket.SO_TYPE, (1,), None),
    (0, 1, (0, 8), None),                                   # IP_TOS
)
# level, name, bytes shown, length, whether it says the same at the end of a connection
QUESTIONS = (
    (TCP, 1, 4, 4, True), (TCP, 3, 4, 4, True), (TCP, 4, 4, 4, True), (TCP, 5, 4, 4, True),
    (TCP, 6, 4, 4, True), (TCP, 18, 4, 4, True), (TCP, 9, 4, 4, True), (TCP, 13, 8, 16, True),
    (TCP, 2, 0, 4, False), (TCP, 11, 1, 104, False), (TCP, 31, 4, 8, True), (TCP, 9999, 4, 4, True),
    (TCP, 25, 4, 4, True), (TCP, 36, 4, 4, True),
    (SOL, socket.SO_ERROR, 4, 4, True), (SOL, socket.SO_ERROR, 4, 4, True), (SOL, socket.SO_TYPE, 4, 4, True),
    (SOL, socket.SO_KEEPALIVE, 4, 4, True), (SOL, socket.SO_LINGER, 8, 8, True),
    (SOL, socket.SO_OOBINLINE, 4, 4, True), (SOL, socket.SO_PRIORITY, 4, 4, True),
    (SOL, socket.SO_RCVLOWAT, 4, 4, True), (SOL, socket.SO_RCVTIMEO, 16, 16, True),
    (SOL, socket.SO_SNDTIMEO, 16, 16, True), (SOL, socket.SO_ACCEPTCONN, 4, 4, True),
    (SOL, 38, 4, 4, True), (SOL, 39, 4, 4, True), (SOL, socket.SO_RCVBUF, 0, 4, True),
    (SOL, socket.SO_ERROR, 4, 2, True), (SOL, 42, 4, 4, True),
)


class Chooser:
    def __init__(self, rng, model):
        self.rng, self.model = rng, model

    def place(self, owner):
        places = [p for p, c in self.model.tables[owner].items() if isinstance(c, m.Conn)]
        return self.rng.choice(sorted(places)) if places else 0

    def any_place(self, owner):
        return self.rng.choice(sorted(self.model.tables[owner]) or [0])

    def other_end(self, owner, place):
        conn = self.model.conn(owner, place)
        at = conn and self.model.holder(conn, 1 - m.SIDE[owner])
        return at or ("s", 0)

    def vector(self, limit):
        r = self.rng
        kind = r.randrange(10)
        if kind < 6:
            return [min(r.choice(SIZES), limit)]
        if kind == 6:
            return [min(r.randrange(1, 200), limit) for _ in range(r.randrange(2, 40))]
        return [min(r.choice(SMALL + (0, 0)), limit) for _ in range(r.randrange(2, 6))]

    def read_vector(self, owner, place):
        own, _ = self.model.end(owner, place)
        unread = own.unread if own else 0
        kind = self.rng.randrange(6)
        if kind == 0 and unread:
            return [unread]
        if kind == 1 and unread > 1:
            return [unread // 2]
        if kind == 2:
            return [unread + 1]
        return self.vector(50000)

    # ------------------------------------------------ parameters per name --

    def write(self, owner, place):
        r = self.rng
        flags = 0
        for bit, odds in ((m.MSG_NOSIGNAL, 4), (m.MSG_DONTWAIT, 4), (m.MSG_MORE, 25)):
            flags |= bit if r.randrange(odds) == 0 else 0
        return r.choice((0, 0, 1, 1, 2, 3, 3, 4, 5, 6)), flags, self.vector(m.ROOM)

    def urgent(self, owner, place):
        return 0, m.MSG_OOB, [self.rng.choice((1, 1, 2, 5))]

    def read(self, owner, place):
        r = self.rng
        flags = 0
        for bit, odds in ((m.MSG_PEEK, 6), (m.MSG_WAITALL, 3), (m.MSG_DONTWAIT, 3), (m.MSG_TRUNC, 12), (m.MSG_OOB, 40),
                          (m.MSG_NOSIGNAL, 20)):
            flags |= bit if r.randrange(odds) == 0 else 0
        own, _ = self.model.end(owner, place)
        if own and own.urgent and r.randrange(4) == 0:
            flags |= m.MSG_OOB
        return r.choice((0, 0, 1, 1, 2, 3, 3, 4, 5, 6)), flags, self.read_vector(owner, place), r.choice((0, 0, 0, 0, 0, 0, 1, 2, 2, 2))

    def sendfile(self, owner, place):
        r = self.rng
        size = r.choice((1, 500, 9000, 20000))
        return r.choice((0, 100, 5000, 20000, 30000)), size, r.choice((-1, 0, 3, 400, 20000))

    def spliceout(self, owner, place):
        return self.rng.choice((1, 100, 5000, 30000)), self.rng.choice((0, 1, 2, 4))

    def splicein(self, owner, place):
        own, _ = self.model.end(owner, place)
        return (self.rng.randrange(1, own.unread + 1) if own and own.unread else 0,)

    def zerocopy(self, owner, place):
        return (self.rng.choice((1, 100, 5000, 12000)),)

    def eintr(self, owner, place):
        own, _ = self.model.end(owner, place)
        how = self.rng.choice((0, 1, 2, 2, *range(10, 10 + len(m.AWAITS)), *range(20, 20 + len(m.AWAITS))))
        return how, (own.unread if own else 0) + self.rng.choice((1, 100, 30000))

    def bulk(self, owner, place):
        r = self.rng
        return (*self.other_end(owner, place), r.choice(BULKS), r.choice((1000, 30000, 300000, 700000)),
                r.choice((1000, 16384, 65536, 700000)), r.randrange(2))

    def flood(self, owner, place):
        r = self.rng
        return (*self.other_end(owner, place), r.choice((1000, 65536, 300000)), r.choice((16384, 300000)))

    def blocked(self, owner, place):
        r = self.rng
        own, _ = self.model.end(owner, place)
        flags = r.choice((0, m.MSG_WAITALL, m.MSG_WAITALL, m.MSG_PEEK))
        n = r.choice((1, 100, 3000)) + (own.unread if own and flags == m.MSG_WAITALL else 0)
        how = r.choice((0, 0, 0, 3, 4, 4, *m.AWAITS))
        pieces = [r.choice((1, 50, 700, 4000)) for _ in range(r.randrange(1, 5))]
        return (how, flags, n, *self.other_end(owner, place),
                r.choice(("write", "write", "write", "write", "write", "write", "shutdown", "own")), pieces)

    def timeout(self):
        return self.rng.choice((0, 0, 0, 0, 0, 1, 10))

    def entries(self, owner):
        r = self.rng
        places = sorted(self.model.tables[owner])
        return [(r.choice(places), r.choice((0, m.POLLIN, m.POLLIN, m.POLLOUT, m.POLLIN | m.POLLOUT | m.POLLPRI | m.POLLRDHUP,
                                             m.POLLIN | m.POLLRDHUP, m.POLLPRI, 0x43, 0xffff & ~0x20)))
                for _ in range(r.randrange(1, 4))] if places else []

    def poll(self, owner, place):
        return self.timeout(), self.rng.randrange(2), self.entries(owner)

    def select(self, owner, place):
        r = self.rng
        return self.timeout(), r.randrange(2), [(p, r.randrange(8)) for p, _ in self.entries(owner)]

    def epcreate(self, owner, place):
        return ()

    def epctl(self, owner, place):
        r = self.rng
        events = r.choice((m.POLLIN, m.POLLIN, m.POLLIN | m.POLLRDHUP, m.POLLIN | m.POLLOUT, m.POLLOUT, 0,
                           m.POLLIN | m.POLLPRI))
        events |= m.EPOLLET if r.randrange(3) == 0 else 0
        events |= m.EPOLLONESHOT if r.randrange(4) == 0 else 0
        events |= m.EPOLLEXCLUSIVE if r.randrange(40) == 0 else 0
        return r.choice((1, 1, 1, 1, 3, 3, 2)), self.any_place(owner), events

    def epwait(self, owner, place):
        return self.timeout(), self.rng.randrange(3)

    def shutdown(self, owner, place):
        return (self.rng.choice((m.SHUT_WR, m.SHUT_WR, m.SHUT_RD, m.SHUT_RDWR)),)

    def close(self, owner, place):
        return (self.rng.choice((0, 0, 0, 1, 2, 3, 4)),)

    def open(self, owner, place):
        r = self.rng
        return r.choice((4, 5, 6)), r.choice(WAITING), int(r.randrange(6) > 0), 1

    def give(self, owner, place):
        return self.rng.choice(list(m.DUPS)), self.rng.randrange(2)

    def spawn(self, owner, place):
        own, _ = self.model.end(owner, place)
        return self.rng.randrange(7), self.rng.randrange(1, own.unread + 1) if own and own.unread else 0

    def dup(self, owner, place):
        r = self.rng
        how = r.choice((0, 0, 1, 2, 3, 4, 5, 6))
        return (self.any_place(owner) if how in m.ONTO else r.choice(list(m.DUPS)), how)

    def fork(self, owner, place):
        return ()

    def exit(self, owner, place):
        return (self.rng.randrange(2),)

    def nonblock(self, owner, place):
        return self.rng.randrange(2), self.rng.randrange(2)

    def setopt(self, owner, place):
        r = self.rng
        kind = r.randrange(8)
        if kind == 0:
            return SOL, socket.SO_LINGER, 1, r.randrange(2), r.choice((0, 1, 3)), "linger"
        if kind == 1:
            return SOL, socket.SO_RCVTIMEO, 2, 0, r.choice((0, 0, 20000, 30000)), "timeout"
        if kind == 2:
            return SOL, socket.SO_SNDTIMEO, 2, r.choice((0, 3)), 0, None
        level, name, values, effect = r.choice(INT_OPTIONS)
        return level, name, 0, r.choice(values), 0, effect

    def getopt(self, owner, place):
        return self.rng.choice(QUESTIONS)

    def count(self, owner, place):
        return (self.rng.randrange(3),)

    def names(self, owner, place):
        return (self.rng.randrange(2),)

    def odd(self, owner, place):
        return (self.rng.randrange(24),)

    # ------------------------------------------------------------ one step --

    WEIGHTS = {"write": 60, "read": 60, "urgent": 1, "sendfile": 3, "spliceout": 2, "splicein": 3, "zerocopy": 1, "eintr": 3, "bulk": 5,
               "flood": 2, "blocked": 9, "poll": 14, "select": 6, "epcreate": 5, "epctl": 16, "epwait": 22,
               "shutdown": 2, "close": 3, "open": 2, "dup": 5, "fork": 2, "give": 2, "spawn": 1, "exit": 2, "nonblock": 5, "setopt": 9, "getopt": 7,
               "count": 10, "names": 2, "odd": 5}

    def step(self):
        r = self.rng
        name = r.choices(list(self.WEIGHTS), self.WEIGHTS.values())[0]
        owner = r.choice(sorted(self.model.tables))
        place = self.place(owner)
        if name in ("epcreate", "epctl", "epwait"):
            place = r.choice(m.SETS)
        elif name in ("close", "dup"):
            place = self.any_place(owner)
        elif name == "open":
            owner, place = "*", r.choice(m.CONNS)
        params = getattr(self, name)(owner, place)
        return ("write" if name == "urgent" else name), owner, place, params


def opening(rng):
    """The connections of a sequence."""
    count = rng.choice((1, 1, 1, 2, 2, 3))
    family = rng.choice((4, 4, 6, 5))
    return [("open", "*", i, (5 if family == 6 and rng.randrange(4) == 0 else family, rng.choice(WAITING),
                              int(rng.randrange(6) > 0), int(rng.randrange(8) > 0)))
            for i in range(count)]


def sequence(rng, mode, length):
    """A list of steps that the model takes."""
    model = m.Model(mode)
    chooser = Chooser(rng, model)
    steps = []
    for step in opening(rng):
        model.apply(step)
        steps.append(step)
    for _ in range(8 * length):
        if len(steps) >= length:
            break
        step = chooser.step()
        trial = model.after(step)
        if trial:
            model = chooser.model = trial
            steps.append(step)
    return steps
