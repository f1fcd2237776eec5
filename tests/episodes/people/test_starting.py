"""Tests of environments with a slow setup: the page opens at once and receives the result of the
setup."""

from __future__ import annotations

import asyncio

import pytest

from episodes.models import Episode, Play
from episodes.people import session_start
from tests.environments.agents.ors.serving import in_database
from tests.envs import GATES
from tests.episodes.people.playing import hosting, open_tab, start_play

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages not wait for a session to be ready."""
    monkeypatch.setattr(session_start, "MAX_START_SECONDS", 0.05)


async def test_the_page_is_informed_when_the_setup_is_done() -> None:
    async with hosting("tests.envs_slow:GatedSetup") as browser:
        pk = await start_play(
            browser, "gatedsetup", pick="spec", spec='{"id": "x", "gate": "ready"}'
        )
        assert "The environment is starting" in (await browser.get(f"/play/{pk}/")).text
        async with open_tab(browser, pk) as tab:
            assert (await tab.receive("state"))["status"] == "starting"
            GATES["ready"].set()
            await tab.receive("ready")
            await tab.call("echo", text="hello")
            assert "hello" in (await tab.receive("step"))["html"]


async def test_the_page_is_informed_why_the_setup_failed() -> None:
    async with hosting("tests.envs_slow:GatedSetup") as browser:
        pk = await start_play(
            browser, "gatedsetup", pick="spec", spec='{"gate": "fails", "fails": true}'
        )
        async with open_tab(browser, pk) as tab:
            assert (await tab.receive("state"))["status"] == "starting"
            GATES["fails"].set()
            html = (await tab.receive("ended"))["html"]
            assert "could not be set up" in html and "the setup gave up late" in html


async def test_a_form_that_is_submitted_twice_opens_one_session_and_later_another() -> None:
    async with hosting("tests.envs:Echo") as browser:
        first, second = await asyncio.gather(
            *[start_play(browser, "echo", once="a" * 32) for _ in range(2)]
        )
        assert first == second == await start_play(browser, "echo", once="a" * 32)
        assert (
            await in_database(Play.objects.count) == await in_database(Episode.objects.count) == 1
        )
        async with open_tab(browser, first) as tab:
            await tab.send("leave")
            await tab.receive("ended")
        assert await start_play(browser, "echo", once="a" * 32) != first
