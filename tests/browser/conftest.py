"""Fixtures of the browser tests: Debian's chromium, two real servers for most tests, and a page
that reports errors.

Tests stay sync: playwright's sync API and pytest-asyncio do not mix in an async test. Each test
makes the rows it is about under names of its own. A page costs 0.15 s of CPU time, so a test opens
only those that it is about, and goes on in one that is open.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.browser.waiting import WAIT_MS
from tests.server import LiveServer

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Commands of browsers, the preferred first: the headless shell takes less than half of the CPU
time that others do."""
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
LAZY = "--js-flags=--max-lazy,--no-opt,--no-maglev"
"""Scripts run too shortly for what V8 does to make long ones fast."""
QUIET = (
    "--no-sandbox",
    "--no-first-run",
    LAZY,
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""No other host can be reached: a request to one fails, so that tests need not hear of those that
don't."""
SIZE: ViewportSize = {"width": 1280, "height": 860}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is None:
        for item in items:
            if "tests/browser/" in item.path.as_posix():
                item.add_marker(pytest.mark.skip(reason="needs chromium"))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Yield the browser, and end it with the last browser test in a row.

    playwright's sync API keeps a loop running in the main thread, where async tests of other
    packages could not run.
    """
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=[ALONE, *QUIET])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def live() -> Iterator[LiveServer]:
    """Yield a server of the bundled `math` and `guess`, `echo`, and `quiz` and `strict`, whose
    tasks people edit."""
    classes = [
        "environments.builtin.math:Math",
        "environments.builtin.guess:Guess",
        "tests.envs:Echo",
    ]
    with LiveServer(*classes, "tests.envs_quiz:Quiz", "tests.envs_quiz:Strict") as running:
        yield running


MAX_BODY_BYTES = 1_000_000


@pytest.fixture(scope="session")
def played() -> Iterator[LiveServer]:
    """Yield a server for people who play, whose plays go on for a while when they leave: of bundled
    environments, `echo`, `slow`, whose tools take as long as they are asked to, `drifting`, whose
    `roll` never says the same twice, `forms` and `pictures`.
    """
    bundled = [
        f"environments.builtin.{name}:{name.capitalize()}"
        for name in ("math", "guess", "web", "chart", "maze")
    ]
    own = [
        "tests.envs:Echo",
        "tests.envs:Slow",
        "tests.envs_drifting:Drifting",
        "tests.envs_forms:Forms",
    ]
    limit = {"ORSWEB_MAX_BODY_BYTES": str(MAX_BODY_BYTES)}
    with LiveServer(*bundled, *own, "tests.envs_pictures:Pictures", env=limit) as running:
        yield running


FORGET = """() => {
  dispatchEvent(new Event("pagehide"));
  stop();
  for (let timer = setTimeout(() => {}); timer > 0; timer--) clearTimeout(timer);
  history.replaceState(null, "", "/left");
  localStorage.clear();
  for (const key of Object.keys(sessionStorage)) if (key !== "axeSource") sessionStorage.removeItem(key);
}"""
"""Ends what a page follows, asks for and waits for, as leaving it does, and forgets what it has
kept, but for the script of axe. The next test loads its page even if it is the same.
"""


class Tab:
    """A tab of the browser that tests use in turn: a fresh one costs as much as two pages, and has
    cached nothing."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self.url = browser, url
        self._page: Page | None = None

    def open(self) -> Page:
        """Return its page, 1280 wide, light and without motion; addresses are relative to the
        server."""
        if self._page is None:
            context = self._browser.new_context(
                base_url=self.url, viewport=SIZE, reduced_motion="reduce"
            )
            context.set_default_timeout(WAIT_MS)
            self._page = context.new_page()
        return self._page

    def tidy(self) -> None:
        """Undo what tests do to a page and its browser: routes, other tabs, looks, storage,
        cookies, permissions.

        The page stays, which saves a fifth of the time of a short test, but follows nothing any
        more.
        """
        page = self.open()
        for other in page.context.pages:
            if other != page:
                other.close()
        page.unroute_all()
        try:
            page.evaluate(FORGET)
        except Error:  # a navigation interrupted it, or the page is none of the server's
            # a page of a run loads itself again when an episode ends, which interrupts this, too
            with suppress(Error):
                page.goto("/health")
            page.wait_for_load_state()
            page.evaluate(FORGET)
        page.context.clear_cookies()
        page.context.clear_permissions()
        page.emulate_media(media="screen", color_scheme="light", reduced_motion="reduce")
        if page.viewport_size != SIZE:
            page.set_viewport_size(SIZE)
        page.mouse.move(0, 0)

    def close(self) -> None:
        if self._page is not None:
            self._page.context.close()
            self._page = None


@pytest.fixture(scope="package")
def tabs(browser: Browser) -> Iterator[dict[str, Tab]]:
    """Yield the tabs by the address of their server."""
    opened: dict[str, Tab] = {}
    yield opened
    for one in opened.values():
        one.close()


@pytest.fixture(scope="module")
def tab(browser: Browser, live: LiveServer, tabs: dict[str, Tab]) -> Tab:
    """Return the tab of a file, which all files with the same server share."""
    return tabs.setdefault(live.url, Tab(browser, live.url))


@pytest.fixture
def page(
    browser: Browser, tab: Tab, live: LiveServer, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """Yield a page without history that a test can see; the test fails when a script does, or
    leaves the server.

    A test with the mark `own_tab` has a fresh one, which it changes for good: by scripts at the
    start of pages, or sockets and clocks that are not real.
    """
    expect.set_options(timeout=WAIT_MS)
    is_own = request.node.get_closest_marker("own_tab") is not None
    used = Tab(browser, live.url) if is_own else tab
    shown, failures = used.open(), list[str]()

    def on_error(error: Error) -> None:
        failures.append(str(error))

    def on_request_failed(asked: Request) -> None:
        failures.extend(_foreign(asked.url, live.url))

    shown.on("pageerror", on_error)
    shown.on("requestfailed", on_request_failed)
    yield shown
    shown.remove_listener("pageerror", on_error)
    shown.remove_listener("requestfailed", on_request_failed)
    if is_own:
        used.close()
    else:
        used.tidy()
    assert not failures


@pytest.fixture
def complaints(page: Page) -> Iterator[list[str]]:
    """Collect errors in the console of the browser, such as a breach of the policy; there must be
    none."""
    found: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            found.append(message.text)

    page.on("console", hear)
    yield found
    page.remove_listener("console", hear)
    assert not found


def _foreign(url: str, own: str) -> list[str]:
    """Return `url` as a complaint when it leads to another host: no page may reach one."""
    return (
        [] if url.startswith((own, "data:", "blob:", "about:")) else [f"the page asked for {url}"]
    )
