"""Files that are not what they should be: one clear sentence about the whole of it."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from environments.curation.transfer import parquet, parquet_process
from environments.curation.transfer.source import FileSource
from environments.files.rows import TransferError, Unreadable
from environments.models import Split
from environments.tasks.stored_spec import TOO_LONG
from tests.environments.curation.transfer.files import Shelf, served
from tests.rows import each

pytestmark = pytest.mark.django_db

WRONG: list[tuple[str, bytes, str]] = [
    ("a.jsonl", b"", "a.jsonl is empty. A file must hold at least one task."),
    ("a.csv", b" \n\n", "a.csv is empty. A file must hold at least one task."),
    ("a.csv", b"question\n", "a.csv holds no tasks."),
    ("a.json", b"[]", "a.json holds no tasks."),
    (
        "a.jsonl",
        b'[{"a": 1}]',
        "a.jsonl is a JSON array, not one object per line; choose the format json.",
    ),
    (
        "a.json",
        b'{"a": 1}\n{"a": 2}',
        "a.json is not an array; if it has one object per line, choose the format jsonl.",
    ),
    (
        "a.json",
        b'[{"a": 1}, {"a": ',
        "a.json: row 2 is not JSON: the file ends in the middle of it.",
    ),
    ("a.json", b'[{"a": 1}, {"a": 2,}, {"a": 3333333333}]', "a.json: row 2 is not JSON: "),
    ("a.json", b'[{"a": 1} {"a": 2}]', "a.json has '{' after row 1, where ',' or ']' is expected"),
    ("a.json", b'[{"a": 1}', "a.json has its end after row 1, where ',' or ']' is expected"),
    ("a.json", b"[] []", "a.json continues after the end of its array"),
    ("a.json", b'[{"a": "\xff"}]', "a.json is not UTF-8 after row 0; save it as UTF-8."),
    ("a.csv", b"PK\x03\x04rest", "a.csv is an Excel or ZIP file; save its table as CSV."),
    ("a.jsonl", b"\x1f\x8b\x08", "a.jsonl is compressed; unpack it first, with gunzip."),
    ("a.csv", b"\xff\xfea\x00", "a.csv is UTF-16; save it as UTF-8."),
    ("a.csv", b"PAR1rest", "a.csv is a Parquet file; choose the format parquet."),
    ("a.parquet", b'{"a": 1}', "a.parquet is not a Parquet file."),
    ("a.parquet", b"PAR1cut", "a.parquet is cut off, damaged or not a Parquet file: "),
    ("a.csv", b"a;b\n1;2\n", "a.csv separates its columns with ';'; save it with commas."),
    ("a.csv", b"a,a\n1,2\n", "a.csv has the column 'a' twice; rename or remove one."),
    (
        "a.csv",
        b"a,_tag\n1,2\n",
        "a.csv has the column '_tag'; names that start with _ may only be _hash, _split, ",
    ),
    ("a.csv", b"a,\n1,2\n", "a.csv: column 2 has no name; name or remove it."),
    (
        "a.txt",
        b"a",
        "a.txt: the name does not end in .jsonl, .json, .csv or .parquet; choose the format.",
    ),
]


@each(("name", "content", "sentence"), WRONG)
def test_a_wrong_file_is_reported_in_one_sentence(
    shelf: Shelf, name: str, content: bytes, sentence: str
) -> None:
    path = shelf.text(content, name)
    with pytest.raises(TransferError) as error:
        shelf.dry_run(path)
    assert sentence in str(error.value)


def test_a_missing_file_is_reported(shelf: Shelf) -> None:
    with pytest.raises(
        Unreadable, match=r"none\.jsonl cannot be read: No such file or directory\."
    ):
        shelf.dry_run(Path("none.jsonl"))


def test_a_wrong_column_is_named_with_the_allowed_ones(shelf: Shelf) -> None:
    shelf.schema(properties={"question": {"type": "string"}}, additionalProperties=False)
    sentence = (
        "has the column 'qestion', which tasks here do not have; allowed are question and the "
        "reserved _hash"
    )
    with pytest.raises(Unreadable, match=sentence):
        shelf.dry_run(shelf.text("qestion\nwhy\n", "a.csv"))


def test_a_missing_column_is_named(shelf: Shelf) -> None:
    shelf.schema(properties={"question": {"type": "string"}}, required=["question"])
    with pytest.raises(
        Unreadable, match="has no column 'question', which every task here must have; it has answer"
    ):
        shelf.dry_run(shelf.text("answer\nwhy\n", "a.csv"))


def test_a_reserved_looking_column_of_parquet_is_named(shelf: Shelf) -> None:
    path = shelf.directory / "a.parquet"
    pq.write_table(pa.table({"a": [1], "_tag": ["x"]}), path)
    with pytest.raises(
        Unreadable, match="has the column '_tag'; names that start with _ may only be _hash"
    ):
        shelf.dry_run(path)


def test_a_truncated_parquet_file_is_reported(shelf: Shelf) -> None:
    path = shelf.directory / "a.parquet"
    pq.write_table(pa.table({"a": list(range(1000))}), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Unreadable, match=r"a\.parquet is cut off, damaged or not a Parquet file: "):
        shelf.dry_run(path)


def test_a_damaged_parquet_file_is_reported_and_nothing_is_done(shelf: Shelf) -> None:
    path = shelf.directory / "a.parquet"
    pq.write_table(pa.table({"a": [f"text {n}" for n in range(4000)]}), path, row_group_size=1000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 1000] = b"\xff" * 1000
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=r"a\.parquet is damaged after row \d+: "):
        shelf.apply(path)
    assert not Split.objects.existing().exists()


def test_a_parquet_type_that_json_has_not_is_reported(shelf: Shelf) -> None:
    path = shelf.directory / "a.parquet"
    pq.write_table(pa.table({"when": pa.array([0], pa.timestamp("ms"))}), path)
    with pytest.raises(
        Unreadable,
        match=r"column 'when' holds timestamp\[ms\], which has no JSON "
        r"form",
    ):
        shelf.dry_run(path)


def test_parquet_of_others_has_lists_structs_and_absent_keys(shelf: Shelf) -> None:
    path = shelf.directory / "a.parquet"
    rows = [{"a": [1, 2], "b": {"c": "x"}, "d": None}, {"a": [], "b": None, "d": 0.5}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    shelf.apply(path)
    assert served() == [{"a": [1, 2], "b": {"c": "x"}}, {"a": [], "d": 0.5}]


def test_nan_in_parquet_is_a_missing_value_as_pandas_writes_it(shelf: Shelf) -> None:
    path, nan = shelf.directory / "a.parquet", float("nan")
    rows = [{"q": "a", "x": nan, "l": [1.0, nan], "s": {"y": nan}}, {"q": "b", "x": 2.5, "l": None}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    shelf.apply(path)
    assert served() == [{"q": "a", "l": [1.0, None], "s": {"y": None}}, {"q": "b", "x": 2.5}]


@each(("value", "place"), [(float("inf"), "x"), ([0.5, -float("inf")], "x.1")])
def test_an_infinity_in_parquet_is_refused_by_column_and_row(
    shelf: Shelf, value: Any, place: str
) -> None:
    path = shelf.directory / "a.parquet"
    pq.write_table(pa.table({"q": ["a", "b"], "x": [None, value]}), path)
    [refusal] = shelf.dry_run(path).refusals
    assert (
        refusal.number == 2
        and f"an infinity or a number beyond 1.8e308 in '{place}'" in refusal.reason
    )


def test_a_small_parquet_file_cannot_take_much_memory(shelf: Shelf) -> None:
    path = shelf.directory / "a.parquet"
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 250, pa.int32()), pa.array(["a" * 20_000_000])
    )
    pq.write_table(pa.table({"q": texts}), path, compression="zstd")
    assert path.stat().st_size < 2000  # 5 GB of texts
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        Unreadable,
        match=r"a\.parquet needs more than 512 MB of memory at row 1; "
        r"write it with",
    ):
        shelf.dry_run(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert _peak_of_reader_kb(path) < 700_000


def _peak_of_reader_kb(path: Path) -> int:
    """Return the most memory that the process which reads the file takes, in KB.

    A child begins with the peak of the process that starts it, so a process as small as this one of
    its own starts it.
    """
    measured = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], "
        "stdout=subprocess.DEVNULL); "
    )
    measured += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    command = [sys.executable, "-I", parquet_process.__file__, str(path)]
    return int(subprocess.check_output([sys.executable, "-c", measured, *command]))


def test_a_small_parquet_file_cannot_hold_very_many_long_rows(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, program = shelf.directory / "a.parquet", shelf.directory / "parquet_process.py"
    limit = "MIN_EXPANDED_BYTES = 256 * 1024**2"
    text = Path(parquet_process.__file__).read_text(encoding="utf-8")
    assert limit in text
    program.write_text(text.replace(limit, "MIN_EXPANDED_BYTES = 8 * 1024**2"), encoding="utf-8")
    monkeypatch.setattr(parquet, "__file__", str(program))
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 40, pa.int32()), pa.array(["y" * 2**18]))
    pq.write_table(pa.table({"q": texts}), path, compression="zstd")
    assert path.stat().st_size < 1000
    with pytest.raises(
        Unreadable,
        match=r"a\.parquet has rows 100 times as long as itself, and "
        r"longer than 8 MB",
    ):
        shelf.dry_run(path)


def test_a_parquet_file_with_too_many_rows_is_refused_by_their_number(shelf: Shelf) -> None:
    path = shelf.directory / "a.parquet"
    pq.write_table(
        pa.table({"n": pa.array([1], pa.int8()).take(pa.array([0] * 1_000_001, pa.int8()))}), path
    )
    with pytest.raises(
        Unreadable,
        match=r"a\.parquet has 1,000,001 rows; 1,000,000 are allowed in "
        r"a Parquet file",
    ):
        shelf.dry_run(path)


def test_a_long_row_of_parquet_is_refused_and_the_others_are_read(shelf: Shelf) -> None:
    path = shelf.directory / "a.parquet"
    pq.write_table(pa.table({"q": ["short", "x" * 40_000_000, "too"]}), path)
    report = shelf.dry_run(path)
    assert (report.added, [(one.number, one.reason) for one in report.refusals]) == (
        2,
        [(2, TOO_LONG)],
    )


def test_the_format_can_be_named(shelf: Shelf) -> None:
    assert shelf.dry_run(shelf.lines({"a": 1}, name="a.txt"), format="jsonl").added == 1
    with pytest.raises(
        TransferError, match="The format 'xml' is unknown; use jsonl, json, csv or parquet"
    ):
        FileSource.of(Path("a.txt"), "xml")
