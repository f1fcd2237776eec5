"""Tests of clients that upload too much, too late, in the wrong order or all at once, while others
play."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import httpx
import pytest

from environments import security_log
from environments.models import UNRESTRICTED
from episodes.models import Episode, Rollout, Run
from episodes.runs.trainer_updates import steer
from tests.environments.agents.ors.serving import in_database, opened
from tests.episodes.platform_api.uploading import (
    NOW_MS,
    message,
    messages_of,
    rollout,
    stored,
    update,
    upload,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio(loop_scope="module")]
WRITERS = 10


def new_id() -> str:
    return str(uuid.uuid4())


async def names(name: str) -> list[int]:
    return await in_database(
        lambda: list(Run.objects.filter(name=name).values_list("pk", flat=True))
    )


async def test_ten_clients_that_name_a_new_run_at_once_share_it(client: httpx.AsyncClient) -> None:
    ids = [new_id() for _ in range(WRITERS)]
    sessions = [opened(client, secrets={"orsweb_run": "shared"}) for _ in range(WRITERS)]
    uploads = [upload(client, message(one, 0), rollout(one, runName="shared")) for one in ids]
    described = [
        in_database(lambda n=n: steer("shared", {"tags": [f"t{n}"]}, UNRESTRICTED, []))
        for n in range(WRITERS)
    ]
    answers = await asyncio.gather(*uploads, *described, *sessions)
    assert {answer.status_code for answer in answers[:WRITERS]} == {200}
    [run] = await names("shared")
    assert (
        await in_database(lambda: Rollout.objects.filter(run=run, event_id__in=ids).count())
        == WRITERS
    )
    assert await in_database(lambda: Episode.objects.filter(run=run).count()) == WRITERS


async def test_a_training_step_that_goes_back_is_that_of_its_rollout_only(
    client: httpx.AsyncClient,
) -> None:
    ids = [new_id(), new_id()]
    await upload(
        client, rollout(ids[0], runName="back", step=5), rollout(ids[1], runName="back", step=3)
    )
    assert [(await stored(one)).run_step for one in ids] == [5, 3]
    assert (await stored(ids[0])).run.step is None  # type: ignore[union-attr]


async def test_events_whose_rollout_never_comes_are_kept_apart_from_others(
    client: httpx.AsyncClient,
) -> None:
    orphan, whole = new_id(), new_id()
    events = [
        message(orphan, 0),
        rollout(whole),
        update(orphan, NOW_MS, loss=0.5),
        message(whole, 0),
    ]
    assert (await upload(client, *events)).json() == {"stored": 4, "ignored": 0, "refused": []}
    assert not (await stored(orphan)).is_announced and (await stored(whole)).is_announced
    assert [len(await messages_of(one)) for one in (orphan, whole)] == [1, 1]
    listed = (await client.get("/v1/runs")).json()
    assert "grpo" in str(listed) and orphan not in str(listed)


@pytest.mark.parametrize("kind", ["heartbeat", "", None, 5, ["message"], {"a": 1}])
async def test_an_unknown_type_does_not_lose_the_events_around_it(
    client: httpx.AsyncClient, kind: Any
) -> None:
    one = new_id()
    answer = (
        await upload(client, message(one, 0), {"eventType": kind, "eventId": "x"}, message(one, 1))
    ).json()
    assert (answer["stored"], answer["ignored"] + len(answer["refused"])) == (2, 1)
    assert len(await messages_of(one)) == 2


async def test_an_event_without_a_type_is_refused_with_what_is_allowed(
    client: httpx.AsyncClient,
) -> None:
    answer = (await upload(client, {"eventId": "x"}, {"eventType": 5}, message(new_id(), 0))).json()
    allowed = "it must be a text: message, rollout or rollout_update."
    assert [(one["position"], one["reason"]) for one in answer["refused"]] == [
        (0, f"eventType is null; {allowed}"),
        (1, f"eventType is 5; {allowed}"),
    ]


async def test_refused_events_make_few_lines_of_the_log(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def written() -> None:
        await asyncio.to_thread(security_log.stop)
        security_log.start(str)

    await written()
    caplog.clear()
    for number in range(12):
        await upload(client, {"eventId": "x"}, {"eventType": number})
    await written()
    lines = [
        record.getMessage() for record in caplog.records if "events_refused" in record.getMessage()
    ]
    assert (
        len(lines) == 2
        and "eventType is null; it must be a text" in lines[0]
        and "'count': 11" in lines[1]
    )


@pytest.mark.parametrize("kind", ["a type of next year", "x" * 200, 7])
async def test_a_message_of_an_unknown_type_is_stored(client: httpx.AsyncClient, kind: Any) -> None:
    one = new_id()
    await upload(client, message(one, 0, kind))
    [row] = await messages_of(one)
    assert row.text == "text 0" and row.kind == str(kind)[:40]


async def test_a_clock_that_is_wrong_does_not_let_old_values_win(client: httpx.AsyncClient) -> None:
    one = new_id()
    sent = int(time.time() * 1000) - 3_600_000
    await upload(
        client,
        rollout(one, timestamp=sent, rollout_info={"loss": 1.0}),
        update(one, sent + 1, loss=2.0),
    )
    row = await stored(one)
    assert row.info_object == {"loss": 2.0}
    assert row.problem.startswith("the client's clock is 3") and "behind" in row.problem


async def test_a_message_of_ten_megabytes_holds_up_nobody(client: httpx.AsyncClient) -> None:
    one = new_id()
    sessions = asyncio.gather(*(opened(client, secrets={"orsweb_run": "beside"}) for _ in range(5)))
    answer = await upload(client, *(message(one, n, content="x" * 10_000_000) for n in range(3)))
    assert answer.json()["stored"] == 3
    await sessions
    assert len(await messages_of(one)) == 3
    assert await in_database(lambda: Episode.objects.filter(run__name="beside").count()) == 5


@pytest.mark.parametrize(
    "fields", [{"rollout_info": {"\ud800": "\udfff", "a\0": [float("inf")]}}, {"rollout_info": 3}]
)
async def test_an_update_with_strange_values_is_stored(
    client: httpx.AsyncClient, fields: dict[str, Any]
) -> None:
    one = new_id()
    event = {"eventType": "rollout_update", "eventId": one, "timestamp": NOW_MS, **fields}
    answer = (await upload(client, event, rollout(one))).json()
    assert answer["stored"] + len(answer["refused"]) == 2 and (await stored(one)).is_announced
