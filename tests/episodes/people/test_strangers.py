"""Only its player opens a play, and only from pages of this server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client, override_settings

from environments.errors import SessionNotFound
from environments.models import Environment
from environments.service import get_service
from environments.wire import ToolCall
from episodes.models import Episode
from tests.environments.agents.ors.serving import in_database, opened
from tests.episodes.people.playing import communicator, hosting, open_tab, play_of, start_play
from tests.people import member
from tests.rows import each

pytestmark = pytest.mark.django_db(transaction=True)

KEYS = {"ORSWEB_API_KEYS": {"lab": "lab-key-1"}}
PATHS = (
    "",
    "prompt/?part=prompt-0",
    "steps/0/",
    "steps/0.json",
    "steps/0/images/0",
    "prompt/images/0",
)


async def log_in(browser: httpx.AsyncClient, name: str) -> None:
    """Log in as that user, who is created if necessary."""

    def session() -> str:
        client = Client()
        client.force_login(
            User.objects.filter(username=name).first() or member("player", name=name)
        )
        return client.cookies["sessionid"].value

    browser.cookies.set("sessionid", await in_database(session))


async def code_of(browser: httpx.AsyncClient, pk: int, **changes: Any) -> int | None:
    """Return the code with which the socket was refused; None if it opened."""
    socket = communicator(browser, pk, **changes)
    is_open, code = await socket.connect(timeout=30)
    await socket.disconnect()
    return None if is_open else code


async def test_a_player_opens_the_own_play() -> None:
    async with hosting("tests.envs:Echo", **KEYS) as browser:
        await log_in(browser, "ada")
        pk = await start_play(browser, "echo")
        assert (await play_of(pk)).episode.key_label == "@ada"
        assert await code_of(browser, pk) is None


async def test_another_player_is_a_stranger() -> None:
    async with hosting("tests.envs:Echo", **KEYS) as browser:
        await log_in(browser, "ada")
        pk = await start_play(browser, "echo")
        await log_in(browser, "eve")
        assert await code_of(browser, pk) == 4404
        assert [(await browser.get(f"/play/{pk}/{path}")).status_code for path in PATHS] == [
            404
        ] * len(PATHS)


async def test_who_is_no_member_of_a_private_environment_is_a_stranger() -> None:
    async with hosting("tests.envs:Echo", **KEYS) as browser:
        await log_in(browser, "ada")
        pk = await start_play(browser, "echo")
        await in_database(lambda: Environment.objects.update(is_private=True))
        assert await code_of(browser, pk) == 4404
        assert [(await browser.get(f"/play/{pk}/{path}")).status_code for path in PATHS] == [
            404
        ] * len(PATHS)
        await in_database(
            lambda: Environment.objects.get().members.add(User.objects.get(username="ada"))
        )
        assert await code_of(browser, pk) is None


async def test_a_visitor_without_login_is_a_stranger() -> None:
    async with hosting("tests.envs:Echo", **KEYS) as browser:
        await log_in(browser, "ada")
        pk = await start_play(browser, "echo")
        browser.cookies.clear()
        assert await code_of(browser, pk) == 4404
        assert (
            (await browser.get(f"/play/{pk}/")).headers["Location"].startswith("/accounts/login/")
        )


async def test_an_agents_episode_is_nobodys_play() -> None:
    async with hosting("tests.envs:Echo") as browser:
        await opened(browser, "echo")
        pk = await in_database(lambda: Episode.objects.get().pk)
        assert await code_of(browser, pk) == 4404
        assert (await browser.get(f"/play/{pk}/")).status_code == 404


# the second is no address of a play
@pytest.mark.parametrize(("pk", "code"), [(999_999, 4404), (2**63, 1000)])
async def test_an_unknown_play_is_not_found(pk: int, code: int) -> None:
    async with hosting("tests.envs:Echo") as browser:
        assert await code_of(browser, pk) == code
        assert (await browser.get(f"/play/{pk}/")).status_code == 404


@each(
    "changes",
    [
        {"origin": b"http://elsewhere.example.org"},
        {"origin": b"http://localhost:3000"},
        {"origin": b"null"},
        {"origin": b""},
        {"origin": b"http://rebound.example.org", "host": b"rebound.example.org"},
        {"client": ["192.0.2.7", 5]},
    ],
)
async def test_a_foreign_page_or_machine_opens_no_socket(changes: dict[str, Any]) -> None:
    async with hosting("tests.envs:Echo") as browser:
        assert await code_of(browser, await start_play(browser, "echo"), **changes) is not None


async def test_the_protocol_does_not_reach_a_players_session() -> None:
    async with hosting("tests.envs:Echo") as browser:
        episode = (await play_of(await start_play(browser, "echo"))).episode
        header = {"X-Session-ID": episode.session_id}
        answer = await browser.post(
            "/echo/call", json={"name": "echo", "input": {"text": "mine"}}, headers=header
        )
        assert answer.status_code == 404


async def test_a_player_does_not_reach_the_session_of_another_player() -> None:
    async with hosting("tests.envs:Echo") as browser:
        episode = (await play_of(await start_play(browser, "echo"))).episode
        with pytest.raises(SessionNotFound):
            await get_service().call(
                episode.session_id, "@eve", None, ToolCall(name="finish", input={})
            )


async def test_another_address_has_no_socket() -> None:
    with override_settings():
        async with hosting("tests.envs:Echo") as browser:
            socket = communicator(browser, 1)
            socket.scope["path"] = "/ws/none/"
            is_open, _ = await socket.connect(timeout=30)
            assert not is_open


ENDS = [lambda: Session.objects.all().delete(), lambda: User.objects.update(is_active=False)]


@pytest.mark.parametrize("ends", ENDS)
async def test_an_open_socket_closes_at_the_next_message_after_a_logout(
    ends: Callable[[], Any],
) -> None:
    async with hosting("tests.envs:Echo", **KEYS) as browser:
        await log_in(browser, "ada")
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            await tab.call("echo", text="hello")
            await tab.receive("step")
            await in_database(ends)
            await tab.call("echo", text="again")
            assert "logged out" in (await tab.receive("error"))["message"]
        assert await in_database(lambda: Episode.objects.get().steps.count()) == 1


@pytest.mark.parametrize("ends", ENDS)
async def test_an_open_socket_that_only_listens_closes_too(
    ends: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("episodes.people.consumer.RECHECK_SECONDS", 0.1)
    async with hosting("tests.envs:Echo", **KEYS) as browser:
        await log_in(browser, "ada")
        async with open_tab(browser, await start_play(browser, "echo")) as tab:
            await tab.receive("state")
            await in_database(ends)
            assert "logged out" in (await tab.receive("error"))["message"]


async def test_a_player_who_may_no_longer_play_acts_no_more() -> None:
    async with hosting("tests.envs:Echo", **KEYS) as browser:
        await log_in(browser, "ada")
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            await tab.call("echo", text="hello")
            await tab.receive("step")
            await in_database(lambda: User.objects.get(username="ada").groups.clear())
            await tab.call("echo", text="again")
            assert "may not play in the browser" in (await tab.receive("error"))["message"]
        is_open, _ = await communicator(browser, pk).connect(timeout=30)
        assert not is_open
        assert await in_database(lambda: Episode.objects.get().steps.count()) == 1
