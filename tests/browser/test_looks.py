"""Every page of the dashboard: nothing that keeps people out, light or dark, and nothing wider than a phone."""

from __future__ import annotations

import re
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.agents import latest, playing
from tests.browser.axe import Rules, load_axe, serious, thin_out
from tests.browser.rounds import play_rounds
from tests.server import LiveServer

PAGES = (
    *("/", "/environments/", "/environments/guess/", "/environments/guess/leaderboard/", "/episodes/"),
    *("/episodes/{first}/", "/runs/", "/runs/{run}/", "/runs/curves/?by=run", "/compare/"),
    *("/compare/?episodes={first},{second}", "/compare/?runs={run},{other}", "/tasks/{task}/"),
    *(
        "/runs/groups/",
        "/runs/{run}/groups/?step=4",
        "/tasks/{task}/group/?run={run}&step=4",
        "/api/",
        "/episodes/{first}/steps/0/",
    ),
    *("/episodes/?environment=guess&run=looked-at&ending=attempt&since=7d&error=no", "/episodes/999999/", "/?span=2h"),
    *("/episodes/{wide}/", "/compare/?episodes={wide},{wider}", "/rollouts/", "/rollouts/wide-words/", "/operations/"),
    *("/environments/guess/doctor/", "/suites/", "/suites/new/", "/suites/looked-at/?by=run"),
    "/suites/looked-at/v1/compare/?first=m&second=model-of-looked-at",
    *(
        "/environments/guess/doctor/?run=looked-at",
        "/episodes/?text=higher",
        "/play/",
        "/play/people/",
        "/play/invites/",
    ),
    *("/play/continue/{first}/?step=0", "/rollouts/?text=column"),
)
LOOKS: tuple[tuple[int, Literal["light", "dark"], Rules], ...] = (
    *((320, "dark", "layout"), (1280, "dark", "colours"), (1280, "light", "all")),
)
"""Width, colour scheme and rules. A phone, which comes first, shows what scrolls; colours are the same there."""
TOO_WIDE = """[
  ...[...document.querySelectorAll(".bar, .bar .tools, .rail")].map((it) => [it, it]),
  ...[...document.querySelectorAll(".rail a span")].map((it) => [it, it.parentElement]),
].filter(([it, within]) => it.checkVisibility() && it.scrollWidth > within.clientWidth).map(([it]) => it.outerHTML)"""
"""Parts of the frame that do not fit."""
COVERED = """() => {
  const found = [];
  for (const it of document.querySelectorAll(":is(.bar, main) :is(a, button, input, select, textarea, summary)")) {
    const isShown = it.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
    if (!isShown || it.closest(".visually-hidden")) continue;
    it.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const box = [...it.getClientRects()].find((one) => one.width && one.height);
    const at = box && document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    if (!at || it.contains(at) || at.contains(it) || it.closest("label")?.contains(at)) continue;
    found.push([it.outerHTML.slice(0, 120), at.outerHTML.slice(0, 120)]);
  }
  return found;
}"""
"""Links and controls that something else covers once they are scrolled to, each with what covers it."""
_ADMIN = (
    *("", "environments/task/", "environments/task/{task}/change/", "environments/split/", "environments/apikey/add/"),
    *("episodes/episode/", "episodes/episode/{first}/change/", "episodes/run/{run}/change/", "episodes/retention/add/"),
    *("auth/user/", "auth/user/1/change/", "auth/group/1/change/"),
    # without rows
    *("environments/task/?q=no-task-says-this", "environments/apikey/", "environments/curationaction/"),
    *("episodes/incident/", "episodes/redaction/", "episodes/removal/", "episodes/retention/"),
)
ADMIN = tuple(f"/admin/{path}" for path in _ADMIN)
CUT_OFF = """([sentence, name]) => {
  const found = [...document.querySelectorAll("td .coverage")];
  found.forEach((it) => { it.textContent = sentence; });
  document.querySelectorAll("td .split b").forEach((it) => { it.textContent = name; });
  const wide = [...document.querySelectorAll(".card:has(table)")].filter((card) => card.scrollWidth > card.clientWidth);
  return [found.length > 0, wide.map((card) => card.querySelector("table").outerHTML)];
}"""
"""Writes a sentence about coverage into each cell that has one, and a name over that of each split; returns whether
there are any such sentences, and the tables that are wider than their cards.
"""
LONG_RUN = "qwen25_7b_instruct_grpo_lr1e6_kl0001_bs256_seed3_2026_11_27"
WIDER = """() => [...document.querySelectorAll("main *, .bar *")]
  .filter((it) => it.checkVisibility() && !it.closest(".scrolls, .card, pre"))
  .filter((it) => it.getBoundingClientRect().right > innerWidth + 1)
  .slice(0, 8).map((it) => it.outerHTML.slice(0, 160))"""
