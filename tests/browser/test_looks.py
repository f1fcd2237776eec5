"""Every page of the dashboard: nothing that keeps people out, light or dark, and nothing wider than
a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Locator, Page, Response, expect

from tests.browser.agents import latest, playing
from tests.browser.axe import Rules, load_axe, serious, switch_scheme, thin_out
from tests.browser.rounds import play_rounds
from tests.rows import each
from tests.server import LiveServer

LONG_RUN = "qwen25_7b_instruct_grpo_lr1e6_kl0001_bs256_seed3_2026_11_27"
LONG_MODEL = "Qwen/Qwen2.5-7B-Instruct_grpo_checkpoint_000120_merged_into_one"
CURVES = "/runs/curves/?environment=guess&by=run"
RUNS = "/compare/?runs={other},{short}"
FILTERED = f"/episodes/?environment=guess&run={LONG_RUN}&ending=attempt&since=7d&error=no"
PAGES = (
    *(
        "/",
        "/environments/",
        "/environments/guess/",
        "/environments/guess/leaderboard/",
        "/episodes/",
    ),
    *("/episodes/{first}/", "/runs/", "/runs/{run}/", CURVES, "/compare/"),
    *("/compare/?episodes={first},{second}", RUNS, "/tasks/{task}/"),
    *("/runs/groups/", "/runs/{run}/groups/?step=4", "/tasks/{task}/group/?run={run}&step=4"),
    *("/api/", "/episodes/{first}/steps/0/", FILTERED, "/episodes/999999/", "/?span=2h"),
    *(
        "/episodes/{wide}/",
        "/compare/?episodes={wide},{wider}",
        "/conversations/",
        "/conversations/wide-words/",
        "/operations/",
        "/operations/demo/",
    ),
    *("/environments/guess/doctor/", "/suites/", "/suites/new/", "/suites/looked-at/?by=run"),
    f"/suites/looked-at/v1/compare/?first=m&second={quote(LONG_MODEL, safe='')}",
    *(f"/environments/guess/doctor/?run={LONG_RUN}", "/episodes/?text=higher"),
    *(
        "/play/",
        "/play/people/",
        "/play/invites/",
        "/play/continue/{first}/?step=0",
        "/conversations/?text=column",
    ),
    "/play/invite/unknown/",
)
LOOKS: tuple[tuple[int, Literal["light", "dark"], Rules], ...] = (
    *((320, "dark", "layout"), (1280, "dark", "colours"), (1280, "light", "all")),
)
"""Width, colour scheme and rules. A phone, which comes first, shows what scrolls; colours are the
same there."""
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
"""Links and controls that something else covers once they are scrolled to, each with what covers
it."""
SMALL = """() => {
  const small = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const it = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || it.closest("svg, math, sup, sub, .visually-hidden")) continue;
    const size = parseFloat(getComputedStyle(it).fontSize);
    if (it.checkVisibility() && size > 0 && size < 13) small.add(it.outerHTML.slice(0, 120));
  }
  return [...small];
}"""
"""Returns what is written smaller than in 13 pixels. Pictures are not looked at: ticks of charts say
what tooltip and table say too, and larger ones would leave no room for the curves. Nor are formulas
and exponents, which are smaller than their line by their nature."""
_ADMIN = (
    *(
        "",
        "environments/environment/",
        "environments/task/",
        "environments/task/{task}/change/",
        "environments/split/",
    ),
    *(
        "episodes/episode/",
        "episodes/episode/{first}/change/",
        "episodes/run/{run}/change/",
        "episodes/retention/add/",
    ),
    *("environments/apikey/add/", "auth/user/", "auth/user/1/change/", "auth/group/1/change/"),
    # without rows; those of incidents, redactions and removals have the same parts
    *(
        "environments/task/?q=no-task-says-this",
        "environments/apikey/",
        "environments/curationaction/",
    ),
    "episodes/retention/",
)
ADMIN = tuple(f"/admin/{path}" for path in _ADMIN)
CUT_OFF = """([sentence, name]) => {
  const found = [...document.querySelectorAll("td a[href*='ending=attempt']")];
  const line = () => Object.assign(document.createElement("span"), { className: "coverage", textContent: sentence });
  found.forEach((it) => it.after(line()));
  document.querySelectorAll("td .split b").forEach((it) => { it.textContent = name; });
  const wide = [...document.querySelectorAll(".card:has(table)")].filter((card) => card.scrollWidth > card.clientWidth);
  return [found.length > 0, wide.map((card) => card.querySelector("table").outerHTML)];
}"""
"""Writes a long line about coverage beside each number of attempts, and a name over that of each
split; returns whether there are any such numbers, and the tables that are wider than their cards.
"""
WIDER = """() => [...document.querySelectorAll("main *, .bar *")]
  .filter((it) => it.checkVisibility() && !it.closest(".scrolls, .card, pre"))
  .filter((it) => it.getBoundingClientRect().right > innerWidth + 1)
  .slice(0, 8).map((it) => it.outerHTML.slice(0, 160))"""
"""Returns what is wider than the window, outside of what scrolls."""
BEHIND_A_SCROLL = """() => {
  const all = [...document.querySelectorAll("main td .reward")];
  const right = (it) => it.getBoundingClientRect().right;
  const behind = all.filter((it) => right(it) > right(it.closest(".card, .scrolls, main")) + 1);
  return [all.length > 0, behind.length];
}"""
"""Returns whether there are returns, and counts those that are only seen when their table is
scrolled."""
TOO_WIDE_WITHIN = """(table) => [...document.querySelector(table).querySelectorAll(".card, .scrolls, .results")]
  .filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.className)"""
"""Returns the parts of an element that scroll sideways."""
BEHIND_ITS_CELL = """(table) => {
  const right = (it) => it.getBoundingClientRect().right;
  const all = [...document.querySelectorAll(`${table} td.task .task-place`)];
  return all.filter((it) => right(it) > right(it.closest("td"))).length;
}"""
"""Counts what its cell cuts off."""
SILENT = """async () => {
  await new Promise((go) => requestAnimationFrame(() => setTimeout(go)));
  const isSilent = (table) => {
    for (let it = table; it !== document.body; it = it.parentElement) {
      const isScrolled = /auto|scroll/u.test(getComputedStyle(it).overflowX) && it.scrollWidth > it.clientWidth + 1;
      if (isScrolled && it.checkVisibility())
        return !it.dataset.beyond?.includes("right") || getComputedStyle(it).boxShadow === "none";
    }
    return false;
  };
  return [...document.querySelectorAll("table")].filter(isSilent).map((table) => table.outerHTML.slice(0, 120));
}"""
"""Returns the tables that scroll sideways and do not say so by a shadow at the right, once scripts
have seen the page's size."""
TRAIL = (
    "[...document.querySelectorAll('.crumbs > li')].map((it) => [it.clientWidth, it.scrollWidth])"
)
"""Width of each part of the breadcrumb, and the width that it needs."""
LONG_COVERAGE = "· 12,712 excluded · 1,031 not a number"
LONG_SPLIT = "questions-about-citrus-fruit-that-nobody-answered-in-2025"
WIDE = f"|{' column |' * 40}\n|{' --- |' * 40}\n|{' 1 |' * 40}"
"""A table of Markdown that scrolls at any width."""


