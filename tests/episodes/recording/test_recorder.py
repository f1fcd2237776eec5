from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import pytest

from environments.curation.actions.membership import MoveToSplit
from environments.database.storable import digest_of
from environments.models import Environment, Split, Task
from environments.models.task_hash import content_hash
from environments.runtime.records import Row, RunInfo
from episodes.models import Blob, Episode, Run, Step
from episodes.recording import referenced_rows
from episodes.recording.recorder import Recorder
from episodes.recording.writer import QueuedRows, RecordWriter
from tests.episodes.recorded import DEADLINE_SECONDS, commit, query, record, run
from tests.factories import NOON, episode_ended, episode_noted, episode_started, step_taken
from tests.filters import select
from tests.stored import make_split

pytestmark = pytest.mark.django_db(transaction=True)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_it_records_how_an_episode_began() -> None:
    echo = Environment.objects.create(name="echo")
    split = Split.objects.create(environment=echo, name="train", type="train")
    record((episode_started(split="train", index=-3, key_label="lab", session_id="s1"),))
    episode = Episode.objects.select_related("task").get()
    assert (episode.environment, episode.split, episode.task_index) == (echo, split, -3)
    assert (episode.task.environment, episode.task.spec) == (echo, '{"id": 1}')
    assert (episode.session_id, episode.user_agent, episode.key_label, episode.player) == (
        "s1",
        "ors/0.1.0",
        "lab",
        "agent",
    )
    assert (episode.status, episode.cause, episode.created, episode.ended) == (
        "running",
        "",
        moment(NOON),
        None,
    )


def test_it_records_what_is_learnt_later() -> None:
    record(
        (episode_started(),),
        (episode_noted(ready=NOON + 1),),
        (episode_noted(prompt_json='["Go"]'), episode_noted(tools_json='["more"]')),
    )
    episode = Episode.objects.select_related("prompt", "tools").get()
    assert episode.ready == moment(NOON + 1)
    assert episode.prompt is not None and episode.prompt.text == '["Go"]'
    assert episode.tools is not None and episode.tools.text == '["more"]'


def test_it_records_a_step_as_it_was() -> None:
    record((episode_started(), step_taken(waited_ms=7.5, finished=True)))
    step = Step.objects.get()
    assert (step.episode_id, step.index, step.tool, step.task_id) == (1, 0, "echo", "call-0")
    assert (step.input_json, step.output_json) == (
        step_taken().input_json,
        step_taken().output_json,
    )
    assert (step.reward, step.finished, step.status) == (0.5, True, "ok")
    assert (step.started, step.duration_ms, step.waited_ms) == (moment(NOON + 1), 250.0, 7.5)


def test_it_records_a_refused_step_without_output() -> None:
    refused = step_taken(
        status="refused", output_json=None, reward=None, error="no such tool", reason="not_found"
    )
    record((episode_started(), refused))
    step = Step.objects.get()
    assert (step.status, step.error, step.reason) == ("refused", "no such tool", "not_found")
    assert (step.reward, step.output_json, step.blocks) == (None, "", [])


def test_it_records_the_end_with_its_counts() -> None:
    end = episode_ended(
        steps=3,
        refused=1,
        return_sum=1.5,
        return_last=None,
        return_max=1.0,
        return_mean=0.5,
        detail="done",
    )
    record((episode_started(),), (end,))
    episode = Episode.objects.get()
    assert (episode.status, episode.cause, episode.detail, episode.is_probe) == (
        "ended",
        "finished",
        "done",
        False,
    )
    assert (episode.steps_count, episode.refused_count) == (3, 1)
    assert (episode.return_sum, episode.return_last, episode.return_max, episode.return_mean) == (
        1.5,
        None,
        1.0,
        0.5,
    )
    assert (episode.first_acted, episode.last_acted) == (moment(NOON + 1), moment(NOON + 2))
    assert episode.ended == moment(NOON + 9)


@pytest.mark.parametrize(
    ("cause", "steps", "refused", "is_probe"),
    [
        ("abandoned", 0, 0, True),
        ("expired", 0, 0, True),
        ("abandoned", 1, 0, False),
        ("expired", 0, 1, False),
        ("setup_failed", 0, 0, False),
        ("interrupted", 0, 0, False),
    ],
)
def test_it_marks_probes(cause: str, steps: int, refused: int, is_probe: bool) -> None:
    record((episode_started(), episode_ended(cause=cause, steps=steps, refused=refused)))
    assert Episode.objects.get().is_probe is is_probe


