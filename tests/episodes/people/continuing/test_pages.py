"""Continuing a recorded episode from a step: its prefix is run again, and differences are shown
before play goes on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.db.models import QuerySet

from environments import ToolOutput
from environments.models import Environment
from episodes.models import Episode, Play, Step
from tests.environments.agents.ors.serving import in_database, opened
from tests.envs_base import said
from tests.envs_drifting import WORLD
from tests.envs_slow import GATES
from tests.episodes.people.playing import hosting, open_tab, play_of
from tests.rows import each

pytestmark = pytest.mark.django_db(transaction=True)

DRIFTING = "tests.envs_drifting:Drifting"
Calls = list[tuple[str, dict[str, Any]]]
LOOKS: Calls = [("look", {"text": "left"}), ("look", {"text": "right"}), ("look", {"text": "up"})]


@pytest.fixture(autouse=True)
def world() -> Iterator[dict[str, ToolOutput | Exception]]:
    WORLD.clear()
    yield WORLD
    WORLD.clear()


async def recorded(
    agent: httpx.AsyncClient, calls: Calls, environment: str = "drifting", **body: Any
) -> int:
    """Return the number of an agent's episode of these calls, which has ended."""
    header = await opened(agent, environment, **body)
    for name, arguments in calls:
        await agent.post(
            f"/{environment}/call", json={"name": name, "input": arguments}, headers=header
        )
    await agent.post("/delete", headers=header)
    return (await in_database(lambda: Episode.objects.latest("pk"))).pk


async def question(browser: httpx.AsyncClient, pk: int, step: object) -> httpx.Response:
    return await browser.get(f"/play/continue/{pk}/?step={step}")


async def send(browser: httpx.AsyncClient, address: str, **form: str) -> httpx.Response:
    token = re.findall(
        r'name="csrfmiddlewaretoken" value="(\w+)"', (await browser.get("/play/")).text
    )[0]
    return await browser.post(address, data={"csrfmiddlewaretoken": token, **form})


async def start_rerun(
    browser: httpx.AsyncClient, pk: int, step: int, **form: str
) -> httpx.Response:
    return await send(browser, f"/play/continue/{pk}/", step=str(step), **form)


async def steps_of(pk: int) -> list[Step]:
    def read(rows: QuerySet[Step]) -> list[Step]:
        return list(rows)

    return await in_database(lambda: read(Step.objects.filter(episode=pk).order_by("index")))


async def newest() -> Play:
    return await in_database(lambda: Play.objects.select_related("episode__task").latest("pk"))


# --- the prefix -----------------------------------------------------------------------------------


async def test_a_form_that_is_submitted_twice_continues_once() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        answers = await asyncio.gather(
            *[start_rerun(browser, parent, 1, once="a" * 32) for _ in range(2)]
        )
        assert {answer.status_code for answer in answers} == {302}
        assert await in_database(Play.objects.count) == 1
        assert len(await steps_of((await newest()).episode_id)) == 2


async def test_the_steps_up_to_the_chosen_one_are_run_again_and_the_rest_is_played() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        answer = await start_rerun(browser, parent, 1)
        play = await newest()
        assert answer.headers["Location"] == f"/play/{play.pk}/"
        assert (play.parent_id, play.parent_step, play.differs_at) == (parent, 1, None)
        assert "All results match the recording." in (await browser.get(f"/play/{play.pk}/")).text
        assert [step.input for step in await steps_of(play.pk)] == [
            '{"text":"left"}',
            '{"text":"right"}',
        ]
        async with open_tab(browser, play.pk) as tab:
            await tab.call("look", text="down")
            assert (await tab.receive("step"))["index"] == 2


async def test_the_new_episode_is_a_humans_of_the_same_task_and_of_no_run() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS, task_spec={"id": "new", "weight": 1.0})
        await start_rerun(browser, parent, 0)
        episode = (await newest()).episode
        assert episode.task.spec == '{"id":"new","weight":1.0}'
        assert (episode.player, episode.run_id, episode.key_label) == (
            "human",
            None,
            "@local operator",
        )