@pytest.fixture(scope="module")
def places(live: LiveServer) -> dict[str, int]:
    """Return the numbers that the addresses of PAGES name."""
    first, second = play_rounds(live, LONG_RUN, 2, step=4, model=LONG_MODEL)
    # a second run of the name, to which the first leads
    play_rounds(live, LONG_RUN, model="another")
    play_rounds(live, "looked-at-too", step=4)
    play_rounds(live, "r", step=4, model="m")  # shorter than the words before them
    with playing(live, "upload") as agent:
        agent.call("echo", "hi")
        kinds = ("system_message", "reasoning", "assistant_message")
        agent.say(
            "wide-words",
            0,
            *((kind, "", WIDE) for kind in kinds),
            ("tool_call", "echo", '{"text": "hi"}'),
        )
    _publish(live)
    wide, wider = (_say(live, text) for text in (WIDE, f"{WIDE}\n\nAnd words."))
    with httpx.Client(base_url=live.url, timeout=30) as reader:
        episode = reader.get(f"/api/episodes/{first}").json()
        runs = {run["name"]: run["id"] for run in reader.get("/api/runs").json()["results"]}
    numbers = {
        "first": first,
        "second": second,
        "wide": wide,
        "wider": wider,
        "task": episode["task"]["id"],
    }
    return {**numbers, "run": runs[LONG_RUN], "other": runs["looked-at-too"], "short": runs["r"]}


def _publish(live: LiveServer) -> None:
    """Publish a suite of a split of `guess`, as its form does."""
    with httpx.Client(base_url=live.url, timeout=30, headers={"Origin": live.url}) as person:
        form = person.get("/suites/new/").text
        [split] = re.findall(r'<option value="(\d+)">guess / train', form)[:1]
        values = {
            "name": "looked-at",
            "score": "success",
            "member-TOTAL_FORMS": "1",
            "member-INITIAL_FORMS": "0",
        }
        values |= {
            "csrfmiddlewaretoken": re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)[0]
        }
        answer = person.post(
            "/suites/new/", data={**values, "member-0-split": split, "member-0-weight": "1"}
        )
        assert answer.status_code == 302, answer.text


