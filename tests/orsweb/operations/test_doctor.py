"""`manage.py doctor` finds what is wrong in the record and in what is derived from it, and says
what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from environments.database.storable import digest_of
from environments.models import Environment, TaskStatistics
from environments.runtime.records import RunInfo
from episodes.models import (
    Activity,
    Blob,
    CurveBlock,
    Episode,
    LatestTotal,
    Progress,
    RunTotal,
    Step,
    TranscriptText,
)
from episodes.rollups import blocks
from episodes.rollups.follower import catch_up
from episodes.rollups.recount import rebuild
from orsweb.operations.installation_checks import unusable
from tests.episodes.recorded import record
from tests.factories import episode_ended, episode_noted, episode_started, step_taken

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]


@pytest.fixture
def no_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.rollups.follower.Follower.start", lambda follower: None)
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", 2)


def play() -> None:
    """Record four episodes of a run, with a prompt and a large output each, and derive
    everything."""
    for number in range(1, 5):
        step = step_taken(
            number, reward=0.5, output_json=f'{{"blocks": [], "metadata": "{"x" * 9000}{number}"}}'
        )
        started = episode_started(number, run=RunInfo("r1", 1))
        record((started, episode_noted(number), step, episode_ended(number)))
    catch_up()
    for environment in Environment.objects.all():
        rebuild(environment)


def doctor() -> str:
    out = StringIO()
    for part in ("record", "derived"):
        try:
            call_command("doctor", only=part, stdout=out)
        except CommandError as error:
            out.write(f"{error}\n")
    return out.getvalue()


def change(name: str) -> None:
    changes: dict[str, Callable[[], object]] = {
        "episodes have missing steps": lambda: Step.objects.filter(episode=1).update(index=3),
        "a wrong step count": lambda: Episode.objects.filter(pk=1).update(steps_count=7),
        "a return that does not match their steps": lambda: Step.objects.filter(episode=1).update(
            reward=3.0
        ),
        "refer to a missing blob": lambda: Step.objects.filter(episode=2).update(
            output_blob="0" * 32
        ),
        "do not match their hashes": lambda: Blob.objects.filter(pk=_output()).update(
            data=b"1", is_compressed=False
        ),
        "Statistics of 1 tasks": lambda: TaskStatistics.objects.filter(by="all").update(
            attempts=99
        ),
        "Curves do not match": lambda: CurveBlock.objects.filter(level=0).update(episodes=99),
        "Activity does not match": lambda: Activity.objects.update(episodes=99),
        "Totals of runs do not match": lambda: RunTotal.objects.update(episodes=99),
        "Totals of latest training steps do not match": lambda: LatestTotal.objects.update(
            episodes=99
        ),
        "Search covers 0 of 4": lambda: TranscriptText.objects.all().delete(),
    }
    changes[name]()


def _output() -> str:
    return str(Step.objects.filter(episode=1).values_list("output_blob", flat=True)[0])


def test_it_finds_nothing_in_a_record_that_is_right() -> None:
    play()
    assert "no  " not in doctor()


def test_a_large_blob_may_have_either_key() -> None:
    text = json.dumps({"blocks": [], "metadata": "x" * 300_000})
    record((episode_started(), step_taken(output_json=text), episode_ended()))
    blob = Blob.objects.get(size_bytes=len(text))
    Blob.objects.create(
        digest=digest_of(text.encode()),
        is_compressed=True,
        size_bytes=len(text),
        data=bytes(blob.data),
    )
    assert "do not match their hashes" not in doctor()
    Blob.objects.create(
        digest="0" * 32, is_compressed=True, size_bytes=len(text), data=bytes(blob.data)
    )
    assert "1 blobs do not match their hashes" in doctor()


def test_episodes_that_are_indexed_again_are_no_fault() -> None:
    play()
    Progress.objects.filter(name="text").update(end_number=1)
    assert "ok  Search covers" in doctor()


def test_it_finds_each_fault() -> None:
    play()
    for name in (
        "episodes have missing steps",
        "a wrong step count",
        "a return that does not match their steps",
        "do not match their hashes",
        "refer to a missing blob",
        "Statistics of 1 tasks",
        "Curves do not match",
        "Activity does not match",
        "Totals of runs do not match",
        "Search covers 0 of 4",
    ):
        assert name not in doctor()
        change(name)
        assert name in doctor()


def test_what_is_derived_is_mended_by_the_command_that_it_names() -> None:
    play()
    for name in (
        "Statistics of 1 tasks",
        "Curves do not match",
        "Activity does not match",
        "Search covers 0 of 4",
    ):
        change(name)
    assert "Run rebuild_statistics" in doctor()
    call_command("rebuild_statistics", stdout=StringIO())
    assert "no  " not in doctor()


@pytest.mark.parametrize("field", ["return_sum", "return_last", "return_max", "return_mean"])
def test_it_compares_all_four_returns(field: str) -> None:
    play()
    Episode.objects.filter(pk=2).update(**{field: 7.0})
    assert "1 episodes have a return that does not match their steps: 2." in doctor()


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("no such table: episodes_step", "migrate; if nothing was left"),
        ("database disk image is malformed", "restore the latest backup"),
        ("file is not a database", "restore the latest backup"),
        ("connection refused", "DATABASE_URL"),
    ],
)
def test_it_says_what_to_do_about_a_database_that_cannot_be_read(said: str, remedy: str) -> None:
    problem = unusable(DatabaseError(said))
    assert said in problem.sentence and remedy in problem.remedy


def test_it_looks_at_the_place_too() -> None:
    out = StringIO()
    with suppress(CommandError):  # the disk of this machine may be full
        call_command("doctor", only="place", stdout=out)
    assert "The disk has free space" in out.getvalue()
