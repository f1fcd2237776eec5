"""A player's socket: calls, what is told of them, and what happens when it drops."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.test import override_settings

from environments.errors import SessionNotFound
from environments.service import opened_service
from episodes.models import Episode
from tests.environments.protocol.serving import in_database
from tests.envs import GATES, Counter
from tests.episodes.playtest.playing import begin, play_of, seated, table

pytestmark = pytest.mark.django_db(transaction=True)


async def ended(pk: int) -> Episode:
    """The episode, once its session has gone."""
    episode = (await play_of(pk)).episode
    with suppress(SessionNotFound):
        await opened_service().until_gone(episode.session_id, episode.key_label)
    return (await play_of(pk)).episode


async def test_a_call_is_told_as_the_step_that_was_recorded() -> None:
    async with table("tests.envs:Echo") as browser:
        pk = await begin(browser, "echo")
        async with seated(browser, pk) as tab:
            state = await tab.told("state")
            assert (state["steps"], state["returned"], state["status"], state["html"]) == (0, 0.0, "running", "")
            task_id = await tab.call("echo", text="hello")
            step = await tab.told("step")
            assert (step["index"], step["task_id"], step["steps"], step["returned"]) == (0, task_id, 1, 0.1)
            assert "hello" in step["html"] and "+0.10" in step["html"] and f"/play/{pk}/steps/0/" in step["html"]


async def test_an_input_that_does_not_fit_is_not_called() -> None:
    async with table("tests.envs:Echo") as browser:
        pk = await begin(browser, "echo")
        async with seated(browser, pk) as tab:
            task_id = await tab.call("echo", words="hello")
            refused = await tab.told("invalid")
            assert refused["task_id"] == task_id
            assert refused["errors"] == [{"path": ["text"], "message": "Required."}]
        assert await in_database(lambda: Episode.objects.get(pk=pk).steps.count()) == 0


async def test_an_input_that_does_not_fit_is_sent_all_the_same_on_demand() -> None:
    async with table("tests.envs:Echo") as browser, seated(browser, await begin(browser, "echo")) as tab:
        await tab.call("echo", words="hello", anyway=True)
        step = await tab.told("step")
        assert "input_validation" in step["html"] and step["steps"] == 0


async def test_a_tool_that_has_vanished_is_refused_in_the_transcript() -> None:
    async with table("tests.envs:Echo") as browser, seated(browser, await begin(browser, "echo")) as tab:
        await tab.call("shout", text="hello")
        assert "not_found" in (await tab.told("step"))["html"]


async def test_a_crash_is_a_step_and_the_play_goes_on() -> None:
    async with table("tests.envs:Raises") as browser, seated(browser, await begin(browser, "raises")) as tab:
        await tab.call("fault")
        assert "the valve is stuck" in (await tab.told("step"))["html"]
        await tab.call("echo", text="still here")
        assert "still here" in (await tab.told("step"))["html"]


async def test_a_tool_that_hangs_is_given_up_after_its_time() -> None:
    async with (
        table("tests.envs:Gated", ORSWEB_TOOL_TIMEOUT=0.2) as browser,
        seated(browser, await begin(browser, "gated")) as tab,
    ):
        await tab.call("hold", gate="never")
        assert (await tab.told("running"))["tool"] == "hold"
        assert "ORSWEB_TOOL_TIMEOUT" in (await tab.told("step"))["html"]


async def test_a_call_that_is_sent_twice_runs_once() -> None:
    async with (
        table("tests.envs:Counter") as browser,
        seated(browser, await begin(browser, "counter", pick="spec", spec='{"id": "twice"}')) as tab,
    ):
        task_id = await tab.call("count")
        assert (await tab.told("step"))["steps"] == 1
        await tab.call("count", task_id=task_id)
        assert (await tab.told("done"))["task_id"] == task_id
        assert Counter.events["twice"].count("count") == 1


async def test_a_dropped_tab_finds_its_running_call_again() -> None:
    async with table("tests.envs:Gated") as browser:
        pk = await begin(browser, "gated")
        async with seated(browser, pk) as tab:
            task_id = await tab.call("hold", gate="dropped")
            await tab.told("running")
        async with seated(browser, pk) as tab:
            state = await tab.told("state")
            assert [one["task_id"] for one in state["running"]] == [task_id]
            await tab.call("hold", gate="dropped", task_id=task_id)
            GATES["dropped"].set()
            assert (await tab.told("step"))["task_id"] == task_id


async def test_a_tab_that_comes_back_is_told_what_it_missed() -> None:
    async with table("tests.envs:Echo") as browser:
        pk = await begin(browser, "echo")
        async with seated(browser, pk) as tab:
            for text in ("first", "second", "third"):
                await tab.call("echo", text=text)
                await tab.told("step")
        async with seated(browser, pk, after=0) as tab:
            state = await tab.told("state")
            assert "first" not in state["html"] and "second" in state["html"] and "third" in state["html"]
            assert state["steps"] == 3 and state["returned"] == pytest.approx(0.3)


async def test_every_tab_is_told_everything() -> None:
    async with table("tests.envs:Echo") as browser:
        pk = await begin(browser, "echo")
        async with seated(browser, pk) as one, seated(browser, pk) as other:
            await other.told("state")
            await one.call("echo", text="hello")
            assert (await one.told("step")) == (await other.told("step"))


async def test_the_end_is_told_with_the_outcome_and_frees_the_session() -> None:
    async with table("tests.envs:Echo") as browser:
        pk = await begin(browser, "echo")
        async with seated(browser, pk) as tab:
            await tab.call("finish")
            assert "bye" in (await tab.told("step"))["html"]
            html = (await tab.told("ended"))["html"]
            assert "Finished" in html and "+0.50" in html and "0 of 1 succeeded" in html
        episode = await ended(pk)
        assert opened_service().live_sessions == 0
        assert (episode.cause, episode.return_sum) == ("finished", 0.5)


async def test_giving_up_ends_it_as_abandoned() -> None:
    async with table("tests.envs:Echo") as browser:
        pk = await begin(browser, "echo")
        async with seated(browser, pk) as tab:
            await tab.call("echo", text="hello")
            await tab.told("step")
            await tab.send("leave")
            assert "Given up" in (await tab.told("ended"))["html"]
        assert (await play_of(pk)).episode.cause == "abandoned"


async def test_leaving_for_good_ends_it_after_the_grace() -> None:
    async with table("tests.envs:Echo") as browser:
        pk = await begin(browser, "echo")
        with override_settings(ORSWEB_PLAY_GRACE=0.01):
            async with seated(browser, pk) as tab:
                await tab.call("echo", text="hello")
                await tab.told("step")
            assert (await ended(pk)).cause == "abandoned"


async def test_a_page_that_never_opened_its_socket_has_left_too() -> None:
    async with table("tests.envs:Echo", ORSWEB_PLAY_GRACE=0.05) as browser:
        assert (await ended(await begin(browser, "echo"))).cause == "abandoned"


async def test_a_tab_that_stays_keeps_it_when_another_leaves() -> None:
    async with table("tests.envs:Echo") as browser:
        pk = await begin(browser, "echo")
        async with seated(browser, pk) as one:
            with override_settings(ORSWEB_PLAY_GRACE=0.0):
                async with seated(browser, pk) as other:
                    await other.told("state")
            await one.call("echo", text="still here")
            assert "still here" in (await one.told("step"))["html"]


async def test_an_idle_session_expires_though_its_page_is_open() -> None:
    async with table("tests.envs:Echo", ORSWEB_SESSION_TIMEOUT=1.5) as browser:
        pk = await begin(browser, "echo")
        async with seated(browser, pk) as tab:
            assert "expired" in (await tab.told("ended"))["html"]
            await tab.call("echo", text="too late")
            assert "The session has ended" in (await tab.told("error"))["message"]
        assert (await play_of(pk)).episode.cause == "expired"


async def test_typing_counts_as_activity() -> None:
    async with table("tests.envs:Echo") as browser, seated(browser, await begin(browser, "echo")) as tab:
        before = (await tab.told("state"))["remaining_seconds"]
        await tab.send("alive")
        assert (await tab.told("time"))["remaining_seconds"] >= before - 1


async def test_whether_the_server_is_there_is_answered_and_keeps_no_session() -> None:
    async with table("tests.envs:Echo") as browser, seated(browser, await begin(browser, "echo")) as tab:
        before = (await tab.told("state"))["remaining_seconds"]
        await tab.send("here")
        assert await tab.next() == {"type": "here"}
        [episode] = await in_database(lambda: list(Episode.objects.all()))
        assert opened_service().remaining_seconds(episode.session_id, episode.key_label) < before


async def test_a_play_that_is_over_is_told_how_it_ended() -> None:
    async with table("tests.envs:Echo", ORSWEB_PLAY_GRACE=0.01) as browser:
        pk = await begin(browser, "echo")
        await ended(pk)
        async with seated(browser, pk) as tab:
            assert "Given up" in (await tab.next())["html"]


MESSAGES = [
    ("{", "is not JSON"),
    ("[" * 50_000, "is not JSON"),
    ("[1]", "The message is a list; send a JSON object"),
    ('{"type": "dance"}', "type='dance' is unknown; use one of call, form, alive, here, leave"),
    ('{"type": ["call"]}', "is unknown"),
    ("{}", "type=None is unknown"),
    ('{"type": "call", "tool": "echo"}', 'needs "tool", a name, and "input"'),
    ('{"type": "call", "tool": "echo", "input": {}}', 'needs "task_id"'),
    ('{"type": "call", "tool": "echo", "input": {}, "task_id": "' + "x" * 101 + '"}', 'needs "task_id"'),
]


@pytest.mark.parametrize(("text", "told"), MESSAGES)
async def test_a_message_that_cannot_be_taken_is_answered_and_harms_nothing(text: str, told: str) -> None:
    async with table("tests.envs:Echo") as browser, seated(browser, await begin(browser, "echo")) as tab:
        await tab.send_text(text)
        assert told in (await tab.told("error"))["message"]
        await tab.call("echo", text="still here")
        assert "still here" in (await tab.told("step"))["html"]


async def test_a_message_that_is_too_large_is_not_read() -> None:
    async with (
        table("tests.envs:Echo", ORSWEB_MAX_BODY_BYTES=2000) as browser,
        seated(browser, await begin(browser, "echo")) as tab,
    ):
        await tab.call("echo", text="x" * 2000)
        assert "ORSWEB_MAX_BODY_BYTES allows 2000" in (await tab.told("error"))["message"]


async def test_a_form_is_answered() -> None:
    async with table("tests.envs:Echo") as browser, seated(browser, await begin(browser, "echo")) as tab:
        await tab.told("state")
        await tab.send("form", id=7, tool="echo", do="show", state={})
        answer = await tab.told("form")
        assert answer["id"] == 7 and "<input" in answer["html"]