"""Returns what is wider than the window, outside of what scrolls."""
CURVES = "/runs/curves/?environment=guess&by=run"
BEHIND_A_SCROLL = """(all) => {
  const right = (it) => it.getBoundingClientRect().right;
  return all.filter((it) => right(it) > right(it.closest(".card, .scrolls, .steps-scroll, main")) + 1).length;
}"""
"""Counts the figures that are only seen when their table is scrolled."""
TOO_WIDE_WITHIN = """(table) => [...table.querySelectorAll(".card, .scrolls, .results")]
  .filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.className)"""
"""Returns the parts of an element that scroll sideways."""
BEHIND_ITS_CELL = """(all) => {
  const right = (it) => it.getBoundingClientRect().right;
  return all.filter((it) => right(it) > right(it.closest("td"))).length;
}"""
"""Counts what its cell cuts off."""
LONG_COVERAGE = (
    "13,407 of 14,119 rollouts; 640 no call = 0, 52 expired = 0, 712 infrastructure failures left out (also 31 probes)"
)
LONG_SPLIT = "questions-about-citrus-fruit-that-nobody-answered-in-2025"
WIDE = f"|{' column |' * 40}\n|{' --- |' * 40}\n|{' 1 |' * 40}"
"""A table of Markdown that scrolls at any width."""


@pytest.fixture(scope="module")
def places(live: LiveServer) -> dict[str, int]:
    """Return the numbers that the addresses of PAGES name."""
    first, second = play_rounds(live, "looked-at", 2, step=4)
    play_rounds(live, "looked-at-too", step=4)
    play_rounds(live, "r", step=4, model="m")  # shorter than the words before them
    with playing(live, "upload") as agent:
        agent.call("echo", "hi")
        kinds = ("system_message", "reasoning", "assistant_message")
        agent.say("wide-words", 0, *((kind, "", WIDE) for kind in kinds), ("tool_call", "echo", '{"text": "hi"}'))
    _publish(live)
    wide, wider = (_say(live, text) for text in (WIDE, f"{WIDE}\n\nAnd words."))
    with httpx.Client(base_url=live.url, timeout=30) as reader:
        episode = reader.get(f"/api/episodes/{first}").json()
        runs = {run["name"]: run["id"] for run in reader.get("/api/runs").json()["results"]}
    run, other = runs["looked-at"], runs["looked-at-too"]
    numbers = {"first": first, "second": second, "run": run, "other": other, "wide": wide, "wider": wider}
    return {**numbers, "task": episode["task"]["id"]}


def _publish(live: LiveServer) -> None:
    """Publish a suite of a split of `guess`, as its form does."""
    with httpx.Client(base_url=live.url, timeout=30, headers={"Origin": live.url}) as person:
        form = person.get("/suites/new/").text
        [split] = re.findall(r'<option value="(\d+)">guess / train', form)[:1]
        values = {"name": "looked-at", "score": "success", "member-TOTAL_FORMS": "1", "member-INITIAL_FORMS": "0"}
        values |= {"csrfmiddlewaretoken": re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)[0]}
        answer = person.post("/suites/new/", data={**values, "member-0-split": split, "member-0-weight": "1"})
        assert answer.status_code == 302, answer.text


def _say(live: LiveServer, text: str) -> int:
    """Return the number of an episode of `echo` that says `text`."""
    with playing(live) as agent:
        agent.call("echo", text)
    return int(latest(live).split("/")[2])


@pytest.mark.parametrize("path", (*PAGES, *ADMIN))
def test_axe_finds_nothing_serious_and_phones_show_everything(page: Page, places: dict[str, int], path: str) -> None:
    page.goto(path.format(**places))
    page.emulate_media(color_scheme=LOOKS[0][1])
    for width in (400, LOOKS[0][0]):
        page.set_viewport_size({"width": width, "height": 860})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(COVERED) == []
    thin_out(page)
    load_axe(page)
    for width, scheme, rules in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 860})
        assert serious(page, rules) == []


