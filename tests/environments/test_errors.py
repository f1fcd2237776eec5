"""Error messages contain the refused value, the allowed ones, and the fix."""

import pytest

from environments.errors import (
    EnvironmentFault,
    InvalidIndex,
    InvalidSplit,
    OrsError,
    OtherEnvironment,
    UnknownEnvironment,
    shorten,
)
from tests.rows import each


@each(
    ("error", "text"),
    [
        (
            UnknownEnvironment("Mth", ["math", "guess"]),
            "'Mth'; this server hosts 'math', 'guess'; did you mean 'math'?",
        ),
        (
            UnknownEnvironment("zzz", ["math"]),
            "unknown environment 'zzz'; this server hosts 'math'",
        ),
        (
            InvalidSplit("dev", "math", ["train", "test"]),
            "Invalid split 'dev': 'math' has 'train', 'test'",
        ),
        (InvalidSplit("dev", "math", []), "Invalid split 'dev': 'math' has nothing"),
        (
            InvalidIndex(9, "train", 3),
            "Invalid index 9: split 'train' has 3 tasks, so -3 to 2 are valid",
        ),
        (InvalidIndex(0, "train", 0), "Invalid index 0: split 'train' has no tasks"),
        (InvalidIndex(9, "train"), "Invalid index 9"),
        (
            OtherEnvironment("math", "guess"),
            "This session plays 'guess', but the path names 'math'; use /guess/",
        ),
        (EnvironmentFault("ValueError", "bad"), "ValueError: bad"),
        (EnvironmentFault("ValueError", ""), "ValueError"),
    ],
)
def test_it_says_what_was_refused_and_what_is_legal(error: OrsError, text: str) -> None:
    assert text in str(error)


def test_it_lists_twenty_names_at_most() -> None:
    text = str(UnknownEnvironment("zzz", [f"e{n}" for n in range(100)]))
    assert "'e19' and 80 more" in text and "'e20'" not in text


def test_it_shortens_an_endless_index() -> None:
    assert len(str(InvalidIndex(10**4000, "train", 3))) < 150


@pytest.mark.parametrize(("text", "short"), [("abc", "abc"), ("abcd", "ab…"), ("", "")])
def test_it_marks_where_it_cut(text: str, short: str) -> None:
    assert shorten(text, 3) == short
