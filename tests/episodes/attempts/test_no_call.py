"""Endings of agents without a tool call: recorded as attempts with a return of 0, imported and
migrated by one rule."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from environments.models import Environment, TaskStatistics
from environments.runtime.records import RunInfo
from episodes.attempts.rule import ending_of, is_rollout
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.models import Episode, Progress
from tests.episodes.recorded import record
from tests.episodes.transfer.record import forget_everything, import_text, text_of
from tests.factories import episode_ended, episode_started, step_taken
from tests.filters import episode_filter
from tests.rows import each
from tests.stored import make_blob, make_episode, make_run

RETURNS = ("return_sum", "return_last", "return_max", "return_mean")
WITHOUT_CALL: dict[str, Any] = {"steps": 0, "return_sum": 0.0, **dict.fromkeys(RETURNS[1:])}


def ended_without_call(number: int = 1, cause: str = "abandoned", **facts: Any) -> None:
    player = facts.get("player", "agent")
    run = RunInfo("grpo-3") if facts.get("is_named") else RunInfo()
    started = episode_started(number, player=player, run=run)
    record((started, episode_ended(number, cause=cause, **WITHOUT_CALL, **facts)))


@each(
    ("player", "is_named", "has_prompt", "expected"),
    [
        ("agent", True, False, True),
        ("agent", False, True, True),
        ("agent", False, False, False),
        ("human", False, True, False),
        ("script", True, True, False),
    ],
)
def test_agents_that_were_given_a_task_play_a_rollout(
    player: str, is_named: bool, has_prompt: bool, expected: bool
) -> None:
    assert is_rollout(player, is_named=is_named, has_prompt=has_prompt) is expected


@each(
    ("cause", "calls", "expected"),
    [
        ("abandoned", 0, ("no_call", "Abandoned without a tool call. Left early", False)),
        ("expired", 0, ("no_call", "Expired without a tool call. Left early", False)),
        ("abandoned", 1, ("abandoned", "Left early", False)),
        ("interrupted", 0, ("interrupted", "Left early", False)),
        ("env_error", 0, ("env_error", "Left early", False)),
        ("no_call", 0, ("no_call", "Left early", False)),
    ],
)
def test_a_rollout_without_a_call_has_a_cause_of_its_own(
    cause: str, calls: int, expected: tuple[Any, ...]
) -> None:
    assert ending_of(cause, "Left early", calls=calls, is_rollout=True) == expected


def test_what_is_no_rollout_is_a_probe_without_a_call() -> None:
    assert ending_of("expired", calls=0, is_rollout=False) == ("expired", "", True)


@pytest.mark.django_db(transaction=True)
def test_it_is_recorded_and_counted_as_a_return_of_0() -> None:
    ended_without_call(is_named=True, cause="expired")
    episode = Episode.objects.get()
    assert (episode.cause, episode.detail, episode.is_probe) == (
        "no_call",
        "Expired without a tool call.",
        False,
    )
    assert [getattr(episode, name) for name in RETURNS] == [0.0] * 4
    assert list(
        TaskStatistics.objects.filter(by="all").values_list("attempts", "scored", "successes")
    ) == [(1, 1, 0)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "facts", [{}, {"player": "human", "has_prompt": True}, {"player": "script"}]
)
def test_other_endings_without_a_call_are_probes(facts: dict[str, Any]) -> None:
    ended_without_call(**facts)
    episode = Episode.objects.get()
    assert (episode.cause, episode.is_probe) == ("abandoned", True)
    assert not TaskStatistics.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_refused_call_is_a_call() -> None:
    refused = step_taken(status="refused", output_json=None, reward=None)
    end = episode_ended(cause="abandoned", is_named=True, **{**WITHOUT_CALL, "refused": 1})
    record((episode_started(), refused, end))
    assert Episode.objects.get().cause == "abandoned"


@pytest.mark.django_db
def test_a_filter_finds_it() -> None:
    for cause in ("no_call", "finished", "env_error", "setup_failed"):
        make_episode(cause=cause)
    found = {
        ending: [
            row.episode.cause
            for row in EpisodeListQuery(episode_filter(ending=ending)).result().rows
        ]
        for ending in ENDINGS
    }
    assert found == {
        "no_call": ["no_call"],
        "failure": ["setup_failed", "env_error"],
        "attempt": ["finished", "no_call"],
    }


ENDINGS = ("no_call", "failure", "attempt")
EDITOR = SimpleNamespace(connection=connection)


def stored() -> dict[str, tuple[str, str, bool, float | None]]:
    rows = Episode.objects.values_list("session_id", "cause", "detail", "is_probe", "return_last")
    return {
        session: (cause, detail, is_probe, last) for session, cause, detail, is_probe, last in rows
    }


def make_old_episodes() -> None:
    """Make episodes as earlier versions recorded them."""
    probe: dict[str, Any] = {"is_probe": True, "cause": "abandoned"}
    make_episode(
        session_id="run", run=make_run(), **{**probe, "cause": "expired", "detail": "Idle."}
    )
    make_episode(session_id="model", model="m", **probe)
    make_episode(session_id="prompt", prompt=make_blob("[]"), **probe)
    make_episode(session_id="bare", **probe)
    make_episode(session_id="person", player="human", prompt=make_blob("[]"), **probe)
    make_episode(session_id="script", player="script", run=make_run(), **probe)
    make_episode(session_id="finished", run=make_run(), return_last=1.0)
    make_episode(session_id="failed", run=make_run(), cause="env_error")


@pytest.mark.django_db
def test_the_migration_sorts_existing_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    make_old_episodes()
    Environment.objects.update(counted="sum > 0.9")
    Progress.objects.create(name="blocks", end_number=9)
    before, migration = stored(), import_module("episodes.migrations.0007_endings_without_a_call")
    migration.mark_no_calls(apps, EDITOR)
    assert {session: row for session, row in stored().items() if row[0] == "no_call"} == {
        "run": ("no_call", "Expired without a tool call. Idle.", False, 0.0),
        "model": ("no_call", "Abandoned without a tool call.", False, 0.0),
        "prompt": ("no_call", "Abandoned without a tool call.", False, 0.0),
    }
    assert (Environment.objects.get().counted, Progress.objects.get(name="blocks").end_number) == (
        "",
        -1,
    )
    assert "3 episodes of agents ended without a tool call" in capsys.readouterr().out
    migration.unmark_no_calls(apps, EDITOR)
    assert stored() == before


@pytest.mark.django_db
def test_the_migration_leaves_a_database_without_such_episodes_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_episode()
    Environment.objects.update(counted="sum > 0.9")
    migration = import_module("episodes.migrations.0007_endings_without_a_call")
    migration.mark_no_calls(apps, EDITOR)
    assert Environment.objects.get().counted == "sum > 0.9"
    assert capsys.readouterr().out == ""


@pytest.mark.django_db(transaction=True)
def test_an_import_sorts_the_episodes_of_older_files(tmp_path: Path) -> None:
    make_old_episodes()
    text = text_of()
    forget_everything()
    import_text(tmp_path, text)
    causes = {session: cause for session, (cause, *_) in stored().items()}
    assert {session for session, cause in causes.items() if cause == "no_call"} == {
        "run",
        "model",
        "prompt",
    }
    text = text_of()
    forget_everything()
    import_text(tmp_path, text)
    assert text_of() == text


@pytest.mark.django_db(transaction=True)
def test_an_import_refuses_an_episode_without_a_call_that_has_calls(tmp_path: Path) -> None:
    make_episode(cause="no_call", steps_count=2)
    text = text_of()
    forget_everything()
    report = import_text(tmp_path, text)
    assert report.refused == 1
    assert "its cause is 'no_call', but it has tool calls" in str(report)
