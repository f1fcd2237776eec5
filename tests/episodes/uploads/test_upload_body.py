"""Large bodies are read like small ones, and let other threads run meanwhile."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from episodes.uploads import upload_body
from episodes.uploads.upload_body import MAX_WHOLE_BYTES, BadUpload, events_in
from tests.rows import each

LARGE = " " * MAX_WHOLE_BYTES


def read(body: str) -> list[Any] | str:
    try:
        return list(events_in(body.encode()))
    except BadUpload as error:
        return str(error)[:20]


@each(
    "body",
    [
        *(
            "",
            "[]",
            "{",
            "{}",
            "{,}",
            '{"events"}',
            '{"events": {}}',
            '{"events": [1,]}',
            '{"events": [1 2]}',
            "nul",
        ),
        *(
            '{"events": []}',
            '{"events": []}}',
            '{"events": [] "a": 1}',
            "{1: 2}",
            '{"events": [1]',
            '{"events": [',
        ),
        ' {"a" : [1], "events":[ {"b": "\\ud800"} ,2\n, NaN, [[]]],\t"c":null } ',
        '{"events": ' + "[" * 150 + "]" * 150 + "}",
        '{"events": ' + "[" * 250 + "]" * 250 + "}",
        '{"events": ' + "[" * 100_000,
        '{"events": ["a\nb"]}',
        '{"events": [{"a": 1, "a": 2}]}',
        '{"events": [], "events": []}',
        '{"a": 1, "a": 2, "events": []}',
    ],
)
def test_a_large_body_is_read_like_a_small_one(body: str) -> None:
    small, large = read(body), read(body + LARGE)
    assert repr(large) == repr(small)


def test_values_that_are_nested_too_deeply_are_named() -> None:
    assert read('{"events": ' + "[" * 100_000) == "The body cannot be read as JSON"[:20]


@each("body", ['{"events": [{"a": {"b": 1, "b": 2}}]}', '{"b": 1, "b": 2, "events": []}'])
@each("rest", ["", LARGE])
def test_a_key_that_stands_twice_is_refused_by_its_name(body: str, rest: str) -> None:
    with pytest.raises(BadUpload, match="has the key 'b' twice in one object"):
        list(events_in((body + rest).encode()))


def test_other_threads_run_while_a_large_body_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_body, "PAUSE_SECONDS", 0.005)
    is_over, turns = threading.Event(), 0
    body = json.dumps({"events": ["x" * 1000] * 3000}).encode()

    def take_turns() -> None:
        nonlocal turns
        while not is_over.wait(0.0001):
            turns += 1

    other = threading.Thread(target=take_turns)
    other.start()
    assert sum(1 for _ in events_in(body)) == 3000
    is_over.set()
    other.join()
    assert turns > 30  # of 45 pauses
