"""The HTTP client of the benchmarks, which must notice every wrong answer of a broken server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from benchmarks.agents import session_id
from benchmarks.client import Answer, Connection, Script, Tally, is_complete

Answers = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length:0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
)
def test_it_knows_a_whole_answer(answer: bytes) -> None:
    assert is_complete(answer)
    assert not any(is_complete(answer[:length]) for length in range(len(answer)))


def test_it_takes_the_session_id_from_the_stream() -> None:
    assert (
        session_id(
            b"HTTP/1.1 200 OK\r\n\r\nevent: task_id\r\ndata: abc-1\r\n\r\nevent: "
            b"end\r\ndata: \r\n\r\n"
        )
        == b"abc-1"
    )


def test_it_has_no_session_id_without_the_event() -> None:
    assert session_id(b"HTTP/1.1 500 Oops\r\n\r\n") == b""


async def test_it_counts_another_status_as_an_error() -> None:
    tally = Tally(is_measuring=True)
    async with served(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n") as port:
        await played(_ask(2), tally, port)
    assert (tally.errors, tally.answered) == (2, 2)
    assert "404" in tally.first_error


async def test_it_counts_a_connection_that_the_server_closes_as_an_error() -> None:
    tally = Tally()
    async with served(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", closes=True) as port:
        await played(_ask(1), tally, port)
    assert tally.errors == 1


async def test_it_counts_nothing_while_it_warms_up() -> None:
    tally = Tally()
    async with served(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") as port:
        await played(_ask(3), tally, port)
    assert (tally.errors, tally.answered) == (0, 0)


async def test_it_tells_the_script_each_answer() -> None:
    heard: list[Answer] = []
    async with served(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi") as port:
        await played(_ask(2, heard), Tally(), port)
    assert [answer[-2:] for answer, _ in heard] == [b"hi", b"hi"]
    assert all(0 < seconds < 5 for _, seconds in heard)


def _ask(times: int, heard: list[Answer] | None = None) -> Script:
    for _ in range(times):
        answer = yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        if heard is not None:
            heard.append(answer)


@asynccontextmanager
async def served(answer: bytes, *, closes: bool = False) -> AsyncIterator[int]:
    """Yield the port of a server that answers every request with these bytes."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            writer.write(answer)
            if closes:
                break
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def played(script: Script, tally: Tally, port: int) -> None:
    connection = Connection(script, tally)
    await asyncio.get_running_loop().create_connection(lambda: connection, "127.0.0.1", port)
    await asyncio.wait_for(connection.ended.wait(), 60)
