"""Hidden fields and sealed splits: they leave by no address to a key without the scope `curate`."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from django.urls import URLPattern, URLResolver, get_resolver

from environments.keys.keyring import ring
from environments.keys.stored_keys import make_key
from environments.models import ApiKey, Split, Task
from episodes.models import Episode
from episodes.transfer.formats import EXPORT_FORMATS
from tests.environments.agents.ors.serving import events, fresh_id, in_database, serving
from tests.environments.keys.canary import HIDDEN, SEALED, SHOWN
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = {
    "env_name": "canary",
    "name": "canary",
    "owner_name": "me",
    "run": "1",
    "rest": "x",
    "uuid": "x",
}
"""Values for the parameters of addresses; all others are numbers."""
BODIES: list[dict[str, Any]] = [
    {"split": "test"},
    {"split": "train"},
    {"split": "test", "index": 0},
    {"split": "train", "index": 0},
    {"split": "test", "start": 0},
    {},
]


DOCUMENTS = {"/openapi.json", "/schema.json", "/api/schema"}
"""Addresses that read nothing from the database, and take long to make their document."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(
        "tests.environments.keys.canary:Canary", ORSWEB_REQUIRE_KEYS=True
    ) as running:
        await in_database(lambda: Split.objects.filter(name="test").update(is_sealed=True))
        yield running


async def key(name: str, *scopes: str, **values: Any) -> dict[str, str]:
    _, text = await in_database(lambda: make_key(name, scopes=list(scopes), **values))
    headers = {"X-API-Key": text}
    await in_database(ring.read)
    return headers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def player(client: httpx.AsyncClient) -> dict[str, str]:
    """The header of a key that has played a task of each split."""
    headers = await key("player", "play", "record", "read")
    for split in ("train", "test"):
        await play(client, headers, {"split": split, "index": 1})
    return headers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def curator(client: httpx.AsyncClient) -> dict[str, str]:
    return await key("curator", "play", "read", "curate")


async def play(
    client: httpx.AsyncClient, headers: dict[str, str], task: dict[str, Any], text: str = "?"
) -> Any:
    """Play a whole episode, and return the text of its call."""
    session = {"X-Session-ID": fresh_id(), **headers}
    answer = await client.post("/create", json={"env_name": "canary", **task}, headers=session)
    assert answer.status_code == 200, answer.text
    await client.get("/canary/prompt", headers=session)
    call = await client.post(
        "/call", json={"name": "answer", "input": {"text": text}}, headers=session
    )
    await client.post("/delete", headers=session)
    return events(call.text)[-1][1]


async def tasks(
    client: httpx.AsyncClient, headers: dict[str, str], split: str
) -> list[dict[str, Any]]:
    answer = await client.post("/canary/tasks", json={"split": split}, headers=headers)
    found: list[dict[str, Any]] = answer.json()["tasks"]
    return found


