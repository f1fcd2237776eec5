"""Exporting: every format gives back what went in, and people's words with it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from environments.curation.transfer.exporting import exported
from environments.curation.transfer.source import FORMATS, Format
from environments.files.cells import FORMULA_STARTS
from environments.files.rows import TransferError
from environments.models import Environment, Split, Task
from tests.environments.curation.transfer.files import Shelf, counts, served
from tests.environments.listings import listing, synced
from tests.filters import select

pytestmark = pytest.mark.django_db

ODD: list[dict[str, Any]] = [
    {"text": "plain", "n": 1, "x": 0.5, "yes": True},
    {"text": "", "n": -(2**63), "x": 1e20, "yes": False},
    {"text": "é€😀 ‏\u2028 \t", "n": 2**63, "x": -0.0},
    {"text": ' "quoted", \\ with\nlines\r\n', "one": "a\rb", "n": 10**30, "x": 5e-324},
    {"text": "12", "n": 0, "mixed": 12},
    {"text": '"12"', "mixed": "12"},
    {"text": "null", "mixed": None},
    {"text": "NaN", "mixed": {"a": [1, {"b": None}], "": "😀"}},
    {"text": "[1]", "mixed": []},
    {"text": "NUL \0, half \ud800", "mixed": {"\0": ["\udc00"]}},
    {"mixed": ""},
    {"number": 1.0},
    {"number": 2.5},
    {"x": 1, "null": None},
    {},
    {"_x": 1, "__y": {"_z": 2}, "_": 3, "____": 4, "x_": 5},
    {"_hash": "mine", "_tags": 3, "__state": {"_reason": 1}},
    {'ключ, "quoted"\nkey ': " leading", "order": {"z": 1, "a": 2}},
]
LABELS = {"_tags": ["hard", "long"], "_state": "quarantined", "_reason": 'says, "why"\n'}


def filled(shelf: Shelf) -> None:
    """Fill the odd tasks, the last but one with labels, as rows of a file would."""
    rows = [
        {key.replace("_", "__", 1) if key[0] == "_" else key: item for key, item in spec.items()}
        for spec in ODD[:-2]
    ]
    mine = {"__hash": "mine", "__tags": 3, "___state": {"_reason": 1}, **LABELS}
    shelf.apply(shelf.lines(*rows, mine, ODD[-1]))


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_exported_is_imported_as_duplicates(shelf: Shelf, format: Format) -> None:
    filled(shelf)
    assert counts(shelf.dry_run(shelf.export(format))) == (0, 0, len(ODD), 0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("format", FORMATS)
def test_what_a_class_lists_is_imported_as_duplicates(shelf: Shelf, format: Format) -> None:
    asyncio.run(synced(listing({"train": ODD})))
    assert counts(shelf.dry_run(shelf.export(format))) == (0, 0, len(ODD), 0)


@pytest.mark.parametrize("format", FORMATS)
def test_another_environment_gets_the_same_tasks_from_it(shelf: Shelf, format: Format) -> None:
    filled(shelf)
    hashes = set(Task.objects.values_list("content_hash", flat=True))
    path = shelf.export(format)
    shelf.environment = Environment.objects.create(name="other", class_path="other:Other")
    assert counts(shelf.apply(path, "copy")) == (len(ODD), 0, 0, 0)
    assert set(shelf.environment.tasks.values_list("content_hash", flat=True)) == hashes
    [bad] = shelf.environment.tasks.filter(state="quarantined")
    assert (bad.reason, [tag.name for tag in bad.tags.all()]) == (
        LABELS["_reason"],
        LABELS["_tags"],
    )
    assert served("copy") == [spec for spec in ODD if spec is not ODD[-2]]


@pytest.mark.parametrize("format", FORMATS)
def test_specs_alone_are_exported_too(shelf: Shelf, format: Format) -> None:
    shelf.apply(shelf.lines({"name": "apple", "_tags": ["red"]}))
    assert b"_" not in b"".join(
        exported(select(split=Split.objects.get().pk), format, has_labels=False)
    )


@pytest.mark.parametrize("format", FORMATS)
def test_declared_keys_with_underscores_stay_as_they_are(shelf: Shelf, format: Format) -> None:
    specs = [{"_x": 1, "_y": 2}, {"_x": 3, "__x": 4}]
    shelf.apply(shelf.lines({"__x": 1, "__y": 2}, {"__x": 3, "___x": 4}))
    shelf.schema(properties={"_x": {"type": "integer"}})
    assert served() == specs
    assert counts(shelf.dry_run(shelf.export(format))) == (0, 0, 2, 0)


def test_jsonl_is_the_exact_text_and_the_reserved_columns(shelf: Shelf) -> None:
    shelf.apply(shelf.lines({"name": "apple", "_tags": ["red"]}))
    Task.objects.update(spec='{ "name" : "apple" , "n":1e20 }')
    digest = Task.objects.get().content_hash
    labels = f'"_hash": "{digest}", "_split": "train", "_tags": ["red"], "_state": "active"'
    assert shelf.export("jsonl").read_text() == f'{{"name" : "apple" , "n":1e20, {labels}}}\n'


def test_csv_is_what_people_expect(shelf: Shelf) -> None:
    rows = [
        {"name": "apple", "n": 1, "list": ["a"]},
        {"name": "pear, green", "n": 2},
        {"name": "12"},
    ]
    shelf.apply(shelf.lines(*rows))
    lines = (
        b"".join(exported(select(split=Split.objects.get().pk), "csv", has_labels=False))
        .decode()
        .splitlines()
    )
    assert lines == ["name,n,list", 'apple,1,"[""a""]"', '"pear, green",2,', '"""12""",,']


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\uff1d"])
def test_csv_has_no_formulas_and_is_read_back(shelf: Shelf, start: str) -> None:
    rows = [{"name": f"{start}cmd|'/C calc'!A0", "n": -5}, {"name": "apple", "n": 3}]
    shelf.apply(shelf.lines(*rows))
    path = shelf.export("csv")
    cells = [cell for row in csv.reader(path.open(encoding="utf-8", newline="")) for cell in row]
    assert [cell for cell in cells if cell.startswith(FORMULA_STARTS)] == ["-5"]
    assert counts(shelf.dry_run(path)) == (0, 0, 2, 0)


def test_csv_has_no_formula_in_its_header(shelf: Shelf) -> None:
    shelf.apply(shelf.lines({"=1+1": "x"}))
    with pytest.raises(
        TransferError, match="A key '=1\\+1' would be a formula in a spreadsheet; export as jsonl"
    ):
        shelf.export("csv")


def test_parquet_has_types(shelf: Shelf) -> None:
    shelf.apply(shelf.lines({"name": "apple", "n": 1, "x": 0.5, "yes": True, "list": [1]}))
    types = {field.name: str(field.type) for field in pq.read_schema(shelf.export("parquet"))}
    assert types == {
        "name": "string",
        "n": "int64",
        "x": "double",
        "yes": "bool",
        "list": "string",
    } | dict.fromkeys(["_hash", "_split", "_tags", "_state"], "string")


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_of_nothing_is_a_whole_file(shelf: Shelf, format: Format) -> None:
    content = b"".join(exported(select(environment=shelf.environment.pk), format))
    if format == "parquet":
        assert pq.read_table(io.BytesIO(content)).num_rows == 0
    else:
        assert content == {"jsonl": b"", "json": b"[\n\n]\n", "csv": b"\n"}[format]


def test_a_selection_is_exported_with_the_split_in_which_each_task_is(shelf: Shelf) -> None:
    shelf.apply(shelf.lines({"n": 1, "_tags": ["a"]}), "train")
    shelf.apply(shelf.lines({"n": 1}, {"n": 2, "_tags": ["a"]}, {"n": 3}), "test")
    content = b"".join(exported(select(environment=shelf.environment.pk, tag="a"), "jsonl"))
    rows = [json.loads(line) for line in content.splitlines()]
    assert [(row["n"], row["_split"]) for row in rows] == [(1, "train"), (2, "test")]


def test_keys_that_no_table_can_name_are_reported(shelf: Shelf, tmp_path: Path) -> None:
    shelf.apply(shelf.lines({"": 1}))
    with pytest.raises(
        Exception,
        match=r"A key '' cannot be the name of a column; export as jsonl "
        r"or json\.",
    ):
        shelf.export("csv")
