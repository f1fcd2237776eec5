"""No statement of the recorder, the follower, its upkeep or the agents' requests goes through a
table that can grow.

tests/episodes/dashboard/test_page_plans.py says the same of pages and /api/.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.core.management.color import no_style
from django.db import connection, transaction

from environments import security_log
from environments.models import ClusterServer, Environment, Task
from environments.runtime.crash_notes import NotedCall
from environments.runtime.incident_reports import IncidentReport, LeftBehind
from environments.runtime.records import EpisodeStarted, RunInfo, SnapshotTaken
from episodes.models import Episode, Retention, Run, SessionSnapshot
from episodes.recording.interrupted_episodes import close_interrupted
from episodes.recording.number_blocks import next_block
from episodes.recording.writer import Fence
from episodes.removal.batch import ids_of, new_removal, remove_all
from episodes.removal.loose_blobs import delete_loose_blobs
from episodes.removal.plan import oldest_beyond, plan_of
from episodes.removal.retention import remove_expired
from episodes.rollups.follower import catch_up
from episodes.rollups.recount import rebuild, stale
from tests.conftest import OF_MIGRATIONS
from tests.environments.agents.ors.serving import in_database, opened, result, serving
from tests.environments.listings import catalogue_of, collected, listing, numbered
from tests.episodes.platform_api.uploading import message, messages_of, rollout, update, upload
from tests.episodes.recorded import commit, query, recording
from tests.factories import NOON, episode_ended, episode_noted, episode_started, step_taken
from tests.statement_plans import caught, judge, scans

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = json.dumps({"text": "long " * 2000})
COMPONENTS = (
    '{"blocks": [], "metadata": {"components": {"format": 1.0}}, "reward": 0.5, "finished": true}'
)
SHOP = {
    "environment": "shop",
    "split": None,
    "index": None,
    "run": RunInfo(name="grpo-3", step=1, model="m"),
}

EXCEPTIONS = {
    'SELECT COUNT(*) AS "__count" FROM "episodes_run"': "GET /v1/runs says how many runs there "
    "are; `orwd` prints it",
}
"""Parts of statements that may read a whole table, with the reason."""


@pytest.fixture(autouse=True)
def ids_from_one(transactional_db: None) -> None:
    """Plans depend on ranges of ids. What migrations leave in the database keeps its own."""
    sequences = [
        one for one in connection.introspection.sequence_list() if one["table"] not in OF_MIGRATIONS
    ]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_by_name_sql(no_style(), sequences):
            cursor.execute(statement)


async def play() -> None:
    """Read a task and play it, twice, so that counts are added to; leave an episode whose session
    can go on."""
    async with (
        catalogue_of(listing({"train": numbered(3)})) as catalogue,
        recording(has_duties=True) as recorder,
    ):
        spec = await catalogue.get("shop", "train", 1)
        await collected(catalogue.range("shop", "train", 0, 2))
        for episode in (1, 2):
            ended = episode_ended(episode, is_named=True, has_prompt=True)
            await commit(
                recorder,
                started(episode, spec),
                episode_noted(episode, ready=NOON, prompt_json='["Go"]'),
            )
            await commit(
                recorder, step_taken(episode, input_json=LARGE, output_json=COMPONENTS), ended
            )
        await commit(recorder, started(3, spec, survival="sealed", sealed=b"?"), step_taken(3))
        await commit(recorder, SnapshotTaken(3, 0, b"first"))
        await commit(recorder, SnapshotTaken(3, 0, b"second"))
        await query(catch_up)


def started(episode: int, spec: str, **values: Any) -> EpisodeStarted:
    return episode_started(episode, spec_json=spec, **SHOP, **values)


async def start_again() -> None:
    """Start after a kill: take up the session that can go on, recall its call, end the others,
    report the death."""
    call = NotedCall("shop", 3, "submit", NOON, "ab", 0, 0)
    died = IncidentReport("died", NOON, "by signal 11 (SIGSEGV)", suspects=(call,))
    left = LeftBehind(running=(call,), unsent={3: {0: call}}, reports=(died,))
    async with recording(has_duties=True) as recorder:
        await recorder.note_incidents(left)
        assert (await recorder.recover(left, ["shop"]))[1]
        await recorder.past(3)
        await recorder.recall("session-3", "", "call-0")
        await query(lambda: close_interrupted(NOON + 99))
        await recorder.interruption("session-3", "")
        await query(catch_up)


async def upload_and_read() -> None:
    """Play and upload through the server, and read what clients of the platform read."""
    async with serving("tests.envs:Echo") as client:
        session = await opened(client, "Echo")
        result(
            await client.post(
                "/Echo/call", json={"name": "echo", "input": {"text": "hi"}}, headers=session
            )
        )
        named = rollout(
            "r-1", environment="local/echo", metadata={"session_id": session["X-Session-ID"]}
        )
        await upload(
            client,
            named,
            message("r-1", 0),
            message("r-1", 1, content=LARGE),
            update("r-1", 9, task_index=0),
        )
        await upload(
            client, rollout("r-2", environment="local/echo"), message("r-2", 0, kind="tool_call")
        )
        await client.post("/delete", headers=session)
        await in_database(catch_up)
        await upload(client, message("r-1", 2))
        await in_database(catch_up)
        for path in ("", "/grpo", "/grpo/rollouts", "/grpo/rollouts?limit=1&offset=1"):
            assert (await client.get(f"/v1/runs{path}")).status_code == 200
        assert len(await messages_of("r-1")) == 3


def keep_up() -> None:
    """Do what upkeep does: recount, retention, removals, blobs without a reference, old entries of
    the log."""
    security_log.remove_old(1)
    plan_of(Episode.objects.filter(run__name="grpo-3"))
    oldest_beyond(Episode.objects.all(), 0)
    assert (
        remove_all(new_removal("ada", "A test."), ids_of(Episode.objects.filter(pk=1))).episodes
        == 1
    )
    Retention.objects.create(run=Run.objects.get(name="grpo-3"), days=1)
    Retention.objects.create(environment=Environment.objects.get(name="shop"), days=1)
    remove_expired(1)
    for environment in stale():
        rebuild(environment)
    delete_loose_blobs()


def lead() -> None:
    """Do what one of several servers does beside all of that."""
    server = ClusterServer.objects.create(pid=1)
    next_block(server.pk)
    with transaction.atomic():
        Fence(server.pk, lambda: None).enter(has_endings=True)


def test_no_statement_of_live_play_reads_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with caught(monkeypatch) as statements:
        asyncio.run(play())
        assert SessionSnapshot.objects.filter(pk=3).exists()
        asyncio.run(start_again())
        asyncio.run(upload_and_read())
        keep_up()
        if connection.vendor == "postgresql":
            lead()
    judge(statements, EXCEPTIONS, least=200)


def test_a_statement_without_the_first_column_of_an_index_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with caught(monkeypatch) as statements:
        list(Task.objects.filter(content_hash__in=["a", "b"]).values_list("pk"))
    assert len(scans(statements, {})) == 1


def test_a_walk_that_may_go_on_to_the_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with caught(monkeypatch) as statements:
        list(Task.objects.order_by("pk").values_list("pk")[:5])
        list(Task.objects.filter(spec="{}").order_by("pk").values_list("pk")[:5])
    assert len(scans(statements, {})) == 1
