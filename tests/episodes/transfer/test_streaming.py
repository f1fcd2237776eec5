"""Tests that an export is generated in pieces: in bounded memory, while the recorder continues to
write."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pytest
from django.db import connection

from environments.database.bulk_writer import BulkWriter
from episodes.models import Episode, Step
from episodes.recording.batch import STEP_COLUMNS
from tests.episodes.recorded import record
from tests.episodes.transfer.record import HOSTILE, exported, lines_of
from tests.factories import NOON, episode_ended, episode_started, step_taken
from tests.stored import make_blob, make_episode, make_step

MIB = 1024 * 1024
LONG = 8000


def add_steps(episode: Episode, count: int, answer: str = "42") -> None:
    writer = BulkWriter(connection)
    rest = (
        "submit",
        json.dumps({"answer": answer}),
        None,
        '{"blocks": []}',
        None,
        0.5,
        False,
        "ok",
        "",
        "",
    )
    started = writer.time(NOON)
    rows = [(episode.pk, n, *rest, f"call-{n}", started, 1.5, 0.0) for n in range(count)]
    writer.insert(Step, STEP_COLUMNS, rows)


def peak_of(pieces: Iterator[bytes]) -> tuple[int, int]:
    """Return the maximum number of bytes held at a time, and the number of bytes given."""
    tracemalloc.start()
    try:
        total = sum(len(piece) for piece in pieces)
        return tracemalloc.get_traced_memory()[1], total
    finally:
        tracemalloc.stop()


@pytest.mark.django_db
def test_memory_does_not_grow_with_the_steps() -> None:
    add_steps(make_episode(steps_count=LONG), LONG, "x" * 400)
    add_steps(make_episode(steps_count=1000), 1000)
    peak, total = peak_of(exported("jsonl"))
    assert total > 5 * MIB
    assert peak < 3 * MIB  # 2.1 whatever the number of steps


@pytest.mark.django_db
@pytest.mark.parametrize(("format", "least"), [("jsonl", 15), ("atif", 15), ("harbor", -1)])
def test_a_large_episode_is_held_a_step_at_a_time(format: str, least: int) -> None:
    episode = make_episode(steps_count=16)
    for n in range(16):
        make_step(
            episode,
            output="",
            output_blob=make_blob(f'{{"blocks": [], "metadata": {{"n": "{n}{"x" * 2**20}"}}}}'),
        )
    peak, total = peak_of(exported(format))
    assert total > least * MIB
    assert peak < 10 * MIB


@pytest.mark.django_db
def test_steps_come_whole_and_in_order_whatever_their_number() -> None:
    counts = [3, 1001, 0, 998, 2, 2500, 1]
    for count in counts:
        add_steps(make_episode(steps_count=count), count)
    add_steps(make_episode(status="running", cause="", ended=None), 1200)
    assert [[step["index"] for step in line["steps"]] for line in lines_of()] == [
        list(range(count)) for count in [*counts, 1200]
    ]


@pytest.mark.django_db(transaction=True)
def test_the_recorder_writes_while_a_client_reads_a_file_slowly() -> None:
    for _ in range(40):
        make_step(make_episode(), HOSTILE)
    pieces = exported("jsonl")
    first = next(pieces)
    rejected = record((episode_started(1000), step_taken(1000), episode_ended(1000)))
    lines = [json.loads(line) for line in (first + b"".join(pieces)).splitlines()]
    assert rejected == 0 and Episode.objects.get(pk=1000).cause == "finished"
    assert len(lines) >= 40 and all(len(line["steps"]) == 1 for line in lines)
