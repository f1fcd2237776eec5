"""Clients that a server would rather not have, from 127.0.0.2:
`python -m tests.hostile.nuisances KIND PORT`.

They go on until they are ended, at a bounded rate.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys

ADDRESS = ("127.0.0.2", 0)
GUESSERS, GUESSES_A_SECOND = 8, 200
SLOW_CLIENTS, SECONDS_A_BYTE = 500, 1.0
HEAD = (
    b"POST /create_session HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Length: "
    b"2\r\n\r\n{}"
)


async def guess_keys(port: int) -> None:
    numbers = itertools.count()
    await asyncio.gather(*(_guess(port, numbers) for _ in range(GUESSERS)))


async def _guess(port: int, numbers: itertools.count[int]) -> None:
    """Try one key after another over one connection, or another connection where the server closes
    it."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=ADDRESS)
            with contextlib.closing(writer):
                while True:
                    writer.write(HEAD % f"orsweb_{next(numbers):032}".encode())
                    await reader.readuntil(b"}")
                    await asyncio.sleep(GUESSERS / GUESSES_A_SECOND)
        await asyncio.sleep(GUESSERS / GUESSES_A_SECOND)


async def be_slow(port: int) -> None:
    await asyncio.gather(*(_dawdle(port, number) for number in range(SLOW_CLIENTS)))


async def _dawdle(port: int, number: int) -> None:
    """Send a request byte by byte, and start again when the server has lost its patience."""
    request = itertools.cycle(HEAD % b"x")
    await asyncio.sleep(number / SLOW_CLIENTS)
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=ADDRESS)
            with contextlib.closing(writer):
                while True:
                    writer.write(bytes([next(request)]))
                    await writer.drain()
                    await asyncio.sleep(SECONDS_A_BYTE)
        await asyncio.sleep(SECONDS_A_BYTE)


KINDS = {"guess_keys": guess_keys, "be_slow": be_slow}

if __name__ == "__main__":
    asyncio.run(KINDS[sys.argv[1]](int(sys.argv[2])))