async def test_refused_and_failed_steps_are_run_again_too() -> None:
    WORLD["wall"] = RuntimeError("no way")
    calls: Calls = [
        ("look", {"text": "wall"}),
        ("lok", {}),
        ("look", {}),
        ("look", {"text": "left"}),
    ]
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, calls)
        await start_rerun(browser, parent, 3)
        play = await newest()
        again = await steps_of(play.pk)
        assert [(step.tool, step.status) for step in again] == [
            ("look", "failed"),
            ("lok", "refused"),
            ("look", "refused"),
            ("look", "ok"),
        ]
        assert play.differs_at is None


async def test_a_large_input_is_sent_unchanged() -> None:
    async with hosting("tests.envs:Echo") as browser:
        parent = await recorded(browser, [("echo", {"text": "é" * 20_000})], "echo")
        await start_rerun(browser, parent, 0)
        play = await newest()
        [step] = await in_database(
            lambda: list(Step.objects.filter(episode=play.pk).select_related("input_blob"))
        )
        assert step.input_json.count("\\u00e9") == 20_000 and play.differs_at is None


async def test_a_tab_gets_all_of_many_steps() -> None:
    GATES["many"].set()
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, [("hold", {"gate": "many"}), *LOOKS])
        await in_database(lambda: prolong(parent, 250))
        GATES["many"].clear()
        await start_rerun(browser, parent, 249)
        async with open_tab(browser, (await newest()).pk) as tab:
            await tab.receive("state")
            GATES["many"].set()
            while (step := await tab.receive("step"))["index"] < 249:
                pass
            assert (step["steps"], round(step["returned"], 6)) == (250, 25.0)


# --- differences ----------------------------------------------------------------------------------


async def test_a_difference_is_reported_before_anything_else_is_called(
    world: dict[str, ToolOutput | Exception],
) -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        world["right"] = said("a <door>", 0.4)
        answer = await start_rerun(browser, parent, 2)
        play = await newest()
        assert answer.headers["Location"] == f"/play/{play.pk}/again/"
        page = (await browser.get(f"/play/{play.pk}/", follow_redirects=True)).text
        for shown in (
            "Step 1 gave a different result",
            "output, reward",
            "as ever",
            "a &lt;door&gt;",
            "+0.10",
            "+0.40",
        ):
            assert shown in page
        assert len(await steps_of(play.pk)) == 2 and (await newest()).differs_at == 1


async def test_the_rest_is_run_despite_further_differences() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, [*LOOKS, ("roll", {}), ("look", {"text": "left"})])
        WORLD["left"] = said("gone", 0.1)
        await start_rerun(browser, parent, 4)
        play = await newest()
        await send(browser, f"/play/{play.pk}/again/", choice="rest")
        answer = await browser.get(f"/play/{play.pk}/again/")
        assert answer.headers["Location"] == f"/play/{play.pk}/"
        assert len(await steps_of(play.pk)) == 5
        play = await newest()
        assert (play.parent_step, play.differs_at) == (4, 0)
        assert (
            "3 results differ from the recording, the first at"
            in (await browser.get(f"/play/{play.pk}/")).text
        )


async def test_play_can_continue_from_the_difference() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        WORLD["left"] = said("gone", 0.1)
        await start_rerun(browser, parent, 2)
        play = await newest()
        await send(browser, f"/play/{play.pk}/again/", choice="here")
        play = await newest()
        assert (play.parent_step, play.differs_at) == (0, 0)
        async with open_tab(browser, play.pk) as tab:
            await tab.call("look", text="down")
            assert (await tab.receive("step"))["index"] == 1


