"""Choosing what to play, and the messages when it is not possible."""

from __future__ import annotations

import re

import pytest

from environments.access.local_operator import OPERATOR
from episodes.models import Episode, Play
from tests.environments.agents.ors.serving import in_database
from tests.episodes.people.playing import hosting, play_of, send_form, start_play

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_play_is_an_episode_of_a_human() -> None:
    async with hosting("tests.envs:Echo") as browser:
        play = await play_of(await start_play(browser, "echo", number="2"))
        episode = play.episode
        assert (episode.player, episode.key_label, episode.task_index) == (
            "human",
            f"@{OPERATOR}",
            2,
        )
        assert play.user is not None and play.user.username == OPERATOR
        page = await browser.get(f"/play/{episode.pk}/")
        assert page.status_code == 200 and "echo" in page.text


async def test_the_newest_plays_of_a_person_come_first() -> None:
    async with hosting("tests.envs:Echo") as browser:
        begun = [await start_play(browser, "echo") for _ in range(4)]
        await in_database(
            lambda: Episode.objects.filter(pk__in=begun[:2]).update(
                status="ended", cause="abandoned"
            )
        )
        shown = re.findall(r'<li><a href="/play/(\d+)/">', (await browser.get("/play/")).text)
        assert [int(pk) for pk in shown] == [begun[3], begun[2], begun[1], begun[0]]


async def test_the_prompt_and_the_tools_are_on_record() -> None:
    async with hosting("tests.envs:Conversation") as browser:
        pk = await start_play(browser, "conversation")
        page = await browser.get(f"/play/{pk}/")
        assert "Be brief." in page.text and "Answer the conversation." in page.text


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("environment=ecko", "isn&#x27;t hosted here"),
        ("environment=echo&split=dev", "echo has no split &#x27;dev&#x27;; it has train, test"),
    ],
)
async def test_an_address_with_unknown_names_shows_a_message(query: str, told: str) -> None:
    async with hosting("tests.envs:Echo") as browser:
        page = await browser.get(f"/play/?{query}")
        assert page.status_code == 200 and told in page.text


IMPOSSIBLE = [
    (
        {"pick": "number", "number": "3"},
        "is not the number of a task. Enter a whole number from 0 to 2",
    ),
    ({"pick": "number", "number": "-1"}, "Enter a whole number from 0 to 2"),
    ({"pick": "number", "number": ""}, "The number of the task is missing"),
    ({"pick": "best"}, "pick='best' is unknown; use random"),
    ({"split": "dev"}, "echo has no split 'dev'; it has train, test"),
    ({"environment": "ecko"}, "isn't hosted here"),
    ({"pick": "spec", "spec": '{"id": 1,\n "log" 2}'}, "at line 2, column 8"),
    ({"pick": "spec", "spec": ""}, "The task is missing"),
    ({"pick": "spec", "spec": "[" * 100_000}, "This JSON can't be used"),
    (
        {"pick": "spec", "spec": '{"a": {"b": 1e400}}'},
        "This JSON can't be used: a.b is NaN, an infinity or a number bey",
    ),
    (
        {"pick": "spec", "spec": '{"a": ' + "9" * 5000 + "}"},
        "This JSON can't be used: a number in it has more than 4,300",
    ),
    ({"pick": "spec", "spec": "null"}, "A task can't be null"),
    (
        {"pick": "spec", "spec": "[1]"},
        "A task of echo is a JSON object, such as {}; this is a list, [1].",
    ),
    ({"pick": "spec", "spec": "7"}, "this is a number, 7."),
    ({"pick": "task", "task": "999999"}, "has no task"),
]


async def test_an_impossible_choice_is_explained_at_its_field() -> None:
    async with hosting("tests.envs:Echo") as browser:
        for form, told in IMPOSSIBLE:
            answer = await send_form(
                browser, **{"environment": "echo", "split": "train", "pick": "random", **form}
            )
            assert answer.status_code == 422, form
            assert told in answer.text.replace("&#x27;", "'"), form
        assert not await in_database(Episode.objects.exists)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("FailingConstructor", "the constructor gave up"),
        ("FailingSetup", "the setup gave up"),
        ("FailingPrompt", "the prompt gave up"),
    ],
)
async def test_a_failed_setup_is_reported_and_recorded(name: str, told: str) -> None:
    async with hosting(f"tests.envs:{name}") as browser:
        answer = await send_form(browser, environment=name.lower(), split="train", pick="random")
        assert answer.status_code == 422
        assert (
            f"could not be set up: RuntimeError: {told}."
            in answer.text.partition('<div class="chooser">')[0]
        )
        [play] = await in_database(lambda: list(Play.objects.select_related("episode")))
        assert play.episode.status == "ended" and f"episode {play.pk}" in answer.text


async def test_a_pasted_task_that_the_class_cannot_use_is_reported() -> None:
    async with hosting("environments.builtin.math:Math") as browser:
        answer = await send_form(
            browser, environment="math", split="train", pick="spec", spec='{"id": 1}'
        )
        assert answer.status_code == 422
        assert "The environment could not be set up with this task: " in answer.text


async def test_too_many_sessions_are_refused_in_words() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_MAX_SESSIONS=1) as browser:
        await start_play(browser, "echo")
        answer = await send_form(browser, environment="echo", split="train", pick="random")
        assert (
            answer.status_code == 422 and "the most that ORSWEB_MAX_SESSIONS allows" in answer.text
        )


async def test_the_next_unplayed_task_is_the_first_that_was_not_played() -> None:
    async with hosting("tests.envs:Echo") as browser:
        await start_play(browser, "echo", number="0")
        indexes = [
            (await play_of(await start_play(browser, "echo", pick="next"))).episode.task_index
            for _ in range(2)
        ]
        assert indexes == [1, 2]
        answer = await send_form(browser, environment="echo", split="train", pick="next")
        assert "You&#x27;ve played all 3 tasks of train" in answer.text


async def test_the_next_unplayed_task_of_a_class_that_generates_tasks() -> None:
    async with hosting("tests.envs:Procedural") as browser:
        indexes = [
            (await play_of(await start_play(browser, "procedural", pick="next"))).episode.task_index
            for _ in range(2)
        ]
        assert indexes == [0, 1]


async def test_a_pasted_task_is_played() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo", pick="spec", spec='{"id": "mine"}')
        assert "Task mine." in (await browser.get(f"/play/{pk}/")).text


async def test_a_disabled_environment_is_not_played() -> None:
    async with hosting("tests.envs:Echo") as browser:
        from environments.models import Environment

        await in_database(lambda: Environment.objects.update(is_enabled=False))
        answer = await send_form(browser, environment="echo", split="train", pick="random")
        assert "echo is disabled. You can enable it on its page in the admin." in answer.text
