"""Playing in a browser, with the keyboard alone: four environments to their end, a socket that
drops, two tabs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from environments.builtin.chart.chart import Chart
from environments.builtin.maze.grid import DIRECTIONS, Grid, Situation
from environments.builtin.maze.maze import Maze
from environments.builtin.web.web import Web
from tests.browser.axe import load_axe, serious
from tests.browser.guests import COOKIE, TOKEN
from tests.server import LiveServer

MAZE = 12
"""A task of maze whose exit is six cells away."""


@pytest.fixture(scope="module")
def live(played: LiveServer) -> LiveServer:
    return played


def sit_down(page: Page, environment: str, number: int = 0, **choice: str) -> int:
    """Return the number of the episode that now runs: task `number` of train; focus is in the form.

    The page of choices, which `test_math_is_played_from_its_page` goes through, is left out.
    """
    chosen = {
        "environment": environment,
        "split": "train",
        "pick": "number",
        "number": str(number),
        **choice,
    }
    form = {**chosen, "csrfmiddlewaretoken": TOKEN}
    answer = page.request.post("/play/", form=form, headers=COOKIE, max_redirects=0)
    page.goto(answer.headers["location"])
    return at_the_form(page)


def at_the_form(page: Page) -> int:
    page.wait_for_url(re.compile(r"/play/\d+/$"))
    expect(page.locator("[data-live-state=live]")).to_be_visible()
    expect(page.locator("[data-composer] :focus")).to_be_visible()
    return int(page.url.split("/")[-2])


def send(page: Page, text: str = "") -> None:
    """Type `text` where the focus is, send it, and wait for the step."""
    count = page.locator(".step").count()
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    expect(page.locator(".step")).to_have_count(count + 1)


def choose(page: Page, tool: str) -> None:
    """Choose a tool by its number while a field has the focus."""
    tab = page.locator(f".tool-tab:has(code:text-is('{tool}'))")
    page.keyboard.press(f"Alt+{int(tab.get_attribute('data-tool') or 0) + 1}")
    expect(tab).to_have_attribute("aria-selected", "true")
    expect(page.locator("[data-composer] :focus")).to_be_visible()


def is_found(page: Page, environment: str, episode: int, returned: str) -> None:
    """Check that the episode is in the replay, in the curves and on the leaderboard."""
    page.goto(f"/episodes/{episode}/")
    expect(page.locator("#headline")).to_contain_text("finished")
    expect(page.locator("#headline")).to_contain_text(returned)
    page.goto(f"/runs/curves/?environment={environment}&player=human")
    expect(page.locator(".series tbody tr").first).to_contain_text(returned)
    page.goto(f"/environments/{environment}/leaderboard/")
    expect(page.locator("tr.human")).to_contain_text(returned)


def is_recorded(page: Page, episode: int) -> None:
    """Check that the episode ended with the best return."""
    record = page.request.get(f"/api/episodes/{episode}").json()
    assert (record["cause"], record["returns"]["sum"]) == ("finished", 1.0)


def content_of(page: Page, episode: int) -> dict[str, Any]:
    """Return the spec of the played task, including the answer, which no player sees."""
    task = page.request.get(f"/api/episodes/{episode}").json()["task"]["id"]
    # no page, which would be noted
    return dict(page.request.get(f"/api/tasks/{task}").json()["spec"])


# --- the four -------------------------------------------------------------------------------------


def test_math_is_played_from_its_page(page: Page, complaints: list[str]) -> None:
    page.goto("/environments/math/")
    page.get_by_role("link", name="Play", exact=True).nth(-1).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/play/?environment=math")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    episode = at_the_form(page)
    expect(page.locator("[data-content]")).to_contain_text("shown at the end")
    send(page, str(content_of(page, episode)["answer"]))
    expect(page.locator(".outcome")).to_be_focused()
    expect(page.locator("[data-content]")).to_contain_text("1 field hidden from players")
    expect(page.locator(".outcome")).to_contain_text("Solved")
    is_found(page, "math", episode, "+1.00")


def test_chart_is_read_and_what_does_not_fit_is_reported_at_its_field(
    page: Page, complaints: list[str]
) -> None:
    episode = sit_down(page, "chart")
    expect(page.locator("#prompt img")).to_have_js_property("complete", True)
    choose(page, "zoom")
    for text in ("0", "0", "200", "200"):
        page.keyboard.press("Control+a")
        page.keyboard.type(text)
        page.keyboard.press("Tab")
        while page.evaluate("document.activeElement.matches('select')"):
            page.keyboard.press("Tab")
    send(page)
    expect(page.locator(".step img")).to_have_js_property("complete", True)
    choose(page, "submit")
    page.keyboard.type("much")
    page.keyboard.press("Enter")
    field = page.locator("[data-composer] .wrong")
    expect(field.locator("[data-error]")).to_be_visible()
    expect(field.locator("[aria-invalid=true]")).to_be_focused()
    assert page.locator(".step").count() == 1
    page.keyboard.press("Control+a")
    send(page, str(Chart.list_tasks("train")[0]["answer"]))
    expect(page.locator(".outcome")).to_contain_text("Solved")
    is_recorded(page, episode)


def test_web_is_walked_through_by_links_and_fields_in_the_page_that_stays_in_view_and_by_forms(
    page: Page, complaints: list[str]
) -> None:
    episode = sit_down(page, "web")
    page.get_by_role("button", name="[3] Help").click()
    expect(page.locator(".step [data-side=input]").last).to_contain_text("3")
    expect(page.locator(".drawing")).to_contain_text("/help")
    page.locator(".drawing .mark", has_text="workshop").click()
    expect(page.locator(".step")).to_have_count(2)
    expect(page.locator(".drawing")).to_contain_text("/help/workshop")
    page.locator(".drawing .mark", has_text="Search the shop").click()
    expect(page.get_by_label("field")).to_have_value(re.compile(r"^\d+$"))
    expect(page.get_by_label("text", exact=True)).to_be_focused()
    page.keyboard.type("lamp")  # only the text is typed
    page.keyboard.press("Enter")
    expect(page.locator(".drawing")).to_contain_text("Search the shop: lamp")
    choose(page, "open")
    send(page, "/help")
    send(page, "/help/workshop")
    choose(page, "answer")
    send(page, str(Web.list_tasks("train")[0]["answer"]))
    expect(page.locator(".outcome")).to_contain_text("Solved")
    is_recorded(page, episode)


def test_maze_is_left_and_axe_finds_nothing_serious_while_it_is_played_and_over(
    page: Page, complaints: list[str]
) -> None:
    episode = sit_down(page, "maze", MAZE)
    expect(page.locator("[data-drawing] img")).to_be_visible()
    is_chosen_by_keys(page)
    for count, way in enumerate(ways_out()):
        expect(page.locator(".step")).to_have_count(count)
        if count == 1:
            assert_sound(page)
        page.keyboard.press(f"Arrow{way.capitalize()}")
    expect(page.locator(".outcome")).to_contain_text("Solved")
    assert_sound(page)
    page.keyboard.press("n")
    assert at_the_form(page) > episode
    is_recorded(page, episode)


def assert_sound(page: Page) -> None:
    """Check the page in light and dark mode, and that it is not wider than a phone."""
    load_axe(page)
    page.emulate_media(color_scheme="light")
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")
    assert serious(page, "colours") == []
    page.set_viewport_size({"width": 400, "height": 860})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.set_viewport_size({"width": 1280, "height": 860})


def is_chosen_by_keys(page: Page) -> None:
    """Check that brackets go from tool to tool, and that arrows choose what they show in a row of
    choices."""
    page.locator(".by-form > summary").click()
    tabs = page.locator(".tool-tab")
    for key, number in (("Alt+[", -1), ("Alt+]", 0)):
        page.keyboard.press(key)
        expect(tabs.nth(number)).to_have_attribute("aria-selected", "true")
    row = page.locator("[role=radiogroup]:visible").first
    row.get_by_label("up").focus()
    for way in ("Right", "Down", "Left", "Up"):
        page.keyboard.press(f"Arrow{way}")
        expect(row.get_by_label(way.lower())).to_be_checked()
    page.evaluate("document.activeElement.blur()")


def ways_out() -> list[str]:
    grid = Grid(Maze.list_tasks("train")[MAZE]["rows"])
    distances, now, found = grid.distances(), Situation(grid.start), []
    while now.cell != grid.exit:
        steps = [(way, grid.walk(now, way)) for way in DIRECTIONS]
        way, now = min(steps, key=lambda step: distances[step[1]])
        found.append(way)
    return found


# --- the composer ---------------------------------------------------------------------------------


def test_earlier_inputs_come_back_by_the_arrow_keys_and_what_is_typed_next_goes_on_from_them(
    page: Page,
) -> None:
    sit_down(page, "echo")
    send(page, "first")
    send(page, "second")
    field = page.locator("[data-fields] textarea")
    page.keyboard.type("draft")
    for key, shown in (
        ("ArrowUp", "second"),
        ("ArrowUp", "first"),
        ("ArrowDown", "second"),
        ("ArrowDown", "draft"),
    ):
        page.keyboard.press(key)
        expect(field).to_have_value(shown)
    page.keyboard.press("ArrowUp")
    expect(field).to_have_value("second")
    page.keyboard.type(", again")
    expect(field).to_have_value("second, again")


def test_enter_sends_what_was_typed_last_else_the_earlier_input_that_was_asked_for_and_a_reload_goes_on(
    page: Page,
) -> None:
    """This holds however late the response to the request arrives."""
    sit_down(page, "echo")
    for text in ("first", "second"):
        send(page, text)
    for keys, typed, sent in ((["Control+a"], "mine", "mine"), ([], "", "first")):
        for key in ("ArrowUp", "ArrowUp", *keys):
            page.keyboard.press(key)
        send(page, typed)
        expect(page.locator(".step [data-side=input]").last).to_have_text(
            re.compile(rf"\s{sent}\s*$")
        )
    page.reload()
    at_the_form(page)
    page.keyboard.insert_text("a long text " * 20)
    send(page)
    expect(page.locator(".step")).to_have_count(5)
    last = page.locator(".step [data-side=output]").last
    text_box, choice = (
        last.locator(f".{name}").bounding_box() for name in ("said-text", "read-as")
    )
    assert text_box and choice  # the choice of how a text is read covers none of it
    assert (
        choice["x"] >= text_box["x"] + text_box["width"]
        or choice["y"] + choice["height"] <= text_box["y"]
    )


@pytest.mark.own_tab
def test_what_is_typed_at_once_after_another_tool_was_chosen_is_not_lost(page: Page) -> None:
    """However long the server takes to make a form: here it never does."""

    def carry(tab: WebSocketRoute) -> None:
        server = tab.connect_to_server()
        tab.on_message(
            lambda text: None if json.loads(str(text)).get("do") == "show" else server.send(text)
        )

    page.route_web_socket(re.compile("/ws/play/"), carry)
    sit_down(page, "web")
    tools = page.locator(".tool-tab code").all_inner_texts()
    for tool, text in (("click", "Help"), ("open", "/help/workshop"), ("click", "1")):
        page.keyboard.press(f"Alt+{tools.index(tool) + 1}")
        send(page, text)
        expect(page.locator(".step [data-side=input]").last).to_contain_text(text)


def test_a_long_call_tells_that_it_runs(page: Page) -> None:
    sit_down(page, "slow")
    choose(page, "wait")
    page.keyboard.press("Control+a")
    page.keyboard.type("600")
    page.keyboard.press("Enter")
    expect(page.locator(".running-call")).to_contain_text("wait is running · 0:02")
    page.get_by_role("button", name="Give up").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Give up").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".outcome")).to_contain_text("Given up")


def test_a_blind_play_shows_rewards_only_at_the_end(page: Page) -> None:
    sit_down(page, "echo", blind="on")
    send(page, "hello")
    expect(page.locator(".play-head")).to_contain_text("blind")
    expect(page.locator(".step .reward")).to_have_count(0)
    choose(page, "finish")
    page.keyboard.press("Enter")
    expect(page.locator(".outcome")).to_contain_text("+0.60")
    expect(page.locator(".step .figures .reward").first).to_have_text("+0.10")


# --- the socket -----------------------------------------------------------------------------------


class Wire:
    """Between the page and the server. It loses the next message of a kind, and breaks. None of
    `stops` passes."""

    def __init__(self, page: Page) -> None:
        self.calls: list[str] = []
        """task_id of each call that the page sent."""
        self.loses = self.stops = ""
        page.route_web_socket(re.compile("/ws/play/"), self._join)

    def _join(self, tab: WebSocketRoute) -> None:
        server = tab.connect_to_server()
        tab.on_message(lambda message: self._carry(str(message), server, tab))
        server.on_message(lambda message: self._carry(str(message), tab, server))

    def _carry(self, text: str, to: WebSocketRoute, sender: WebSocketRoute) -> None:
        message = json.loads(text)
        if message["type"] == "call":
            self.calls.append(message["task_id"])
        if message["type"] == self.stops:
            return
        if message["type"] != self.loses:
            to.send(text)
            return
        self.loses = ""
        to.close()
        sender.close()


@pytest.mark.own_tab
def test_what_was_lost_on_its_way_is_sent_again_and_nothing_runs_twice(page: Page) -> None:
    wire = Wire(page)
    episode = sit_down(page, "echo")
    expect(page.locator(".replay-side")).to_contain_text("replay, live")
    wire.loses = "call"
    send(page, "hello")
    assert len(wire.calls) == 2 and len(set(wire.calls)) == 1
    expect(page.locator("[data-notice=lost]")).to_have_count(0)
    wire.loses, wire.stops = "step", "done"  # the step itself says that its call is over
    send(page, "first")
    send(page, "second")
    assert len(set(wire.calls)) == 3
    assert [card.inner_text() for card in page.locator(".step .index").all()] == ["0", "1", "2"]
    assert len(page.request.get(f"/api/episodes/{episode}/steps").json()["results"]) == 3
    wire.loses, wire.stops = "ended", ""
    choose(page, "finish")
    page.keyboard.press("Enter")
    # the recorded time, though the end was sent after a loss
    took = page.locator(".outcome [data-acted]").inner_text()
    expect(page.locator("[data-clock]")).to_have_text(took)
    expect(page.locator(".replay-side")).not_to_contain_text("replay, live")
    page.goto(f"/episodes/{episode}/")
    expect(page.locator("#headline")).to_contain_text(took)


def test_another_tab_and_the_replay_show_the_same(page: Page) -> None:
    episode = sit_down(page, "echo")
    other, replay = page.context.new_page(), page.context.new_page()
    other.goto(page.url)
    replay.goto(f"/episodes/{episode}/")
    send(page, "hello")
    for one in (other, replay):
        expect(one.locator(".step")).to_contain_text("hello")
    choose(page, "finish")
    page.keyboard.press("Enter")
    expect(other.locator(".outcome")).to_contain_text("Finished")
    expect(replay.locator("#headline")).to_contain_text("finished")