async def test_a_continuation_can_be_given_up() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        WORLD["left"] = said("gone", 0.1)
        await start_rerun(browser, parent, 2)
        play = await newest()
        async with open_tab(browser, play.pk) as tab:
            answer = await send(browser, f"/play/{play.pk}/again/", choice="stop")
            assert answer.headers["Location"] == f"/episodes/{parent}/#step-2"
            await tab.receive("ended")
        assert (await play_of(play.pk)).episode.cause == "abandoned"


async def test_nothing_can_be_called_before_the_player_has_chosen() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        WORLD["left"] = said("gone", 0.1)
        await start_rerun(browser, parent, 2)
        async with open_tab(browser, (await newest()).pk) as tab:
            await tab.call("look", text="down")
            assert (
                "recorded steps are still being run again"
                in (await tab.receive("error"))["message"]
            )


async def test_a_difference_in_metadata_does_not_stop_the_rerun() -> None:
    WORLD["left"] = said("as ever", 0.1, seconds=0.25)
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        WORLD["left"] = said("as ever", 0.1, seconds=0.75)
        await start_rerun(browser, parent, 2)
        play = await newest()
        assert play.differs_at is None and len(await steps_of(play.pk)) == 3
        assert (
            "All results match the recording, except the metadata of 1."
            in (await browser.get(f"/play/{play.pk}/")).text
        )


async def test_an_episode_that_ends_too_soon_cannot_be_continued() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        WORLD["left"] = said("as ever", 0.1, finished=True)
        await start_rerun(browser, parent, 2)
        page = (await browser.get(f"/play/{(await newest()).pk}/again/")).text
        assert (
            "The episode is over now" in page
            and 'value="rest"' not in page
            and 'value="here"' not in page
        )


async def test_a_blind_player_sees_a_difference_without_rewards() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        WORLD["left"] = said("as ever", 0.4, components={"x": 0.4})
        await start_rerun(browser, parent, 2, blind="on")
        page = (await browser.get(f"/play/{(await newest()).pk}/again/")).text
        assert page.count("hidden until the end") == 4 and "+0.10" not in page and "0.4" not in page


# --- progress -------------------------------------------------------------------------------------


async def test_a_long_prefix_shows_how_far_it_is_and_may_be_left() -> None:
    GATES["prefix"].set()
    async with hosting(DRIFTING) as browser:
        parent = await recorded(
            browser, [("look", {"text": "left"}), ("hold", {"gate": "prefix"}), *LOOKS]
        )
        GATES["prefix"].clear()
        answer = await start_rerun(browser, parent, 4)
        play = await newest()
        assert answer.headers["Location"] == f"/play/{play.pk}/again/"
        page = (await browser.get(f"/play/{play.pk}/", follow_redirects=True)).text
        assert "1 of 5" in page and "different result" not in page
        async with open_tab(browser, play.pk) as tab:
            await tab.receive("state")
            GATES["prefix"].set()
            assert [(await tab.receive("step"))["index"] for _ in range(4)] == [1, 2, 3, 4]
        piece = await browser.get(f"/play/{play.pk}/again/", headers={"HX-Request": "true"})
        assert piece.headers["HX-Redirect"] == f"/play/{play.pk}/"


async def test_giving_up_during_the_rerun_ends_the_session() -> None:
    GATES["given-up"].set()
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, [("hold", {"gate": "given-up"})])
        GATES["given-up"].clear()
        await start_rerun(browser, parent, 0)
        play = await newest()
        async with open_tab(browser, play.pk) as tab:
            await send(browser, f"/play/{play.pk}/again/", choice="stop")
            GATES["given-up"].set()
            await tab.receive("ended")
        assert (await play_of(play.pk)).episode.status == "ended"


async def test_an_environment_that_is_disabled_is_reported() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        await in_database(lambda: Environment.objects.update(is_enabled=False))
        answer = await question(browser, parent, 0)
        assert "drifting is disabled. You can enable it on its page in the admin." in answer.text


# --- what cannot be continued ---------------------------------------------------------------------


