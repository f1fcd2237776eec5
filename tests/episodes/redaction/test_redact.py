"""A redacted text is nowhere in the record any more, in whatever form it was there; everything else
is as before."""

from __future__ import annotations

import base64
import io
import json
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from environments.models import Task, TaskRevision
from environments.models.task_hash import content_hash, hash_of_spec
from episodes.models import (
    Blob,
    Episode,
    Note,
    Redaction,
    Rollout,
    RolloutMessage,
    Run,
    Step,
    TranscriptText,
)
from episodes.models.rollups import Summed
from episodes.redaction.recorded_texts import text_fields
from episodes.redaction.replacement import RedactionRefused, redact
from episodes.search import index
from tests.rows import each
from tests.stored import NOW, make_blob, make_episode, make_run, make_split, make_step, make_task

SECRET = "swordfish/0123"
STARS = "********"
pytestmark = pytest.mark.django_db(transaction=True)


def everything() -> str:
    """Return all texts of the record, decompressed."""
    texts = [blob.text for blob in Blob.objects.all()]
    for model, fields in text_fields().items():
        texts += [
            str(row) for row in model._default_manager.values_list(*(one.attname for one in fields))
        ]
    return "\n".join(texts)


def encoded() -> str:
    return base64.b64encode(f"user:{SECRET}".encode()).decode()


@pytest.fixture
def episode() -> Iterator[Episode]:
    """An ended episode with the text in every place."""
    index.empty()
    large = json.dumps(
        {"blocks": [{"text": f"{'x' * 9000} {SECRET}", "type": "text"}], "metadata": None}
    )
    run = make_run(f"run of {SECRET}")
    task = make_task({"question": f"Who knows {SECRET}?"})
    episode = make_episode(
        run=run,
        task=task,
        steps_count=2,
        prompt=make_blob(json.dumps([{"text": SECRET}])),
        detail=f"saw {SECRET}",
    )
    make_step(
        episode,
        f"token {SECRET} fox",
        input=json.dumps({"header": encoded()}),
        error=f"no {SECRET}",
    )
    second = make_step(episode, "nothing")
    Step.objects.filter(pk=second.pk).update(output="", output_blob=make_blob(large))
    Note.objects.create(episode=episode, author="alice", text=f"{SECRET.encode().hex()} is here")
    TaskRevision.objects.create(
        task=task,
        kind="edit",
        change="c",
        author="alice",
        before=f'{{"a":"{SECRET}"}}',
        after="{}",
        created=NOW,
    )
    rollout = Rollout.objects.create(
        event_id="r", received=NOW, event="{}", info="{}", episode=episode
    )
    RolloutMessage.objects.create(
        rollout=rollout, index=0, event_id="m", kind="user", content=SECRET, received=NOW
    )
    index.index([episode.pk])
    yield episode


def test_it_replaces_the_text_everywhere(episode: Episode) -> None:
    outcome = redact(SECRET, "alice", "leaked")
    assert outcome.is_complete
    assert outcome.places.episodes == {episode.pk}
    left = everything()
    for trace in (SECRET, "swordfish", encoded(), SECRET.encode().hex()):
        assert trace not in left


def test_texts_stay_readable_around_it(episode: Episode) -> None:
    redact(SECRET, "alice")
    first, second = Step.objects.filter(episode=episode)
    assert first.blocks[0]["text"] == f"token {STARS} fox"
    assert json.loads(first.input_json)["header"].rstrip("=").endswith(STARS)
    assert second.blocks[0]["text"] == f"{'x' * 9000} {STARS}"
    episode.refresh_from_db()
    assert episode.prompt is not None and json.loads(episode.prompt.text) == [{"text": STARS}]
    assert episode.detail == f"saw {STARS}"
    assert Run.objects.get().name == f"run of {STARS}"


def test_blobs_keep_the_key_of_their_content(episode: Episode) -> None:
    redact(SECRET, "alice")
    episode.refresh_from_db()
    assert episode.prompt is not None
    assert make_blob(episode.prompt.text).pk == episode.prompt.pk


def test_a_task_keeps_the_hash_of_its_content(episode: Episode) -> None:
    redact(SECRET, "alice")
    task = Task.objects.get(pk=episode.task_id)
    assert json.loads(task.spec) == {"question": f"Who knows {STARS}?"}
    assert task.content_hash == content_hash(task.spec)


