"""Whole episodes and their record, played by the unmodified clients of both SDKs with classes of
all three packages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.clients import Client
from tests.conformance.record import Recorded

HOSTED = pytest.mark.parametrize("name", ["echo", "orsecho", "orwecho"])


def play(session: Any) -> None:
    """Read everything, take two steps."""
    session.get_prompt()
    session.list_tools()
    session.call_tool("echo", {"text": "one two"})
    session.call_tool("finish", {})


@HOSTED
def test_it_offers_splits_tasks_and_tools(client: Client, name: str) -> None:
    environment = client.environment(name)
    tasks = environment.list_tasks("train")
    assert environment.list_splits() == ["train", "test"]
    assert environment.num_tasks("train") == len(tasks)
    assert environment.get_task("train", 1) == tasks[1]
    assert environment.get_task_range("train", 0, 2) == tasks[:2]
    assert {"echo", "finish"} <= {tool.name for tool in environment.list_tools()}


@HOSTED
def test_it_plays_a_task_to_the_end(client: Client, name: str) -> None:
    environment = client.environment(name)
    with environment.session(environment.get_task("train", 1)) as session:
        assert session.get_prompt()[0].text == "Task train-1."
        assert session.call_tool("echo", {"text": "hi"}).blocks[0].text == "hi"
        last = session.call_tool("finish", {})
    assert (last.reward, last.finished) == (0.5, True)


@HOSTED
def test_it_records_how_the_episode_went(client: Client, record: Recorded, name: str) -> None:
    with client.environment(name).session(split="train", index=1) as session:
        play(session)
    episode = record.episode(session.sid)
    assert (episode.environment.name, episode.status, episode.cause) == (name, "ended", "finished")
    assert (episode.steps_count, episode.refused_count, episode.is_probe) == (2, 0, False)
    returns = (episode.return_sum, episode.return_last, episode.return_max, episode.return_mean)
    assert returns == pytest.approx((0.6, 0.5, 0.5, 0.3))
    assert episode.user_agent == client.user_agent
    assert (
        episode.created
        <= episode.ready
        <= episode.first_acted
        <= episode.last_acted
        <= episode.ended
    )


@HOSTED
def test_it_records_what_the_agent_read(client: Client, record: Recorded, name: str) -> None:
    with client.environment(name).session(split="train", index=1) as session:
        play(session)
    episode = record.episode(session.sid)
    assert json.loads(episode.prompt.text)[0]["text"] == "Task train-1."
    assert {"echo", "finish"} <= {tool["name"] for tool in json.loads(episode.tools.text)["tools"]}
    assert json.loads(episode.task.spec) == {"id": "train-1"}


@HOSTED
def test_it_records_every_step(client: Client, record: Recorded, name: str) -> None:
    with client.environment(name).session(split="train", index=1) as session:
        play(session)
    echo, finish = record.steps(session.sid)
    assert (echo.index, echo.tool, json.loads(echo.input_json), echo.status) == (
        0,
        "echo",
        {"text": "one two"},
        "ok",
    )
    assert (echo.blocks[0]["text"], echo.reward, echo.finished) == ("one two", 0.1, False)
    assert (finish.index, finish.tool, finish.reward, finish.finished) == (1, "finish", 0.5, True)
    assert echo.started <= finish.started


def test_it_records_the_split_and_index_that_were_named(client: Client, record: Recorded) -> None:
    with client.environment("echo").session(split="test", index=-1) as session:
        play(session)
    episode = record.episode(session.sid)
    assert (episode.split.name, episode.task_index, json.loads(episode.task.spec)) == (
        "test",
        -1,
        {"id": "test-1"},
    )


def test_a_task_given_by_content_is_put_down_to_the_split_that_holds_it(
    client: Client, record: Recorded
) -> None:
    environment = client.environment("echo")
    with environment.session(environment.get_task("train", 0)) as session:
        play(session)
    episode = record.episode(session.sid)
    assert (episode.split.name, episode.task_index) == ("train", None)
    assert episode.task.content_hash


def test_it_records_the_run_that_reserved_secrets_name(client: Client, record: Recorded) -> None:
    said = {
        "orsweb_run": "grpo-7",
        "orsweb_step": "12",
        "orsweb_model": "tiny-1",
        "orsweb_seed": "3",
    }
    with client.environment("secretive").session(
        split="train", index=0, secrets=client.secrets(said)
    ) as session:
        names = session.call_tool("names", {}).blocks[0].text
    episode = record.episode(session.sid)
    assert (episode.run.name, episode.run_step, episode.model) == ("grpo-7", 12, "tiny-1")
    assert episode.labels_object == {"seed": "3"}
    assert "orsweb" not in names


def test_it_records_an_episode_left_early_as_abandoned(client: Client, record: Recorded) -> None:
    with client.environment("echo").session(split="train", index=0) as session:
        session.call_tool("echo", {"text": "bye"})
    assert (record.episode(session.sid).cause, record.episode(session.sid).is_probe) == (
        "abandoned",
        False,
    )


def test_it_records_a_session_without_a_call_as_a_probe(client: Client, record: Recorded) -> None:
    with client.environment("echo").session(split="train", index=0) as session:
        session.list_tools()
    assert record.episode(session.sid).is_probe


@pytest.mark.parametrize("name", ["taskTools", "orsTaskTools"])
def test_it_offers_the_tools_of_a_task(client: Client, name: str) -> None:
    environment = client.environment(name)
    task = environment.get_task("train", 0)
    task.task_spec.update({"tools": ["dig"], "dig": True})
    with environment.session(task) as session:
        assert [tool.name for tool in session.list_tools()] == ["look", "dig"]
        assert session.call_tool("dig", {}).blocks[0].text == "a hole"
    assert [tool.name for tool in environment.list_tools()] == ["look"]


def test_it_offers_hidden_tools_in_sessions_where_nothing_overrides_the_list(
    client: Client,
) -> None:
    environment = client.environment("orshidden")
    with environment.session(split="train", index=0) as session:
        assert {tool.name for tool in session.list_tools()} == {"dig", "look"}
    assert [tool.name for tool in environment.list_tools()] == ["look"]


@pytest.mark.parametrize(
    ("name", "tool", "arguments", "text"),
    [
        ("toolsetted", "add", {"a": 2, "b": "3"}, "5"),
        ("toolsetted", "wave", {}, "hello"),
        ("orstoolset", "wave", {}, "waving at train-0"),
        ("orstoolset", "nod", {}, "nodding"),
        ("orwtoolset", "wave", {}, "waving from the box"),
    ],
)
def test_it_calls_tools_of_toolsets(
    client: Client, name: str, tool: str, arguments: Any, text: str
) -> None:
    with client.environment(name).session(split="train", index=0) as session:
        assert session.call_tool(tool, arguments).blocks[0].text == text


@pytest.mark.parametrize("name", ["orsecho", "orwecho"])
def test_it_calls_plain_tools_of_hosted_classes(client: Client, name: str) -> None:
    with client.environment(name).session(split="train", index=0) as session:
        assert session.call_tool("sync_echo", {"text": "plain"}).blocks[0].text == "plain"


def test_it_shows_images(client: Client, record: Recorded) -> None:
    with client.environment("pictures").session(split="train", index=0) as session:
        words, picture = session.get_prompt()
        seen = session.call_tool("look", {}).blocks[1]
    assert (words.text, picture.mimeType, picture.detail) == (
        "What is this?",
        "image/png",
        {"size": "low"},
    )
    assert (seen.data, seen.mimeType, seen.detail) == (picture.data, "image/png", None)
    assert record.steps(session.sid)[0].blocks[1]["data"] == picture.data


def test_it_plays_tasks_that_are_never_listed(client: Client, record: Recorded) -> None:
    environment = client.environment("procedural")
    assert environment.num_tasks("train") == 1_000_000
    with environment.session(split="train", index=987_654) as session:
        assert session.call_tool("answer", {"text": "987654"}).reward == 1.0
    assert json.loads(record.episode(session.sid).task.spec) == {"split": "train", "seed": 987_654}


def test_it_refuses_bad_calls_and_the_session_goes_on(client: Client, record: Recorded) -> None:
    with client.environment("echo").session(split="train", index=0) as session:
        for tool, arguments in (("nope", {}), ("echo", {"text": 5})):
            with pytest.raises(Exception, match=r"not a valid tool|validation error") as refusal:
                session.call_tool(tool, arguments)
            assert type(refusal.value).__name__ == "ToolCallError"
        session.call_tool("finish", {})
    episode = record.episode(session.sid)
    assert (episode.cause, episode.steps_count, episode.refused_count) == ("finished", 1, 2)


def test_it_refuses_calls_after_the_end(client: Client, record: Recorded) -> None:
    with client.environment("echo").session(split="train", index=0) as session:
        session.call_tool("finish", {})
        with pytest.raises(Exception, match="was not run: the episode has finished"):
            session.call_tool("finish", {})
    assert (record.episode(session.sid).return_sum, record.episode(session.sid).refused_count) == (
        0.5,
        1,
    )


@pytest.mark.parametrize("name", ["raises", "orsecho", "orwecho"])
def test_it_tells_what_a_tool_raised(client: Client, record: Recorded, name: str) -> None:
    session = client.environment(name).session(split="train", index=0)
    with session, pytest.raises(Exception, match="the valve is stuck"):
        session.call_tool("fault", {})
    (step,) = record.steps(session.sid)
    assert (step.status, step.error, step.reason) == (
        "failed",
        "the valve is stuck",
        "RuntimeError",
    )
    assert record.episode(session.sid).cause == "env_error"
