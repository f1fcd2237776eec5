"""Guesses of what is hidden: a key without the scope `curate` finds a right one recorded as a wrong
one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from environments.keys.keyring import ring
from environments.keys.stored_keys import make_key
from environments.models import Split, Task
from episodes.models import Episode
from tests.environments.agents.ors.serving import fresh_id, in_database, serving
from tests.environments.keys.canary import HIDDEN, SHOWN

pytestmark = pytest.mark.asyncio(loop_scope="module")

RIGHT, WRONG = f"{HIDDEN}-1", f"{HIDDEN}-7"
VARYING = {
    "id",
    "url",
    "html_url",
    "steps_url",
    "events_url",
    "rollouts_url",
    "session_id",
    "end_number",
    "task",
}
VARYING |= {"created", "ready", "ended", "duration_seconds"}
"""Members that differ between any two episodes."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(
        "tests.environments.keys.canary:Canary", "tests.envs:Echo", ORSWEB_REQUIRE_KEYS=True
    ) as running:
        await in_database(
            lambda: Split.objects.filter(name="test", environment__name="echo").update(
                is_sealed=True
            )
        )
        yield running


async def key(name: str, *scopes: str) -> dict[str, str]:
    _, text = await in_database(lambda: make_key(name, scopes=list(scopes)))
    await in_database(ring.read)
    return {"X-API-Key": text}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def player(client: httpx.AsyncClient) -> dict[str, str]:
    return await key("guesser", "play", "read")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def curator(client: httpx.AsyncClient) -> dict[str, str]:
    return await key("knower", "play", "read", "curate")


async def played(
    client: httpx.AsyncClient, headers: dict[str, str], environment: str, **task: Any
) -> dict[str, Any]:
    """Open a session and end it, and return its episode as the key reads it."""
    sid = fresh_id()
    session = {"X-Session-ID": sid, **headers}
    body = {"env_name": environment, **task}
    answer = await client.post("/create", json=body, headers=session)
    assert answer.status_code == 200, answer.text
    await client.post("/delete", headers=session)
    pk = await in_database(lambda: Episode.objects.get(session_id=sid).pk)
    found: dict[str, Any] = (await client.get(f"/api/episodes/{pk}", headers=headers)).json()
    return found


async def listed(
    client: httpx.AsyncClient, headers: dict[str, str], environment: str, split: str
) -> Any:
    return (
        await client.post(f"/{environment}/tasks", json={"split": split}, headers=headers)
    ).json()["tasks"]


def constant(episode: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in episode.items() if name not in VARYING}


def differ(episodes: list[dict[str, Any]]) -> bool:
    """Return whether the episodes have different tasks with different hashes."""
    tasks = [episode["task"] for episode in episodes]
    return all(len({task[name] for task in tasks}) == len(tasks) for name in ("id", "hash"))


def canary_task(answer: str) -> dict[str, str]:
    return {"id": "train-1", "text": SHOWN, "answer": answer}


async def test_a_right_guess_of_a_hidden_field_is_recorded_as_a_wrong_one(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    named = await played(client, player, "canary", split="train", index=1)
    right = await played(client, player, "canary", task_spec=canary_task(RIGHT))
    wrong = await played(client, player, "canary", task_spec=canary_task(WRONG))
    assert constant(right) == constant(wrong)
    assert right["split"] is None and right["spec"] == {"id": "train-1", "text": SHOWN}
    assert differ([named, right, wrong])


async def test_a_right_guess_of_a_sealed_task_is_recorded_as_a_wrong_one(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    [first, _] = await listed(client, player, "echo", "test")
    named = await played(client, player, "echo", split="test", index=0)
    right = await played(client, player, "echo", task_spec={"id": "test-0"})
    wrong = await played(client, player, "echo", task_spec={"id": "test-9"})
    assert named["task"]["hash"] == first["orsweb_task"]["hash"]
    assert constant(right) | {"spec": wrong["spec"]} == constant(wrong)
    assert right["split"] is None and right["spec"] == {"id": "test-0"}
    assert differ([named, right, wrong])


async def test_a_right_guess_is_no_attempt_at_the_task_of_the_split(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    async def episodes() -> int:
        played = Episode.objects.filter(
            task__entries__split__name="train", environment__name="canary"
        )
        return await in_database(played.count)

    before = await episodes(), await listed(client, player, "canary", "train")
    await played(
        client,
        player,
        "canary",
        task_spec={"id": "train-2", "text": SHOWN, "answer": f"{HIDDEN}-2"},
    )
    assert (await episodes(), await listed(client, player, "canary", "train")) == before


@pytest.mark.parametrize(
    ("environment", "split"), [("canary", "train"), ("echo", "train"), ("echo", "test")]
)
async def test_a_task_that_is_sent_as_it_was_listed_is_the_task_of_its_split(
    client: httpx.AsyncClient, player: dict[str, str], environment: str, split: str
) -> None:
    [_, task, *_] = await listed(client, player, environment, split)
    sent = await played(client, player, environment, task_spec=task)
    named = await played(client, player, environment, split=split, index=1)
    assert (sent["split"], sent["task"]) == (split, named["task"])


async def test_a_curator_sends_the_task_of_a_split_by_its_content(
    client: httpx.AsyncClient, curator: dict[str, str]
) -> None:
    named = await played(client, curator, "canary", split="train", index=1)
    sent = await played(client, curator, "canary", task_spec=canary_task(RIGHT))
    assert (sent["split"], sent["task"]) == ("train", named["task"])


async def test_a_secret_that_is_in_a_hidden_field_changes_no_record(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    """Stars in the recorded task would show that it holds the secret."""
    secrets = [{"SECRET": text} for text in (RIGHT[:12], "nothing-of-it")]
    for place in (
        {"split": "train", "index": 1},
        {"task_spec": (await listed(client, player, "canary", "train"))[1]},
    ):
        right, wrong = [
            await played(client, player, "canary", secrets=one, **place) for one in secrets
        ]
        assert right["task"] == wrong["task"]


async def test_secrets_of_a_task_that_is_sent_are_masked(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    secret = "a-secret-of-the-session"
    episode = await played(
        client, player, "echo", task_spec={"id": secret}, secrets={"SECRET": secret}
    )
    assert episode["spec"] == {"id": "********"}
    assert not await in_database(lambda: Task.objects.filter(spec__contains=secret).exists())


async def test_the_same_guess_is_the_same_task(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    first, second = [
        await played(client, player, "canary", task_spec=canary_task(RIGHT)) for _ in range(2)
    ]
    assert first["task"] == second["task"]
    spec = await in_database(lambda: Task.objects.get(pk=first["task"]["id"]).spec)
    assert json.loads(spec) == canary_task(RIGHT)
