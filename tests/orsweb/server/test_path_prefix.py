"""Below a path, with ORSWEB_PATH_PREFIX and the configuration of docs/balancers: nginx passes the
path on or takes it off, and no address that the server makes leaves it.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from websockets.sync.client import connect
from websockets.typing import Origin

from environments.errors import Unhostable
from environments.hosts.loading import load
from environments.limits import LoadingSettings
from tests import programs
from tests.conformance.agent import Agent
from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.openid_provider import CLIENT, CLIENT_SECRET, OpenIdProvider
from tests.proxies import PASSWORD, begin_to_play, below_a_path, cookies_of, log_in, nginx
from tests.rows import each
from tests.server import LiveServer, free_port

KEY = "correct-horse"
ADDRESS = re.compile(
    r'\s(?:href|src|action|formaction|poster|data-(?!copy)[a-z-]+|hx-[a-z]+)="([^"]*)"'
)
CODE = re.compile(r"<pre.*?</pre>", re.DOTALL)


@dataclass
class Site:
    """An address of a server below a path: http://127.0.0.1:PORT of nginx."""

    server: LiveServer
    origin: str
    login: httpx.Cookies
    """Of ann, a superuser."""

    @property
    def url(self) -> str:
        return f"{self.origin}/ors"

    def ann(self) -> httpx.Client:
        """Return the browser of ann; its paths are below /ors."""
        return httpx.Client(
            base_url=self.url, cookies=self.login, headers={"Referer": self.url}, timeout=60
        )


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Site]]:
    port, stripping = free_port(), free_port()
    with OpenIdProvider() as provider:
        single = {"ISSUER": provider.issuer, "CLIENT_ID": CLIENT, "CLIENT_SECRET": CLIENT_SECRET}
        env = {"ORSWEB_PATH_PREFIX": "/ors/", "ORSWEB_API_KEYS": f"lab:{KEY}"}
        env |= {f"ORSWEB_OIDC_{name}": value for name, value in single.items()}
        with LiveServer("tests.envs:Echo", env=env) as server:
            account = server.env | {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
            who = ("--username", "ann", "--email", "ann@example.org")
            programs.run("createsuperuser", "--noinput", *who, env=account, check=True)
            agent = Agent(server, **{"X-API-Key": KEY, "X-Run": "grpo-3", "X-Model": "m"})
            agent.open({"id": "train-0"}).call("echo", {"text": "hello"})
            agent.close()
            with nginx(
                tmp_path_factory.mktemp("nginx"), below_a_path(server.port, port, stripping), port
            ):
                origins = {
                    "passed on": f"http://127.0.0.1:{port}",
                    "taken off": f"http://127.0.0.1:{stripping}",
                }
                with httpx.Client(base_url=f"{origins['passed on']}/ors", timeout=60) as browser:
                    log_in(browser, origins["passed on"])
                    yield {
                        name: Site(server, origin, browser.cookies)
                        for name, origin in origins.items()
                    }


@pytest.fixture(params=["passed on", "taken off"])
def site(sites: dict[str, Site], request: pytest.FixtureRequest) -> Site:
    return sites[request.param]


# --- every address --------------------------------------------------------------------------------


def test_no_link_of_any_page_leaves_the_path(sites: dict[str, Site]) -> None:
    site, visited, strays = sites["passed on"], Counter[str](), set[str]()
    with site.ann() as browser:
        episode = begin_to_play(browser, "echo")
        paths = deque(["/ors/", f"/ors/play/{episode}/", "/ors/api/episodes"])
        while paths:
            path = paths.popleft()
            shape = re.sub(r"\d+", "1", path.partition("?")[0])
            is_known = (
                visited[shape]
                or "/logout/" in path
                or ("/static/" in path and not path.endswith(".css"))
            )
            if is_known:
                continue
            visited[shape] += 1
            for address in addresses(browser, site.origin + path):
                parts = urlsplit(urljoin(site.origin + path, address))
                if f"{parts.scheme}://{parts.netloc}" != site.origin or not parts.path.startswith(
                    "/ors/"
                ):
                    strays.add(f"{path} leads to {address}")
                else:
                    paths.append(f"{parts.path}?{parts.query}" if parts.query else parts.path)
    assert not strays
    assert len(visited) > 150, sorted(visited)


def addresses(browser: httpx.Client, url: str) -> list[str]:
    """Return the addresses in a response, and all that look like one in a page's JSON and
    scripts."""
    with browser.stream("GET", url) as answer:
        kind = answer.headers.get("Content-Type", "")
        if "event-stream" in kind:
            return []
        text = answer.read().decode(errors="replace")
    if "Location" in answer.headers:
        return [answer.headers["Location"]]
    if "html" in kind:
        shown = [unescape(value) for value in ADDRESS.findall(CODE.sub("", text))]
        # /pa is a place in a form
        return [value for value in shown if re.match(r"/(?!p\w)|\?|http|\.", value)]
    if "json" in kind:
        return re.findall(r'"(?:\w+_)?(?:url|next|previous)": ?"([^"]*)"', text)
    return re.findall(r'url\(["\']?(?!data:)([^"\')]+)', text) if "css" in kind else []


def test_code_on_pages_names_the_address_that_each_client_needs(site: Site) -> None:
    with site.ann() as browser:
        page = unescape(browser.get("/environments/echo/").text)
    assert (
        f'ORS("{site.origin}", api_key' in page and f"OPENREWARD_SESSION_URL={site.origin} " in page
    )
    assert f"curl {site.url}/create " in page and f'"{site.url}/mcp/echo?split=train' in page


def test_json_links_to_the_path(site: Site) -> None:
    with httpx.Client(headers={"X-API-Key": KEY}, base_url=site.url, timeout=60) as client:
        [row] = client.get("/api/episodes", params={"run": "grpo-3"}).json()["results"]
        assert row["html_url"] == f"{site.url}/episodes/{row['id']}/"
        assert client.get(row["url"]).json()["steps_url"] == f"{row['url']}/steps"
        assert client.get("/api/tasks?limit=1").json()["next"].startswith(f"{site.url}/api/tasks?")
        assert (
            f"{site.url}/api/episodes/{row['id']}"
            in client.get(f"/api/episodes/{row['id']}/events").text
        )
        described = [
            client.get("/openapi.json").json(),
            client.get("/api/schema", params={"format": "json"}).json(),
        ]
    assert [one["servers"] for one in described] == [[{"url": "/ors"}]] * 2


# --- agents ---------------------------------------------------------------------------------------


@each("client", [OrsClient, OpenRewardClient])
def test_both_sdks_play(sites: dict[str, Site], client: type[OrsClient | OpenRewardClient]) -> None:
    for site in sites.values():
        with (
            client(site.server, KEY, url=site.origin) as sdk,
            sdk.environment("echo").session(split="train", index=0) as session,
        ):
            assert session.call_tool("echo", {"text": "again"}).blocks[0].text == "again"


def test_agents_play_below_the_path(site: Site) -> None:
    agent = Agent(site.server, **{"X-API-Key": KEY})
    agent.http.base_url = httpx.URL(site.url)
    with agent.open({"id": "train-0"}, "echo"):
        assert "again" in agent.call("echo", {"text": "again"}).text
        answer = agent.http.get("/echo/tools/?a=b")
    assert (answer.status_code, answer.headers["Location"]) == (307, "/ors/echo/tools?a=b")


def test_mcp_answers_and_asks_for_a_key(site: Site) -> None:
    client = {
        "clientInfo": {"name": "test", "version": "1"},
        "capabilities": {},
        "protocolVersion": "2025-06-18",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    headers = {"Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=site.url, headers=headers, timeout=60) as agent:
        refused = agent.post("/mcp/echo", json=message)
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "X-API-Key")
        agent.headers["X-API-Key"] = KEY
        assert agent.post("/mcp/echo", json=message).headers["Mcp-Session-Id"]
        assert "this server has /ors/mcp/echo" in agent.post("/mcp", json=message).text


def test_probes_may_leave_the_path_out(sites: dict[str, Site]) -> None:
    [url] = {site.server.url for site in sites.values()}
    statuses = [
        httpx.get(f"{url}{path}").status_code
        for path in ("/health", "/ors/health", "/ors/%68ealth", "/orshealth")
    ]
    assert statuses == [200, 200, 200, 404]


# --- people ---------------------------------------------------------------------------------------


def test_a_login_stays_below_the_path(sites: dict[str, Site]) -> None:
    site = sites["taken off"]
    with httpx.Client(base_url=site.url, timeout=60) as browser:
        assert browser.get("/runs/").headers["Location"] == "/ors/accounts/login/?next=/ors/runs/"
        log_in(browser, site.origin)
        cookies = {cookie.name: cookie.path for cookie in browser.cookies.jar}
        assert cookies == {"sessionid_ors": "/ors", "csrftoken_ors": "/ors"}
        assert browser.get("/runs/").status_code == 200


def test_the_path_without_its_slash_leads_to_the_overview(sites: dict[str, Site]) -> None:
    server = sites["passed on"].server
    answer = httpx.get(f"{server.url}/ors")
    assert answer.headers["Location"] in ("/ors/", "/ors/accounts/login/?next=/ors")


def test_single_sign_on_comes_back_below_the_path(site: Site) -> None:
    with httpx.Client(base_url=site.url, timeout=60) as browser:
        there = browser.get("/accounts/sign-on/?next=/ors/runs/").headers["Location"]
        assert parse_qs(urlsplit(there).query)["redirect_uri"] == [
            f"{site.url}/accounts/sign-on/callback/"
        ]
        back = httpx.get(there).headers["Location"]
        assert browser.get(back).headers["Location"] == "/ors/runs/"


def test_people_play_over_a_websocket_and_follow_events(site: Site) -> None:
    with site.ann() as browser:
        episode, cookies = begin_to_play(browser, "echo"), cookies_of(browser)
        page = browser.get(f"/play/{episode}/").text
        [path] = re.findall(r'data-socket="([^"]*)"', page)
        [events] = set(re.findall(r'data-events="([^"]*)"', page))
        with browser.stream(
            "GET", f"{site.origin}{events}", params={"channel": "episodes"}
        ) as stream:
            assert "stream-open" in next(stream.iter_text())
        address = f"{site.origin.replace('http', 'ws')}{path}?after=-1"
        with connect(
            address, origin=Origin(site.origin), additional_headers={"Cookie": cookies}
        ) as player:
            player.send(
                json.dumps({"type": "call", "tool": "finish", "input": {}, "task_id": "first"})
            )
            while (message := json.loads(player.recv(timeout=30)))["type"] != "ended":
                pass
    links = set(re.findall(r'href="([^"]*)"', message["html"]))
    assert links and all(link.startswith("/ors/") for link in links)


def test_an_invite_leads_below_the_path(site: Site) -> None:
    with site.ann() as browser:
        page = browser.get("/play/invites/").text
        fields = {
            name: re.findall(rf'"{name}".*?value="([^"]+)"', page, re.DOTALL)[0]
            for name in ("csrfmiddlewaretoken", "place")
        }
        answer = browser.post(
            "/play/invites/", data={**fields, "name": "pilot", "lasts": "7", "unit": "days"}
        )
    assert len(re.findall(f'{site.url}/play/invite/[^/"<]+/', answer.text)) > 0


# --- the server itself ----------------------------------------------------------------------------


def test_no_environment_may_have_the_name_with_which_the_path_begins() -> None:
    with pytest.raises(Unhostable, match="begins with the name of the environment 'Echo'"):
        load(["tests.envs:Echo"], LoadingSettings(path_prefix="/Echo/lab"))
    assert load(["tests.envs:Echo"], LoadingSettings(path_prefix="/echoes")).names == ["echo"]


def test_the_banner_shows_the_path_to_people(sites: dict[str, Site]) -> None:
    server = sites["passed on"].server
    assert (
        f"orsweb is ready: {server.url}/ors " in server.log
        and f'ORS(base_url="{server.url}",' in server.log
    )


def test_a_stop_does_not_wait_for_streams_below_the_path(tmp_path: Path) -> None:
    with LiveServer(
        "tests.envs:Echo", env={"ORSWEB_PATH_PREFIX": "/ors", "ORSWEB_SHUTDOWN_TIMEOUT": "300"}
    ) as server:
        with httpx.stream(
            "GET", f"{server.url}/ors/events/?channel=episodes", timeout=60
        ) as stream:
            assert "stream-open" in next(stream.iter_text())
            began = time.monotonic()
            server.stop()
        assert time.monotonic() - began < 30
