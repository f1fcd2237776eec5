"""Tests of `import_tasks` and `export_tasks` at a terminal."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from environments.curation.edit import Edit, last_revision
from environments.curation.splits import DeleteSplit
from environments.models import Split, Task
from tests import programs
from tests.environments.curation.transfer.files import Shelf, served

pytestmark = pytest.mark.django_db

APPLE, PEAR = {"name": "apple"}, {"name": "pear"}
TO_TRAIN = {"environment": "shop", "split": "train"}


def import_tasks(path: Path, **options: Any) -> str:
    out = StringIO()
    call_command("import_tasks", path, stdout=out, no_color=True, **{**TO_TRAIN, **options})
    return out.getvalue()


def test_it_reports_and_imports(shelf: Shelf) -> None:
    assert import_tasks(shelf.lines(APPLE, PEAR, APPLE), type="train", yes=True).splitlines() == [
        "tasks.jsonl -> shop/train: 2 added, 0 changed, 1 skipped as duplicates, 0 refused",
        "  The split 'train' is new.",
        "tasks.jsonl was imported into shop/train: 2 added, 0 changed, 1 skipped as duplicates, 0 "
        "refused.",
    ]
    assert served() == [APPLE, PEAR]


def test_a_dry_run_only_reports(shelf: Shelf) -> None:
    output = import_tasks(shelf.lines(APPLE, "oops"), type="train", dry_run=True)
    assert "1 added, 0 changed, 0 skipped as duplicates, 1 refused" in output
    assert "  line 2: is not JSON: Expecting value at character 1" in output
    assert not Split.objects.exists()


def test_refused_lines_refuse_all_unless_they_are_skipped(shelf: Shelf) -> None:
    path = shelf.lines(APPLE, *["oops"] * 30)
    with pytest.raises(CommandError, match="30 of 31 lines cannot be imported, so nothing was"):
        import_tasks(path, type="train", yes=True)
    assert "  and 10 more" in import_tasks(path, type="train", yes=True, skip_refused=True)
    assert served() == [APPLE]


def test_without_a_terminal_no_question_is_asked(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO())
    with pytest.raises(CommandError, match="Cannot ask without a terminal; add --yes to import"):
        import_tasks(shelf.lines(APPLE), type="train")


@pytest.mark.parametrize(("answer", "count"), [("y", 1), ("", 0), ("no", 0)])
def test_it_asks_before_it_imports(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, answer: str, count: int
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    import_tasks(shelf.lines(APPLE), type="train")
    assert Split.objects.count() == count


def test_nothing_to_import_is_said(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE))
    assert import_tasks(shelf.lines(APPLE)).endswith("Nothing to import.\n")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"environment": "shup"}, "No environment is named 'shup'. Did you mean 'shop'?"),
    (
        {"split": "test"},
        "'shop' has no split 'test', but none. To create it, give its type: 'train', 'validation', "
        "'test'.",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_what_is_wrong_is_reported_in_one_sentence(
    shelf: Shelf, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CommandError) as error:
        import_tasks(shelf.lines(APPLE), **options)
    assert str(error.value) == sentence


def test_an_export_comes_back_in_its_own_format(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE, PEAR))
    path = shelf.directory / "out.csv"
    call_command("export_tasks", **TO_TRAIN, output=str(path))
    assert path.read_text().startswith("name,_hash,_split,_tags,_state\napple,")
    assert "0 added, 0 changed, 2 skipped as duplicates" in import_tasks(path)


def test_an_export_can_be_filtered_and_plain(
    shelf: Shelf, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    shelf.apply(shelf.lines(APPLE, {**PEAR, "_tags": ["green"]}))
    call_command("export_tasks", **TO_TRAIN, tag="green", plain=True)
    assert capfdbinary.readouterr().out == b'{"name":"pear"}\n'


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"split": "tran"}, "'shop' has no split 'tran', but 'train'. Did you mean 'train'?"),
        (
            {"output": "out.txt"},
            "out.txt: the name does not end in .jsonl, .json, .csv or .parquet; choose the format.",
        ),
        (
            {"output": "/nowhere/out.csv"},
            "/nowhere/out.csv cannot be written: No such file or directory.",
        ),
    ],
)
def test_an_export_that_is_impossible_is_reported(
    shelf: Shelf, options: dict[str, Any], sentence: str
) -> None:
    shelf.apply(shelf.lines(APPLE))
    with pytest.raises(CommandError) as error:
        call_command("export_tasks", **{**TO_TRAIN, **options})
    assert str(error.value) == sentence


def test_an_export_of_a_deleted_split_is_refused_like_that_of_an_unknown_one(shelf: Shelf) -> None:
    shelf.apply(shelf.lines(APPLE), "train")
    shelf.apply(shelf.lines(APPLE), "gone")
    DeleteSplit(Split.objects.get(name="gone").pk).apply("ada")
    with pytest.raises(CommandError) as error:
        call_command("export_tasks", environment="shop", split="gone")
    assert str(error.value) == "'shop' has no split 'gone', but 'train'."


def test_the_help_says_how_cells_are_read() -> None:
    words = programs.run("import_tasks", "--help", check=True).stdout.split()
    assert "an empty cell means that the key is absent" in " ".join(words)


def test_it_asks_what_to_serve_where_content_was_edited_since(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cherry = shelf.lines(APPLE, PEAR), '{"name": "cherry"}'
    import_tasks(path, type="train", yes=True)
    row = Task.objects.get(spec='{"name":"apple"}')
    Edit(row.pk, cherry, last_revision(row)).apply("ada")
    answers, asked = iter(["y", "y"]), list[str]()
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or next(answers))
    assert "The edited tasks are served" in import_tasks(path, split="other", type="test", yes=True)
    assert "The content of the file is served" in import_tasks(path, split="asked", type="test")
    assert [question.split("?")[0] for question in asked] == [
        "Serve the content of the file instead of the edited tasks",
        "Import",
    ]
    assert [served(name)[0] for name in ("asked", "other")] == [APPLE, {"name": "cherry"}]
