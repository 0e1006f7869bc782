# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What TCP will have done: which calls are legal next, and what to wait for before one looks.

A step is (name, owner, place, parameters).  Model.apply() gives the lines of the
actor's script for it, or None if the step is not legal in the state reached: one
that might block for ever, or whose result TCP leaves open.  So any part of a
sequence is a sequence again, which is what shrinking needs.

What makes a sequence deterministic:

1.  The calls have one order over all processes; a call that blocks while others
    go on is in a thread, and what it returns does not depend on who came first.
2.  Before a call looks at what the peer has done (bytes, an end, a reset), the
    actor waits until that has arrived: until FIONREAD says the number of bytes
    that the model has counted, the writer's SIOCOUTQ is 0, or poll says RDHUP or
    HUP.  Only calls that block for all that they ask for need no such wait.
3.  No more than ROOM bytes are left unread, AHEAD where a write does not wait or one
    asks whether it would, which each TCP takes; more goes over only with a reader at work ("bulk", "flood"), and then the totals are compared
    and not what single calls returned.
4.  Behind urgent data only non-blocking reads look: where they stop is TCP's, but
    how much can be read in all is not counted here.
5.  Sizes of buffers, segment sizes and times are not compared; a wait that found
    nothing must only not have been too short.
6.  Of a write to an end that will answer it by a reset, a part is what TCP leaves
    open: no more than REFUSED bytes, in one message.  And none to one that has shut
    both ways over unread bytes (doc/PROGRESS.md: no reset comes then).
7.  Not asked for: names and states of a socket between its FIN and the ack of it,
    nor a further shutdown() then; the error of a reset that a parent and its child
    could both be told; epoll_wait without a timeout once there was a reset, and edges in a
    set that a parent shares with its child (all in doc/PROGRESS.md: told by the next call, told once more);
    what a set says of a connection that is closed here and open in a child; a write behind
    an own FIN to an end that was closed (a machine out of room for TIME_WAIT answers the FIN by a reset);
    what was unread before a reset, in a child; an urgent byte after the end; what comes of a close over urgent data
    (a reset, or a FIN) at an end that is shut for reading, which nothing tells when it has come; edges in a set that is polled or in another one;
    what a child changes in its parent's set; a connection that is handed over when it has been reset.