async def test_a_sealed_split_is_listed_as_indexes_and_hashes(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    listed = await tasks(client, player, "test")
    assert [set(task) for task in listed] == [{"orsweb_task"}] * 2
    assert [task["orsweb_task"]["index"] for task in listed] == [0, 1]
    assert len({task["orsweb_task"]["hash"] for task in listed}) == 2


async def test_the_listed_hash_is_not_the_hash_of_the_content(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    known = await in_database(lambda: set(Task.objects.values_list("content_hash", flat=True)))
    assert not {task["orsweb_task"]["hash"] for task in await tasks(client, player, "test")} & known


async def test_other_tasks_are_listed_without_their_hidden_fields(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    task = (await tasks(client, player, "train"))[0]
    assert (task["id"], task["text"]) == ("train-0", SHOWN) and "answer" not in task


@pytest.mark.parametrize("index", [0, -2])
async def test_one_task_is_shown_as_in_the_list(
    client: httpx.AsyncClient, player: dict[str, str], index: int
) -> None:
    body = {"split": "test", "index": index}
    answer = await client.post("/canary/task", json=body, headers=player)
    assert answer.json()["task"] == (await tasks(client, player, "test"))[0]


async def test_a_range_counts_its_indexes_from_its_start(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    answer = await client.post(
        "/canary/task_range", json={"split": "train", "start": -2}, headers=player
    )
    assert [task["orsweb_task"]["index"] for task in answer.json()["tasks"]] == [1, 2]


@pytest.mark.parametrize("split", ["train", "test"])
async def test_a_listed_task_can_be_played(client: httpx.AsyncClient, split: str) -> None:
    winner = await key(f"winner of {split}", "play")
    task = (await tasks(client, winner, split))[1]
    assert '"right"' in await play(client, winner, {"task_spec": task}, f"{HIDDEN}-1")
    episode = await in_database(lambda: Episode.objects.select_related("split").latest("pk"))
    assert (episode.split.name, episode.task_index) == (split, 1)


async def test_a_listed_task_that_has_changed_is_refused(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    task = (await tasks(client, player, "test"))[1]
    task["orsweb_task"]["index"] = 0
    body = {"env_name": "canary", "task_spec": task}
    answer = await client.post("/create", json=body, headers={"X-Session-ID": fresh_id(), **player})
    assert answer.status_code == 400 and "list its tasks again" in answer.json()["detail"]


async def test_a_key_with_curate_reads_tasks_completely(
    client: httpx.AsyncClient, curator: dict[str, str]
) -> None:
    assert (await tasks(client, curator, "test"))[0] == {
        "id": "test-0",
        "text": SEALED,
        "answer": f"{HIDDEN}-0",
    }


async def test_the_record_of_a_sealed_task_has_the_prompt_and_the_calls(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    found = (
        await client.get("/api/episodes?split=test&environment=canary", headers=player)
    ).json()["results"]
    episode = (await client.get(found[-1]["url"], headers=player)).json()
    assert episode["spec"] is None and episode["prompt"][0]["text"] == "Task test-1."
    steps = (await client.get(episode["steps_url"], headers=player)).json()["results"]
    assert steps[0]["input"] == {"text": "?"}


def addresses(patterns: Any, before: str = "") -> Iterator[str]:
    """Yield every address of the server, with values in place of its parameters."""
    for one in patterns:
        route = before + re.sub(r"^\^|\$$", "", str(one.pattern))
        if isinstance(one, URLResolver):
            yield from addresses(one.url_patterns, route)
        elif isinstance(one, URLPattern):
            route = re.sub(
                r"\(\?P<(\w+)>[^)]*\)|<(?:\w+:)?(\w+)>", lambda m: f"<{m[1] or m[2]}>", route
            )
            for number in numbers()[: None if route.startswith("api/") else 1]:
                yield "/" + re.sub(r"<(\w+)>", lambda m: NAMES.get(m[1], str(number)), route)  # noqa: B023


def numbers() -> list[int]:
    """Return ids by which pages are called: of a task of each split, and of episodes of the
    player."""
    tasks = Task.objects.filter(entries__split__name__in=("train", "test"), entries__position=1)
    episodes = Episode.objects.filter(key_label="player").order_by("pk")
    return [*tasks.values_list("pk", flat=True), *episodes.values_list("pk", flat=True)[:2]]


def every_address() -> tuple[list[str], list[str]]:
    """Return the addresses of pages and of the API, and those of agents."""
    pages = addresses(get_resolver("orsweb.urls").url_patterns)
    agents = addresses(get_resolver("orsweb.agent_urls").url_patterns)
    queries = [f"/api/episodes/export?format={name}" for name in EXPORT_FORMATS]
    queries += [f"/api/tasks?environment=canary&split={split}" for split in ("train", "test")]
    return sorted({*pages, *queries} - DOCUMENTS), sorted(set(agents) - DOCUMENTS)


async def test_no_address_shows_a_key_what_it_may_not_read(
    client: httpx.AsyncClient, player: dict[str, str]
) -> None:
    pages, agents = await in_database(every_address)
    assert len(pages) > 100 and len(agents) > 20
    leaks = [address for address in pages if await leaks_at(client, "GET", address, player)]
    session = {"X-Session-ID": fresh_id(), **player}
    await client.post(
        "/create", json={"env_name": "canary", "split": "test", "index": 0}, headers=session
    )
    for address, body in itertools.product([one for one in agents if takes_body(one)], BODIES):
        leaks += [address] if await leaks_at(client, "POST", address, session, body) else []
    leaks += [address for address in agents if await leaks_at(client, "GET", address, session)]
    await client.post("/delete", headers=session)
    assert not leaks


def takes_body(address: str) -> bool:
    """Return whether a POST to the address may be answered with tasks: MCP has messages, which are
    no such bodies, and a deletion would end the session of the sweep.
    """
    return "delete" not in address and not address.startswith("/mcp/")


async def leaks_at(
    client: httpx.AsyncClient,
    method: str,
    address: str,
    headers: dict[str, str],
    body: dict[str, Any] | None = None,
) -> bool:
    """Return whether the answer has something that only curators may read."""
    answer = await asyncio.wait_for(client.request(method, address, json=body, headers=headers), 10)
    return HIDDEN in answer.text or SEALED in answer.text


@each("format", EXPORT_FORMATS)
async def test_an_export_of_a_curator_has_what_is_hidden(
    client: httpx.AsyncClient, curator: dict[str, str], format: str
) -> None:
    """So the sweep would notice it in an export for another key."""
    await play(client, curator, {"split": "test", "index": 0})
    answer = await client.get(f"/api/episodes/export?format={format}", headers=curator)
    assert answer.status_code in (200, 404)
    if format in ("jsonl", "atif"):
        assert HIDDEN in answer.text and SEALED in answer.text


async def test_rows_of_keys_hold_no_key(client: httpx.AsyncClient, player: dict[str, str]) -> None:
    rows = await in_database(lambda: list(ApiKey.objects.values()))
    assert player["X-API-Key"] not in repr(rows)
