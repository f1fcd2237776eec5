"""API keys, hosts, origins and limits: the same rules as for the Open Reward Standard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.environments.agents.mcp.playing import Raw, playing, refusal, refused
from tests.server import LiveServer

LAB, GUEST = {"X-API-Key": "lab-key-0123"}, {"X-API-Key": "guest-key-4567"}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    settings = {
        "ORSWEB_API_KEYS": "lab:lab-key-0123,guest:guest-key-4567",
        "ORSWEB_MAX_SESSIONS": "3",
    }
    with LiveServer("tests.envs:Echo", env=settings) as running:
        yield running


@pytest.fixture
def address(server: LiveServer) -> str:
    return f"{server.url}/mcp/echo"


@pytest.fixture
def opened(address: str) -> Iterator[Raw]:
    """A session of the lab, ended after the test."""
    raw = Raw(address, LAB).opened()
    yield raw
    raw.delete()


@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "wrong-key-999"}])
def test_without_a_key_of_the_server_nothing_is_opened(
    address: str, headers: dict[str, str]
) -> None:
    answer = Raw(address, headers).initialize()
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "X-API-Key")
    assert refusal(answer)[1].endswith("; keys are set by ORSWEB_API_KEYS or made in the admin")
    assert "wrong-key-999" not in answer.text


async def test_the_package_raises_the_sentence(address: str) -> None:
    assert (await refused(address)).startswith("X-API-Key header is required")


async def test_a_key_opens_a_session(address: str) -> None:
    async with playing(address, GUEST) as player:
        assert await player.text("echo", text="hello") == "hello"


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "ping"])
def test_another_keys_session_does_not_exist(opened: Raw, method: str) -> None:
    answer = opened.post(opened.message(method), **GUEST)
    assert refusal(answer) == (404, "Active environment not found")


def test_another_key_neither_ends_nor_follows_a_session(opened: Raw) -> None:
    assert opened.delete(**GUEST).status_code == 404
    with opened.get(**GUEST) as answer:
        assert answer.status_code == 404
    assert opened.request("ping").status_code == 200


def test_the_number_of_sessions_is_limited(address: str) -> None:
    sessions = [Raw(address, LAB).opened() for _ in range(3)]
    answer = Raw(address, LAB).initialize()
    assert refusal(answer)[0] == 429 and "ORSWEB_MAX_SESSIONS" in refusal(answer)[1]
    assert answer.headers["retry-after"] == "2"
    assert [session.delete().status_code for session in sessions] == [204] * 3


def test_a_foreign_host_is_refused(address: str) -> None:
    assert Raw(address, {"Host": "rebound.example.org", **LAB}).initialize().status_code == 400


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://elsewhere.example.org", 403), ("null", 403), ("http://localhost:6274", 200)],
)
def test_web_pages_of_other_sites_are_refused(address: str, origin: str, status: int) -> None:
    raw = Raw(address, {"Origin": origin, **LAB})
    assert raw.initialize().status_code == status
    if status == 200:
        raw.delete()
