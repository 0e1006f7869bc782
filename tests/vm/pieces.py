# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A dialogue of pieces over one connection, for the scripts of cases/."""
import time


def take(c, piece):
    """One piece; False at the end of the stream."""
    n = 0
    while n < len(piece):
        got = len(c.recv(len(piece) - n))
        if not got:
            return False
        n += got
    return True


def echo(c, piece):
    while take(c, piece):
        c.sendall(piece)
    c.close()


def speak(c, piece, seconds):
    """False: the stream ended early."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        c.sendall(piece)
        if not take(c, piece):
            return False
    c.close()
    return True