def test_a_task_that_was_sent_by_its_content_stays_one() -> None:
    task = make_task({"question": SECRET})
    Task.objects.update(content_hash=hash_of_spec(task.spec, is_sent=True))
    redact(SECRET, "alice")
    task.refresh_from_db()
    assert task.content_hash == hash_of_spec(task.spec, is_sent=True)


def test_two_rows_that_become_the_same_stay_two() -> None:
    make_run(SECRET)
    make_run(f"{SECRET.replace('/', '%2F')}")
    make_task({"q": SECRET})
    make_task({"q": SECRET.replace("/", "%2F")})
    redact(SECRET, "alice")
    assert sorted(name[:8] for name in Run.objects.values_list("name", flat=True)) == [STARS, STARS]
    assert Task.objects.filter(spec__contains=STARS).count() == 2


def test_summaries_are_no_texts() -> None:
    assert not text_fields().keys() & set(Summed.__subclasses__())


def test_served_tasks_are_named_and_stay() -> None:
    task = make_task({"question": SECRET})
    make_split(task)
    outcome = redact(SECRET, "alice")
    assert f"#{task.pk}" in outcome.sentence
    assert SECRET in Task.objects.get(pk=task.pk).spec


def test_the_search_finds_the_rest_and_not_the_text(episode: Episode) -> None:
    assert list(index.matching("swordfish")) == [episode.pk]
    redact(SECRET, "alice")
    assert list(index.matching("swordfish")) == []
    assert list(index.matching("fox")) == [episode.pk]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="it reads the file of SQLite")
def test_nothing_of_it_is_left_in_the_file(episode: Episode) -> None:
    before = _file()
    assert b"swordfish" in before
    redact(SECRET, "alice")
    assert b"swordfish" not in _file()


def _file() -> bytes:
    """Return the bytes of the database file after a checkpoint of its log."""
    path = connection.settings_dict["NAME"]
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def test_a_dry_run_says_where_it_is_and_changes_nothing(episode: Episode) -> None:
    before = everything()
    outcome = redact(SECRET, "alice", dry_run=True)
    assert outcome.sentence.startswith("Found in ")
    assert " 2 steps, " in outcome.sentence and outcome.sentence.endswith("(1 episode in all).")
    assert everything() == before
    assert not Redaction.objects.exists()


def test_it_notes_who_did_it_when_and_why_but_not_what(episode: Episode) -> None:
    redact(SECRET, "alice", "leaked")
    noted = Redaction.objects.get()
    assert (noted.author, noted.reason, noted.finished is not None) == ("alice", "leaked", True)
    assert [one.episode_id for one in noted.episodes.all()] == [episode.pk]


def test_it_does_nothing_for_a_text_that_is_nowhere() -> None:
    make_step(make_episode(), "something")
    assert (
        redact("never said", "alice").sentence
        == "The text was not found in anything that can be redacted."
    )
    assert not Redaction.objects.exists()


@each("text", ["", "abc", "*" * 20, "x" * 65_537, " " * 4, "\t \n\u2003"])
def test_it_refuses_texts_that_are_too_short_too_long_or_everywhere(text: str) -> None:
    make_step(make_episode(), "def f():\n        return\t \n\u2003")
    with pytest.raises(RedactionRefused):
        redact(text, "alice")


def test_a_running_episode_is_redacted_but_not_indexed() -> None:
    episode = make_episode(status="running", cause="", ended=None)
    make_step(episode, SECRET)
    redact(SECRET, "alice")
    assert SECRET not in everything()
    assert not TranscriptText.objects.filter(episode_id=episode.pk).exists()


def test_the_command_reads_the_text_from_its_input(
    episode: Episode, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{SECRET}\n"))
    call_command("redact", "--reason", "leaked")
    assert capsys.readouterr().out.startswith("Replaced in ")
    assert SECRET not in everything()
    assert Redaction.objects.get().reason == "leaked"


def test_the_command_refuses_a_short_text(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("abc\n"))
    with pytest.raises(CommandError, match="3 characters; 4 to 65,536"):
        call_command("redact")


def test_a_text_in_another_script_is_not_left_in_what_searches_compare() -> None:
    secret = "Schl\u00fcssel/\u00c40123"
    task = make_task({"question": f"Who knows {secret}, \u00e4h?"})
    assert redact(secret, "alice").is_complete
    task.refresh_from_db()
    assert task.folded == json.dumps({"question": f"who knows {STARS}, ah?"})
