"""What a remote environment can do wrong: the agent gets a clear answer, and the episode ends as
env_error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from environments.errors import EnvironmentFault
from environments.runtime.records import EpisodeStarted
from tests.environments.hosts.lying_server import (
    HANG,
    TOOLS,
    LyingServer,
    RemotePlay,
    answer,
    events,
    output,
    result,
)
from tests.environments.runtime.play import Answer, until, within
from tests.rows import each

CALL = "POST /wild/call"


@pytest.fixture
async def server() -> AsyncIterator[LyingServer]:
    async with LyingServer() as running:
        yield running


async def _failed_call(server: LyingServer, **limits: Any) -> tuple[Answer, str]:
    """Play one call; return what the agent gets and the detail with which the episode ends as
    env_error."""
    async with RemotePlay(server, **limits) as play:
        await play.open("s")
        got = await play.answer("s", "go")
        await play.service.delete("s", "")
        end = play.record.end
        assert (end.cause, end.failed, end.return_sum) == ("env_error", 1, 0.0)
        assert play.record.steps[0].error == got.data
        return got, end.detail


@each(
    ("response", "words"),
    [
        (
            answer({"detail": "KeyError: 'x'"}, 500),
            "answered POST /wild/call with status 500: KeyError: 'x'",
        ),
        (
            answer("<html>Bad gateway</html>", 502, "text/html"),
            "with status 502: <html>Bad gateway</html>",
        ),
        (
            answer("", 307, more="Location: http://u:p@elsewhere/x?token=1\r\n"),
            "(to elsewhere/x); redirections",
        ),
        (answer({"ok": True}), "with application/json, not a stream of events"),
        (events(("error", "the dog ate it")), "reported that 'go' failed: the dog ate it"),
        (result("not json"), "'not json' is not valid JSON"),
        (result("[1]"), 'it has no "ok" that is true or false'),
        (result({"ok": "yes"}), 'it has no "ok" that is true or false'),
        (result({"ok": True}), "it has no output"),
        (result({"ok": False, "error": 5}), "it is a refusal without a text"),
        (output(reward="0.5"), "reward: Input should be a valid number"),
        (output(reward=True), "reward: "),
        (result('{"ok":true,"output":{"blocks":[],"reward":NaN}}'), "NaN is not JSON"),
        (
            result('{"ok":true,"output":{"blocks":[],"reward":1e999}}'),
            "reward: inf is not a finite number",
        ),
        (output(finished="true"), "finished: Input should be a valid boolean"),
        (output(blocks="hi"), "blocks: Input should be a valid list"),
        (output(blocks=[{"type": "video"}]), "blocks"),
        (output(metadata=[1]), "metadata: "),
        (result("[" * 300 + "]" * 300), "nested more than 200 deep"),
        (
            result({"ok": False, "error": "'go' is not a valid tool"}),
            "lists the tool 'go', but refused its call",
        ),
        (answer("data: x", kind="text/event-stream"), "closed the stream before its end"),
        (b"SSH-2.0-OpenSSH\r\n", "sent a response that is not HTTP"),
    ],
)
async def test_a_wrong_answer_is_a_failure_that_names_the_server(
    server: LyingServer, response: bytes, words: str
) -> None:
    server.answers[CALL] = response
    got, detail = await _failed_call(server)
    assert got.event == "error"
    assert words in got.data
    assert detail == got.data
    assert f"http://127.0.0.1:{server.port}" in detail


async def test_a_server_that_hangs_is_given_up(server: LyingServer) -> None:
    server.answers[CALL] = HANG
    _, detail = await _failed_call(server, remote_silence_seconds=0.5, setup_wait_seconds=0.5)
    assert "sent nothing for 0.5 s in answer to POST /wild/call (ORSWEB_REMOTE_SILENCE)" in detail
    assert len(server.asked(CALL)) == 1


async def test_a_call_that_takes_too_long_is_stopped(server: LyingServer) -> None:
    server.answers[CALL] = HANG
    async with RemotePlay(server, tool_timeout_seconds=0.1) as play:
        await play.open("s")
        got = await play.answer("s", "go")
        await play.service.delete("s", "")
    assert "'go' ran longer than 0.1 s on http://127.0.0.1:" in got.data
    assert play.record.end.detail == got.data
    assert play.record.steps[0].reason == "timeout"


async def test_a_call_of_which_nothing_was_answered_is_not_repeated(server: LyingServer) -> None:
    server.answers[CALL] = HANG
    server.closing.add(CALL)
    _, detail = await _failed_call(server)
    assert "closed the connection in answer to POST /wild/call" in detail
    assert len(server.asked(CALL)) == 1


async def test_a_stream_that_breaks_off_is_rejoined(
    server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.hosts.remote_server.REJOIN_SECONDS", 0.001)
    whole = output(reward=0.5)
    server.answers[CALL] = lambda body: (
        whole if "task_id" in body else whole[: whole.index(b"event: end")]
    )
    server.closing.add(CALL)
    async with RemotePlay(server) as play:
        await play.open("s")
        assert (await play.answer("s", "go")).body["output"]["reward"] == 0.5
    assert [body.get("task_id") for body in server.asked(CALL)] == [None, "t"]
    assert len(play.record.steps) == 1


async def test_a_stream_that_always_breaks_off_fails(
    server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.hosts.remote_server.REJOIN_SECONDS", 0.001)
    whole = output(reward=0.5)
    server.answers[CALL] = whole[: whole.index(b"event: end")]
    server.closing.add(CALL)
    _, detail = await _failed_call(server)
    assert "closed the connection" in detail
    assert len(server.asked(CALL)) == 4


async def test_a_lost_session_fails_at_once_from_then_on(server: LyingServer) -> None:
    server.answers[CALL] = answer({"detail": "Active environment not found"}, 404)
    async with RemotePlay(server) as play:
        await play.open("s")
        first, second = await play.answer("s", "go"), await play.answer("s", "go")
        await play.service.delete("s", "")
    assert "with status 404: Active environment not found" in first.data
    assert "lost the session" in second.data
    assert len(server.asked(CALL)) == 1
    assert (play.record.end.cause, play.record.end.failed) == ("env_error", 2)


async def test_a_server_that_goes_away_touches_no_other_episode(server: LyingServer) -> None:
    async with RemotePlay(server) as play:
        await play.open("s")
        assert (await play.answer("s", "go")).event == "end"
        server.stop()
        got = await play.answer("s", "go")
        await play.service.delete("s", "")
    assert f"http://127.0.0.1:{server.port} " in got.data
    assert [step.status for step in play.record.steps] == ["ok", "failed"]
    assert (play.record.end.cause, play.record.end.return_sum) == ("env_error", 0.5)


async def test_a_refused_session_fails_with_what_the_server_answered(server: LyingServer) -> None:
    server.answers["POST /create"] = answer({"detail": "ValueError: no such level"}, 500)
    async with RemotePlay(server) as play:
        with pytest.raises(
            EnvironmentFault,
            match="answered POST /create with status 500: ValueError: no such level",
        ):
            await play.open("s")
        assert play.record.end.cause == "setup_failed"
        assert "ValueError: no such level" in play.record.end.detail


async def test_secrets_in_an_error_are_masked(server: LyingServer) -> None:
    secret = "a  secret with blanks"
    server.answers["POST /create"] = lambda body: answer({"detail": [{"input": body}]}, 422)
    async with RemotePlay(server) as play:
        with pytest.raises(EnvironmentFault) as raised:
            await play.open("s", secrets={"token": secret}, masked_texts=(secret,))
        assert secret not in str(raised.value) + play.record.end.detail


async def test_secrets_go_by_body_and_header(server: LyingServer) -> None:
    async with RemotePlay(server) as play:
        await play.open("s", secrets={"token": "abc"})
    assert server.asked("POST /create")[0]["secrets"] == {"token": "abc"}
    [headers] = [headers for request, _, headers in server.requests if request == "POST /create"]
    assert headers["x-secrets"]


async def test_a_server_that_forbids_secrets_in_the_body_gets_the_header_alone(
    server: LyingServer,
) -> None:
    server.answers["POST /create"] = lambda body: (
        answer({}, 422) if "secrets" in body else answer({"sid": "far"})
    )
    async with RemotePlay(server) as play:
        await play.open("s", secrets={"token": "abc"})
        assert (await play.answer("s", "go")).event == "end"


async def test_the_prompt_may_be_wrong_too(server: LyingServer) -> None:
    server.answers["GET /wild/prompt"] = answer([{"type": "text"}])
    async with RemotePlay(server) as play:
        await play.open("s")
        with pytest.raises(EnvironmentFault, match="sent a prompt that is not valid"):
            await within(play.service.prompt_json("s", "", None))
        await play.service.delete("s", "")
        assert play.record.end.cause == "env_error"


async def test_an_environment_that_is_starting_is_awaited(server: LyingServer) -> None:
    answers = iter(
        [answer({}, 503, more="X-Backend-State: starting\r\nRetry-After: 0\r\n"), answer([])]
    )
    server.answers["GET /wild/prompt"] = lambda body: next(answers)
    async with RemotePlay(server) as play:
        await play.open("s")
        assert await within(play.service.prompt_json("s", "", None)) == "[]"


async def test_a_call_during_setup_waits_longer(server: LyingServer) -> None:
    answers = iter(
        [
            answer({}, 503, more="X-Backend-State: starting\r\nRetry-After: 0\r\n"),
            output(reward=0.5),
        ]
    )
    server.answers[CALL] = lambda body: next(answers)
    async with RemotePlay(server) as play:
        await play.open("s")
        assert (await play.answer("s", "go")).body["output"]["reward"] == 0.5
        assert len(server.asked(CALL)) == 2


async def test_once_the_setup_has_ended_a_silent_call_is_given_up(server: LyingServer) -> None:
    server.answers[CALL] = HANG
    async with RemotePlay(server, remote_silence_seconds=0.5) as play:
        await play.open("s")
        await within(play.service.prompt_json("s", "", None))
        assert "sent nothing for 0.5 s" in (await play.answer("s", "go")).data


async def test_messages_come_from_the_prompt_where_there_are_none(server: LyingServer) -> None:
    async with RemotePlay(server) as play:
        await play.open("s")
        [message] = json.loads(await within(play.service.messages_json("s", "", None)))
        assert (message["role"], message["blocks"][0]["text"]) == ("user", "Go.")


@pytest.mark.parametrize("reason", [{}, {"reason": None}, {"reason": "tired"}])
async def test_a_refusal_without_a_known_reason_is_passed_on_without_one(
    server: LyingServer, reason: dict[str, Any]
) -> None:
    server.answers[CALL] = result({"ok": False, "error": "not today", **reason})
    async with RemotePlay(server) as play:
        await play.open("s")
        assert (await play.answer("s", "go")).body == {"ok": False, "error": "not today"}
        assert play.record.steps[0].reason == "unstated"


async def test_a_server_that_cannot_be_reached_is_noticed_by_the_session_that_finds_out(
    server: LyingServer,
) -> None:
    async with RemotePlay(server) as play:
        noticing = asyncio.create_task(play.remote.until_unreachable(60))
        server.stop()
        with pytest.raises(EnvironmentFault, match=r"closed the connection|can't be reached"):
            await play.open("s")
        await within(noticing)


async def test_unknown_keys_are_left_out(server: LyingServer) -> None:
    server.answers["GET /wild/task_tools"] = answer(
        {"tools": [{**TOOLS["tools"][0], "new": 1}], "future": True}
    )
    server.answers[CALL] = output(future=1)
    async with RemotePlay(server) as play:
        await play.open("s")
        [tool] = json.loads(await within(play.service.task_tools_json("s", "", None)))["tools"]
        assert set(tool) == {"name", "description", "input_schema"}
        assert set((await play.answer("s", "go")).body["output"]) == {
            "blocks",
            "metadata",
            "reward",
            "finished",
        }


async def test_sessions_are_pinged_and_deleted(
    server: LyingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("environments.hosts.every_host.PING_SECONDS", 0.04)
    async with RemotePlay(server) as play:
        await play.open("s")
        await until(lambda: server.asked("POST /ping"))
        await play.service.delete("s", "")
        assert [request for request, _, _ in server.requests][-2:] == [
            "POST /delete",
            "POST /delete_session",
        ]
        assert all(
            headers["x-session-id"] == "far"
            for request, _, headers in server.requests
            if "ping" in request
        )


async def test_the_revision_follows_what_the_server_says(server: LyingServer) -> None:
    revisions = []
    for version in ("1", "1", "2"):
        server.answers["GET /version"] = answer({"version": version, "build_sha": None})
        async with RemotePlay(server) as play:
            await play.open("s")
            revisions.append(play.record.of(EpisodeStarted)[0].revision)
    assert revisions[0] == revisions[1] != revisions[2]
    assert revisions[2] is not None and revisions[2].versions == (("server", "2"),)