async def test_the_page_says_what_will_be_done_and_shows_the_step() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        answer = await question(browser, parent, 1)
        assert answer.status_code == 200
        for shown in (
            f"Continue episode {parent} from step 1",
            "steps 0 to 1",
            "right",
            "Continue from here",
        ):
            assert shown in answer.text


IMPOSSIBLE = (
    ("2", "Step 1 ended the episode, so nothing can follow it. Continue from step 0 instead."),
    ("1", "Step 1 ended the episode"),
    ("9", "has no step '9'; it has steps 0 to 2."),
    ("", "Choose the step to continue from: 0 to 2."),
    ("-1", "has no step '-1'"),
    ("1e9", "has no step '1e9'"),
    ("9" * 400, "has no step"),
)


async def test_an_impossible_step_is_explained_with_a_possible_one() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, [LOOKS[0], ("finish", {}), LOOKS[1]])
        for step, told in IMPOSSIBLE:
            answer = await question(browser, parent, step)
            assert answer.status_code == 422, step
            assert told in answer.text.replace("&#x27;", "'"), step
            assert "?step=" in answer.text, step


async def test_masked_inputs_are_run_again_only_when_the_player_says_so() -> None:
    async with hosting("tests.envs:Echo") as browser:
        calls: Calls = [
            ("echo", {"text": "hi"}),
            ("echo", {"text": "the password is hunter2-hunter2"}),
        ]
        parent = await recorded(browser, calls, "echo", secrets={"password": "hunter2-hunter2"})
        assert "The input of step 1 contains" in (await question(browser, parent, 1)).text
        assert (await start_rerun(browser, parent, 1)).status_code == 422
        assert (await start_rerun(browser, parent, 0)).status_code == 302
        assert (await start_rerun(browser, parent, 1, stars="on")).status_code == 302


@each(
    ("change", "told"),
    [
        ({"status": "running"}, "is still running"),
        ({"environment__is_hosted": False}, "no longer hosted here"),
        ({"environment__unavailable": "It needs bwrap."}, "It needs bwrap."),
        ({"task__spec": '{"key": "********"}'}, "a secret in it was replaced by stars"),
    ],
)
async def test_an_episode_that_cannot_be_continued_is_explained(
    change: dict[str, Any], told: str
) -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        await in_database(lambda: changed(Episode.objects.get(pk=parent), **change))
        answer = await question(browser, parent, 1)
        assert answer.status_code == 422 and told in answer.text


async def test_an_input_that_was_not_recorded_is_reported() -> None:
    async with hosting(DRIFTING) as browser:
        parent = await recorded(browser, LOOKS)
        lost = '{"not recorded":"nested too deeply"}'
        await in_database(lambda: Step.objects.filter(episode=parent, index=1).update(input=lost))
        answer = await question(browser, parent, 2)
        assert (
            "The input of step 1 couldn&#x27;t be recorded" in answer.text
            and "step=0" in answer.text
        )


@pytest.mark.parametrize("number", [999_999, 2**63, 10**30])
async def test_an_episode_that_is_not_there_is_not_found(number: int) -> None:
    async with hosting(DRIFTING) as browser:
        assert (await question(browser, number, 0)).status_code == 404


def prolong(episode: int, count: int) -> None:
    """Copy the last step until there are `count`."""
    last = Step.objects.filter(episode=episode).latest("index")
    facts = {
        name: getattr(last, name)
        for name in ("episode_id", "tool", "input", "output", "reward", "status")
    }
    rows = [
        Step(**facts, index=n, task_id=f"copy-{n}", started=last.started, duration_ms=1.0)
        for n in range(last.index + 1, count)
    ]
    Step.objects.bulk_create(rows)


def changed(row: Any, **change: Any) -> None:
    """Set a field, of a related row where the name says so."""
    for name, value in change.items():
        *path, field = name.split("__")
        target = getattr(row, path[0]) if path else row
        type(target).objects.filter(pk=target.pk).update(**{field: value})