def test_the_list_of_steps_covers_nothing_below_the_transcript(page: Page, places: dict[str, int]) -> None:
    page.set_viewport_size({"width": 1050, "height": 860})
    page.goto(f"/episodes/{places['first']}/")
    assert page.evaluate(COVERED) == []


@pytest.mark.usefixtures("places")
def test_permissions_of_an_account_are_ticked_in_a_box_that_scrolls(page: Page) -> None:
    page.goto("/admin/auth/group/1/change/")
    box = page.locator("#id_permissions")
    assert box.get_by_role("checkbox").count() > 100
    assert box.evaluate("it => it.clientHeight < it.scrollHeight && it.clientHeight < 600")
    assert page.evaluate("document.documentElement.scrollWidth") == 1280


def use_of_tools(page: Page) -> Locator:
    """Return the card about tools on the page of `guess`, whose figures arrive a little later than the others."""
    page.goto("/environments/guess/")
    card = page.locator("[aria-labelledby=use]")
    for _ in range(100):
        if card.get_by_role("table").count():
            break
        page.reload()
    return card


def test_a_card_that_is_wider_than_a_phone_is_scrolled_by_keys(page: Page, places: dict[str, int]) -> None:
    page.set_viewport_size({"width": 400, "height": 860})
    card = use_of_tools(page)
    expect(card).to_have_attribute("tabindex", "0")
    load_axe(page)
    assert serious(page) == []
    for _ in range(100):
        card.press("ArrowRight")  # without effect on a page that is busy being laid out
        if card.evaluate("it => it.scrollLeft"):
            break
    expect(card).not_to_have_js_property("scrollLeft", 0)
    page.set_viewport_size({"width": 1280, "height": 860})
    expect(card).not_to_have_attribute("tabindex", "0")
    page.locator(".prose").first.evaluate("it => { it.append(document.createElement('pre')); }")
    code = page.locator(".prose pre").last
    code.evaluate("it => { it.textContent = 'a long line of a description '.repeat(99); }")
    expect(code).to_have_attribute("tabindex", "0")


def test_a_text_of_a_task_that_is_longer_than_its_box_is_scrolled_by_keys(page: Page, places: dict[str, int]) -> None:
    page.goto(f"/tasks/{places['task']}/")
    text = page.locator("[aria-labelledby=spec] .code").first
    expect(text).not_to_have_attribute("tabindex", "0")
    text.evaluate("it => { it.textContent = 'a line of a long task\\n'.repeat(200); }")
    expect(text).to_have_attribute("tabindex", "0")


def test_rows_of_the_admin_show_all_of_their_words_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 860})
    page.goto("/admin/environments/environment/")
    cells = page.locator("#result_list tbody :is(td, th)")
    assert cells.count() > 4
    assert not cells.evaluate_all("(all) => all.filter((it) => it.scrollHeight > it.clientHeight + 1).length")
    label = cells.filter(has_text="environments.builtin").first
    expect(label).to_have_attribute("data-label", "Class path")
    assert label.evaluate("it => getComputedStyle(it, '::before').textTransform") == "none"
    load_axe(page)
    assert serious(page) == []
    page.emulate_media(color_scheme="dark")  # while the page is open
    assert serious(page, "colours") == []


@pytest.mark.parametrize(
    "path", ["environments/task/", "episodes/episode/", "environments/apikey/", "episodes/retention/"]
)
def test_a_phone_shows_where_in_the_admin_one_is(page: Page, path: str) -> None:
    page.set_viewport_size({"width": 320, "height": 860})
    page.goto(f"/admin/{path}")
    above, last = page.locator(".trail > *").evaluate_all("(all) => all.map((it) => [it.clientWidth, it.scrollWidth])")
    assert last[0] == last[1] > 0 and above[0] > 60


