"""Reading: every format's rows, and why a row is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.environments.curation.transfer.files import Shelf, counts, served
from tests.rows import each

pytestmark = pytest.mark.django_db

REFUSED: list[tuple[str | bytes, str]] = [
    ('{"a": 1', "is not JSON: Expecting ',' delimiter at character 8"),
    ('{"a": {"b": 1, "b": 2}}', "has the key 'b' twice in one object; keep one of them"),
    (
        '{"a": 1, "_tag": []}',
        "has the column '_tag'; names that start with _ may only be _hash, _split, _tags, ",
    ),
    (
        '{"a": NaN}',
        "holds NaN, an infinity or a number beyond 1.8e308 in 'a'; write a finite number or null",
    ),
    (
        '{"a": 1e999}',
        "holds NaN, an infinity or a number beyond 1.8e308 in 'a'; write a finite number or null",
    ),
    ('{"a": ' + "9" * 5000 + "}", "cannot be read: a number in it has more than 4,300 digits"),
    ("[1]", "is a list, not an object; a task is a JSON object"),
    ("null", "is null, not an object; a task is a JSON object"),
    ('"hello"', 'is a text ("hello"), not an object; a task is a JSON object'),
    ('{"a": 1} {"a": 2}', "is not JSON: Extra data at character 10"),
    (b'{"a": "\xff"}', "is not UTF-8: byte 0xff at 8; save the file as UTF-8"),
    ("[" * 300 + "]" * 300, "is a list, not an object; a task is a JSON object"),
    ('{"a": ' + "[" * 300 + "]" * 300 + "}", "cannot be stored: nested more than 200 deep"),
    ("[" * 100_000, "is nested too deeply"),
    ('{"a": "' + "x" * (8 * 1024**2) + '"}', "is longer than 8 MiB, the limit for a task"),
    ('{"a": 1, "_tags": 7}', "_tags is 7; use a list of texts"),
    (
        '{"a": 1, "_tags": ["%s"]}' % ("x" * 61),
        "a tag may have 60 characters at most, without commas and control characters",
    ),
    ('{"a": 1, "_state": "gone"}', '_state is "gone"; use active or quarantined'),
    ('{"a": 1, "_state": "quarantined"}', "_state is quarantined without a _reason; say why"),
    (
        '{"a": 1, "_hash": "abc"}',
        '_hash is "abc"; it must have 64 hexadecimal digits, as in an export',
    ),
    (
        '{"a": 1, "_hash": "%s"}' % ("0" * 64),
        "_hash 00000000… is not a task of 'shop'; leave the column empty",
    ),
]


@each(("line", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_it_refuses_a_line_by_its_number_and_reason(
    shelf: Shelf, line: str | bytes, reason: str
) -> None:
    line = line if isinstance(line, bytes) else line.encode()
    report = shelf.dry_run(shelf.text(b'{"a": 1}\n\n' + line + b'\n{"a": 2}\n', "tasks.jsonl"))
    assert counts(report) == (2, 0, 0, 1)
    assert report.refusals[0].number == 3
    assert reason in report.refusals[0].reason


def test_it_refuses_what_does_not_fit_the_schema_with_its_path(shelf: Shelf) -> None:
    shelf.schema(
        properties={"tests": {"type": "array", "items": {"type": "integer"}}}, required=["tests"]
    )
    report = shelf.dry_run(shelf.lines({"tests": [1, "two"]}, {"tests": []}, {}))
    assert [refusal.number for refusal in report.refusals] == [1, 3]
    assert "$.tests[1]" in report.refusals[0].reason
    assert "'two' is not of type 'integer'" in report.refusals[0].reason


def test_it_names_the_position_of_invisible_characters(shelf: Shelf) -> None:
    shelf.schema(additionalProperties={"type": "integer"})
    [refusal] = shelf.dry_run(shelf.lines({"a\0\ud800": "x"})).refusals
    assert r"$.a\x00\ud800: 'x' is not of type 'integer'" in refusal.reason


def test_it_counts_all_refusals_and_keeps_the_first(shelf: Shelf) -> None:
    report = shelf.dry_run(shelf.lines(*["oops"] * 250))
    assert (report.refused, len(report.refusals), report.refusals[-1].number) == (250, 100, 100)


def test_a_byte_order_mark_and_windows_line_ends_are_nothing(shelf: Shelf) -> None:
    shelf.apply(shelf.text(b'\xef\xbb\xbf{"a": 1}\r\n{"a": 2}\r\n', "tasks.jsonl"))
    assert served() == [{"a": 1}, {"a": 2}]


def test_json_is_an_array_with_rows_refused_one_by_one(shelf: Shelf) -> None:
    report = shelf.dry_run(shelf.text('[{"a": 1}, 7, {"a": NaN}, {"a": 2}]', "tasks.json"))
    assert counts(report) == (2, 0, 0, 2)
    assert (report.unit, [refusal.number for refusal in report.refusals]) == ("row", [2, 3])


def test_a_key_that_is_repeated_refuses_its_row_of_an_array(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.curation.transfer.json_array.PIECE_BYTES", 3)
    report = shelf.dry_run(
        shelf.text('[{"a": [{"b": 1, "b": 2}], "c": "more"}, {"a": 2}]', "tasks.json")
    )
    assert (counts(report), report.refusals[0].number) == ((1, 0, 0, 1), 1)
    assert "has the key 'b' twice" in report.refusals[0].reason


def test_a_name_with_an_underscore_is_content_if_the_schema_declares_it(shelf: Shelf) -> None:
    shelf.schema(properties={"_seed": {"type": "integer"}})
    path = shelf.lines({"_seed": 1})
    shelf.apply(path, after=shelf.dry_run(path))
    shelf.apply(shelf.text("_seed\n2\n", "tasks.csv"))
    assert served() == [{"_seed": 1}, {"_seed": 2}]


def test_a_json_array_is_read_in_pieces_wherever_they_end(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.curation.transfer.json_array.PIECE_BYTES", 3)
    specs = [
        {"n": n, "text": 'é€😀 "quoted" \\ ' * (n % 7), "list": [n, -0.5, None]} for n in range(40)
    ]
    shelf.apply(shelf.text(json.dumps(specs, ensure_ascii=False, indent=1), "tasks.json"))
    assert served() == specs


CSV: list[tuple[str, list[Any]]] = [
    ("name,n\napple,1\npear,2\n", [{"name": "apple", "n": 1}, {"name": "pear", "n": 2}]),
    ("zip\n007\n12\n", [{"zip": "007"}, {"zip": "12"}]),
    ('a,b\n"x, y\nz",\n', [{"a": "x, y\nz"}]),
    ('a,b\n"[1, {""x"": null}]",true\n', [{"a": [1, {"x": None}], "b": True}]),
    ('a,b\n"""12""",x\n', [{"a": "12", "b": "x"}]),
    ("a\nNaN\n", [{"a": "NaN"}]),
    ('a,_tags\n1,"hard, long"\n', [{"a": 1}]),
]


@pytest.mark.parametrize(("text", "specs"), CSV)
def test_csv_cells_become_values(shelf: Shelf, text: str, specs: list[Any]) -> None:
    shelf.apply(shelf.text(text, "tasks.csv"))
    assert served() == specs


def test_csv_is_typed_by_the_schema(shelf: Shelf) -> None:
    optional = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    shelf.schema(properties={"zip": {"type": "string"}, "n": {"type": "integer"}, "note": optional})
    shelf.apply(shelf.text("zip,n,note\n12,3,null\n13,4,15\n", "tasks.csv"))
    assert served() == [{"zip": "12", "n": 3, "note": None}, {"zip": "13", "n": 4, "note": "15"}]


CSV_REFUSED = [
    ("n\nseven\n", "column 'n' has 'seven', which is not JSON"),
    ("n\n1.5\n", "does not fit the task schema: $.n: 1.5 is not of type 'integer'"),
    ("n\n1,2\n", "has 2 cells, but the header has 1"),
    ("n\none\rtwo\n", "is not CSV: a cell with a line break must be in quotes"),
    ('n\n"1"2\n', "is not CSV: ',' expected after '\"'"),
    ("n,_state\n1,gone\n", '_state is "gone"; use active or quarantined'),
]


@each(("text", "reason"), CSV_REFUSED)
def test_it_refuses_a_csv_row_by_its_line(shelf: Shelf, text: str, reason: str) -> None:
    shelf.schema(properties={"n": {"type": "integer"}})
    [refusal] = shelf.dry_run(shelf.text(text, "tasks.csv")).refusals
    assert refusal.number == 2
    assert reason in refusal.reason


def test_csv_that_is_not_utf_8_is_refused_by_row(shelf: Shelf) -> None:
    [refusal] = shelf.dry_run(shelf.text("a\nbon\nété\n".encode("latin-1"), "tasks.csv")).refusals
    assert (refusal.number, refusal.reason) == (3, "is not UTF-8; save the file as UTF-8")