"""
import copy

ROOM = 40000
AHEAD = 12000
REFUSED = 8000
POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLRDHUP = 1, 2, 4, 8, 16, 0x2000
EPOLLEXCLUSIVE, EPOLLONESHOT, EPOLLET = 1 << 28, 1 << 30, 1 << 31
MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_DONTWAIT, MSG_WAITALL = 1, 2, 0x20, 0x40, 0x100
MSG_NOSIGNAL, MSG_MORE = 0x4000, 0x8000
SHUT_RD, SHUT_WR, SHUT_RDWR = 0, 1, 2
EPOLL_CTL_ADD = 1
NONE, PERHAPS, SURE = 0, 1, 2       # was the connection reset?

SIDE = {"s": 0, "x": 0, "c": 1, "y": 1}
PARENT = {"x": "s", "y": "c"}
AWAITS = ("poll", "select", "epoll", "edge", "once", "inner", "polled")     # actor: wait_one()
CONNS = range(8)                    # places of new connections
SETS = (20, 21)                     # places of epoll sets
DUPS = range(8, 16)                 # places of copies
ONTO = (3, 4)                       # dup2, dup3


class End:
    """One end of a connection: what was set on it, and what has come in for it."""

    def __init__(self):
        self.unread = 0             # bytes written to it and not read
        self.settled = True         # ... are known to have arrived
        self.fin = False            # the peer has ended its direction
        self.urgent = False         # urgent data was sent to it
        self.shut_rd = self.shut_wr = self.closed = False
        self.shut_over = False      # both ways, over unread bytes
        self.nonblock = self.linger0 = self.cork = False
        self.timeout = 0            # SO_RCVTIMEO, ms
        self.lowat = 1


class Conn:
    def __init__(self, number, warm):
        self.number, self.warm = number, warm
        self.ends = (End(), End())
        self.reset = NONE

    def twin(self):
        other = copy.copy(self)
        other.ends = tuple(copy.copy(end) for end in self.ends)
        return other

    def over(self):
        """Both directions are at their end, or about to be."""
        return self.reset or (self.ends[0].fin and self.ends[1].fin)


class Set:
    """A set of epoll."""

    def __init__(self):
        self.edges = False          # has had an edge-triggered entry
        self.watched = False        # was polled, or is in another: its connections leave their rings
        self.conns = set()          # numbers of what is in it, or was


class Model:
    def __init__(self, mode):
        self.mode = mode
        self.conns = {}
        self.tables = {"s": {}, "c": {}}        # owner: place: Conn or Set
        self.lines = []
        self.resets = False
        self.four = None            # the listener's family
        self.pattern = 0

    # ------------------------------------------------------------ helpers --

    def emit(self, owner, name, *args):
        self.lines.append(f"{owner} {name} " + " ".join(str(int(a)) for a in args))

    def conn(self, owner, place):
        obj = self.tables.get(owner, {}).get(place)
        return obj if isinstance(obj, Conn) else None

    def set(self, owner, place):
        obj = self.tables.get(owner, {}).get(place)
        return obj if isinstance(obj, Set) else None

    def asked(self, owner, entries):
        """Those of a poll's entries of which TCP leaves nothing open, and we know no difference."""
        entries = [(p, ev) for p, ev in entries if p in self.tables[owner] and not self.error_shared(owner, p) and
                   not (self.set(owner, p) and self.set(owner, p).edges)]
        for p, _ in entries:
            if self.set(owner, p):
                self.set(owner, p).watched = True
        return entries

    def conns_of(self, owner):
        return [(p, c) for p, c in self.tables[owner].items() if isinstance(c, Conn)]

    def shared(self, owner, s):
        """A parent and its child both have the set."""
        return any(s in t.values() for o, t in self.tables.items() if o != owner)

    def end(self, owner, place):
        """The own end and the peer's; None, None if there is no connection at that place."""
        c = self.conn(owner, place)
        if not c:
            return None, None
        side = SIDE[owner]
        return c.ends[side], c.ends[1 - side]

    def holder(self, conn, side, prefer=None):
        """Some owner and place of that end, or None: it is closed."""
        for owner in sorted(self.tables, key=lambda o: o != prefer):
            if SIDE[owner] == side:
                for place, obj in self.tables[owner].items():
                    if obj is conn:
                        return owner, place
        return None

    def error_shared(self, owner, place):
        """A reset that parent and child both have a descriptor for: which of them is told, see point 7."""
        c = self.conn(owner, place)
        return bool(c and c.reset and len({o for o, t in self.tables.items()
                                           if SIDE[o] == SIDE[owner] and c in t.values()}) > 1)

    def end_open(self, conn, side):
        """It may have been told of a reset or of a FIN, and not yet: see may_close()."""
        return conn.reset == PERHAPS and conn.ends[side].shut_rd

    def next_pattern(self):
        self.pattern += 1
        return self.pattern

    # ------------------------------------------------- waiting for arrival --

    def settle(self, conn, side, prefer=None, how=0):
        """Wait until all that was done to that end has arrived there."""
        own, peer = conn.ends[side], conn.ends[1 - side]
        at = self.holder(conn, side, prefer)
        if own.settled or not at:
            return
        if conn.reset == SURE:
            self.emit(at[0], "settled", at[1], POLLERR | POLLHUP if own.shut_rd and own.shut_wr else POLLHUP)
        elif not (own.fin or conn.reset):
            writer = self.holder(conn, 1 - side)
            if writer and (own.urgent or how):
                self.emit(writer[0], "drained", writer[1])
            elif not own.urgent:
                self.emit(at[0], "arrived", at[1], own.unread)
        else:
            self.settle_end(conn, own, peer, at)
        own.settled = True

    def settle_end(self, conn, own, peer, at):
        if not (own.urgent or conn.reset) and own.unread:
            self.emit(at[0], "arrived", at[1], own.unread)
        if not own.shut_rd:
            self.emit(at[0], "settled", at[1], POLLRDHUP)

    def settle_all(self, owner):
        for c in self.conns.values():
            self.settle(c, SIDE[owner], owner)

    def reset_by(self, conn, side, certain=SURE):
        """The end `side` is told of a reset."""
        conn.reset = max(conn.reset, certain)
        self.resets = True
        conn.ends[side].settled = False

    # --------------------------------------------------------------- steps --

    def apply(self, step):
        """Return the script lines of a step, or None."""
        name, owner, place, params = step
        if owner != "*" and owner not in self.tables:
            return None
        if self.error_shared(owner, place):
            return None
        self.lines = []
        return self.lines if getattr(self, "step_" + name)(owner, place, *params) is not False else None

    def after(self, step):
        """A copy that the step was applied to, or None: apply() changes things before it says no."""
        trial = copy.copy(self)
        twin = {c: c.twin() for c in self.conns.values()}
        trial.conns = {number: twin[c] for number, c in self.conns.items()}
        trial.tables = {owner: {place: twin.get(obj, obj) for place, obj in table.items()}
                        for owner, table in self.tables.items()}
        return trial if trial.apply(step) is not None else None

    def step_open(self, _owner, place, family, waiting, warm, nodelay):
        if any(place in t for t in self.tables.values()) or self.four not in (None, family == 4):
            return False
        self.four = family == 4
        c = Conn(len(self.conns), warm)
        self.conns[c.number] = c
        for owner in "sc":
            self.tables[owner][place] = c
        self.emit("*", "open", place, family, waiting, warm, nodelay)
        return True

    # writing

    def wrote(self, conn, owner, n, urgent=False):
        """n bytes were accepted, or would have been on a connection that is not at its end."""
        side = SIDE[owner]
        own, peer = conn.ends[side], conn.ends[1 - side]
        if conn.reset == PERHAPS and peer.closed and not own.shut_wr and n:
            self.reset_by(conn, side)           # if it was not before
        if own.shut_wr or conn.reset or n == 0:
            return
        if peer.closed:
            self.reset_by(conn, side)
        elif peer.shut_rd and peer.shut_wr:
            self.reset_by(conn, side)
            peer.settled = False
        else:
            peer.unread += n
            peer.urgent = peer.urgent or urgent
            peer.settled = False

    def may_write(self, conn, owner, n, once=True, at_once=False):
        own, peer = conn.ends[SIDE[owner]], conn.ends[1 - SIDE[owner]]
        if peer.closed and (own.shut_wr or not own.fin) and not conn.reset:
            return False
        if peer.closed or (peer.shut_rd and peer.shut_wr):
            return n <= REFUSED and once and not peer.shut_over
        return peer.unread + n <= (AHEAD if at_once or own.nonblock else ROOM)

    def step_write(self, owner, place, how, flags, vector):
        own, _ = self.end(owner, place)
        c = self.conn(owner, place)
        n = sum(vector)
        if how in (1, 2, 6):
            flags = 0
        if not own or not self.may_write(c, owner, n, how != 5, flags & MSG_DONTWAIT) or (flags & MSG_OOB and n == 0):
            return False
        if flags & MSG_OOB and (how == 5 or c.ends[1 - SIDE[owner]].closed):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "write", place, how, flags, self.next_pattern(), *vector)
        self.wrote(c, owner, n, flags & MSG_OOB)
        return True

    def step_sendfile(self, owner, place, n, size, offset):
        c = self.conn(owner, place)
        moved = max(0, min(n, size - max(offset, 0)))
        if not c or not self.may_write(c, owner, moved):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "sendfile", place, n, size, offset, self.next_pattern())
        self.wrote(c, owner, moved)
        return True

    def step_spliceout(self, owner, place, n, flags):
        c = self.conn(owner, place)
        if not c or not self.may_write(c, owner, n):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "spliceout", place, n, self.next_pattern(), flags)
        self.wrote(c, owner, n)
        return True

    # reading

    def never_blocks(self, conn, own):
        return own.fin or own.shut_rd or own.nonblock or conn.reset

    def blocks_for_ever(self, conn, own, n, flags):
        if flags & (MSG_DONTWAIT | MSG_OOB) or self.never_blocks(conn, own) or own.timeout:
            return False
        need = n if flags & MSG_WAITALL else min(own.lowat, n)
        return own.unread < max(need, 1)

    def step_read(self, owner, place, how, flags, vector, settle_how):
        own, _ = self.end(owner, place)
        c = self.conn(owner, place)
        n = sum(vector)
        if not own:
            return False
        if how in (1, 2, 6):
            flags = 0
        if own.urgent and not own.nonblock:
            if how in (1, 2, 6):
                return False
            flags |= MSG_DONTWAIT
        if how == 5 and (len(vector) < 2 or vector[0] == 0 or flags & (MSG_PEEK | MSG_OOB)):
            return False
        if flags & MSG_OOB and (own.fin or c.reset):
            return False
        reads_file = how in (1, 2, 6) and n == 0            # recv() of no bytes waits, read() does not
        if (not reads_file and self.blocks_for_ever(c, own, n, flags)) or (how == 5 and self.blocks_for_ever(c, own, n, flags | MSG_WAITALL)):
            return False
        waits = flags & MSG_WAITALL and n <= own.unread and not (flags & MSG_DONTWAIT or own.nonblock or own.timeout or own.shut_rd)
        if not (waits and settle_how == 2):
            self.settle(c, SIDE[owner], owner, settle_how)
        self.emit(owner, "read", place, how, flags, *vector)
        if not flags & (MSG_PEEK | MSG_OOB):
            own.unread -= min(n, own.unread)
        return True

    def step_splicein(self, owner, place, n):
        own, _ = self.end(owner, place)
        c = self.conn(owner, place)
        if not own or own.urgent or c.reset or not 0 < n <= own.unread or own.lowat > 1:
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "splicein", place, n)
        own.unread -= n
        return True

    def step_zerocopy(self, owner, place, n):
        own, peer = self.end(owner, place)
        c = self.conn(owner, place)
        if not c or c.reset or own.shut_wr or peer.closed or peer.shut_rd or not self.may_write(c, owner, n, at_once=True):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "zerocopy", place, n, self.next_pattern())
        self.wrote(c, owner, n)
        return True

    def step_eintr(self, owner, place, how, n):
        own, _ = self.end(owner, place)
        c = self.conn(owner, place)
        if not own or own.urgent or own.timeout or own.shut_rd or own.fin or c.reset:
            return False
        if (own.nonblock and how < 10) or (own.unread and (how != 2 or n <= own.unread)):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "eintr", place, how, n)
        own.unread = 0
        return True

    # both ends at work

    def may_pair(self, owner, place, other, there):
        own, peer = self.end(owner, place)
        c = self.conn(owner, place)
        return (own and self.conn(other, there) is c and SIDE[owner] != SIDE[other] and not c.reset and
                not own.shut_wr and not own.fin and not peer.shut_rd and not peer.urgent and not peer.fin and
                peer.lowat == 1 and not peer.timeout)

    def step_bulk(self, owner, place, other, there, n, chunk_out, chunk_in, reader_first):
        if not self.may_pair(owner, place, other, there):
            return False
        _, peer = self.end(owner, place)
        reader = (other, there, peer.unread + n, chunk_in)
        if reader_first:
            self.emit(reader[0], "&bulkread", *reader[1:])
            self.emit(owner, "bulkwrite", place, n, chunk_out, self.next_pattern())
            self.emit(other, "join")
        else:
            self.emit(owner, "&bulkwrite", place, n, chunk_out, self.next_pattern())
            self.emit(reader[0], "bulkread", *reader[1:])
            self.emit(owner, "join")
        peer.unread = 0
        return "x" not in (owner, other) and "y" not in (owner, other)

    def step_flood(self, owner, place, other, there, chunk_out, chunk_in):
        own, peer = self.end(owner, place)
        if not self.may_pair(owner, place, other, there) or own.cork:
            return False
        if PARENT.get(owner) or PARENT.get(other):
            return False
        pattern = self.next_pattern()
        self.emit(owner, "flood", place, chunk_out, pattern)
        self.emit("*", "floodtell", SIDE[owner])
        if peer.unread:
            self.emit(other, "bulkread", there, peer.unread, chunk_in)
        self.emit(other, "drain", there, chunk_in, pattern)
        self.emit(owner, "settled", place, POLLOUT)
        peer.unread = 0
        peer.settled = True
        return True

    def step_blocked(self, owner, place, how, flags, n, writer, there, trigger, pieces):
        """A read or a poll of `owner` blocks in a thread until `writer` does something."""
        own, _ = self.end(owner, place)
        c = self.conn(owner, place)
        if not self.may_pair(writer, there, owner, place) or own.nonblock or own.fin or PARENT.get(owner):
            return False
        if self.conn(writer, there).ends[SIDE[writer]].cork or own.shut_wr:
            return False
        if not isinstance(how, int):
            if own.unread:
                return False
            self.settle(c, SIDE[owner], owner)
            self.emit(owner, "&await", place, AWAITS.index(how))
        else:
            if own.unread >= (n if flags & MSG_WAITALL else 1) or n == 0:
                return False
            if not flags & MSG_WAITALL:
                pieces = pieces[:1]
            self.settle(c, SIDE[owner], owner)
            self.emit(owner, "&read", place, how, flags, n)
        return self.unblock(c, owner, place, how, flags, n, writer, there, trigger, pieces)

    def unblock(self, c, owner, place, how, flags, n, writer, there, trigger, pieces):
        own = c.ends[SIDE[owner]]
        if trigger == "shutdown":
            self.emit(writer, "shutdown", there, SHUT_WR)
            self.shut(c, SIDE[writer], SHUT_WR)
        elif trigger == "own":
            self.emit(owner, "shutdown", place, SHUT_RD)
            own.shut_rd = True
        else:
            short = n - own.unread if isinstance(how, int) and flags & MSG_WAITALL else 1
            while sum(pieces) < short:
                pieces = pieces + [max(1, short - sum(pieces))]
            if sum(pieces) + own.unread > ROOM:
                return False
            for k in pieces:
                self.emit(writer, "write", there, 0, 0, self.next_pattern(), k)
            own.unread += sum(pieces)
            own.settled = False
        self.emit(owner, "join")
        if isinstance(how, int) and not flags & MSG_PEEK:
            own.unread -= min(n, own.unread)
        return True

    # waits

    def ahead(self, owner):
        """Is somewhere so much unread that OUT depends on the size of buffers?"""
        return any(c.ends[1 - SIDE[owner]].unread > AHEAD for c in self.conns.values())

    def step_poll(self, owner, _place, timeout, precise, entries):
        entries = self.asked(owner, entries)
        if not entries or timeout < 0 or self.ahead(owner):
            return False
        self.settle_all(owner)
        self.emit(owner, "poll", timeout, precise, *[v for e in entries for v in e])
        return True

    def step_select(self, owner, _place, timeout, precise, entries):
        entries = [(p, ev & 7) for p, ev in self.asked(owner, entries)]
        if not entries or self.ahead(owner):
            return False
        self.settle_all(owner)
        self.emit(owner, "select", timeout, precise, *[v for e in entries for v in e])
        return True

    def step_epcreate(self, owner, place):
        if place in self.tables[owner]:
            return False
        self.tables[owner][place] = Set()
        self.emit(owner, "epcreate", place)
        return True

    def step_epctl(self, owner, place, op, which, events):
        s = self.set(owner, place)
        if not s or which not in self.tables[owner] or (owner in PARENT and self.shared(owner, s)):
            return False
        if self.shared(owner, s) or s.watched:
            events &= ~EPOLLET
        inner = self.set(owner, which)
        if inner and op == EPOLL_CTL_ADD:
            if inner.edges:
                return False
            inner.watched = True
        s.edges = s.edges or bool(events & EPOLLET)
        if op == EPOLL_CTL_ADD and self.conn(owner, which):
            s.conns.add(self.conn(owner, which).number)
        self.settle_all(owner)
        self.emit(owner, "epctl", place, op, which, events)
        return True

    def step_epwait(self, owner, place, timeout, how):
        s = self.set(owner, place)
        if not s or self.ahead(owner) or (s.edges and self.shared(owner, s)):
            return False
        if any(self.error_shared(owner, p) and c.number in s.conns for p, c in self.conns_of(owner)):
            return False
        self.settle_all(owner)
        self.emit(owner, "epwait", place, max(timeout, 30) if self.resets else timeout, how)
        return True

    # ends and copies

    def shut(self, conn, side, how):
        own, peer = conn.ends[side], conn.ends[1 - side]
        if how != SHUT_WR:
            own.shut_rd = True
        if how != SHUT_RD and not own.shut_wr:
            own.shut_wr = True
            peer.fin = True
            peer.settled = False
        own.shut_over = own.shut_over or bool(own.shut_rd and own.shut_wr and own.unread)

    def step_shutdown(self, owner, place, how):
        c = self.conn(owner, place)
        if not c or (c.over() and not c.reset):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "shutdown", place, how)
        if not c.reset:
            self.shut(c, SIDE[owner], how)
        return True

    def gone(self, conn, side):
        """The last descriptor of that end was closed."""
        own, peer = conn.ends[side], conn.ends[1 - side]
        own.closed = True
        if conn.reset:
            return
        if own.urgent and not (own.linger0 and not (own.fin and own.shut_wr)):
            self.reset_by(conn, 1 - side, PERHAPS)
        elif own.unread or (own.linger0 and not (own.fin and own.shut_wr)):
            self.reset_by(conn, 1 - side)
        else:
            self.shut(conn, side, SHUT_WR)

    def forget(self, owner, place):
        obj = self.tables[owner].pop(place)
        if isinstance(obj, Conn) and not self.holder(obj, SIDE[owner]):
            self.gone(obj, SIDE[owner])

    def may_close(self, owner, place):
        c = self.conn(owner, place)
        if not c:
            return place in self.tables[owner]
        own, peer = c.ends[SIDE[owner]], c.ends[1 - SIDE[owner]]
        if own.urgent and peer.shut_rd:
            return False        # a reset or a FIN: the other end could not be seen to have been told
        # whether it is reset then would depend on what has arrived at the other end
        return not (own.unread and own.fin and own.shut_wr)

    def left_in_set(self, owner, place):
        """Its last number in this process goes, while a set of this process has it and a child too."""
        c = self.conn(owner, place)
        if not c or sum(obj is c for obj in self.tables[owner].values()) > 1:
            return False
        return (any(isinstance(s, Set) and c.number in s.conns for s in self.tables[owner].values()) and
                any(c in t.values() for o, t in self.tables.items() if o != owner and SIDE[o] == SIDE[owner]))

    def step_close(self, owner, place, how):
        if not self.may_close(owner, place) or self.left_in_set(owner, place):
            return False
        c = self.conn(owner, place)
        if c:
            self.settle(c, SIDE[owner], owner)
            self.settle(c, 1 - SIDE[owner])
        self.emit(owner, "close", place, how)
        self.forget(owner, place)
        return True

    def step_dup(self, owner, place, new, how):
        table = self.tables[owner]
        if place not in table or (new in table) != (how in ONTO) or (how in ONTO and new == place):
            return False
        if how >= 5 and isinstance(table[place], Conn) and table[place].reset:
            return False
        if how in ONTO and (not self.may_close(owner, new) or isinstance(table[new], Set) or
                         self.left_in_set(owner, new)):
            return False
        if how in ONTO:
            self.settle(table[new], SIDE[owner], owner)
            self.settle(table[new], 1 - SIDE[owner])
        self.emit(owner, "dup", place, new, how)
        obj = table[place]
        if how in ONTO:
            old = table[new]
            table[new] = obj
            if not self.holder(old, SIDE[owner]):
                self.gone(old, SIDE[owner])
        table[new] = obj
        return True

    def step_fork(self, owner, _place):
        child = {"s": "x", "c": "y"}.get(owner)
        if not child or child in self.tables or self.mode == "same":
            return False
        if any(c.reset and c.ends[SIDE[owner]].unread for _, c in self.conns_of(owner)):
            return False
        self.tables[child] = dict(self.tables[owner])
        self.emit(owner, "fork")
        return True

    def partner(self, owner):
        """The child of a parent, or the parent of a child."""
        return next((o for o in self.tables if o == PARENT.get(owner) or PARENT.get(o) == owner), None)

    def step_give(self, owner, place, new, cloexec):
        c, to = self.conn(owner, place), self.partner(owner)
        if not c or not to or new in self.tables[to] or c.reset:
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "give", place)
        self.emit(to, "take", new, cloexec)
        self.tables[to][new] = c
        return True

    def step_spawn(self, owner, place, how, n):
        """A process that has all the descriptors for a moment, and writes or reads by one."""
        own, peer = self.end(owner, place)
        c = self.conn(owner, place)
        if not c or c.reset:
            return False
        if how in (4, 6) and (own.shut_wr or peer.closed or peer.shut_rd or not self.may_write(c, owner, 6, at_once=True)):
            return False
        if how == 5 and (not 0 < n <= own.unread or own.urgent or own.lowat > 1):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "spawn", place, how, n if how == 5 else 0)
        if how in (4, 6):
            self.wrote(c, owner, 6)
        elif how == 5:
            own.unread -= n
        return True

    def step_exit(self, owner, _place, plainly):
        if owner not in PARENT:
            return False
        for place in list(self.tables[owner]):
            if not self.may_close(owner, place):
                return False
        self.settle_all(owner)
        for c in self.conns.values():
            self.settle(c, 1 - SIDE[owner])
        self.emit(owner, "exit", plainly)
        for place in list(self.tables[owner]):
            self.forget(owner, place)
        del self.tables[owner]
        return True

    # settings and questions

    def step_nonblock(self, owner, place, on, how):
        own, _ = self.end(owner, place)
        if not own:
            return False
        own.nonblock = bool(on)
        self.emit(owner, "nonblock", place, on, how)
        return True

    def step_setopt(self, owner, place, level, name, kind, a, b, effect):
        own, peer = self.end(owner, place)
        if not own:
            return False
        c = self.conn(owner, place)
        if effect == "inline" and (own.urgent or own.unread or not own.settled):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "setopt", place, level, name, kind, a, b)
        if effect == "linger":
            own.linger0 = a != 0 and b == 0
        elif effect == "timeout":
            own.timeout = a * 1000 + b // 1000
        elif effect == "lowat":
            own.lowat = max(a, 1)
        elif effect == "cork":
            own.cork = a != 0
        return peer is not None

    def step_getopt(self, owner, place, level, name, shown, length, steady):
        c = self.conn(owner, place)
        if not c or (not steady and (c.over() or c.ends[SIDE[owner]].shut_wr)):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "getopt", place, level, name, shown, length)
        return True

    def step_count(self, owner, place, which):
        c = self.conn(owner, place)
        if not c or (which == 1 and c.over()):
            return False
        self.settle(c, SIDE[owner], owner)
        self.settle(c, 1 - SIDE[owner])
        if which == 1:              # acks may be delayed, those of the warming up too
            self.emit(owner, "drained", place)
        self.emit(owner, "count", place, which)
        return True

    def step_names(self, owner, place, peer):
        c = self.conn(owner, place)
        if not c or (c.over() and not c.reset):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "names", place, peer)
        return True

    def step_odd(self, owner, place, which):
        c = self.conn(owner, place)
        own, _ = self.end(owner, place)
        if not c or (which <= 3 and (c.over() or own.shut_wr or own.fin)):
            return False
        self.settle(c, SIDE[owner], owner)
        self.emit(owner, "odd", place, which)
        return True

    # ----------------------------------------------------------------- end --

    def finish(self):
        """Lines that end a sequence: read what is left, then close everything."""
        self.lines = []
        for owner in sorted(self.tables):
            for place, c in sorted(self.tables[owner].items()):
                if isinstance(c, Conn) and not self.error_shared(owner, place):
                    self.settle(c, SIDE[owner], owner)
                    self.emit(owner, "read", place, 0, MSG_DONTWAIT, 2 * ROOM)
                    c.ends[SIDE[owner]].unread = 0
        for child in [o for o in self.tables if o in PARENT]:
            self.emit(child, "exit", 0)
            for place in list(self.tables[child]):
                self.forget(child, place)
            del self.tables[child]
        for owner in sorted(self.tables):
            for place in sorted(self.tables[owner]):
                c = self.conn(owner, place)
                if c and not self.error_shared(owner, place) and not self.end_open(c, SIDE[owner]):
                    self.settle(c, SIDE[owner], owner)
                    self.emit(owner, "read", place, 0, MSG_DONTWAIT, 10)
                self.emit(owner, "close", place, 0)
                self.forget(owner, place)
        return self.lines


def script(steps, mode):
    """The lines of a sequence, each with its step's number; steps that are not legal (any more) are left out."""
    model = Model(mode)
    lines = []
    for i, step in enumerate(steps):
        trial = model.after(step)
        if trial:
            model = trial
            lines += [(i, line) for line in model.lines]
    return lines + [(-1, line) for line in model.finish()]
