"""A player's socket: calls, the messages about them, and lost connections."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.test import override_settings

from environments.errors import SessionNotFound
from environments.service import get_service
from episodes.models import Episode
from tests.environments.agents.ors.serving import in_database
from tests.envs import GATES, Counter
from tests.episodes.people.playing import hosting, open_tab, play_of, start_play

pytestmark = pytest.mark.django_db(transaction=True)


async def ended(pk: int) -> Episode:
    """Return the episode, after its session has ended."""
    episode = (await play_of(pk)).episode
    with suppress(SessionNotFound):
        await get_service().until_gone(episode.session_id, episode.key_label)
    return (await play_of(pk)).episode


async def test_a_call_is_sent_as_its_recorded_step() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            state = await tab.receive("state")
            assert (state["steps"], state["returned"], state["status"], state["html"]) == (
                0,
                0.0,
                "running",
                "",
            )
            task_id = await tab.call("echo", text="hello")
            step = await tab.receive("step")
            assert (step["index"], step["task_id"], step["steps"], step["returned"]) == (
                0,
                task_id,
                1,
                0.1,
            )
            assert (
                "hello" in step["html"]
                and "+0.10" in step["html"]
                and f"/play/{pk}/steps/0/" in step["html"]
            )


async def test_an_invalid_input_is_not_called() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            task_id = await tab.call("echo", words="hello")
            refused = await tab.receive("invalid")
            assert refused["task_id"] == task_id
            assert refused["errors"] == [{"path": ["text"], "message": "Required."}]
        assert await in_database(lambda: Episode.objects.get(pk=pk).steps.count()) == 0


async def test_an_invalid_input_is_called_on_demand() -> None:
    async with (
        hosting("tests.envs:Echo") as browser,
        open_tab(browser, await start_play(browser, "echo")) as tab,
    ):
        await tab.call("echo", words="hello", anyway=True)
        step = await tab.receive("step")
        assert "input_validation" in step["html"] and step["steps"] == 0


async def test_a_missing_tool_is_refused_in_the_transcript() -> None:
    async with (
        hosting("tests.envs:Echo") as browser,
        open_tab(browser, await start_play(browser, "echo")) as tab,
    ):
        await tab.call("shout", text="hello")
        assert "not_found" in (await tab.receive("step"))["html"]


async def test_a_crash_is_a_step_and_the_play_goes_on() -> None:
    async with (
        hosting("tests.envs:Raises") as browser,
        open_tab(browser, await start_play(browser, "raises")) as tab,
    ):
        await tab.call("fault")
        assert "the valve is stuck" in (await tab.receive("step"))["html"]
        await tab.call("echo", text="still here")
        assert "still here" in (await tab.receive("step"))["html"]


async def test_a_tool_that_hangs_is_given_up_after_its_time() -> None:
    async with (
        hosting("tests.envs:Gated", ORSWEB_TOOL_TIMEOUT=0.2) as browser,
        open_tab(browser, await start_play(browser, "gated")) as tab,
    ):
        await tab.call("hold", gate="never")
        assert (await tab.receive("running"))["tool"] == "hold"
        assert "ORSWEB_TOOL_TIMEOUT" in (await tab.receive("step"))["html"]


async def test_a_call_that_is_sent_twice_runs_once() -> None:
    async with (
        hosting("tests.envs:Counter") as browser,
        open_tab(
            browser, await start_play(browser, "counter", pick="spec", spec='{"id": "twice"}')
        ) as tab,
    ):
        task_id = await tab.call("count")
        assert (await tab.receive("step"))["steps"] == 1
        await tab.call("count", task_id=task_id)
        assert (await tab.receive("done"))["task_id"] == task_id
        assert Counter.events["twice"].count("count") == 1


async def test_a_dropped_tab_finds_its_running_call_again() -> None:
    async with hosting("tests.envs:Gated") as browser:
        pk = await start_play(browser, "gated")
        async with open_tab(browser, pk) as tab:
            task_id = await tab.call("hold", gate="dropped")
            await tab.receive("running")
        async with open_tab(browser, pk) as tab:
            state = await tab.receive("state")
            assert [one["task_id"] for one in state["running"]] == [task_id]
            await tab.call("hold", gate="dropped", task_id=task_id)
            GATES["dropped"].set()
            assert (await tab.receive("step"))["task_id"] == task_id


async def test_a_tab_that_comes_back_gets_the_steps_it_missed() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            calls = []
            for text in ("first", "second", "third"):
                calls.append(await tab.call("echo", text=text))
                await tab.receive("step")
        async with open_tab(browser, pk, after=0) as tab:
            state = await tab.receive("state")
            assert (
                "first" not in state["html"]
                and "second" in state["html"]
                and "third" in state["html"]
            )
            assert state["steps"] == 3 and state["returned"] == pytest.approx(0.3)
            assert state["calls"] == calls[1:]


async def test_every_tab_gets_every_step() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as one, open_tab(browser, pk) as other:
            await other.receive("state")
            await one.call("echo", text="hello")
            assert (await one.receive("step")) == (await other.receive("step"))


async def test_the_end_is_sent_with_the_outcome_and_frees_the_session() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            await tab.call("finish")
            assert "bye" in (await tab.receive("step"))["html"]
            html = (await tab.receive("ended"))["html"]
            assert "Finished" in html and "+0.50" in html and "0 of 1 succeeded" in html
        episode = await ended(pk)
        assert get_service().live_sessions == 0
        assert (episode.cause, episode.return_sum) == ("finished", 0.5)


async def test_giving_up_abandons_the_episode() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            await tab.call("echo", text="hello")
            await tab.receive("step")
            await tab.send("leave")
            assert "Given up" in (await tab.receive("ended"))["html"]
        assert (await play_of(pk)).episode.cause == "abandoned"


async def test_the_session_ends_after_the_grace_time() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo")
        with override_settings(ORSWEB_PLAY_GRACE=0.01):
            async with open_tab(browser, pk) as tab:
                await tab.call("echo", text="hello")
                await tab.receive("step")
            assert (await ended(pk)).cause == "abandoned"


async def test_the_grace_time_runs_for_a_page_without_a_socket() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_PLAY_GRACE=0.05) as browser:
        assert (await ended(await start_play(browser, "echo"))).cause == "abandoned"


async def test_the_session_stays_while_another_tab_is_open() -> None:
    async with hosting("tests.envs:Echo") as browser:
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as one:
            with override_settings(ORSWEB_PLAY_GRACE=0.0):
                async with open_tab(browser, pk) as other:
                    await other.receive("state")
            await one.call("echo", text="still here")
            assert "still here" in (await one.receive("step"))["html"]


async def test_an_idle_session_is_abandoned_with_an_open_page() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_SESSION_TIMEOUT=1.5) as browser:
        pk = await start_play(browser, "echo")
        async with open_tab(browser, pk) as tab:
            assert "Nothing was done for 0.025 minutes." in (await tab.receive("ended"))["html"]
            await tab.call("echo", text="too late")
            assert "The session has ended" in (await tab.receive("error"))["message"]
        assert (await play_of(pk)).episode.cause == "abandoned"


async def test_typing_counts_as_activity() -> None:
    async with (
        hosting("tests.envs:Echo") as browser,
        open_tab(browser, await start_play(browser, "echo")) as tab,
    ):
        before = (await tab.receive("state"))["remaining_seconds"]
        await tab.send("alive")
        assert (await tab.receive("time"))["remaining_seconds"] >= before - 1


async def test_a_connection_test_is_answered_and_does_not_extend_the_session() -> None:
    async with (
        hosting("tests.envs:Echo") as browser,
        open_tab(browser, await start_play(browser, "echo")) as tab,
    ):
        before = (await tab.receive("state"))["remaining_seconds"]
        await tab.send("here")
        assert await tab.next() == {"type": "here"}
        [episode] = await in_database(lambda: list(Episode.objects.all()))
        assert get_service().remaining_seconds(episode.session_id, episode.key_label) < before


async def test_a_tab_of_an_ended_play_gets_the_outcome() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_PLAY_GRACE=0.01) as browser:
        pk = await start_play(browser, "echo")
        await ended(pk)
        async with open_tab(browser, pk) as tab:
            html = (await tab.next())["html"]
            assert "You were away" in html and "nobody came back in time" in html


MESSAGES = [
    ("{", "is not valid JSON"),
    ("[" * 50_000, "is not valid JSON"),
    (
        '{"type": "call", "tool": "echo", "input": {"text": "x", "n": [1e400]}}',
        "input.n.0 is NaN, an infinity or a",
    ),
    ('{"type": "call", "tool": "echo", "input": {"text": "x", "n": NaN}}', "input.n is NaN"),
    ('{"type": "call", "n": ' + "9" * 5000 + "}", "a number in it has more than 4,300 digits"),
    ("[1]", "The message is a list; send a JSON object"),
    ('{"type": "dance"}', "type='dance' is unknown; use one of call, form, alive, here, leave"),
    ('{"type": ["call"]}', "is unknown"),
    ("{}", "type=None is unknown"),
    ('{"type": "call", "tool": "echo"}', 'needs "tool" (a name) and "input"'),
    ('{"type": "call", "tool": "echo", "input": {}}', 'needs "task_id"'),
    (
        '{"type": "call", "tool": "echo", "input": {}, "task_id": "' + "x" * 101 + '"}',
        'needs "task_id"',
    ),
]


async def test_a_faulty_message_is_answered_and_changes_nothing() -> None:
    async with (
        hosting("tests.envs:Echo") as browser,
        open_tab(browser, await start_play(browser, "echo")) as tab,
    ):
        for number, (text, told) in enumerate(MESSAGES):
            await tab.send_text(text)
            assert told in (await tab.receive("error"))["message"]
            await tab.call("echo", text=f"still here {number}")
            assert f"still here {number}" in (await tab.receive("step"))["html"]


async def test_a_message_that_is_too_large_is_not_read() -> None:
    async with (
        hosting("tests.envs:Echo", ORSWEB_MAX_BODY_BYTES=2000) as browser,
        open_tab(browser, await start_play(browser, "echo")) as tab,
    ):
        await tab.call("echo", text="x" * 2000)
        assert (
            "at most 2,000 are allowed (ORSWEB_MAX_BODY_BYTES)"
            in (await tab.receive("error"))["message"]
        )


async def test_a_form_is_answered_and_its_entry_called() -> None:
    async with (
        hosting("tests.envs:Echo") as browser,
        open_tab(browser, await start_play(browser, "echo")) as tab,
    ):
        await tab.receive("state")
        await tab.send("form", id=7, tool="echo")
        answer = await tab.receive("form")
        assert answer["id"] == 7 and 'name="v/text"' in answer["html"]
        for entry in ({"text": "by fields"}, '{"text": "by json"}'):
            await tab.send("call", tool="echo", entry=entry, task_id=str(entry))
            assert (
                f"by {'json' if entry == str(entry) else 'fields'}"
                in (await tab.receive("step"))["html"]
            )
        await tab.send("call", tool="echo", entry='{"text": ', task_id="faulty", anyway=True)
        [error] = (await tab.receive("invalid"))["errors"]
        assert error["path"] == [] and "line 1, column 10" in error["message"]
