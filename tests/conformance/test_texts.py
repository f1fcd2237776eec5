"""Texts of 1 KB to 1 MB reach every reader unchanged, and the record: both SDK clients and httpx's
`iter_lines`.

The readers strip or split at white space of many kinds at the edges of a data line, so the texts
consist of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence

import httpx
import pytest

from tests.conformance.agent import Agent
from tests.conformance.clients import Client
from tests.conformance.record import Recorded
from tests.server import LiveServer

STRIPPED = "\t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2028\u2029\u202f\u205f\u3000\ufeff"
WORDS = ["the", "valve", "is", "stuck", "größe", "détente", "判断", "\t", "\n", "\r\n", "  "]


def mixed(parts: Sequence[str], size: int, joint: str = " ") -> str:
    """Return about `size` characters made of `parts`, in an order that is the same in every run."""
    chosen = random.Random(size).choices(parts, k=size // 4)
    return joint.join(chosen)[:size]


TEXTS = {
    "words": mixed(WORDS, 20_000),
    "words, 1 MB": mixed(WORDS, 1_000_000),
    "tabs": mixed(["\t", "a", "\t\t\t"], 20_000, ""),
    "line ends": mixed(["\n", "\r", "\r\n", "x", " "], 20_000, ""),
    "blanks": " " * 10_000,
    "runs of blanks": (" " * 10_000 + "word") * 3 + " " * 9_999,
    "separators": mixed(["\u2028", "\u2029", "\x85", "x"], 8_000, ""),
    "separators, short": "a\u2028b\u2029c\x85d\x1ee",
    "no-break spaces": mixed(["\xa0", "a", " "], 20_000, ""),
    "all that is stripped": mixed([*STRIPPED, " ", "z"], 20_000, ""),
    "emoji": mixed(["🙂", "👩‍🚀", " ", "ok"], 20_000, ""),
    "lone surrogates": mixed(["\ud800 ", "\udfff", "🙂", " "], 20_000, ""),
    "escapes": mixed(['"', "\\", "\\u0020", "\x00", "\x1b", " ", "/"], 20_000, ""),
    "event fields": mixed(["data: ", "event: end", "\n\n", ": ping", "\r\r"], 20_000, ""),
}
by_name = pytest.mark.parametrize("name", list(TEXTS))


@by_name
def test_it_reaches_the_sdk_clients_unchanged(client: Client, record: Recorded, name: str) -> None:
    with client.environment("echo").session(split="train", index=0) as session:
        assert session.call_tool("echo", {"text": TEXTS[name]}).blocks[0].text == TEXTS[name]
    (step,) = record.steps(session.sid)
    assert json.loads(step.input_json) == {"text": TEXTS[name]}
    assert step.blocks[0]["text"] == TEXTS[name]


@by_name
def test_it_reaches_httpx_lines_unchanged(server: LiveServer, name: str) -> None:
    with Agent(server).open({"id": 1}) as agent:
        body = json.dumps({"name": "echo", "input": {"text": TEXTS[name]}})
        headers = {"X-Session-ID": agent.sid, "Content-Type": "application/json"}
        with agent.http.stream("POST", "/call", content=body, headers=headers) as response:
            result = json.loads(_result(response))
    assert result["output"]["blocks"][0]["text"] == TEXTS[name]


def test_it_sends_lines_of_at_most_4096_characters_of_data(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}) as agent:
        answer = agent.call("echo", {"text": TEXTS["words"]})
    pieces = [data for name, data in answer.events if name in ("chunk", "end")]
    assert len(pieces) > 4
    assert max(map(len, pieces)) <= 4096
    assert answer.raw.isascii()


def _result(response: httpx.Response) -> str:
    """Read a stream as the public guide for clients does."""
    pieces: list[str] = []
    event = ""
    lines: Iterable[str] = response.iter_lines()
    for line in lines:
        field, _, value = line.partition(":")
        if field == "event":
            event = value.strip()
        elif field == "data" and event in ("chunk", "end"):
            pieces.append(value.strip())
    return "".join(pieces)
