"""Alignment of two transcripts. Each call is written as a letter; a digit after it makes its answer
a different one."""

from __future__ import annotations

import re

import pytest

from episodes.transcript.comparison import Trace, align, first_divergence
from tests.rows import each


def traces(letters: str) -> list[Trace]:
    return [Trace(call, answer) for call, answer in re.findall(r"([a-z])(\d?)", letters)]


def aligned(left: str, right: str) -> list[str]:
    """Return each row as its two indexes and its verdict, such as `0-0 same`."""
    rows = align(traces(left), traces(right))
    return [
        f"{'' if row.left is None else row.left}-{'' if row.right is None else row.right} "
        f"{row.verdict}"
        for row in rows
    ]


@each(
    ("left", "right", "rows"),
    [
        ("", "", []),
        ("ab", "ab", ["0-0 same", "1-1 same"]),
        ("ab", "ab1", ["0-0 same", "1-1 answer"]),
        ("abc", "axc", ["0-0 same", "1-1 call", "2-2 same"]),
        ("abc", "ac", ["0-0 same", "1- left", "2-1 same"]),
        ("ac", "abc", ["0-0 same", "-1 right", "1-2 same"]),
        ("abz", "axyz", ["0-0 same", "1-1 call", "-2 right", "2-3 same"]),
        ("a", "", ["0- left"]),
        ("aaa", "aa", ["0-0 same", "1-1 same", "2- left"]),
    ],
)
def test_matching_steps_share_a_row(left: str, right: str, rows: list[str]) -> None:
    assert aligned(left, right) == rows


@pytest.mark.parametrize(
    ("left", "right"), [("abcabc", "cbacba"), ("aabbcc", "ccbbaa"), ("abcdefg", "xbydzfw")]
)
def test_rows_contain_every_step_once_and_in_order(left: str, right: str) -> None:
    rows = align(traces(left), traces(right))
    assert [row.left for row in rows if row.left is not None] == list(range(len(left)))
    assert [row.right for row in rows if row.right is not None] == list(range(len(right)))


@each(
    ("left", "right", "place"),
    [("ab", "ab1", None), ("abc", "axc", 1), ("ab", "abc", 2), ("", "", None)],
)
def test_the_first_divergence_is_the_first_different_call(
    left: str, right: str, place: int | None
) -> None:
    assert first_divergence(align(traces(left), traces(right))) == place