@pytest.mark.parametrize("path", ["", "environments/split/1/change/"])
def test_a_phone_shows_the_whole_name_of_a_page_that_has_room(page: Page, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/admin/{path}")
    assert page.locator(".trail > :last-child").evaluate("(it) => it.scrollWidth === it.clientWidth")


@pytest.mark.parametrize(
    "path", ["/", "/runs/", "/runs/{run}/", "/tasks/{task}/", CURVES, "/environments/guess/leaderboard/"]
)
def test_returns_are_seen_on_a_narrow_phone_without_scrolling(page: Page, places: dict[str, int], path: str) -> None:
    page.set_viewport_size({"width": 320, "height": 860})
    page.goto(path.format(**places))
    returns = page.locator("main td .reward")
    assert returns.count()
    assert not returns.evaluate_all(BEHIND_A_SCROLL)


@pytest.mark.parametrize(
    ("path", "table"),
    [
        ("/episodes/", ".episodes"),
        ("/compare/?runs={run},{other}", "main"),
        ("/environments/guess/leaderboard/", "main"),
    ],
)
def test_a_narrow_window_cuts_off_no_task_and_no_column(
    page: Page, places: dict[str, int], path: str, table: str
) -> None:
    page.set_viewport_size({"width": 1050, "height": 860})
    page.goto(path.format(**places))
    assert page.locator(table).evaluate(TOO_WIDE_WITHIN) == []
    assert not page.locator(f"{table} td.task .task-place").evaluate_all(BEHIND_ITS_CELL)


def test_lists_do_not_tell_what_agents_must_not_see(page: Page, places: dict[str, int]) -> None:
    for path, lines in (
        ("/episodes/?run=looked-at", "td.task"),
        ("/environments/guess/", "td.task-cell"),
        ("/tasks/{task}/", "h1"),
    ):
        page.goto(path.format(**places))
        line = page.locator(lines).first.inner_text()
        assert "low " in line and "target" not in line


@pytest.mark.parametrize("path", ["/", "/environments/"])
def test_long_texts_in_cells_cut_no_column_off(page: Page, places: dict[str, int], path: str) -> None:
    page.goto(path)
    assert page.evaluate(CUT_OFF, [LONG_COVERAGE, LONG_SPLIT]) == [True, []]


@pytest.mark.usefixtures("complaints")
def test_the_admin_keeps_to_its_policy(page: Page) -> None:
    for path in (
        "",
        "environments/task/",
        "environments/task/import/",
        "environments/environment/1/change/",
        "auth/user/",
    ):
        response = page.goto(f"/admin/{path}")
        assert response is not None and "script-src 'self' 'unsafe-eval'" in response.headers["content-security-policy"]
        assert page.title().strip()
    page.goto("/admin/auth/user/add/")
    expect(page.locator("[name=username]")).to_be_visible()


def test_long_names_without_blanks_fit_a_narrow_phone(page: Page, live: LiveServer, places: dict[str, int]) -> None:
    model = "Qwen/Qwen2.5-7B-Instruct_grpo_checkpoint_000120_merged_into_one"
    [episode] = play_rounds(live, LONG_RUN, step=1, model=model)
    run = httpx.get(f"{live.url}/api/runs/by-name/{LONG_RUN}", timeout=30).json()["id"]
    page.set_viewport_size({"width": 320, "height": 860})
    problems = {}
    for path in (
        *(
            f"/runs/{run}/",
            f"/episodes/{episode}/",
            f"/runs/curves/?run={LONG_RUN}",
            "/runs/",
            "/episodes/",
            "/",
            "/runs/groups/",
        ),
        *(
            f"/runs/{run}/groups/?step=1",
            f"/compare/?runs={run},{places['run']}",
            f"/compare/?episodes={episode},{places['first']}",
        ),
        *(
            f"/environments/guess/doctor/?run={LONG_RUN}",
            f"/runs/curves/?run={LONG_RUN}&by=model",
            f"/tasks/{places['task']}/group/?run={run}&step=1",
        ),
        *("/environments/guess/leaderboard/", "/environments/guess/leaderboard/?by=run", f"/episodes/?run={LONG_RUN}"),
    ):
        page.goto(path)
        if (width := page.evaluate("document.documentElement.scrollWidth")) > 320:
            problems[path] = [width, page.evaluate(WIDER)]
    assert not problems, "\n".join(map(str, problems.items()))
    page.goto(f"/tasks/{places['task']}/")
    assert not page.locator("main td .reward").evaluate_all(BEHIND_A_SCROLL)
