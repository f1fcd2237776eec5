"""Diffs of specs, as a person reads them."""

from __future__ import annotations

import json

from environments.display.line_diff import MAX_COMPARED, MAX_LINES, diff


def shown(before: str, after: str) -> list[str]:
    return [line.sign + line.text for line in diff(before, after)]


def test_it_shows_the_member_that_changed() -> None:
    assert shown('{"a": 1, "b": 2}', '{"a": 1, "b": 3}') == [
        " {",
        '   "a": 1,',
        '−  "b": 2',  # noqa: RUF001
        '+  "b": 3',
        " }",
    ]


def test_it_marks_the_words_that_changed() -> None:
    gone, new = (
        line
        for line in diff('{"q": "A pipe adds 27 litres."}', '{"q": "A pipe adds 30 litres now."}')
        if line.sign in "\N{MINUS SIGN}+"
    )
    assert [text for text, is_changed in gone.words if is_changed] == ["27"]
    assert [text for text, is_changed in new.words if is_changed] == ["30", " now"]
    assert "".join(text for text, _ in new.words) == new.text
    assert not any(line.words for line in diff('{"q": "one thing"}', '["else", 1]'))


def test_how_json_is_written_is_no_difference() -> None:
    assert diff('{"a":1e3}', '{ "a" : 1000.0 }') == []


def test_far_lines_are_folded() -> None:
    before = {f"n{n}": n for n in range(100)}
    lines = diff(json.dumps(before), json.dumps({**before, "n50": 0}))
    assert [line.text for line in lines if line.kind == "skip"] == [
        "48 lines as before",
        "47 lines as before",
    ]
    assert len(lines) == 10


def test_a_text_of_several_lines_is_compared_by_its_lines() -> None:
    lines = shown(json.dumps({"q": "one\ntwo\nthree"}), json.dumps({"q": "one\n2\nthree"}))
    assert "−    two\\n" in lines and '   "q": "one\\n' in lines  # noqa: RUF001


def test_a_backslash_before_an_n_is_no_line_break() -> None:
    assert "\\\\n" in shown(json.dumps({"q": "C:\\new"}), json.dumps({"q": "C:\\old"}))[1]


def test_text_that_is_no_json_is_compared_as_it_is() -> None:
    assert shown("one", "two") == ["−one", "+two"]  # noqa: RUF001


def test_a_huge_change_is_cut() -> None:
    before, after = (
        json.dumps([start + n for n in range(3 * MAX_COMPARED)]) for start in (0, 10**6)
    )
    lines = diff(before, after)
    assert len(lines) == MAX_LINES + 1 and lines[-1].text.endswith("more lines")
