"""Tests of where conversations get the prompt and the tools that their client did not ask for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from environments.errors import NotPlaying
from episodes.models import Episode
from episodes.transcript.hosted_prompts import HostedPrompts
from episodes.transfer.prompt_sources import MAX_FAILURES
from tests.episodes.transfer.record import PROMPT, TOOLS, text_of
from tests.stored import make_blob, make_environment, make_episode, make_step, make_task

pytestmark = pytest.mark.django_db
QUESTION = {"role": "user", "content": "2 + 2?"}


def rows_of(*episodes: Episode, **options: Any) -> list[dict[str, Any]]:
    rows = Episode.objects.filter(pk__in=[episode.pk for episode in episodes])
    return [json.loads(line) for line in text_of("messages", episodes=rows, **options).splitlines()]


def row_of(episode: Episode, **options: Any) -> dict[str, Any]:
    [row] = rows_of(episode, **options)
    return row


def make_silent_episode(**values: Any) -> Episode:
    """Return an episode whose client asked for nothing."""
    episode = make_episode(**values)
    make_step(episode)
    return episode


def test_the_newest_other_episode_of_the_task_lends_its_prompt_and_tools() -> None:
    task = make_task()
    make_episode(task=task, prompt=make_blob('[{"type": "text", "text": "2 + 3?"}]'))
    other = make_episode(task=task, prompt=make_blob(PROMPT), tools=make_blob(TOOLS))
    row = row_of(make_silent_episode(task=task))
    assert row["messages"][0] == QUESTION and row["tools"][0]["function"]["name"] == "submit"
    assert row["prompt_source"] == row["tools_source"] == f"episode {other.pk}"


def test_tools_come_from_another_task_if_need_be_and_prompts_do_not() -> None:
    other = make_episode(prompt=make_blob(PROMPT), tools=make_blob(TOOLS))
    row = row_of(make_silent_episode())
    assert row["tools"] and row["tools_source"] == f"episode {other.pk}, another task"
    assert [message["role"] for message in row["messages"]] == ["assistant"] and row[
        "prompt_source"
    ] == "none"


def test_nothing_is_invented() -> None:
    make_episode(
        prompt=make_blob(PROMPT),
        tools=make_blob(TOOLS),
        task=make_task(environment=make_environment("shop")),
    )
    row = row_of(make_silent_episode())
    assert (row["tools"], row["prompt_source"], row["tools_source"]) == ([], "none", "none")


def test_episodes_that_the_reader_may_not_see_lend_nothing() -> None:
    task = make_task()
    make_episode(task=task, prompt=make_blob(PROMPT), key_label="home")
    row = row_of(
        make_silent_episode(task=task, key_label="lab"),
        readable=Episode.objects.filter(key_label="lab"),
    )
    assert row["prompt_source"] == "none"


def test_the_hosted_environment_is_asked_once_per_task() -> None:
    task, asked = make_task({"question": "2 + 2?"}), []

    def ask(environment: str, spec: str) -> str:
        asked.append((environment, spec))
        return PROMPT

    rows = rows_of(*(make_silent_episode(task=task) for _ in range(2)), ask=ask)
    assert [row["messages"][0] for row in rows] == [QUESTION, QUESTION]
    assert rows[0]["prompt_source"] == "hosted environment" and asked == [
        ("math", '{"question": "2 + 2?"}')
    ]


def test_an_environment_that_fails_is_not_asked_again() -> None:
    asked = []

    def ask(environment: str, spec: str) -> str:
        asked.append(spec)
        raise NotPlaying

    rows = rows_of(*(make_silent_episode() for _ in range(MAX_FAILURES + 2)), ask=ask)
    assert {row["prompt_source"] for row in rows} == {"none"}
    assert (len(rows), len(asked)) == (MAX_FAILURES + 2, MAX_FAILURES)


def test_a_command_asks_the_classes_of_the_settings(settings: Any) -> None:
    settings.ORSWEB_ENVIRONMENTS = ["math=tests.envs:Echo"]
    asked = HostedPrompts()
    try:
        row = row_of(make_silent_episode(task=make_task({"question": "2 + 2?"})), ask=asked)
    finally:
        asked.close()
    assert row["prompt_source"] == "hosted environment" and row["messages"][0]["role"] == "user"
