"""Guesses of hidden fields: people who may not see them find a right one recorded as a wrong
one."""

from __future__ import annotations

import json

import httpx
import pytest

from environments.models import Task
from episodes.models import Play
from tests.environments.agents.ors.serving import in_database
from tests.episodes.people.continuing.test_pages import start_rerun
from tests.episodes.people.playing import hosting, open_tab, play_of, start_play
from tests.episodes.people.test_strangers import KEYS, log_in

pytestmark = pytest.mark.django_db(transaction=True)

QUETZAL = "tests.environments.keys.canary:Quetzal"


async def guess(browser: httpx.AsyncClient, answer: str) -> Play:
    spec = json.dumps({"id": "quetzal-train-0", "text": "", "answer": answer})
    return await play_of(await start_play(browser, "quetzal", pick="spec", spec=spec))


async def test_a_right_guess_of_a_player_is_no_task_of_a_split() -> None:
    async with hosting(QUETZAL, **KEYS) as browser:
        await log_in(browser, "ada")
        named = await play_of(await start_play(browser, "quetzal"))
        right, wrong = [await guess(browser, answer) for answer in ("?", "!")]
        assert named.episode.split_id is not None
        assert right.episode.split_id is wrong.episode.split_id is None
        assert right.episode.task_id != named.episode.task_id


async def test_playing_a_guess_again_or_continuing_it_is_the_same_guess() -> None:
    async with hosting(QUETZAL, **KEYS) as browser:
        await log_in(browser, "ada")
        first = await guess(browser, "?")
        again = await play_of(
            await start_play(
                browser, "quetzal", split="", pick="task", task=str(first.episode.task_id)
            )
        )
        assert (again.episode.task_id, again.episode.split_id) == (first.episode.task_id, None)
        async with open_tab(browser, first.pk) as tab:
            await tab.call("look")
            await tab.receive("step")
            await tab.send("leave")
            await tab.receive("ended")
        answer = await start_rerun(browser, first.pk, 0)
        assert answer.status_code == 302, answer.text[-3000:]
        continued = await in_database(lambda: Play.objects.select_related("episode").latest("pk"))
        assert continued.parent_id == first.pk
        assert (continued.episode.task_id, continued.episode.split_id) == (
            first.episode.task_id,
            None,
        )


async def test_people_who_see_hidden_fields_paste_the_task_of_a_split() -> None:
    async with hosting(QUETZAL) as browser:
        named = await play_of(await start_play(browser, "quetzal"))
        pasted = await guess(browser, "?")
        assert (pasted.episode.task_id, pasted.episode.split_id) == (
            named.episode.task_id,
            named.episode.split_id,
        )
        assert (
            await in_database(
                lambda: Task.objects.filter(environment__name="quetzal", source="played").count()
            )
            == 0
        )
