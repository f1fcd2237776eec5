"""Blind play: no reward is sent before the end, and fields that are hidden from agents are never
sent."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from environments.models import Environment, Task
from tests.environments.agents.ors.serving import in_database
from tests.episodes.people.playing import hosting, open_tab, play_of, start_play
from tests.sandboxed import needs_bubblewrap

pytestmark = pytest.mark.django_db(transaction=True)

REWARDS = ("+0.10", "Σ", "thread")
"""Texts that a step of SyncEcho shows: its reward, the return and a member of its metadata."""
SEED = "train/0"
"""A field of the first task of guess, which its prompt does not say."""


async def page_of(browser: httpx.AsyncClient, path: str, *, status: int = 200) -> str:
    answer = await browser.get(path)
    assert answer.status_code == status
    return answer.text


def has_none(text: str) -> bool:
    return not any(word in text for word in REWARDS)


async def test_no_reward_is_sent_before_the_end() -> None:
    async with hosting("tests.envs:SyncEcho") as browser:
        pk = await start_play(browser, "syncecho", blind="on")
        async with open_tab(browser, pk) as tab:
            await tab.call("echo", text="hello")
            step = await tab.receive("step")
            assert step["returned"] is None and "hello" in step["html"] and has_none(step["html"])
            assert has_none(await page_of(browser, f"/play/{pk}/"))
            assert has_none(await page_of(browser, f"/play/{pk}/steps/0/"))
            await page_of(browser, f"/play/{pk}/steps/0.json", status=404)
        async with open_tab(browser, pk) as tab:
            state = await tab.receive("state")
            assert state["returned"] is None and has_none(state["html"])


async def test_the_end_shows_everything() -> None:
    async with hosting("tests.envs:SyncEcho") as browser:
        pk = await start_play(browser, "syncecho", blind="on")
        async with open_tab(browser, pk) as tab:
            await tab.call("echo", text="hello")
            await tab.call("finish")
            assert "+0.60" in (await tab.receive("ended"))["html"]
        page = await page_of(browser, f"/play/{pk}/")
        assert all(word in page for word in REWARDS)
        assert "+0.10" in await page_of(browser, f"/play/{pk}/steps/0/")


async def test_an_environment_may_always_be_blind() -> None:
    async with hosting("tests.envs:Echo") as browser:
        await in_database(lambda: Environment.objects.update(is_blind=True))
        assert "Rewards are hidden until the end" in await page_of(browser, "/play/")
        assert (await play_of(await start_play(browser, "echo"))).is_blind


async def test_no_field_of_the_task_is_sent_before_the_end() -> None:
    async with hosting("environments.builtin.guess:Guess") as browser:
        pk = await start_play(browser, "guess")
        page = await page_of(browser, f"/play/{pk}/")
        assert "Agents only get the prompt and the tools" in _beside(page)
        assert SEED not in page and ">low<" not in page
        async with open_tab(browser, pk) as tab:
            assert SEED not in json.dumps(await tab.receive("state"))
            await tab.call("guess", number=1)
            assert SEED not in json.dumps(await tab.receive("step"))


async def test_no_field_of_a_task_is_sent_before_it_is_played() -> None:
    async with hosting("environments.builtin.guess:Guess") as browser:
        task = await in_database(lambda: Task.objects.get(spec__contains=f'"{SEED}"'))
        page = await page_of(browser, f"/play/?environment=guess&task={task.pk}")
        assert f"This task: <b>{task}</b>" in page and SEED not in page


async def test_the_end_shows_all_fields_that_are_not_hidden_from_agents() -> None:
    async with hosting("environments.builtin.guess:Guess") as browser:
        pk = await start_play(browser, "guess")
        target = await _given_up(browser, pk)
        page = await page_of(browser, f"/play/{pk}/")
        assert "hidden from players" in page and ">low<" in page and SEED in page
        assert ">target<" not in page and f">{target}<" not in page


async def test_an_open_page_gets_the_fields_at_the_end() -> None:
    async with (
        hosting("environments.builtin.guess:Guess") as browser,
        open_tab(browser, await start_play(browser, "guess")) as tab,
    ):
        await tab.send("leave")
        content = (await tab.receive("ended"))["content"]
        assert SEED in content and ">target<" not in content


@needs_bubblewrap
async def test_the_goals_of_shell_are_never_sent() -> None:
    async with (
        hosting("environments.builtin.shell:Shell") as browser,
        open_tab(browser, await start_play(browser, "shell")) as tab,
    ):
        await tab.send("leave")
        content = (await tab.receive("ended"))["content"]
        assert ">files<" in content and not any(
            f">{name}<" in content for name in ("goals", "keep", "gone")
        )


async def test_the_task_is_not_shown_without_a_class_that_says_what_is_hidden() -> None:
    async with hosting("environments.builtin.guess:Guess") as browser:
        pk = await start_play(browser, "guess")
        await _given_up(browser, pk)
        task = (await play_of(pk)).episode.task_id
        spec = json.loads(await in_database(lambda: Task.objects.get(pk=task).spec))
        await in_database(lambda: Environment.objects.update(name="gone"))
        beside = _beside(await page_of(browser, f"/play/{pk}/"))
        assert (
            "unknown which fields are hidden from agents" in beside
            and "What the agent sees" in beside
        )
        assert "target" not in beside and re.search(rf"\b{spec['target']}\b", beside) is None


def _beside(page: str) -> str:
    """Return the text of the column next to the transcript."""
    return re.sub(r"<[^>]*>", " ", page.split("<aside")[1].split("</aside>")[0])


async def _given_up(browser: httpx.AsyncClient, pk: int) -> int:
    """Give up; return the number to guess."""
    async with open_tab(browser, pk) as tab:
        await tab.send("leave")
        await tab.receive("ended")
    task = (await play_of(pk)).episode.task_id
    return int(json.loads(await in_database(lambda: Task.objects.get(pk=task).spec))["target"])
