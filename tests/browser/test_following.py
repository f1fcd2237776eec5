"""The replay of an episode that still runs, in a browser: the page follows it to its end, and then
rests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.agents import Agent, latest, playing
from tests.server import LiveServer

pytestmark = pytest.mark.usefixtures("complaints")


def test_it_follows_an_episode_that_runs_to_its_end(page: Page, live: LiveServer) -> None:
    returned = page.locator("[data-returned]")
    with playing(live) as agent:
        agent.call("echo", "before")
        page.goto(latest(live))
        expect(page.locator("[data-live-state=live]")).to_be_visible()
        expect(returned).to_contain_text("+0.10 so far")
        agent.call("echo", "while it is open")
        expect(page.locator("#step-1")).to_contain_text("while it is open")
        expect(page.locator(".step.current")).to_have_id("step-1")
        expect(returned).to_contain_text("+0.20 so far")
        page.keyboard.press("k")
        expect(page.locator("[data-follow]")).to_have_attribute("aria-pressed", "false")
        agent.call("finish", "done")
        expect(page.locator("#step-2")).to_contain_text("done")
        expect(page.locator(".step.current")).to_have_id("step-0")
    expect(page.locator("#headline .ending")).to_contain_text("finished")
    expect(returned).not_to_contain_text("so far")
    expect(page.locator("[data-follow]")).to_have_count(0)


def test_a_page_fetches_nothing_again_at_its_start(page: Page, live: LiveServer) -> None:
    streams, fetched = list[str](), list[str]()

    def opened(route: Route) -> None:
        streams.append(route.request.url)
        event = "event: stream-open\ndata:\n\n"
        route.fulfill(content_type="text/event-stream", body=event)

    page.on(
        "request", lambda request: "x-refetch" in request.headers and fetched.append(request.url)
    )
    page.route(re.compile("/events/"), opened)
    with page.expect_request(lambda request: request.url.endswith("&position=")):
        page.goto("/episodes/")  # the stream ends at once, and is opened again
    position = page.locator("body").get_attribute("data-position")
    assert position and streams[0].endswith(f"&position={position}")
    assert not fetched


def test_what_happens_before_the_stream_is_open_appears(page: Page, live: LiveServer) -> None:
    held: list[Route] = []
    page.route(re.compile("/events/"), lambda route: held.append(route), times=1)
    with playing(live) as agent:
        agent.call("echo", "before")
        with page.expect_request(re.compile("/events/")):
            page.goto(latest(live))
        agent.call("echo", "between")
        held[0].continue_()
        expect(page.locator("#step-1")).to_contain_text("between")


RUNNING = """() => {
  const detail = { calls: [{ tool: "dig", seconds: 65.5 }] };
  document.dispatchEvent(new CustomEvent("orsweb:calls", { detail }));
}"""
"""Tells the page what its stream tells of a call that runs."""


def test_a_call_that_runs_is_shown_with_its_clock_and_the_title_says_the_state(
    page: Page, live: LiveServer
) -> None:
    with playing(live) as agent:
        agent.call("echo", "before")
        page.goto(latest(live))
        expect(page.locator("[data-live-state=live]")).to_be_visible()
        page.evaluate(RUNNING)
        expect(page.locator("[data-running-calls]")).to_have_text(
            re.compile(r"dig running for 1:\d\d")
        )
        expect(page).to_have_title(re.compile("^● running · Episode "))
        expect(page.locator("[data-ending-so-far]")).to_contain_text("running")
        agent.call("finish", "done")
    expect(page).to_have_title(re.compile("finished · Episode "))
    expect(page.locator("[data-ending-so-far]")).to_contain_text("finished")
    expect(page.locator("[data-running-calls]")).to_be_empty()


def open_late(page: Page, address: str) -> None:
    """Open a page that learns that something was recorded after it was rendered."""

    def answer(route: Route) -> None:
        response = route.fetch()
        old = re.sub('data-position="[^"]+"', 'data-position="old"', response.text())
        route.fulfill(response=response, body=old)

    page.route(re.compile(re.escape(address) + "$"), answer, times=1)
    page.goto(address)


def test_messages_that_a_client_uploads_appear_in_their_places(
    page: Page, live: LiveServer
) -> None:
    with playing(live) as agent:
        agent.call("echo", "one")
        page.goto(latest(live))
        expect(page.locator("[data-live-state=live]")).to_be_visible()
        agent.say(
            "talk-1",
            0,
            ("system_message", "", "Be brief."),
            ("reasoning", "", "First one, then two."),
        )
        expect(page.locator(".message[data-kind=reasoning]")).to_have_count(1)
        agent.call("echo", "two")
        calls = [("tool_call", "echo", f'{{"text": "{text}"}}') for text in ("one", "two")]
        agent.say(
            "talk-1",
            2,
            calls[0],
            ("assistant_message", "", "And now two."),
            calls[1],
            ("assistant_message", "", "Done."),
        )
        expect(page.locator(".transcript")).to_contain_text("Done.")
        order = page.locator(".window > *").evaluate_all(
            "all => all.map((one) => one.dataset.kind ?? one.id)"
        )
        assert order == [
            "system_message",
            "reasoning",
            "step-0",
            "assistant_message",
            "step-1",
            "assistant_message",
        ]
        expect(page.locator("#rollout a")).to_have_text("talk-1")
        opened = page.locator(".message[data-kind=reasoning] summary")
        expect(opened).to_contain_text("First one, then two.")
        opened.click()
        expect(page.locator(".message[data-kind=reasoning] .said-text")).to_be_visible()


@contextmanager
def pressed_while_told(page: Page, agent: Agent) -> Iterator[None]:
    """Keep the link to the run pressed within the block, after the page got what it had requested
    before."""
    told = re.compile(r"/headline/")
    held: list[Route] = []
    page.route(told, lambda route: held.append(route))
    with page.expect_request(told):
        agent.call("echo", "more")
    page.locator("#headline").get_by_role("link", name="pressed").hover()
    page.mouse.down()
    with page.expect_response(told) as answer:
        held[0].continue_()
    answer.value.finished()
    page.unroute(told)
    yield
    page.mouse.up()


def test_a_link_stays_while_it_is_pressed(page: Page, live: LiveServer) -> None:
    with playing(live, run="pressed") as agent:
        with page.expect_response(re.compile(r"/headline/")):
            open_late(page, latest(live))
        # a press alone: a dragged link gets no release event
        page.evaluate("document.addEventListener('dragstart', (event) => event.preventDefault())")
        with pressed_while_told(page, agent):
            page.mouse.move(5, 500)
        expect(page.locator("[data-returned]")).to_contain_text("+0.10 so far")
        with pressed_while_told(page, agent):
            expect(page.locator("#step-1")).to_contain_text("more")
        page.wait_for_url(re.compile(r"/runs/\d+/"))


def test_what_happens_while_the_page_asks_is_asked_for_again(page: Page, live: LiveServer) -> None:
    told, held = re.compile(r"/headline/"), list[Route]()
    with playing(live) as agent:
        with page.expect_response(told):
            open_late(page, latest(live))
        page.route(told, lambda route: held.append(route), times=1)
        with page.expect_request(told):
            agent.call("echo", "one")
        expect(page.locator("#step-0")).to_contain_text("one")
        answer = held[0].fetch()
        agent.call("echo", "two")
        expect(page.locator("#step-1")).to_contain_text("two")
        held[0].fulfill(response=answer)
        expect(page.locator("[data-returned]")).to_contain_text("+0.20 so far")


def test_a_part_that_is_behind_is_fetched_again_after_the_pause_that_the_server_asks_for(
    page: Page, live: LiveServer
) -> None:
    asked, fetched = re.compile(r"/episodes/\?$"), list[str]()

    def answer(route: Route) -> None:
        fetched.append(route.request.url)
        answered = route.fetch()
        behind = {"X-Refetch-Pause": "1.4", "X-Refetch-Again": "1"} if len(fetched) == 1 else {}
        route.fulfill(response=answered, headers={**answered.headers, **behind})

    page.route(asked, answer)
    with page.expect_response(asked), page.expect_response(lambda response: len(fetched) == 2):
        # fetches its list once the stream is open, and nothing happens after that
        open_late(page, "/episodes/")
    first, second = page.evaluate(
        "performance.getEntriesByType('resource').filter(({name}) => name.endsWith('/episodes/?'))"
        ".map(({startTime, responseEnd}) => [startTime, responseEnd])"
    )
    assert second[0] - first[1] >= 1390


def test_a_part_that_says_so_is_fetched_until_it_is_complete(page: Page, live: LiveServer) -> None:
    part, fetched = re.compile(r"\?part=now"), list[str]()

    def answer(route: Route) -> None:
        fetched.append(route.request.url)
        response = route.fetch()
        behind = "data-refetch-again" if len(fetched) == 1 else ""
        route.fulfill(
            response=response, body=response.text().replace('id="now"', f'id="now" {behind}')
        )

    page.route(part, answer)
    with page.expect_response(part), page.expect_response(lambda response: len(fetched) == 2):
        open_late(page, "/")


def test_what_the_agent_asks_for_appears_and_what_was_live_is_at_rest_when_it_is_over(
    page: Page, live: LiveServer
) -> None:
    with playing(live, goal="be watched") as agent:
        page.goto(latest(live))
        expect(page.locator("#prompt")).to_have_text("The agent hasn't requested the prompt yet.")
        expect(page.locator("[data-live-state=live]")).to_be_visible()
        expect(page.locator("#peers")).to_contain_text("No attempts have ended yet")
        agent.ask()
        expect(page.locator("#prompt h2")).to_have_text("Prompt")
        agent.call("finish", "done")
    expect(page.locator("#facts")).to_contain_text("Ended")
    expect(page.locator("#facts[data-refetch]")).to_have_count(0)
    expect(page.locator("#peers")).to_contain_text("1 attempt")
    expect(page.locator("#peers")).to_contain_text("this one is #1")
    expect(page.locator("[data-live-state]")).to_have_count(0)


def test_parts_that_are_due_at_the_same_time_are_all_fetched(page: Page, live: LiveServer) -> None:
    parts, held = ("headline", "facts", "prompt", "peers"), list[Route]()
    with ExitStack() as requests, playing(live):
        # an answer to the page's start that came after the end would make no second request
        with ExitStack() as first:
            for part in parts:
                first.enter_context(page.expect_response(re.compile(f"/{part}/")))
            open_late(page, latest(live))
        for part in parts:  # before the route, which holds them
            requests.enter_context(page.expect_request(re.compile(f"/{part}/")))
        page.route(re.compile(f"/({'|'.join(parts)})/"), lambda route: held.append(route))
    for route in held:
        route.continue_()
    for part in parts:
        expect(page.locator(f"#{part}:not([data-refetch])")).to_be_visible()


def test_a_part_that_the_server_failed_to_answer_is_fetched_again(
    page: Page, live: LiveServer, complaints: list[str]
) -> None:
    answers = [
        Route.continue_,
        lambda route: route.abort(),
        lambda route: route.fulfill(status=503),
    ]
    with playing(live, goal="be answered") as agent:
        with page.expect_response(re.compile("/peers/")):
            open_late(page, latest(live))
        page.route(re.compile("/peers/"), lambda route: answers.pop()(route), times=3)
        agent.call("finish", "done")
    expect(page.locator("#peers")).to_contain_text("this one is #1")
    assert not answers
    complaints.clear()  # the failures
