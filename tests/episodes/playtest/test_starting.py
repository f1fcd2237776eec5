"""Environments that take their time to be set up: the page opens meanwhile and is told how it went."""

from __future__ import annotations

import pytest

from episodes.playtest import opening
from tests.envs import GATES
from tests.episodes.playtest.playing import begin, seated, table

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages do not wait for a session to be ready."""
    monkeypatch.setattr(opening, "OPEN_SECONDS", 0.05)


async def test_the_page_is_told_when_it_is_ready() -> None:
    async with table("tests.envs_slow:GatedSetup") as browser:
        pk = await begin(browser, "gatedsetup", pick="spec", spec='{"id": "x", "gate": "ready"}')
        assert "The environment is starting" in (await browser.get(f"/play/{pk}/")).text
        async with seated(browser, pk) as tab:
            assert (await tab.told("state"))["status"] == "starting"
            GATES["ready"].set()
            await tab.told("ready")
            await tab.call("echo", text="hello")
            assert "hello" in (await tab.told("step"))["html"]


async def test_the_page_is_told_why_it_never_will_be() -> None:
    async with table("tests.envs_slow:GatedSetup") as browser:
        pk = await begin(browser, "gatedsetup", pick="spec", spec='{"gate": "fails", "fails": true}')
        async with seated(browser, pk) as tab:
            assert (await tab.told("state"))["status"] == "starting"
            GATES["fails"].set()
            html = (await tab.told("ended"))["html"]
            assert "could not be set up" in html and "the setup gave up late" in html
