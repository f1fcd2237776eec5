"""Guests of a study: instructions, one task after the other, what counts, and the end."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.test import override_settings
from django.utils import timezone

from environments.curation.edit import Edit, last_revision
from environments.errors import SessionNotFound
from environments.models import Split, Task
from environments.service import get_service
from episodes.models import DealtTask, Episode, Guest, Invite, Play, Study, SuiteTask
from episodes.people.invites.rule import replace_personal, revoke
from episodes.people.studies.results import plays_of, results_of
from tests.environments.agents.ors.serving import in_database
from tests.episodes.people.playing import hosting, open_tab, send_form
from tests.episodes.people.studies.taking_part import enter, finish, link_of, send, start, study_of
from tests.people import client_of

pytestmark = pytest.mark.django_db(transaction=True)
KEYS = {"lab": "0123456789"}


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each absence be a pause, however short."""
    monkeypatch.setattr("episodes.people.play_clock.MIN_PAUSE_SECONDS", 0.0)


@asynccontextmanager
async def taking_part(**values: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield the browser of a guest who has entered a study of `Echo` by the link for everybody."""
    settings = {name: values.pop(name) for name in list(values) if name.isupper()}
    async with hosting("tests.envs:Echo", **{"ORSWEB_API_KEYS": KEYS, **settings}) as browser:
        await enter(browser, await in_database(lambda: link_of(_study(**values))))
        yield browser


def _study(**values: Any) -> Study:
    return study_of(Split.objects.get(name="train"), **{"numbers": "0-1", **values})


def _plays() -> list[tuple[int, int, bool]]:
    return [(one.number or 0, one.attempt, one.counts) for one in plays_of(Study.objects.get())]


async def test_a_guest_reads_the_instructions_plays_every_task_and_gets_the_code() -> None:
    texts = {
        "instructions": "Read *carefully*.",
        "consent": "I am an adult.",
        "completion_code": "C0DE",
    }
    async with taking_part(**texts) as browser:
        page = (await browser.get("/play/study/")).text
        assert (
            "Read <em>carefully</em>." in page and "I am an adult." in page and "C0DE" not in page
        )
        assert (await send(browser, "/play/study/", "/play/study/begin/")).status_code == 422
        first = await start(browser, "/play/study/begin/", agrees="on")
        assert "Task 1 of 2" in (await browser.get(f"/play/{first}/")).text
        assert (
            "1 of 2 done" in await finish(browser, first)
            and "1 of 2 done" in (await browser.get("/play/study/")).text
        )
        assert "Finish" in await finish(browser, await start(browser))
        assert "C0DE" in (await browser.get("/play/study/")).text
        assert (await send(browser, "/play/study/", "/play/study/next/")).headers[
            "Location"
        ] == "/play/study/"
    assert await in_database(_plays) == [(1, 1, True), (2, 1, True)]


async def test_only_the_first_attempt_counts() -> None:
    async with taking_part(attempts=2) as browser:
        assert "Try again" in await finish(browser, await start(browser, "/play/study/begin/"))
        assert "Try again" not in await finish(browser, await start(browser, again="on"))
        await finish(browser, await start(browser))
    assert await in_database(_plays) == [(1, 1, True), (1, 2, False), (2, 1, True)]
    repeats = await in_database(
        lambda: list(Play.objects.order_by("pk").values_list("is_repeat", flat=True))
    )
    assert repeats == [False, True, False]


async def test_a_guest_of_a_study_chooses_no_task() -> None:
    async with taking_part() as browser:
        assert (await browser.get("/play/")).headers["Location"] == "/play/study/"
        form = {"environment": "echo", "split": "train", "pick": "number", "number": "0"}
        answer = await send(browser, "/play/study/", "/play/", **form)
        assert answer.headers["Location"] == "/play/study/" and not await in_database(
            Episode.objects.exists
        )


@pytest.mark.parametrize("limit_seconds", [None, 600])
async def test_who_gives_up_without_a_call_goes_on_with_the_next_task(
    limit_seconds: int | None,
) -> None:
    async with taking_part(limit_seconds=limit_seconds) as browser:
        async with open_tab(browser, await start(browser, "/play/study/begin/")) as tab:
            await tab.send("leave")
            assert "1 of 2 done" in (await tab.receive("ended"))["html"]
        await finish(browser, await start(browser))
        assert "You finished 1 of 2 tasks" in (await browser.get("/play/study/")).text
    assert await in_database(_plays) == [(1, 1, False), (2, 1, True)]


async def test_a_further_attempt_has_the_number_of_its_task() -> None:
    async with taking_part(attempts=2) as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        again = await start(browser, again="on")
        assert ">Task 1 of 2<" in (await browser.get(f"/play/{again}/")).text
        assert "Task 1 of 2 is waiting for you" in (await browser.get("/play/study/")).text
        await finish(browser, again)
        assert ">Task 2 of 2<" in (await browser.get(f"/play/{await start(browser)}/")).text


CODES = {
    "completion_code": "ALL",
    "incomplete_code": "FEW",
    "no_task_code": "NONE",
    "completion": "Paid.",
}


async def ended_code(browser: httpx.AsyncClient, *endings: str) -> str:
    """Return what a guest reads as the code after tasks that end so: `finish`, or `leave`."""
    for number, ending in enumerate(endings):
        pk = await start(browser, "/play/study/next/" if number else "/play/study/begin/")
        if ending == "finish":
            await finish(browser, pk)
        else:
            async with open_tab(browser, pk) as tab:
                await tab.send("leave")
                await tab.receive("ended")
    page = (await browser.get("/play/study/")).text
    code = page.partition("study-code")[2].partition(">")[2].partition("<")[0]
    assert ("Paid." in page) == (code == "ALL")
    return code


@pytest.mark.parametrize(
    ("endings", "least", "code"),
    [
        (("leave", "leave"), None, "FEW"),
        (("leave", "leave"), 1, "FEW"),
        (("finish", "leave"), None, "FEW"),
        (("finish", "leave"), 1, "ALL"),
        (("leave", "leave"), 0, "ALL"),
        (("finish", "finish"), 5, "ALL"),  # more than there are, in a study of an earlier version
    ],
)
async def test_each_outcome_has_its_code(
    endings: tuple[str, ...], least: int | None, code: str
) -> None:
    async with taking_part(**CODES) as browser:
        await Study.objects.aupdate(least_finished=least)
        assert await ended_code(browser, *endings) == code


async def test_time_that_is_over_without_a_step_finishes_no_task() -> None:
    async with taking_part(numbers="0", limit_seconds=1, **CODES) as browser:
        async with open_tab(browser, await start(browser, "/play/study/begin/")) as tab:
            await tab.receive("ended")
        page = (await browser.get("/play/study/")).text
        assert "You finished 0 of 1 task" in page and "FEW" in page and "ALL" not in page


async def test_who_comes_when_others_have_all_tasks_gets_the_code_for_that() -> None:
    async with taking_part(numbers="0", people_per_task=1, **CODES) as browser:
        assert await ended_code(browser, "finish") == "ALL"
        link = await in_database(lambda: link_of(Study.objects.get()))
        browser.cookies.clear()
        await enter(browser, link, "Late")
        await send(browser, "/play/study/", "/play/study/begin/")
        page = (await browser.get("/play/study/")).text
        assert "Others have taken all tasks" in page and "NONE" in page and "ALL" not in page


@pytest.mark.parametrize(
    "name", ["Zoë", "Z o\u3000E", "Zo\u0065\u0308", "Z^\u043e+ë", "\uff3a\u03bf\u0435"]
)
async def test_a_name_joins_a_study_once(name: str) -> None:
    async with taking_part() as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        await send(browser, "/play/study/", "/play/leave/")
        link = await in_database(lambda: link_of(Study.objects.get()))
        assert 'value="P07"' in (await browser.get(f"{link}?id=P07")).text
        answer = await send(browser, link, link, name=name)
        assert answer.status_code == 422 and "has joined this study already" in answer.text
    assert await in_database(Guest.objects.count) == 1


async def test_many_who_join_at_once_by_one_name_are_one_person() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as host:
        link = await in_database(lambda: link_of(_study()))

        async def join() -> int:
            async with httpx.AsyncClient(
                transport=host._transport, base_url=host.base_url
            ) as browser:
                return (await send(browser, link, link, name="P01")).status_code

        answers = await asyncio.gather(*(join() for _ in range(5)))
    assert sorted(answers) == [302, 422, 422, 422, 422]
    assert await in_database(Guest.objects.count) == 1


async def test_a_new_personal_link_lets_who_joined_by_the_link_for_everybody_go_on() -> None:
    async with taking_part() as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        await send(browser, "/play/study/", "/play/leave/")
        link = await in_database(lambda: personal_link(Study.objects.get(), "zoe"))
        assert (await browser.get(link)).headers["Location"] == "/play/study/"
        assert "1 of 2 done" in (await browser.get("/play/study/")).text
        browser.cookies.clear()
        link = await in_database(lambda: link_of(Study.objects.get()))
        await in_database(lambda: personal_link(Study.objects.get(), "P02"))
        answer = await send(browser, link, link, name="p02")
        assert answer.status_code == 422 and "has a personal link to this study" in answer.text


def personal_link(study: Study, name: str) -> str:
    path = link_of(study, name, is_personal=True)
    replace_personal(Invite.objects.get(name=name))
    return path


async def test_guests_of_a_closed_study_read_that_it_is_closed() -> None:
    async with taking_part(**CODES) as browser:
        link = await in_database(lambda: link_of(Study.objects.get()))
        async with open_tab(browser, pk := await start(browser, "/play/study/begin/")) as tab:
            await tab.receive("state")
            await in_database(close)
            ended = (await tab.receive("ended"))["html"]
            assert (
                "The study is closed" in ended
                and "The study was closed." in ended
                and "evoked" not in ended
            )
            await tab.send("alive")
            assert (await tab.receive("error"))["message"].startswith("This study is closed.")
        pages = [await browser.get(path) for path in ("/play/study/", f"/play/{pk}/")]
        browser.cookies.clear()
        pages.append(await browser.get(link))
    for page in pages:
        assert (page.status_code, "This study is closed" in page.text, "evoked" in page.text) == (
            410,
            True,
            False,
        )
        assert "This study is closed. " not in page.text, "the notice repeats the heading"
        assert "Invalid invite" not in page.text


def close() -> None:
    client_of("curator", name="maker").post("/play/studies/pilot/close/", {"confirm": "1"})


def expire() -> None:
    Invite.objects.update(expires=timezone.now())


def returning(page: str) -> str:
    return re.findall(r"http://[^/]+(/play/invite/back/[^<]+)", page)[0]


@pytest.mark.parametrize("end", [close, expire])
@pytest.mark.parametrize("keys", [KEYS, {}])
async def test_who_has_finished_sees_the_code_after_the_end(
    end: Callable[[], None], keys: dict[str, str]
) -> None:
    async with taking_part(numbers="0", ORSWEB_API_KEYS=keys, **CODES) as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        link = returning((await browser.get("/play/study/")).text)
        personal = await in_database(lambda: personal_link(Study.objects.get(), "zoe"))
        await in_database(end)
        pages = [await browser.get("/play/study/")]
        for path in (personal, link):
            browser.cookies.clear()
            pages.append(await browser.get(path, follow_redirects=True))
    assert [(page.status_code, "ALL" in page.text) for page in pages] == [(200, True)] * 3


async def test_a_link_that_was_revoked_shows_no_code_after_the_close() -> None:
    async with taking_part(numbers="0", **CODES) as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        await in_database(lambda: revoke(Invite.objects.get().pk))
        await in_database(close)
        page = await browser.get("/play/study/")
    assert page.status_code == 410 and "ALL" not in page.text


@pytest.mark.parametrize(("least", "code"), [(1, "ALL"), (2, ""), (None, "")])
async def test_a_close_between_two_tasks_completes_where_enough_are_finished(
    least: int | None, code: str
) -> None:
    async with taking_part(least_finished=least, **CODES) as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        await in_database(close)
        page = await browser.get("/play/study/")
    shown = [name for name in ("ALL", "FEW", "NONE") if f">{name}<" in page.text]
    assert (page.status_code, shown) == ((200, [code]) if code else (410, []))
    assert ("This study is closed" in page.text) == (not code)


async def test_a_close_in_the_last_task_shows_the_code_for_fewer() -> None:
    async with taking_part(**CODES) as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        async with open_tab(browser, await start(browser)) as tab:
            await tab.receive("state")
            await in_database(close)
            await tab.receive("ended")
        page = (await browser.get("/play/study/")).text
    assert "This study is closed" in page and ">FEW<" in page and ">ALL<" not in page


async def test_who_found_no_task_keeps_that_code_after_the_close() -> None:
    async with taking_part(numbers="0", people_per_task=1, **CODES) as browser:
        await start(browser, "/play/study/begin/")  # keeps the task, and will not finish it
        link = await in_database(lambda: link_of(Study.objects.get()))
        browser.cookies.clear()
        await enter(browser, link, "Late")
        await send(browser, "/play/study/", "/play/study/begin/")
        assert ">NONE<" in (await browser.get("/play/study/")).text
        await in_database(close)
        await in_database(lambda: Study.objects.update(closed=timezone.now() - timedelta(days=2)))
        await in_database(
            lambda: DealtTask.objects.update(created=timezone.now() - timedelta(days=2, minutes=5))
        )
        await in_database(lambda: Invite.objects.update(revoked=timezone.now()))
        assert ">NONE<" in (await browser.get("/play/study/")).text


@pytest.mark.parametrize("path", ["/play/study/", "/play/", "/play/1/"])
async def test_a_guest_of_a_server_without_keys_reads_that_the_study_is_closed_until_leaving(
    path: str,
) -> None:
    async with taking_part(ORSWEB_API_KEYS={}) as browser:
        await in_database(close)
        page = await browser.get(path)
        assert page.status_code == 410 and "This study is closed" in page.text
        assert (await send(browser, path, "/play/leave/")).headers["Location"] == "/play/"
        assert (await browser.get("/play/")).status_code == 200


@pytest.mark.parametrize("counts_left", [False, True])
async def test_what_was_given_up_counts_only_where_the_study_says_so(counts_left: bool) -> None:
    async with taking_part(counts_left=counts_left) as browser:
        async with open_tab(browser, await start(browser, "/play/study/begin/")) as tab:
            await tab.call("echo", text="hello")
            await tab.receive("step")
            await tab.send("leave")
            await tab.receive("ended")
        assert "1 of 2 done" in (await browser.get("/play/study/")).text
    assert await in_database(_plays) == [(1, 1, counts_left)]


async def test_leaving_the_page_stops_the_clock_and_keeps_the_task(short_pauses: None) -> None:
    async with taking_part() as browser:
        pk = await start(browser, "/play/study/begin/")
        with override_settings(ORSWEB_PLAY_GRACE=0.01):  # which ends other plays at once
            async with open_tab(browser, pk) as tab:
                await tab.receive("state")
                beside = (await browser.get("/play/study/")).text
                assert (
                    "open on another page, so the clock runs." in beside
                    and "stands still" not in beside
                )
            page = (await browser.get("/play/study/")).text
            assert re.search(
                "The clock is paused. Your task is kept for <b [^>]*>(1 h 00 min|59 min 5. s)<",
                page,
            )
            assert "has ended" not in page
            await eventually_paused(True)
            async with open_tab(browser, pk) as tab:
                assert (await tab.receive("state"))["status"] == "running"
                await eventually_paused(False)
        assert "Pause</a>" in (await browser.get(f"/play/{pk}/")).text
        await finish(browser, pk)
    assert await in_database(lambda: Play.objects.get().paused_seconds) > 0


async def eventually_paused(expected: bool) -> None:
    """Wait until the page of the study says that its task is paused, or that it is not."""

    def is_paused() -> bool:
        [line] = results_of(Study.objects.get()).guests
        return line.running is not None and line.running.play.paused_since is not None

    async with asyncio.timeout(10):
        while await in_database(is_paused) != expected:
            pass


async def test_a_pause_after_the_last_answer_is_not_taken_off_the_time_played(
    short_pauses: None,
) -> None:
    def seconds() -> float | None:
        return plays_of_study()[0].seconds

    def plays_of_study() -> list[Any]:
        return list(plays_of(Study.objects.get()))

    async with taking_part() as browser:
        pk = await start(browser, "/play/study/begin/")
        async with open_tab(browser, pk) as tab:
            await tab.receive("state")
            await asyncio.sleep(0.3)
            await tab.call("echo", text="hello")
            await tab.receive("step")
        await asyncio.sleep(0.5)
        async with open_tab(browser, pk) as tab:
            await tab.receive("state")
            await tab.send("leave")
            await tab.receive("ended")
        assert 0.25 < (await in_database(seconds) or 0) < 10


async def test_a_task_ends_as_abandoned_when_its_pause_is_over() -> None:
    async with taking_part(pause_seconds=0, ORSWEB_PLAY_GRACE=0.01) as browser:
        pk = await start(browser, "/play/study/begin/")
        episode = await in_database(lambda: Episode.objects.get(pk=pk))
        with suppress(SessionNotFound):
            await get_service().until_gone(episode.session_id, episode.key_label)
        ended = await in_database(lambda: Episode.objects.get(pk=pk))
        assert (ended.cause, ended.detail) == (
            "abandoned",
            "The page was closed, and nobody came back in time.",
        )
        page = (await browser.get("/play/study/")).text
        assert (
            "Your last task has ended, because you were away for too long." in page
            and "1 of 2 done" in page
        )


async def test_a_study_without_a_pause_says_so() -> None:
    async with taking_part(pause_seconds=0, limit_seconds=600) as browser:
        assert "There is no pause" in (await browser.get("/play/study/")).text
        pk = await start(browser, "/play/study/begin/")
        played = (await browser.get(f"/play/{pk}/")).text
        async with open_tab(browser, pk) as tab:
            await tab.receive("state")
        page = (await browser.get("/play/study/")).text
        assert "The clock runs, with" in page and "Pause</a>" not in played and "0.0 ms" not in page


@pytest.mark.parametrize("calls", [0, 1])
async def test_a_task_ends_when_its_time_is_over_and_counts(calls: int) -> None:
    async with taking_part(limit_seconds=1, people_per_task=1) as browser:
        page = (await browser.get("/play/study/")).text
        assert "0.0 minutes</b> for each task" in page
        async with open_tab(browser, await start(browser, "/play/study/begin/")) as tab:
            assert 0 < (await tab.receive("state"))["time_left_seconds"] <= 1
            for _ in range(calls):
                await tab.call("echo", text="hello")
            assert "Time is up" in (await tab.receive("ended"))["html"]
        assert "1 done" in (await browser.get("/play/study/")).text
    episode = await in_database(Episode.objects.get)
    assert (episode.cause, "the time for the task" in episode.detail) == ("expired", True)
    assert await in_database(_plays) == [(1, 1, True)]
    assert await in_database(lambda: next(plays_of(Study.objects.get())).seconds) == 1


async def test_two_tabs_of_a_person_play_one_episode() -> None:
    async with taking_part() as browser:
        first = await start(browser, "/play/study/begin/")
        assert await start(browser) == first
        assert "is waiting for you" in (await browser.get("/play/study/")).text
    assert await in_database(Play.objects.count) == 1


async def test_a_task_that_is_quarantined_meanwhile_is_not_given_any_longer() -> None:
    async with taking_part() as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        await in_database(lambda: Task.objects.exclude(episodes=None).update(state="quarantined"))
        assert await in_database(
            lambda: Task.objects.filter(state="active").update(state="quarantined")
        )
        page = (await browser.get("/play/study/")).text
        assert "done. Thank you!" in page and "You finished 1 task" in page
    assert await in_database(_plays) == [(1, 1, True)]


async def test_a_task_that_is_quarantined_while_it_is_played_is_played_to_its_end() -> None:
    async with taking_part() as browser:
        async with open_tab(browser, first := await start(browser, "/play/study/begin/")) as tab:
            await tab.call("echo", text="hello")
            await tab.receive("step")
            await in_database(
                lambda: Task.objects.exclude(episodes=None).update(state="quarantined")
            )
            page = (await browser.get("/play/study/")).text
            assert "is waiting for you" in page and f'href="/play/{first}/"' in page
            await tab.call("finish")
            assert "1 of 2 done" in (await tab.receive("ended"))["html"]
        await finish(browser, await start(browser))
        assert "You finished 2 tasks" in (await browser.get("/play/study/")).text
    assert await in_database(_plays) == [(1, 1, True), (2, 1, True)]


async def test_a_task_that_is_edited_meanwhile_is_played_as_it_was() -> None:
    def edit() -> list[int]:
        listed = list(SuiteTask.objects.order_by("position").values_list("task", flat=True))
        for task in Task.objects.filter(pk__in=listed):
            Edit(
                task.pk, task.spec.replace("{", '{"is_new": true, ', 1), last_revision(task)
            ).apply("ada")
        return listed

    async with taking_part() as browser:
        first = await start(browser, "/play/study/begin/")
        listed = await in_database(edit)
        await finish(browser, first)
        await finish(browser, await start(browser))
    assert (
        await in_database(
            lambda: list(Episode.objects.order_by("pk").values_list("task", flat=True))
        )
        == listed
    )
    assert await in_database(_plays) == [(1, 1, True), (2, 1, True)]


async def test_a_link_revoked_in_mid_task_ends_it_and_keeps_what_was_played() -> None:
    async with taking_part() as browser:
        async with open_tab(browser, await start(browser, "/play/study/begin/")) as tab:
            await tab.call("echo", text="hello")
            await tab.receive("step")
            await in_database(lambda: revoke(Invite.objects.get().pk))
            await tab.call("echo", text="again")
            assert "Your invite has ended" in (await tab.receive("error"))["message"]
        answer = await browser.get("/play/study/")
        assert answer.status_code == 410 and "Your episodes are saved" in answer.text
        episode = await in_database(lambda: Episode.objects.get())
        assert (episode.status, episode.cause, episode.detail) == (
            "ended",
            "abandoned",
            "The link was revoked.",
        )
        await in_database(lambda: Invite.objects.update(revoked=None))
        assert "played it by was revoked" in (await browser.get("/play/study/")).text
    assert await in_database(lambda: Episode.objects.get().steps.count()) == 1


async def test_a_personal_link_is_the_same_person_on_every_device() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as browser:
        link = await in_database(lambda: link_of(_study(), "<b>P01</b>", is_personal=True))
        assert (await browser.get(link)).headers["Location"] == "/play/study/"
        await finish(browser, await start(browser, "/play/study/begin/"))
        browser.cookies.clear()
        await browser.get(link)
        page = (await browser.get("/play/study/")).text
        assert (
            "1 of 2 done" in page and "&lt;b&gt;P01&lt;/b&gt;" in page and "<b>P01</b>" not in page
        )
    assert await in_database(Guest.objects.count) == 1


async def test_a_guest_goes_on_with_the_link_for_another_device() -> None:
    async with taking_part() as browser:
        await finish(browser, await start(browser, "/play/study/begin/"))
        link = (
            (await browser.get("/play/study/"))
            .text.partition("/play/invite/back/")[2]
            .partition("<")[0]
        )
        browser.cookies.clear()
        assert (await browser.get(f"/play/invite/back/{link}")).headers[
            "Location"
        ] == "/play/study/"
        assert "1 of 2 done" in (await browser.get("/play/study/")).text
        assert (await browser.get("/play/invite/back/forged/")).status_code == 404
        await in_database(lambda: Invite.objects.update(revoked=timezone.now()))
        browser.cookies.clear()
        assert (await browser.get(f"/play/invite/back/{link}")).status_code == 410


async def test_tasks_are_dealt_out_until_each_has_its_people() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as browser:
        link = await in_database(lambda: link_of(_study(people_per_task=1, tasks_per_person=1)))
        for number in (1, 2):
            browser.cookies.clear()
            await enter(browser, link, f"P{number}")
            await finish(browser, await start(browser, "/play/study/begin/"))
            assert (await in_database(_plays))[-1] == (number, 1, True)
        browser.cookies.clear()
        await enter(browser, link, "P3")
        await send(browser, "/play/study/", "/play/study/begin/")
        assert "Others have taken all tasks" in (await browser.get("/play/study/")).text
    results = await in_database(lambda: results_of(Study.objects.get()))
    assert (results.complete, results.tasks, [line.deck.done for line in results.guests]) == (
        2,
        2,
        [0, 1, 1],
    )


async def test_many_guests_at_once_finish_a_study_whose_file_equals_the_rows() -> None:
    async with hosting("tests.envs:Echo", ORSWEB_API_KEYS=KEYS) as browser:
        link = await in_database(lambda: link_of(_study(is_shuffled=True)))
        await asyncio.gather(*(_play_all(browser, link, f"P{number}") for number in range(8)))
    lines, rows = (
        await in_database(_file),
        await in_database(lambda: list(Play.objects.select_related("episode"))),
    )
    assert len(lines) == 16 and {line["counts"] for line in lines} == {"yes"}
    assert sorted(
        (int(line["episode"]), float(line["return"]), int(line["task_id"])) for line in lines
    ) == sorted((play.pk, play.episode.return_sum or 0.0, play.episode.task_id) for play in rows)


async def _play_all(host: httpx.AsyncClient, link: str, name: str) -> None:
    async with httpx.AsyncClient(transport=host._transport, base_url=host.base_url) as browser:
        await enter(browser, link, name)
        await finish(browser, await start(browser, "/play/study/begin/"))
        await finish(browser, await start(browser))


def _file() -> list[dict[str, str]]:
    text = client_of("curator").get("/play/studies/pilot/results.csv").content.decode()
    return list(csv.DictReader(io.StringIO(text)))


async def test_the_form_of_other_plays_stays_closed_to_accounts_without_a_study() -> None:
    async with hosting("tests.envs:Echo") as browser:
        assert (await browser.get("/play/study/")).status_code == 404
        assert (
            await send_form(browser, environment="echo", split="train", pick="random")
        ).status_code == 302
