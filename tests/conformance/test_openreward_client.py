"""Tests of what only the openreward client does: bare paths, X-Deployment, variants, messages,
terminal tools, group scores.
"""

from __future__ import annotations

import pytest
from openreward.api.environments.types import GroupCandidate, Message, TextBlock
from openreward.api.errors import ToolCallError

from tests.conformance.clients import OpenRewardClient
from tests.conformance.record import Recorded

ANSWERS = ["four", "seven ch", ""]


def candidates() -> list[GroupCandidate]:
    return [
        GroupCandidate(messages=[Message(role="assistant", blocks=[TextBlock(text=text)])])
        for text in ANSWERS
    ]


@pytest.mark.parametrize("name", ["orwecho", "acme/orwecho", "acme/OrwEcho"])
def test_it_finds_the_environment_that_x_deployment_names(
    openreward: OpenRewardClient, record: Recorded, name: str
) -> None:
    environment = openreward.environment(name)
    assert {tool.name for tool in environment.list_tools()} > {"peek", "echo"}
    with environment.session(split="train", index=0) as session:
        session.call_tool("peek", {})
    assert record.episode(session.sid).environment.name == "orwecho"


def test_it_plays_the_default_where_no_environment_has_the_name(
    openreward: OpenRewardClient, record: Recorded
) -> None:
    with openreward.environment("acme/unheard-of").session(split="train", index=0) as session:
        session.call_tool("echo", {"text": "hi"})
    assert record.episode(session.sid).environment.name == "echo"


def test_it_plays_a_variant(openreward: OpenRewardClient, record: Recorded) -> None:
    environment = openreward.variant("acme/suite", "terminal")
    assert [tool.name for tool in environment.list_tools()] == ["look"]
    with environment.session(split="train", index=0) as session:
        session.call_tool("look", {})
    assert record.episode(session.sid).environment.name == "terminal"


@pytest.mark.parametrize("name", ["terminal", "orwterminal"])
def test_it_ends_with_the_final_message(
    openreward: OpenRewardClient, record: Recorded, name: str
) -> None:
    with openreward.environment(name).session(split="train", index=0) as session:
        assert session.terminal_tool().name == "submit"
        graded = session.call_terminal_tool("42")
    assert (graded.reward, graded.finished) == (1.0, True)
    assert record.episode(session.sid).cause == "finished"


@pytest.mark.parametrize(
    ("name", "roles"), [("conversation", 3), ("orwconversation", 2), ("orwecho", 1)]
)
def test_it_reads_messages(
    openreward: OpenRewardClient, record: Recorded, name: str, roles: int
) -> None:
    with openreward.environment(name).session(split="train", index=0) as session:
        assert len(session.get_messages()) == roles
    assert record.episode(session.sid).prompt is not None


def test_it_reads_a_conversation_as_a_prompt(openreward: OpenRewardClient) -> None:
    with openreward.environment("orwconversation").session(split="train", index=0) as session:
        assert [block.text for block in session.get_prompt()] == [
            "[system]",
            "Be brief.",
            "[user]",
            "And now?",
        ]


@pytest.mark.parametrize("name", ["scored", "orwscored"])
def test_it_scores_a_group(openreward: OpenRewardClient, name: str) -> None:
    with openreward.environment(name).session(split="train", index=0) as session:
        assert session.supports_score_group()
        scores = session.score_group(candidates())
    assert [score.reward for score in scores] == [4.0, 8.0, 0.0]
    assert scores[0].metadata == {"rank": 1}


def test_it_reports_that_scoring_failed_and_goes_on(openreward: OpenRewardClient) -> None:
    environment = openreward.environment("scored")
    task = environment.get_task("train", 0)
    task.task_spec["drop"] = True
    with environment.session(task) as session:
        with pytest.raises(Exception, match="2 scores for 3 candidates"):
            session.score_group(candidates())
        assert session.call_tool("finish", {}).finished


def test_it_reports_that_scoring_is_not_supported(openreward: OpenRewardClient) -> None:
    with openreward.environment("echo").session(split="train", index=0) as session:
        assert not session.supports_score_group()
        with pytest.raises(Exception, match="does not support score_group"):
            session.score_group(candidates())


def test_it_tells_the_version(openreward: OpenRewardClient) -> None:
    with openreward.environment("echo").session(split="train", index=0) as session:
        assert set(session.version()) == {"version", "build_sha"}


def test_it_goes_on_after_a_call_that_came_too_late(openreward: OpenRewardClient) -> None:
    with openreward.environment("echo").session(split="train", index=0) as session:
        session.call_tool("finish", {})
        with pytest.raises(ToolCallError, match="has finished") as refusal:
            session.call_tool("echo", {"text": "more"})
        assert refusal.value.reason == "episode_finished"
        assert session.get_prompt()


def test_it_gives_the_constructor_its_key_among_the_secrets(openreward: OpenRewardClient) -> None:
    secrets = openreward.secrets({"token": "t-0123456789"})
    with openreward.environment("secretive").session(
        split="train", index=0, secrets=secrets
    ) as session:
        assert session.call_tool("names", {}).blocks[0].text == "OPENREWARD_API_KEY,api_key,token"
