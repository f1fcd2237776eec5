"""Tests of how a result is split: clients that strip, split or decode it piece by piece must get it
unchanged."""

from __future__ import annotations

import json
import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from environments import wire
from environments.agents.ors import sse
from environments.agents.ors.sse import MAX_PIECE_CHARACTERS, event, events, pieces, whole_response
from environments.runtime.call_outcome import CallResult
from environments.runtime.call_table import Call
from environments.runtime.crash_notes import CrashNotes
from tests.rows import each

EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "8"))
EDGES = [" ", "\\", '"', "\n", "\ud800", "\u2028", "\u0020", "data: ", "\n\nevent: end\ndata: "]
"""Characters and texts at which a cut, a strip or an escape could go wrong."""
TEXTS = [
    "",
    "x" * 20_000,
    " " * 20_000,
    "word " * 5000,
    "\t\n\r\u2028\u0085\u00a0" * 3000,
    "\\" * 9000,
    '"' * 9000,
    "é☃😀\ud800" * 3000,
    "a" * (MAX_PIECE_CHARACTERS - 30) + " " * 300 + "b" * MAX_PIECE_CHARACTERS,
    "\\u0020" * 3000,
]


def as_result(text: str) -> str:
    output = wire.ToolOutput(blocks=[wire.TextBlock(text=text)])
    return '{"ok":true,"output":' + wire.model_json(output) + "}"


@each("text", TEXTS, ids=range(len(TEXTS)))
def test_pieces_are_short_and_neither_begin_nor_end_with_a_blank(text: str) -> None:
    for piece in pieces(as_result(text)):
        assert (
            0 < len(piece) <= MAX_PIECE_CHARACTERS
            and piece == piece.strip()
            and piece.isascii()
            and "\n" not in piece
        )


@each("text", TEXTS, ids=range(len(TEXTS)))
def test_pieces_make_the_same_json(text: str) -> None:
    assert json.loads("".join(pieces(as_result(text)))) == json.loads(as_result(text))


@each("seed", range(20))
def test_any_mixture_survives(seed: int) -> None:
    dice = random.Random(seed)
    text = "".join(
        dice.choice(["a", " ", "  ", "\\", '"', "\n", "é", " " * 300, "b" * 200])
        for _ in range(2000)
    )
    cut = pieces(as_result(text))
    assert json.loads("".join(cut))["output"]["blocks"][0]["text"] == text
    assert all(len(piece) <= MAX_PIECE_CHARACTERS and piece == piece.strip() for piece in cut)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # which measures how busy the machine is
)
@given(
    runs=st.lists(
        st.tuples(st.text(min_size=1, max_size=4) | st.sampled_from(EDGES), st.integers(1, 3000)),
        max_size=8,
    )
)
def test_clients_that_strip_lines_read_every_result(runs: list[tuple[str, int]]) -> None:
    """Both SDK clients strip the white space of every data line before they join the pieces."""
    text = as_result("".join(part * times for part, times in runs))
    encoded = b"".join(events(CallResult("end", text)))
    data = [
        line.removeprefix("data:").strip()
        for line in encoded.decode().splitlines()
        if line.startswith("data:")
    ]
    assert json.loads("".join(data)) == json.loads(text)
    assert all(0 < len(one) <= MAX_PIECE_CHARACTERS for one in data)


@pytest.mark.parametrize("length", [MAX_PIECE_CHARACTERS, MAX_PIECE_CHARACTERS + 1])
def test_up_to_the_limit_it_is_one_event(length: int) -> None:
    assert len(events(CallResult("end", "x" * length))) == (
        1 if length == MAX_PIECE_CHARACTERS else 2
    )


@each("count", [1, 2, 3, 4, 5, 6, 7])
def test_events_that_are_sent_together_are_the_same(count: int) -> None:
    result = CallResult("end", "x" * (MAX_PIECE_CHARACTERS - 6) * count)
    alone, together = events(result), events(result, 3)
    assert b"".join(together) == b"".join(alone)
    assert [group.count(b"data: ") for group in together] == [3] * (len(alone) // 3) + [
        len(alone) % 3
    ] * (len(alone) % 3 > 0)


def test_the_bytes_of_a_short_result() -> None:
    call = Call("0123", "echo", {})
    call.finish(CallResult("end", '{"ok":true}'))
    assert (
        whole_response(call).body
        == b'event: task_id\ndata: 0123\n\nevent: end\ndata: {"ok":true}\n\n'
    )


def test_an_error_of_several_lines_has_a_line_each() -> None:
    [message] = events(CallResult("error", "one\r\ntwo\rthree\u2028four\x0bfive"))
    assert message == b"event: error\ndata: one\ndata: two\ndata: three\ndata: four\ndata: five\n\n"


def test_an_error_may_hold_any_character() -> None:
    assert event("error", "é \ud800").decode() == "event: error\ndata: é ?\n\n"


async def test_a_result_is_noted_as_not_sent_until_its_last_event_is_written() -> None:
    call = Call("id", "count", {})
    call.note = CrashNotes().note(1, "counter", "count")
    call.note.is_kept = True
    stream = sse.stream(call, 60, lambda: False, lambda: None)
    await anext(stream)
    call.finish(CallResult("end", as_result("1")))
    assert call.note is not None
    assert b"event: end" in await anext(stream)
    assert call.note is None
