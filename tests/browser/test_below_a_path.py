"""The pages below a path, behind nginx with the configuration of docs/balancers: nothing is asked
for elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, expect

from tests import programs
from tests.browser.test_play import at_the_form, send
from tests.browser.waiting import WAIT_MS
from tests.conformance.agent import Agent
from tests.proxies import PASSWORD, below_a_path, nginx
from tests.server import LiveServer, free_port

KEY = "correct-horse"
PAGES = [
    "", "episodes/", "episodes/1/", "episodes/1/steps/0/", "environments/", "environments/quiz/", "tasks/1/", "runs/",
    "runs/1/", "runs/curves/", "runs/groups/", "compare/", "suites/", "conversations/", "play/invites/", "api/",
    "operations/", "admin/", "admin/environments/task/", "admin/environments/task/1/change/",
    "admin/environments/task/import/", "admin/episodes/episode/",
]  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of nginx in front of a server below /ors, with an account and an episode."""
    port = free_port()
    env = {"ORSWEB_PATH_PREFIX": "/ors", "ORSWEB_API_KEYS": f"lab:{KEY}"}
    with LiveServer("tests.envs_quiz:Quiz", "tests.envs:Echo", env=env) as server:
        account = server.env | {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        who = ("--username", "ann", "--email", "ann@example.org")
        programs.run("createsuperuser", "--noinput", *who, env=account, check=True)
        agent = Agent(
            server, **{"X-API-Key": KEY, "X-Run": "grpo-3", "X-Model": "m", "X-Step": "1"}
        )
        agent.open({"id": "train-0"}, "echo").call("echo", {"text": "hello"})
        agent.close()
        with nginx(
            tmp_path_factory.mktemp("nginx"), below_a_path(server.port, port, free_port()), port
        ):
            yield f"http://127.0.0.1:{port}"


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[tuple[Page, list[str]]]:
    """A page whose addresses are below the path, and what it complains about or asks for
    elsewhere."""
    expect.set_options(timeout=WAIT_MS)
    page, complaints = browser.new_page(base_url=address, reduced_motion="reduce"), list[str]()

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def see(request: Request) -> None:
        if not request.url.startswith((f"{address}/ors/", "data:", "blob:")):
            complaints.append(request.url)

    def read(response: Response) -> None:
        if response.status >= 400:
            complaints.append(f"{response.status} {response.url}")

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", see)
    page.on("response", read)
    yield page, complaints
    page.context.close()


def test_people_visit_every_page_and_play(visit: tuple[Page, list[str]]) -> None:
    page, complaints = visit
    page.goto("/ors/play/?environment=echo")
    page.get_by_label("Username").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Play", exact=True).click()
    send(page, str(at_the_form(page)))
    for path in PAGES:
        page.goto(f"/ors/{path}")
    page.goto("/ors/")
    expect(page.locator("[data-live-state]")).to_have_text("live")
    assert not complaints
