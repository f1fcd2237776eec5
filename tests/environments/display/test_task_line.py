"""A task in one line."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest

from environments.display.task_line import MAX_SUMMARY_CHARACTERS, summary, summary_field
from tests.rows import each


@each(
    ("spec", "line"),
    [
        ({"id": "train-7", "question": "How many\n  pens?", "answer": 3}, "How many pens?"),
        ({"answer": "a very long answer", "Prompt": "Say it."}, "Say it."),
        ({"prompt": [{"role": "user", "content": "Be brief."}]}, "Be brief."),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}]}]}, "Look."),
        ({"task": {"goal": "Reach the exit."}}, "Reach the exit."),
        ({"question": 5, "hint": "what the number is"}, "what the number is"),
        ({"size": 5, "seed": 3, "walls": [1, 2]}, "size 5 · seed 3 · walls [1, 2]"),
        ({"id": "train-7"}, "id train-7"),
        ("just text", "just text"),
        ([1, 2], "1, 2"),
        (12, "12"),
        (None, "null"),
        ({}, "empty"),
        ({"question": "   "}, "question"),
        ({"question": "lone \ud800"}, "lone \\ud800"),
    ],
)
def test_it_tells_what_the_task_is(spec: Any, line: str) -> None:
    assert summary(json.dumps(spec)) == line


@each(
    ("text", "line"),
    [
        (
            "### Wrong result #19\n\nCalling `f` on a *nested*\n",
            "Wrong result #19 · Calling f on a nested",
        ),
        ("# Goal #\n", "Goal"),
        (
            "**Fix `a*b*c` in [the docs](https://x.org/a)**, ![logo](l.png)",
            "Fix a*b*c in the docs, logo",
        ),
        (
            "<!-- read\nthe guide -->\nTitle\n=====\n> quoted\n```python\nx = 1\n```",
            "Title quoted x = 1",
        ),
        ("Compute 3*4*5 * 2 * 1, __init__ and a_b_c", "Compute 3*4*5 * 2 * 1, __init__ and a_b_c"),
        ("#include <x.h>, f[i](j), *.py and *.md", "#include <x.h>, f[i](j), *.py and *.md"),
        ("`" * 40, "`" * 40),
    ],
)
def test_it_leaves_markdown_out(text: str, line: str) -> None:
    assert summary(json.dumps({"question": text})) == line


@pytest.mark.parametrize("part", ["`", "[", "*a", "# #", "<!--", "**a", "![a]("])
def test_a_hostile_text_takes_no_longer_than_another(part: str) -> None:
    hostile, plain = json.dumps({"question": part * 4_000}), json.dumps({"question": "ab" * 8_000})
    assert seconds(hostile) < 20 * seconds(plain) + 0.01


@each(
    ("spec", "line"),
    [
        ({"low": 1, "target": 7, "high": 9}, "low 1 · high 9"),
        ({"target": "the secret words"}, "no visible fields"),
        ({}, "no visible fields"),
        ([7], "7"),
    ],
)
def test_it_leaves_out_what_agents_must_not_see(spec: Any, line: str) -> None:
    assert summary(json.dumps(spec), "target", {"target"}) == line


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"hint": "to be read", "target": {"question": "secret"}, "pad": "x" * 9_000},
            "to be read",
        ),
        ({"target": {"question": "secret"}, "pad": "x" * 9_000}, f"pad {'x' * 59}…"),
        ({"target": {"question": "secret " * 9_000}}, "no visible fields"),
    ],
)
def test_it_leaves_out_what_is_hidden_of_a_spec_that_is_cut(spec: Any, line: str) -> None:
    assert summary(json.dumps(spec), "", {"target"}) == line


def test_it_prefers_the_field_that_the_schema_names() -> None:
    field = summary_field('{"type": "object", "x-summary": "level"}')
    assert summary('{"question": "Go.", "level": "The cellar"}', field) == "The cellar"


@each("schema", ["", "{}", "[]", '{"x-summary": 3}', "{no"])
def test_a_schema_may_name_no_field(schema: str) -> None:
    assert summary_field(schema) == ""


def test_it_is_one_line_of_bounded_length() -> None:
    line = summary(json.dumps({"question": "word " * 10_000}))
    assert len(line) <= MAX_SUMMARY_CHARACTERS and line.endswith("word…")


def test_it_reads_the_beginning_of_a_spec_that_was_cut() -> None:
    assert (
        summary('{"id": 1, "question": "How many \\"pens\\"?", "data": "aaaa') == 'How many "pens"?'
    )


@pytest.mark.parametrize("start", ["[", '{"q": [', '{"a": {"b": [', '{"q"  :  '])
def test_a_hostile_spec_that_was_cut_takes_no_longer_than_another(start: str) -> None:
    """Each escaped quotation mark was taken for the start of a string that has no end."""
    hostile, plain = f'{start}"' + '\\"' * 5_000, f'{start}"' + "ab" * 5_000
    assert seconds(hostile) < 20 * seconds(plain) + 0.01


def seconds(spec: str) -> float:
    """Return the least CPU time of three summaries."""
    times = [time.thread_time()]
    for _ in range(3):
        summary(spec)
        times.append(time.thread_time())
    return min(after - before for before, after in pairwise(times))


def test_it_survives_a_spec_that_is_nested_deeply() -> None:
    assert summary('{"task":' * 700 + "1" + "}" * 700)


def test_a_long_list_is_described_by_its_length() -> None:
    assert summary(json.dumps({"level": 2, "rows": ["#" * 13] * 11})) == "level 2 · rows 11 items"
