"""What guests see while and after they play: a page for lay people."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from environments.wire import JSONObject
from episodes.people.forms.form import html_of
from tests.episodes.people.playing import hosting, open_tab, start_play
from tests.episodes.people.test_guests import KEYS, enter

pytestmark = pytest.mark.django_db(transaction=True)
TRADE = [
    *(
        "Σ",
        "(sum)",
        "digits as number",
        ">JSON<",
        "What the agent sees",
        "OpenAI",
        "Metadata",
        "metadata",
    ),
    *(".json", "task_id", "Raw JSON", "leave out", "Read output as", "attempts yet", "Return ("),
]
"""Words and addresses that a lay person must not meet."""


@asynccontextmanager
async def playing(environment: str) -> AsyncIterator[tuple[httpx.AsyncClient, int]]:
    """Yield the browser of a guest, and the episode that the guest plays."""
    hosted = "environments.builtin.math:Math" if environment == "math" else "tests.envs:SyncEcho"
    async with hosting(hosted, ORSWEB_API_KEYS=KEYS) as browser:
        await enter(browser, environment=environment)
        yield browser, await start_play(browser, environment)


def assert_plain(html: str) -> None:
    assert [word for word in TRADE if word in html] == []


async def test_a_guest_reads_no_words_of_the_trade_and_nothing_of_the_record() -> None:
    async with playing("math") as (browser, pk), open_tab(browser, pk) as tab:
        page = (await browser.get(f"/play/{pk}/")).text
        assert_plain(page)
        assert "Your task" in page and 'data-path="[&quot;answer&quot;]"' in page
        await tab.call("submit", answer="-7")
        step, ended = await tab.receive("step"), await tab.receive("ended")
        assert_plain(step["html"] + ended["html"])
        assert "Not solved" in ended["html"] and 'data-success="no"' in ended["html"]
        assert 'class="reward"' not in ended["html"]  # no colour of success
        assert_plain((await browser.get(f"/play/{pk}/")).text)
        assert (await browser.get(f"/play/{pk}/steps/0.json")).status_code == 404


async def test_a_guest_starts_by_one_button_and_may_choose_a_task() -> None:
    async with playing("syncecho") as (browser, _):
        page = (await browser.get("/play/")).text
    folded, _, after = page.partition('<details class="task-choice">')[2].partition("</details>")
    assert (
        'name="pick"' in folded
        and 'type="submit"' in after
        and "recorded like an agent" not in page
    )


async def test_metadata_stays_with_the_server() -> None:
    async with playing("syncecho") as (browser, pk), open_tab(browser, pk) as tab:
        await tab.call("echo", text="hello")
        assert "thread" not in (await tab.receive("step"))["html"]
        for address in (f"/play/{pk}/", f"/play/{pk}/steps/0/"):
            assert "thread" not in (await browser.get(address)).text


def test_optional_fields_are_folded_and_say_nothing_of_how_they_are_sent() -> None:
    number: JSONObject = {"type": "integer", "default": 1}
    schema = {
        "type": "object",
        "properties": {"way": {"enum": ["up", "down"]}, "steps": number},
        "required": ["way"],
    }
    html = html_of("move", schema, is_plain=True)
    before, _, folded = html.partition('<details class="more-options">')
    assert 'name="v/way"' in before and 'name="v/steps"' in folded
    assert "leave out" not in folded and "JSON" not in html


async def test_controls_are_shown_for_the_tools_that_a_task_offers() -> None:
    async with hosting("environments.builtin.maze:Maze") as browser:
        page = (await browser.get(f"/play/{await start_play(browser, 'maze', number='12')}/")).text
    assert 'data-key="ArrowUp"' in page and 'data-drawing="image"' in page
    assert "Pick up" not in page and "Look up" not in page