def _say(live: LiveServer, text: str) -> int:
    """Return the number of an episode of `echo` that says `text`."""
    with playing(live) as agent:
        agent.call("echo", text)
    return int(latest(live).split("/")[2])


# --- what some pages are looked at for besides ----------------------------------------------------


def shows_returns(page: Page) -> None:
    assert page.evaluate(BEHIND_A_SCROLL) == [True, 0]


def shows_where_one_is(page: Page) -> None:
    above, last = page.evaluate(TRAIL)
    assert last[0] == last[1] > 0 and above[0] > 30


def shows_its_whole_name(page: Page) -> None:
    width, needed = page.evaluate(TRAIL)[-1]
    assert width == needed


def cuts_off_no_task_and_no_column(table: str) -> Callable[[Page], None]:
    def check(page: Page) -> None:
        assert page.evaluate(TOO_WIDE_WITHIN, table) == []
        assert not page.evaluate(BEHIND_ITS_CELL, table)

    return check


def covers_nothing(page: Page) -> None:
    """Neither the list of steps what is below the transcript, nor the search the actions beside a
    long name."""
    assert page.evaluate(COVERED) == []


def tells_no_secret(lines: str) -> Callable[[Page], None]:
    """Return a check that a list does not tell what agents must not see."""

    def check(page: Page) -> None:
        told = page.locator(lines).all_inner_texts()
        assert any("low " in line for line in told) and not any("target" in line for line in told)

    return check


def ticks_permissions_in_a_box_that_scrolls(page: Page) -> None:
    box = page.locator("#id_permissions")
    assert box.get_by_role("checkbox").count() > 100
    assert box.evaluate("it => it.clientHeight < it.scrollHeight && it.clientHeight < 600")


def shows_all_words_of_its_rows(page: Page) -> None:
    cells = page.locator("#result_list tbody :is(td, th)")
    assert cells.count() > 4
    assert not cells.evaluate_all(
        "(all) => all.filter((it) => it.scrollHeight > it.clientHeight + 1).length"
    )
    label = cells.filter(has_text="environments.builtin").first
    expect(label).to_have_attribute("data-label", "Class path")
    assert label.evaluate("it => getComputedStyle(it, '::before').textTransform") == "none"


def long_texts_cut_no_column_off(page: Page) -> None:
    assert page.evaluate(CUT_OFF, [LONG_COVERAGE, LONG_SPLIT]) == [True, []]


def keys_scroll_a_text_that_is_longer_than_its_box(page: Page) -> None:
    text = page.locator("[aria-labelledby=spec] .code").first
    expect(text).not_to_have_attribute("tabindex", "0")
    text.evaluate("it => { it.textContent = 'a line of a long task\\n'.repeat(200); }")
    expect(text).to_have_attribute("tabindex", "0")


WITH_RETURNS = (
    "/",
    "/runs/",
    "/runs/{run}/",
    "/tasks/{task}/",
    CURVES,
    "/environments/guess/leaderboard/",
)
NARROWER_DIFFER = ("/", "/environments/guess/", "/environments/guess/leaderboard/")
"""Pages with a rail and with players in tables, whose styles on phones below 380 and 360 pixels are
others."""
WITH_TRAILS = (
    "environments/task/",
    "episodes/episode/",
    "environments/apikey/",
    "episodes/retention/",
)
AT_WIDTHS: dict[tuple[str, int], Callable[[Page], None]] = {
    **{(path, 320): shows_returns for path in WITH_RETURNS},
    **{(f"/admin/{path}", 320): shows_where_one_is for path in WITH_TRAILS},
    ("/admin/", 390): shows_its_whole_name,
    ("/admin/environments/environment/", 390): shows_all_words_of_its_rows,
    ("/episodes/", 1050): cuts_off_no_task_and_no_column(".episodes"),
    (RUNS, 1050): cuts_off_no_task_and_no_column("main"),
    ("/environments/guess/leaderboard/", 1050): cuts_off_no_task_and_no_column("main"),
    ("/episodes/{first}/", 1050): covers_nothing,
    ("/runs/{run}/", 1280): covers_nothing,
    ("/episodes/", 1280): tells_no_secret("td.task"),
    ("/environments/guess/", 1280): tells_no_secret("td.task-cell"),
    ("/tasks/{task}/", 1280): tells_no_secret("h1"),
    ("/admin/auth/group/1/change/", 1280): ticks_permissions_in_a_box_that_scrolls,
}
"""What a page is looked at for at a width, besides what all pages are looked at for on phones."""
CHANGED: dict[str, Callable[[Page], None]] = {
    "/": long_texts_cut_no_column_off,
    "/environments/": long_texts_cut_no_column_off,
    "/tasks/{task}/": keys_scroll_a_text_that_is_longer_than_its_box,
}
"""What a page is looked at for in the end, because its texts are changed for it."""


