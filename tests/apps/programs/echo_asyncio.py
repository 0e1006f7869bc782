# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""echo_asyncio.py serve|call PORT N: an echo by asyncio's streams, N connections at once."""
import asyncio
import random
import sys

ROUNDS = 300


async def serve(port, n):
    left = asyncio.Semaphore(0)

    async def one(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
        left.release()

    server = await asyncio.start_server(one, "127.0.0.1", port)
    for _ in range(n):
        await left.acquire()
    server.close()


async def talk(port, seed):
    rng = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for i in range(ROUNDS):
        block = rng.randbytes(1 + rng.randrange(20000))
        writer.write(block)
        if await reader.readexactly(len(block)) != block:
            sys.exit("round %d: other bytes came back" % i)
    writer.write_eof()
    if await reader.read():
        sys.exit("more bytes")
    writer.close()


async def call(port, n):
    await asyncio.gather(*(talk(port, i) for i in range(n)))


asyncio.run({"serve": serve, "call": call}[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3])))