def test_it_says_committed_when_others_can_read_the_rows() -> None:
    async def play(recorder: Recorder) -> int:
        await commit(recorder, episode_started(), step_taken())
        return await query(Step.objects.count)

    assert run(play) == 1


def test_it_says_committed_in_the_order_of_the_calls() -> None:
    async def play(recorder: Recorder) -> list[int]:
        committed: list[int] = []
        recorder.record(episode_started())
        for index in range(50):
            recorder.record(step_taken(index=index), on_commit=partial(committed.append, index))
        await commit(recorder, episode_ended())
        return committed

    assert run(play) == list(range(50))


def test_it_continues_when_a_callback_fails() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def play(recorder: Recorder) -> int:
        recorder.record(episode_started(), on_commit=fail)
        await commit(recorder, step_taken())
        return await query(Step.objects.count)

    assert run(play) == 1


def test_it_records_many_agents_at_once() -> None:
    async def agent(recorder: Recorder) -> None:
        episode = recorder.next_episode()
        recorder.record(episode_started(episode))
        for index in range(5):
            await commit(recorder, step_taken(episode, index))
        await commit(recorder, episode_ended(episode, steps=5))

    async def play(recorder: Recorder) -> None:
        await asyncio.gather(*(agent(recorder) for _ in range(64)))

    run(play)
    assert Episode.objects.filter(status="ended", steps_count=5).count() == 64
    assert sorted(Step.objects.values_list("episode", "index")) == [
        (e, i) for e in range(1, 65) for i in range(5)
    ]


def test_it_numbers_episodes_after_those_it_finds() -> None:
    record((episode_started(41),))

    async def play(recorder: Recorder) -> list[int]:
        return [recorder.next_episode(), recorder.next_episode()]

    assert run(play) == [42, 43]


def test_it_takes_the_same_rows_twice_as_once() -> None:
    rows = (episode_started(), episode_noted(ready=NOON), step_taken(), episode_ended())
    record(rows, rows)
    record(rows)
    assert (Episode.objects.count(), Step.objects.count(), Task.objects.count()) == (1, 1, 1)
    assert Episode.objects.get().status == "ended"


def test_it_makes_an_environment_that_has_no_row() -> None:
    record((episode_started(environment="new", split="nowhere"),))
    episode = Episode.objects.select_related("environment").get()
    assert (episode.environment.name, episode.environment.is_hosted, episode.split) == (
        "new",
        False,
        None,
    )


def test_it_knows_a_task_by_its_content() -> None:
    record(
        (episode_started(1, spec_json='{"a": 1, "b": [2]}'),),
        (episode_started(2, spec_json='{"b": [2], "a": 1}'),),
        (episode_started(3, spec_json='{"a": 1, "b": [2]}', environment="other"),),
    )
    one, two, three = Episode.objects.order_by("pk").values_list("task", flat=True)
    assert one == two != three
    assert Task.objects.get(pk=one).content_hash == content_hash('{"a": 1, "b": [2]}')


def test_played_tasks_in_any_script_are_found() -> None:
    record((episode_started(spec_json='{"id": "\u00c4pfel"}'),))
    found = Task.objects.get(select(search="\u00e4PFEL").condition())
    assert found == Episode.objects.get().task


def test_it_uses_the_task_that_sync_made() -> None:
    echo = Environment.objects.create(name="echo")
    task = Task.objects.create(
        environment=echo, content_hash=content_hash('{"id": 1}'), spec='{"id":1}'
    )
    record((episode_started(),))
    assert Episode.objects.get().task == task


def test_the_split_is_the_one_that_holds_the_task_when_the_episode_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(referenced_rows, "CHECK_SECONDS", 0.0)
    echo = Environment.objects.create(name="echo")
    task = Task.objects.create(
        environment=echo, content_hash=content_hash('{"id": 1}'), spec='{"id": 1}'
    )
    train = make_split(task, name="train", environment=echo)
    test = make_split(name="test", environment=echo)

    def move() -> None:
        MoveToSplit(select(ids=(task.pk,)), train.pk, test.pk).apply("ada")

    async def play(recorder: Recorder) -> None:
        await commit(recorder, episode_started(1))
        await query(move)
        await commit(recorder, episode_started(2))

    run(play)
    assert list(Episode.objects.order_by("pk").values_list("split", flat=True)) == [
        train.pk,
        test.pk,
    ]


def test_it_finds_a_thousand_new_tasks_in_one_batch() -> None:
    record(*[(episode_started(n, spec_json=f'{{"id": {n}}}'),) for n in range(1, 1001)])
    assert Episode.objects.count() == Task.objects.count() == 1000