@each("path", (*PAGES, *ADMIN))
def test_axe_finds_nothing_serious_and_phones_show_everything(
    page: Page, complaints: list[str], places: dict[str, int], path: str
) -> None:
    """One after the other, because what a test undoes between two pages takes as long as one of
    them."""
    complaints.clear()  # of the page before
    response = page.goto(path.format(**places))
    assert response is not None and (
        not path.startswith("/admin/") or keeps_to_the_policy_of_the_admin(response)
    )
    page.emulate_media(color_scheme=LOOKS[0][1])  # while the page is open
    widths = {
        320,
        *([390] if path in NARROWER_DIFFER else []),
        *(width for at, width in AT_WIDTHS if at == path),
    }
    for width in sorted(widths, reverse=True):
        page.set_viewport_size({"width": width, "height": 860})
        needed, too_wide = page.evaluate(f"[document.documentElement.scrollWidth, {TOO_WIDE}]")
        assert needed <= width, page.evaluate(WIDER)
        assert too_wide == []
        assert page.evaluate(SILENT) == []
        if (path, width) in AT_WIDTHS:
            AT_WIDTHS[path, width](page)
    assert page.evaluate(COVERED) == []
    thin_out(page)
    load_axe(page)
    for width, scheme, rules in LOOKS:
        switch_scheme(page, scheme)
        page.set_viewport_size({"width": width, "height": 860})
        assert serious(page, rules, is_strict=True) == []
        assert path in ADMIN or page.evaluate(SMALL) == []
    if path in CHANGED:
        CHANGED[path](page)
    if response.status >= 400:
        complaints.clear()  # of that
    assert complaints == []


def keeps_to_the_policy_of_the_admin(response: Response) -> bool:
    return "script-src 'self' 'unsafe-eval'" in response.headers["content-security-policy"]


def use_of_tools(page: Page) -> Locator:
    """Return the card about tools on the page of `guess`, whose figures arrive a little later than
    the others."""
    page.goto("/environments/guess/")
    card = page.locator("[aria-labelledby=use]")
    for _ in range(100):
        if card.get_by_role("table").count():
            break
        page.reload()
    return card


def test_a_card_that_is_wider_than_a_phone_is_scrolled_by_keys(
    page: Page, places: dict[str, int]
) -> None:
    page.set_viewport_size({"width": 400, "height": 860})
    card = use_of_tools(page)
    expect(card).to_have_attribute("tabindex", "0")
    expect(card).to_have_attribute("data-beyond", "right")
    load_axe(page)
    assert serious(page) == []
    for _ in range(100):
        card.press("ArrowRight")  # without effect on a page that is busy being laid out
        if card.evaluate("it => it.scrollLeft"):
            break
    expect(card).not_to_have_js_property("scrollLeft", 0)
    expect(card).to_have_attribute("data-beyond", re.compile("^left"))
    page.set_viewport_size({"width": 1280, "height": 860})
    expect(card).not_to_have_attribute("tabindex", "0")
    expect(card).to_have_attribute("data-beyond", "")
    page.locator(".prose").first.evaluate("it => { it.append(document.createElement('pre')); }")
    code = page.locator(".prose pre").last
    code.evaluate("it => { it.textContent = 'a long line of a description '.repeat(99); }")
    expect(code).to_have_attribute("tabindex", "0")


@pytest.mark.usefixtures("complaints")
def test_forms_of_the_admin_keep_to_its_policy(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 860})
    paths = (
        "environments/task/import/",
        "environments/environment/1/change/",
        "environments/split/1/change/",
    )
    for path in paths:
        response = page.goto(f"/admin/{path}")
        assert response is not None and keeps_to_the_policy_of_the_admin(response)
        assert page.title().strip()
    shows_its_whole_name(page)
    page.goto("/admin/auth/user/add/")
    expect(page.locator("[name=username]")).to_be_visible()


def test_long_names_without_blanks_fit_a_narrow_phone(page: Page, places: dict[str, int]) -> None:
    page.set_viewport_size({"width": 320, "height": 860})
    for path in (
        *(f"/runs/curves/?run={LONG_RUN}", f"/runs/curves/?run={LONG_RUN}&by=model"),
        *("/environments/guess/leaderboard/?by=run", "/compare/?runs={run},{other}"),
    ):
        page.goto(path.format(**places))
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, page.evaluate(WIDER)
