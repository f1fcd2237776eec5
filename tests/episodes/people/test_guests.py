"""Guests play and see what their invite is for, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from environments.models import Environment, Split
from episodes.models import Episode, Guest, Invite, Play
from episodes.people.invites.rule import save_invite
from tests.environments.agents.ors.serving import in_database
from tests.episodes.people.playing import communicator, hosting, open_tab, send_form, start_play
from tests.stored import make_environment, make_episode

pytestmark = pytest.mark.django_db(transaction=True)
KEYS = {"lab": "0123456789"}
ALLOWED = {"play", "invite", "leave"}
"""Names of the addresses that a guest without a play may open. Static files and the login are open
to everybody."""


def invite(environment: str = "echo", split: str | None = None, **values: Any) -> str:
    """Return the path of a new invite's link."""
    row = Invite(
        name="pilot", environment=Environment.objects.get(name=environment), author="ada", **values
    )
    row.split = Split.objects.get(name=split, environment=row.environment) if split else None
    return f"/play/invite/{save_invite(row, timedelta(days=1))}/"


async def enter(browser: httpx.AsyncClient, **values: Any) -> None:
    """Open an invite in `browser`, which makes it a guest."""
    path = await in_database(lambda: invite(**values))
    token = (
        (await browser.get(path))
        .text.partition('csrfmiddlewaretoken" value="')[2]
        .partition('"')[0]
    )
    assert (
        await browser.post(path, data={"csrfmiddlewaretoken": token, "name": "Zoë"})
    ).status_code == 302


def routes(patterns: list[Any], before: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Yield every route with an example of its address."""
    for one in patterns:
        route = before + str(one.pattern).lstrip("^").rstrip("$")
        if isinstance(one, URLResolver):
            yield from routes(one.url_patterns, route)
        else:
            yield (
                "/" + re.sub(r"<str:name>", "math", re.sub(r"<(?!str:name)[^>]*>", "1", route)),
                one,
            )


@pytest.fixture
def guest(settings: Any) -> Client:
    settings.ORSWEB_API_KEYS = KEYS
    make_episode(environment=make_environment("math"), player="human")
    client = Client()
    client.post(invite("math"), {"name": "Zoë"})
    return client


ADDRESSES = [
    address for address, route in routes(get_resolver().url_patterns) if route.name not in ALLOWED
]


def test_nothing_but_the_players_pages_is_shown_to_a_guest(guest: Client) -> None:
    for address in ADDRESSES:
        answer = guest.get(address)
        to_login = answer.status_code == 302 and answer["Location"].startswith("/accounts/login/")
        is_open = address in ("/accounts/login/", "/admin/jsi18n/", "/api/schema")
        assert to_login or is_open or answer.status_code in (401, 403, 404, 405), (
            address,
            answer.status_code,
        )


def test_the_sweep_includes_the_pages() -> None:
    met = {
        "/",
        "/episodes/",
        "/episodes/1/",
        "/play/people/",
        "/play/invites/",
        "/api/episodes",
        "/tasks/1/",
    }
    assert met <= set(ADDRESSES) and len(ADDRESSES) > 100


def test_the_play_page_has_no_other_links_for_a_guest(guest: Client) -> None:
    page = guest.get("/play/").content.decode()
    for address in (
        'href="/episodes',
        'href="/"',
        'href="/environments',
        'href="/admin',
        "/play/invites/",
    ):
        assert address not in page


def test_a_guest_cannot_make_or_revoke_invites(guest: Client) -> None:
    form = {
        "place": str(Environment.objects.get().pk),
        "name": "mine",
        "lasts": "7",
        "unit": "days",
    }
    assert guest.post("/play/invites/", form).status_code == 302
    assert guest.post(f"/play/invites/{Invite.objects.get().pk}/revoke/").status_code == 302
    assert Invite.objects.get().revoked is None


async def test_a_guest_plays_the_split_of_the_invite() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as browser:
        await enter(browser, split="train")
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            await tab.call("echo", text="hello")
            assert "hello" in (await tab.receive("step"))["html"]
        play = await in_database(lambda: Play.objects.select_related("episode").get(pk=pk))
        assert play.episode.key_label == f"@Zoë (guest {play.guest_id})"


OUTSIDE = [
    *({"split": "test"}, {"split": "nope"}, {"split": ""}, {"pick": "spec", "spec": "{}"}),
    *({"pick": "task", "task": "1"}, {"environment": "math"}, {"environment": "nope"}),
    *(
        {"environment": "math", "pick": "spec", "spec": "{}"},
        {"environment": "math", "split": "nope"},
    ),
    {"environment": "nope", "pick": "task", "task": "1"},
]


async def test_a_guest_plays_no_other_task_and_learns_no_other_names() -> None:
    async with hosting(
        "tests.envs:Echo", "environments.builtin.math:Math", ORSWEB_API_KEYS=KEYS
    ) as browser:
        await enter(browser, split="train")
        for form in OUTSIDE:
            answer = await send_form(
                browser, **{"environment": "echo", "split": "train", "pick": "random", **form}
            )
            assert answer.status_code == 422, form
            assert re.findall(r'role="alert">([^<]*)<', answer.text) == [
                "Your invite is for echo / train. Choose a random task, the next one, or a number "
                "there."
            ], form
            assert not await in_database(Episode.objects.exists), form


async def test_a_blind_invite_plays_blind() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as browser:
        await enter(browser, is_blind=True)
        pk = await start_play(browser, "echo")
        assert (await in_database(lambda: Play.objects.get(pk=pk))).is_blind


async def test_a_guest_cannot_open_the_play_of_another_guest() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as browser:
        await enter(browser)
        pk = await start_play(browser, "echo")
        browser.cookies.clear()
        await enter(browser)
        assert (await browser.get(f"/play/{pk}/")).status_code == 404
        assert (await communicator(browser, pk).connect(30))[0] is False


async def test_a_revoked_invite_closes_the_open_socket_at_its_next_message() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as browser:
        await enter(browser)
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            await tab.receive("state")
            await in_database(lambda: Invite.objects.update(revoked=timezone.now()))
            await tab.call("echo", text="hello")
            assert "Your invite has ended" in (await tab.receive("error"))["message"]
        assert not await in_database(lambda: Episode.objects.get().steps.exists())
        assert (await browser.get(f"/play/{pk}/")).status_code == 410


async def test_the_same_name_makes_another_guest_in_another_browser() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as browser:
        await enter(browser)
        browser.cookies.clear()
        await enter(browser)
        assert await in_database(Guest.objects.count) == 2