def test_it_names_runs_and_the_first_model_they_name() -> None:
    runs = [RunInfo("r"), RunInfo("r", 7, "small", '{"lr": 1}'), RunInfo("r", 8, "big")]
    record(*[(episode_started(n, run=info),) for n, info in enumerate(runs, start=1)])
    assert list(Run.objects.order_by("pk").values_list("name", "model")) == [
        ("r", "small"),
        ("r (2)", "big"),
    ]
    found = Episode.objects.order_by("pk").values_list("run__name", "run_step", "model", "labels")
    assert list(found) == [
        ("r", None, "", ""),
        ("r", 7, "small", '{"lr": 1}'),
        ("r (2)", 8, "big", ""),
    ]


def test_it_keeps_large_content_once_and_compressed() -> None:
    large = '{"blocks": ["' + "x" * 9000 + '"]}'
    record(
        (
            episode_started(),
            step_taken(index=0, output_json=large),
            step_taken(index=1, input_json=large),
        )
    )
    first, second = Step.objects.select_related("input_blob", "output_blob").order_by("index")
    assert first.output_blob == second.input_blob
    assert (first.output, first.output_json, second.input_json) == ("", large, large)
    blob = Blob.objects.get(size_bytes=len(large))
    assert blob.is_compressed and len(bytes(blob.data)) < 200


def test_it_takes_the_digest_of_an_input_from_those_who_computed_it() -> None:
    record((episode_started(), step_taken(input_json="1" * 9000, input_digest=bytes(range(16)))))
    assert Step.objects.get().input_blob_id == bytes(range(16)).hex()


def test_the_key_of_a_large_content_is_the_digest_of_what_is_stored() -> None:
    large = json.dumps({"blocks": [f"line {n}" for n in range(40_000)]})
    record((episode_started(), step_taken(index=0, output_json=large)))
    record(
        (
            step_taken(index=1, input_json=large, input_digest=bytes(16)),
            step_taken(index=2, input_json=large),
        )
    )
    blob = Blob.objects.get(size_bytes=len(large))
    assert blob.digest == digest_of(bytes(blob.data)) and blob.is_compressed
    assert [
        step.input_json for step in Step.objects.select_related("input_blob").filter(index__gt=0)
    ] == [large] * 2


def test_it_keeps_content_up_to_the_limit_in_the_step() -> None:
    text = '"' + "x" * 8190 + '"'
    record((episode_started(), step_taken(output_json=text)))
    assert list(Step.objects.filter(output_blob=None).values_list("output", flat=True)) == [text]


def test_it_makes_again_what_was_deleted_meanwhile() -> None:
    def delete() -> None:
        Episode.objects.all().delete()
        Task.objects.all().delete()
        Blob.objects.all().delete()

    async def play(recorder: Recorder) -> int:
        await commit(recorder, episode_started(1))
        await query(delete)
        await commit(recorder, episode_started(2))
        return recorder.rejected

    assert run(play) == 0
    assert Episode.objects.select_related("tools").get(pk=2).tools is not None


def test_it_records_more_than_one_transaction_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.recording.writer.MAX_CHARACTERS", 1000)
    outputs = [f'"{index}{"x" * 700}"' for index in range(20)]
    calls = [(step_taken(index=n, output_json=text),) for n, text in enumerate(outputs)]
    sizes = transactions(monkeypatch, (episode_started(),), *calls)
    # the start, and two steps that are over the limit
    assert sum(sizes) == 1 + len(calls) and max(sizes) <= 3
    assert list(Step.objects.order_by("index").values_list("output", flat=True)) == outputs


def test_it_takes_all_that_waits_into_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [(step_taken(index=index),) for index in range(20)]
    assert transactions(monkeypatch, (episode_started(),), *calls) == [1 + len(calls)]


def transactions(monkeypatch: pytest.MonkeyPatch, *calls: tuple[Row, ...]) -> list[int]:
    """Return the number of calls in each transaction, if all of `calls` wait when the writer
    starts."""
    sizes, write_batch = [], RecordWriter._commit
    waiting = threading.Event()
    run_writer = RecordWriter.run

    def begin_late(self: RecordWriter) -> None:
        waiting.wait(DEADLINE_SECONDS)
        run_writer(self)

    def commit_counted(self: RecordWriter, batch: Sequence[QueuedRows]) -> None:
        sizes.append(len(batch))
        write_batch(self, batch)

    async def play(recorder: Recorder) -> None:
        for rows in calls:
            recorder.record(*rows)
        waiting.set()

    monkeypatch.setattr(RecordWriter, "run", begin_late)
    monkeypatch.setattr(RecordWriter, "_commit", commit_counted)
    run(play)
    return sizes
