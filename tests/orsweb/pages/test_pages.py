"""Rules for all pages outside the admin: nothing from other hosts, no inline scripts, no duplicate
ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from orsweb.urls import urlpatterns
from tests.episodes.ended import count_statistics, end_episode
from tests.rows import each
from tests.stored import make_episode, make_run, make_split, make_step, make_task

ROOT = Path(__file__).resolve().parents[3]
OUTSIDE_THE_ADMIN = ("orsweb/", "episodes/", "figures/", "base.html")
ENDLESS = "events/"
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "font-src 'self'",
    "form-action 'self'",
    "base-uri 'self'",
    "frame-ancestors 'none'",
}

pytestmark = pytest.mark.django_db


def routes(patterns: list[Any], before: str = "") -> Iterator[str]:
    """Yield the routes of all pages outside the admin."""
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from () if route == "admin/" else routes(pattern.url_patterns, route)
        else:
            yield route


PAGES = sorted(
    {route for route in routes(urlpatterns) if not route.startswith((ENDLESS, "api/", "^"))}
)


class Reader(HTMLParser):
    """Collects ids, and what a strict policy would refuse to run, show or load."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []
        self.ids: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        if tag == "style" or (
            tag == "script" and "src" not in given and "json" not in (given.get("type") or "")
        ):
            self.refused.append(tag)
        for name, value in given.items():
            if (
                name == "style"
                or name.startswith(("on", "hx-on"))
                or (value or "").startswith("javascript:")
            ):
                self.refused.append(f"{tag} {name}")
            if name in ("src", "srcset") and not (value or "").startswith(("/", "data:", "blob:")):
                self.refused.append(f"{tag} {name}={value}")


@pytest.fixture
def episode() -> Any:
    """An episode with hostile text, which every page can show."""
    episode = make_episode(run=make_run(), model='<img src=x onerror="alert(1)">', run_step=1)
    make_split(episode.task)
    make_step(
        episode,
        "<script>alert(1)</script><style>*{color:red}</style> <b onclick=alert(1)>x</b>",
        reward=1.0,
    )
    return episode


def address(route: str, episode: Any) -> str:
    """Return the address of `route`, with the ids of the episode as parameters."""
    known = {"name": episode.environment.name, "index": "0", "number": "0"}
    numbers = {"runs/": episode.run_id, "tasks/": episode.task_id}
    pk = next((number for start, number in numbers.items() if route.startswith(start)), episode.pk)
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: str(known.get(found[1], pk)), route)


def breaches(response: Any) -> Iterator[str]:
    """Return the violations of the rules for all pages."""
    if response.status_code >= 500:
        yield str(response.status_code)
    if set(response["Content-Security-Policy"].split("; ")) != POLICY:
        yield response["Content-Security-Policy"]
    if response["Content-Type"].startswith("text/html"):
        reader = Reader()
        reader.feed(response.getvalue().decode())
        yield from reader.refused
        yield from (
            f"id {name} {count} times" for name, count in Counter(reader.ids).items() if count > 1
        )


def test_pages_have_a_strict_policy_and_keep_it(client: Client, episode: Any) -> None:
    found = {route: list(breaches(client.get(address(route, episode)))) for route in PAGES}
    assert len(found) > 40 and not {route: what for route, what in found.items() if what}


ROUNDED = re.compile(r"(?<![\w.])[-\N{MINUS SIGN}]0(\.0+)?(?![\w.:-])|\de-1\d\b")
"""What rounding leaves of 0, as Python writes it: -0.0, -0.00, 1.4e-17."""


def rounded_in(page: str) -> list[str]:
    """Return what rounding leaves of 0 in texts and on hover.

    Data of charts is written by `chart.js`, and the admin shows outputs as they were recorded.
    """
    shown = re.sub(
        r"<script\b.*?</script>|<pre class=\"code raw\">.*?</pre>", "", page, flags=re.DOTALL
    )
    hovered = re.findall(r'(?:title|aria-label)="([^"]*)"', shown)
    return [
        found[0]
        for text in (re.sub(r"<[^>]*>", " ", shown), *hovered)
        for found in ROUNDED.finditer(text)
    ]


@pytest.fixture
def rounded() -> Any:
    """Episodes of a run whose rewards should add up to 0, of which the second one is returned."""
    task = make_task()
    make_split(task)
    for value in (-0.0, -1.4e-17, 1.4e-17):
        episode = end_episode(value, task=task, run=make_run(), run_step=1, model="model-x")
        make_step(episode, reward=value)
        make_step(episode, reward=-value)
    count_statistics()
    return episode


def test_what_rounding_leaves_of_0_is_written_as_0(client: Client, rounded: Any) -> None:
    query = f"?run={rounded.run_id}&step=1"
    asked = {"compare/": f"?episodes={rounded.pk - 1},{rounded.pk}", "tasks/<id:pk>/group/": query}
    addresses = [address(route, rounded) + asked.get(route, "") for route in PAGES]
    addresses += [
        "/runs/curves/?by=run&x=step&y=return,success,deviation",
        "/episodes/?sort=return",
        "/runs/?part=figures",
    ]
    addresses += [f"/admin/episodes/episode/{rounded.pk}/change/", "/admin/environments/task/"]
    pages = {path: client.get(path) for path in addresses}
    shown = {
        path: page.content.decode()
        for path, page in pages.items()
        if "html" in page.get("Content-Type", "")
    }
    assert len(shown) > 20 and not {
        path: found for path, text in shown.items() if (found := rounded_in(text))
    }


@pytest.mark.parametrize(
    "path", ["/episodes/999999999/", "/?span=none", "/episodes/999999999/steps/x"]
)
def test_what_cannot_be_shown_is_said_in_the_frame(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code in (400, 404)
    assert (
        'class="fault"' in response.content.decode() and 'class="rail"' in response.content.decode()
    )
    assert "script-src 'self'" in response["Content-Security-Policy"]


TEMPLATES = [
    path for path in sorted((ROOT / "templates").rglob("*.html"))
    if path.relative_to(ROOT / "templates").as_posix().startswith(OUTSIDE_THE_ADMIN)
]  # fmt: skip


def test_templates_have_no_style_or_script_in_them() -> None:
    inline = re.compile(
        r"\sstyle=|<style|\son[a-z]+=[\"']|hx-on|<script(?![^>]*\ssrc=)(?![^>]*json)"
    )
    assert TEMPLATES and not [
        path for path in TEMPLATES if inline.search(path.read_text(encoding="utf-8"))
    ]


@each("path", ["/", "/admin/", "/admin/login/", "/admin/episodes/episode/"])
def test_pages_ask_no_other_host_for_anything(client: Client, path: str) -> None:
    page = client.get(path, follow=True).content.decode()
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"([^\"]*)\"", page)
    assert loaded and all(url.startswith("/static/") or url.startswith("/admin/") for url in loaded)


@each("name", [file.name for file in sorted((ROOT / "static/orsweb").iterdir()) if file.is_file()])
def test_its_files_name_no_other_host(client: Client, name: str) -> None:
    response = client.get(f"/static/orsweb/{name}")
    text = b"".join(response).decode()
    assert response.status_code == 200
    assert re.findall(r"(?:https?:)?//[\w.]+", text.replace("http://www.w3.org/2000/svg", "")) == []
