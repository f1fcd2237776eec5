"""A class that this machine cannot run is listed with its tasks and refuses every session with its
own sentence."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from environments.authoring.hosted_class import HostedClass
from environments.errors import Unhostable
from environments.models import Environment
from episodes.models import Episode
from tests import envs, envs_unavailable
from tests.environments.agents.ors.serving import error, fresh_id, in_database, serving
from tests.envs_unavailable import REASON

CLASSES = ["tests.envs:Echo", "tests.envs_unavailable:Native", "tests.envs_unavailable:OrsClass"]


@pytest_asyncio.fixture
async def client(transactional_db: None) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(*CLASSES) as running:
        yield running


@pytest.mark.parametrize("cls", [envs.Echo, envs_unavailable.OrsField])
def test_a_class_is_available_unless_its_class_method_says_otherwise(cls: type) -> None:
    assert HostedClass(cls).unavailable == ""


@pytest.mark.parametrize("cls", [envs_unavailable.Native, envs_unavailable.OrsClass])
def test_the_reason_is_one_line(cls: type) -> None:
    assert HostedClass(cls).unavailable == REASON


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (envs_unavailable.Raises, r"Raises.unavailable\(\) raised OSError: no such bus"),
        (
            envs_unavailable.Returns,
            r"Returns.unavailable\(\) returned True; return a sentence, or "
            r"None",
        ),
    ],
)
def test_a_class_that_cannot_say_is_not_hosted(cls: type, said: str) -> None:
    with pytest.raises(Unhostable, match=said):
        HostedClass(cls)


async def test_it_is_listed_with_its_tools_and_tasks(client: httpx.AsyncClient) -> None:
    assert (await client.get("/list_environments")).json() == ["echo", "native", "orsclass"]
    assert (await client.get("/native/tools")).json()["tools"]
    assert (await client.post("/orsclass/num_tasks", json={"split": "train"})).json() == {
        "num_tasks": 2
    }


@pytest.mark.parametrize("name", ["native", "orsclass"])
async def test_it_refuses_a_session_with_the_sentence(client: httpx.AsyncClient, name: str) -> None:
    body, headers = {"env_name": name, "split": "train", "index": 0}, {"X-Session-ID": fresh_id()}
    answer = await client.post("/create", json=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json() == {"detail": f"Environment '{name}' is unavailable. {REASON}"}
    assert (await client.post("/ping", headers=headers)).status_code == 404
    assert await in_database(Episode.objects.count) == 0


async def test_it_refuses_a_session_that_was_opened_without_a_name(
    client: httpx.AsyncClient,
) -> None:
    headers = {"X-Session-ID": fresh_id()}
    await client.post("/create", json={"split": "train", "index": 0}, headers=headers)
    call = {"name": "echo", "input": {"text": "x"}}
    assert (await client.get("/native/prompt", headers=headers)).status_code == 400
    assert REASON in error(await client.post("/native/call", json=call, headers=headers))
    assert (await client.get("/echo/prompt", headers=headers)).status_code == 200


async def test_its_row_says_why(client: httpx.AsyncClient) -> None:
    rows = await in_database(lambda: dict(Environment.objects.values_list("name", "unavailable")))
    assert rows == {"echo": "", "native": REASON, "orsclass": REASON}
