"""Blobs go when the last row that refers to them is removed, and never while a recorder may refer
to them."""

from __future__ import annotations

import asyncio

import pytest

from episodes.models import Blob, Episode, LooseBlob, Removal, Step
from episodes.recording.recorder import Recorder
from episodes.removal.batch import remove_all, remove_batch
from episodes.removal.loose_blobs import delete_loose_blobs
from tests.episodes.ended import end_episode
from tests.episodes.recorded import commit, query, run
from tests.factories import episode_ended, episode_noted, episode_started, step_taken
from tests.stored import make_blob, make_step

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
DEADLINE_SECONDS = 60.0


def remove(*episodes: Episode) -> None:
    remove_all(Removal.objects.create(author="anna"), [episode.pk for episode in episodes])


def texts() -> set[str]:
    return {blob.text for blob in Blob.objects.all()}


def test_a_blob_that_nothing_needs_is_deleted() -> None:
    episode = end_episode(prompt=make_blob("prompt"), tools=make_blob("tools"))
    make_step(episode, input_blob=make_blob("input"), output_blob=make_blob("output"))
    make_blob("unrelated")
    remove(episode)
    assert (delete_loose_blobs(), texts(), LooseBlob.objects.count()) == (4, {"unrelated"}, 0)


def test_a_blob_that_another_episode_needs_stays() -> None:
    first = end_episode(prompt=make_blob("prompt"), tools=make_blob("tools"))
    second = end_episode(prompt=make_blob("prompt"), tools=make_blob("tools"))
    make_step(first, output_blob=make_blob("output"))
    make_step(second, input_blob=make_blob("output"))
    remove(first)
    assert (delete_loose_blobs(), texts()) == (0, {"prompt", "tools", "output"})


def test_a_recorder_writes_a_deleted_blob_again() -> None:
    long = "x" * 10_000

    async def play_twice(recorder: Recorder) -> None:
        await commit(recorder, *episode(1))
        await query(lambda: remove_batch(Removal.objects.create(author="anna"), [1]))
        await query(lambda: delete_loose_blobs(recorder._writer.forgetting))
        await commit(recorder, *episode(2))

    def episode(number: int) -> tuple[object, ...]:
        step = step_taken(number, input_json=f'"{long}"')
        return episode_started(number), episode_noted(number), step, episode_ended(number)

    run(play_twice)  # type: ignore[arg-type]
    assert Step.objects.get().input_json == f'"{long}"'
    assert all(blob.text for blob in (Episode.objects.get().tools,) if blob)


def test_the_upkeep_of_a_server_deletes_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.recording.upkeep.CHECK_SECONDS", 0.01)
    episode = end_episode(prompt=make_blob("prompt"))
    remove(episode)

    async def wait(recorder: Recorder) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await query(Blob.objects.exists):
                pass

    run(wait, has_duties=True)
    assert texts() == set()
