"""Tests of `export_episodes` and `import_episodes` at a terminal."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from episodes.models import Activity, Episode
from orsweb.server import database_lock
from tests.episodes.transfer.record import (
    everything,
    forget_everything,
    make_rich_episodes,
    text_of,
)
from tests.rows import each
from tests.stored import make_environment, make_episode, make_run, make_step, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def export(path: Path, *arguments: str) -> str:
    call_command("export_episodes", "-o", str(path), *arguments)
    return path.read_text()


def import_episodes(*paths: Path, **options: Any) -> str:
    out = StringIO()
    call_command("import_episodes", *paths, stdout=out, no_color=True, **options)
    return out.getvalue()


def test_a_file_goes_out_and_comes_back(tmp_path: Path) -> None:
    make_rich_episodes()
    before, path = everything(), tmp_path / "all.jsonl"
    export(path)
    forget_everything()
    told = import_episodes(path)
    assert (
        told == "2 episodes with 3 steps imported, 0 skipped as already there, 0 lines refused.\n"
    )
    assert everything() == before
    assert "0 episodes with 0 steps imported, 2 skipped as already there" in import_episodes(path)


def test_what_is_derived_follows(tmp_path: Path) -> None:
    make_episode()
    export(tmp_path / "all.jsonl")
    forget_everything()
    import_episodes(tmp_path / "all.jsonl")
    assert list(Activity.objects.filter(period=86400).values_list("episodes", flat=True)) == [1]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ([], 4),
        (["--environment", "shop"], 1),
        (["--query", "run=grpo-3&ending=attempt"], 1),
        (["--query", "?run=grpo-3", "--ending", "interrupted"], 1),
        (["--return-from", "0.5"], 2),
        (["--min-return", "0.75"], 1),
        (["--success", "yes"], 1),
    ],
)
def test_it_exports_what_a_filter_finds(tmp_path: Path, arguments: list[str], count: int) -> None:
    make_episode(task=make_task(environment=make_environment("shop")))
    make_episode(run=make_run())
    make_episode(run=make_run(), cause="interrupted", return_sum=0.5)
    make_episode(return_sum=1.0)
    assert len(export(tmp_path / "some.jsonl", *arguments).splitlines()) == count


def test_the_name_of_the_file_tells_the_format(tmp_path: Path) -> None:
    make_step(make_episode(steps_count=1))
    assert export(tmp_path / "a.csv").startswith("episode,environment,")
    assert "messages" in json.loads(export(tmp_path / "a.messages.jsonl"))
    assert "orsweb" in json.loads(export(tmp_path / "a.out", "--format", "jsonl"))
    with pytest.raises(
        CommandError, match="the extension does not name a format; add --format jsonl"
    ):
        export(tmp_path / "a.txt")


@each(
    ("arguments", "words"),
    [
        (["--ending", "bored"], "ending='bored' cannot be used: allowed are running, finished"),
        (["--query", "colour=red"], "no filter has that name"),
        (["--environment", "maths"], "No environment is named 'maths'\\. Did you mean 'math'"),
        (["--ending", "finished"], "No episodes match"),
        (["--model", " "], "argument --model: ' ' is blank"),
        (["--query", ""], "argument --query: '' is blank"),
        (["--query", "environment=math&run="], "run='' cannot be used: it is blank"),
        (["--run", "a", "--query", "run=b"], "run='a' cannot be used: it also has the value 'b'"),
        (["--format", "pairs", "--margin", "-1"], "margin='-1.0' cannot be used"),
    ],
)
def test_nothing_to_export_is_said_and_leaves_no_file(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    make_environment()
    with pytest.raises(CommandError, match=words):
        export(tmp_path / "a.jsonl", *arguments)
    assert not list(tmp_path.iterdir())


def test_a_file_of_conversations_without_one_is_not_written(tmp_path: Path) -> None:
    make_episode()
    with pytest.raises(CommandError, match="none of these episodes has called a tool"):
        export(tmp_path / "a.messages.jsonl")
    assert not list(tmp_path.iterdir())


def test_messages_are_written_as_the_options_say(tmp_path: Path) -> None:
    make_step(make_episode(), input="oops")
    make_step(make_episode(), input='{"answer":  42}')
    path, told = tmp_path / "a.messages.jsonl", StringIO()
    call_command("export_episodes", "-o", str(path), stderr=told, no_color=True)
    assert told.getvalue().startswith(
        "1 conversation written.\n1 conversation is left out, because it has a tool call whose input "
        "isn't a JSON object"
    )
    assert '"arguments": {"answer": 42}' in path.read_text()
    assert '"arguments": "oops"' in export(tmp_path / "b.messages.jsonl", "--arguments", "string")


def test_it_says_how_many_pairs_and_conversations_there_are(tmp_path: Path) -> None:
    task = make_task()
    for value in (0.0, 0.5, 1.0):
        make_step(make_episode(task=task, return_sum=value, steps_count=1))
    for format, sentence in (
        ("pairs", "1 pair written.\n"),
        ("messages", "3 conversations written.\n"),
    ):
        told = StringIO()
        call_command(
            "export_episodes", "-o", str(tmp_path / "a"), format=format, stderr=told, no_color=True
        )
        assert told.getvalue().startswith(sentence)


def test_those_still_running_are_reported(tmp_path: Path) -> None:
    make_episode()
    make_episode(status="running", cause="", ended=None)
    told, path = StringIO(), tmp_path / "a.jsonl"
    call_command("export_episodes", "-o", str(path), stderr=told, no_color=True)
    sentence = (
        "1 episode is still running. The file contains it without an end, and import_episodes will "
        "refuse it"
    )
    assert told.getvalue().startswith(sentence)
    assert len(path.read_text().splitlines()) == 2


def test_refused_lines_are_reported_and_the_others_imported(tmp_path: Path) -> None:
    make_episode()
    path = tmp_path / "a.jsonl"
    path.write_text(f"{text_of()}oops\n")
    forget_everything()
    told = StringIO()
    with pytest.raises(CommandError, match="1 line was refused; the others are imported"):
        import_episodes(path, stderr=told)
    assert "a.jsonl, line 2: is not JSON" in told.getvalue()
    assert Episode.objects.count() == 1


def test_new_ids_are_reported(tmp_path: Path) -> None:
    make_episode(id=4)
    path = tmp_path / "a.jsonl"
    path.write_text(text_of())
    forget_everything()
    make_episode(id=4)
    assert "episode 4 became 5, because another episode has its id" in import_episodes(path)


def test_it_does_not_run_while_a_server_runs(tmp_path: Path) -> None:
    with (
        database_lock.acquire(),
        pytest.raises(CommandError, match="This database already has a server"),
    ):
        import_episodes(tmp_path / "a.jsonl")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"a\.jsonl cannot be read: No such file"):
        import_episodes(tmp_path / "a.jsonl")
