"""Removing episodes leaves what was recorded and derived as if they had never been played."""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from environments.models import Environment, TaskStatistics
from episodes.attempts.sketches import count_of, error_of, mean_of, sketch_of
from episodes.models import (
    Activity,
    CurveBlock,
    Episode,
    EpisodeComponent,
    LatestTotal,
    Note,
    Play,
    RedactedEpisode,
    Redaction,
    Removal,
    Rollout,
    RolloutMessage,
    RunTotal,
    Step,
    StepGroup,
    StepSpan,
    ToolUse,
    TranscriptText,
)
from episodes.recording.recorder import Recorder
from episodes.removal.batch import ids_of, remove_all, remove_batch
from episodes.rollups import blocks, step_spans
from episodes.rollups.activity import ActivityPart
from episodes.rollups.follower import catch_up, start_over
from episodes.rollups.part_runner import EndingReader, Following, Overtaken
from episodes.rollups.recount import rebuild, stale
from episodes.rollups.tools import ToolsPart
from tests.episodes.playing import play
from tests.episodes.recorded import record, run
from tests.factories import episode_ended, episode_started
from tests.stored import NOW, make_episode, make_step

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]

COUNTED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (
        Activity,
        (
            "period",
            "start",
            "environment_id",
            "episodes",
            "scored",
            "successes",
            "steps",
            "refused",
            "probes",
        ),
    ),
    (RunTotal, ("scope_id", "environment_id", "split_id", "episodes", "steps")),
    (LatestTotal, ("scope_id", "environment_id", "split_id", "number", "episodes", "steps")),
    (StepGroup, ("run_id", "run_step", "task_id", "split_id", "state")),
    (StepSpan, ("scope", "scope_id", "width", "number", "episodes", "steps")),
    (ToolUse, ("environment_id", "tool", "day", "ok", "refused", "failed", "durations")),
    (EpisodeComponent, ("episode_id", "component_id", "value_sum")),
    (TranscriptText, ("episode_id",)),
    (
        TaskStatistics,
        ("task_id", "by", "key", "attempts", "scored", "successes", "return_low", "return_high"),
    ),
)
"""Derived rows, each with the columns that do not depend on the order in which endings came."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", 8)
    monkeypatch.setattr(step_spans, "MAX_SPANS", 4)


def removal() -> Removal:
    return Removal.objects.create(author="anna")


def some(count: int = 120) -> list[int]:
    return Random(5).sample(list(Episode.objects.values_list("pk", flat=True)), count)


def recount() -> None:
    for environment in stale():
        rebuild(environment)


def derived() -> dict[str, Any]:
    found = {
        model.__name__: sorted(model.objects.values_list(*columns), key=str)
        for model, columns in COUNTED
    }
    found["Activity"] = [row for row in found["Activity"] if row[3]]
    places = ("scope", "scope_id", "number", "environment_id", "split_id")
    spans_ = StepSpan.objects.values_list(*places, "causes", "groups")
    found["causes"] = sorted(
        (*row, json.loads(causes), json.loads(groups or "{}")) for *row, causes, groups in spans_
    )
    return found


def played(count: int = 300) -> None:
    play(count)
    catch_up()


def test_derived_rows_are_those_of_the_episodes_that_are_left() -> None:
    played()
    remove_all(removal(), some())
    recount()
    kept = derived()
    start_over()
    catch_up()
    for environment in Environment.objects.all():
        rebuild(environment)
    assert kept == derived()


def test_blocks_count_the_episodes_that_are_left() -> None:
    played()
    remove_all(removal(), some())
    for block in CurveBlock.objects.all():
        left = Episode.objects.filter(
            **{block.scope: block.scope_id, "environment": block.environment_id},
            **({"split": block.split_id or None} if block.scope == "run" else {}),
            end_number__range=(block.first_end, block.last_end),
        )
        own = [
            row.return_sum
            for row in left
            if row.cause in ("finished", "abandoned") and not row.is_probe
        ]
        sketch = json.loads(block.return_sum)
        assert (block.episodes, count_of(sketch)) == (left.count(), len(own))
        assert mean_of(sketch) == (pytest.approx(sum(own) / len(own)) if own else None)
        scatter = json.loads(block.scatter or "{}").get("sum", 0.0)
        assert error_of(sketch, scatter) == pytest.approx(error_of(sketch_of(own)), abs=1e-9)


def test_the_last_activity_of_a_run_is_that_of_an_episode_that_is_left() -> None:
    played()
    play(50, first=301, seed=8)
    newest = Episode.objects.filter(end_number__gt=150, end_number__lte=300)
    remove_all(removal(), newest.values_list("pk", flat=True))
    followed = Episode.objects.filter(end_number__lte=300)
    for total in RunTotal.objects.all():
        left = followed.filter(
            run=total.scope_id, environment=total.environment_id, split=total.split_id or None
        )
        assert abs(total.ended - left.latest("end_number").ended) < timedelta(milliseconds=1)


def test_an_episode_that_the_follower_has_not_reached_is_counted_nowhere() -> None:
    played(100)
    play(50, first=101, seed=8)
    remove_all(removal(), range(90, 130))
    catch_up()
    recount()
    assert sum(Activity.objects.filter(period=86400).values_list("episodes", flat=True)) == 110


def test_the_follower_does_not_count_what_is_removed_while_it_works() -> None:
    play(20)
    following = Following(ActivityPart())
    gather = following.part.gather

    def gather_and_lose(endings: Any) -> Any:
        found = gather(endings)
        remove_batch(removal(), range(1, 11))
        return found

    following.part.gather = gather_and_lose  # type: ignore[method-assign]
    with pytest.raises(Overtaken):
        following.advance()
    following.part.gather = gather  # type: ignore[method-assign]
    following.advance()
    assert sum(Activity.objects.filter(period=86400).values_list("episodes", flat=True)) == 10


def test_parts_that_read_endings_together_do_not_count_what_was_removed_in_between() -> None:
    play(20)
    reader = EndingReader()
    Following(ToolsPart(), reader).advance()
    remove_batch(removal(), range(1, 11))
    Following(ActivityPart(), reader).advance()
    assert sum(Activity.objects.filter(period=86400).values_list("episodes", flat=True)) == 10


def test_everything_of_an_episode_goes_and_nothing_else() -> None:
    gone, kept = make_episode(end_number=1), make_episode(end_number=2)
    for episode in (gone, kept):
        make_step(episode)
        RedactedEpisode.objects.create(
            episode=episode, redaction=Redaction.objects.create(author="anna")
        )
        Note.objects.create(episode=episode, author="anna", text="a note")
        rollout = Rollout.objects.create(event_id=f"r{episode.pk}", received=NOW, episode=episode)
        RolloutMessage.objects.create(
            rollout=rollout, index=0, event_id="m", kind="text", received=NOW
        )
    Play.objects.create(episode=kept, parent=gone, parent_step=0)
    remove_all(removal(), [gone.pk])
    assert not Episode.objects.filter(pk=gone.pk).exists()
    counts = [
        model.objects.count()
        for model in (Episode, Step, Note, Rollout, RolloutMessage, RedactedEpisode)
    ]
    assert (counts, Play.objects.get().parent) == ([1] * 6, None)


def test_a_running_episode_stays() -> None:
    running = make_episode(status="running", cause="", ended=None)
    assert list(ids_of(Episode.objects.all())) == []
    remove_all(removal(), [running.pk])
    assert Episode.objects.filter(pk=running.pk).exists()


def test_the_removal_says_what_it_removed() -> None:
    episode = make_episode(end_number=1)
    make_step(episode)
    row = removal()
    remove_all(row, [episode.pk])
    row.refresh_from_db()
    assert (row.episodes, row.steps, row.last_episode, row.ended is not None) == (
        1,
        1,
        episode.pk,
        True,
    )


def test_the_number_of_a_removed_episode_is_not_used_again() -> None:
    record((episode_started(7), episode_ended(7)))
    remove_all(removal(), [7])

    async def next_episode(recorder: Recorder) -> int:
        return recorder.next_episode()

    assert run(next_episode) == 8
