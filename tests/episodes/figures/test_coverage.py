"""Tests of coverage: how many rollouts a figure counts stands next to every figure, and links list
just these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html import unescape
from itertools import cycle
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from asgiref.sync import async_to_sync
from django.http import QueryDict
from django.test import AsyncClient, Client

from environments.models import UNRESTRICTED, Environment, Task
from environments.scoring.convention import CONVENTION_PARTS, Convention
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Play
from episodes.rollups.follower import catch_up
from tests.episodes.ended import count_statistics, end_episode
from tests.stored import make_environment, make_run, make_split, make_step, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_follower")]

CAUSES = {
    **{"finished": 1.0, "abandoned": 0.0, "expired": 0.75, "no_call": 0.0},
    **{"interrupted": 0.25, "env_error": 0.5, "setup_failed": 0.0},
}
MOST_VALUES = max(map(len, CONVENTION_PARTS.values()))
CONVENTIONS = [
    urlencode({name: values[number % len(values)] for name, values in CONVENTION_PARTS.items()})
    for number in range(MOST_VALUES)
]
"""Parameters of addresses that together have each value of each part of a convention."""
PAGES = (
    *(
        "/",
        "/environments/",
        "/environments/math/",
        "/environments/math/leaderboard/",
        "/tasks/{task}/",
    ),
    *(
        "/environments/math/leaderboard/?by=run",
        "/environments/math/leaderboard/?by=player",
        "/runs/",
        "/runs/{run}/",
    ),
    *(
        "/runs/curves/",
        "/runs/curves/?environment=math",
        "/runs/curves/?by=run",
        "/runs/curves/?y=components",
    ),
    *(
        "/compare/?runs={run},{other}",
        "/tasks/{task}/group/?run={run}&step=3",
        "/episodes/{episode}/",
    ),
    "/episodes/{episode}/peers/",
)
"""Pages whose address takes parts of the convention."""
OTHER_PAGES = (
    *(
        "/play/people/",
        "/admin/environments/environment/{environment}/change/",
        "/admin/environments/task/",
    ),
    "/admin/environments/task/{task}/change/",
)
"""Pages that show figures by the convention of each environment alone."""
LINK = re.compile(r'<a [^>]*href="/episodes/\?([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
COUNT = re.compile(
    r"(?:^|: )([\d,]+)(?:$| (?:attempts?|no "
    r"call|expired|infrastructure|interrupted|environment|setup|not played|cont))"
)


class Played(NamedTuple):
    task: int
    run: int
    other: int
    episode: int
    environment: int


@pytest.fixture(scope="module")
def played(committed_rows: None) -> Played:
    """Every kind of ending of every kind of player, in two environments, one of which has its own
    convention."""
    environments = [
        make_environment("math"),
        make_environment("strict", convention=Convention("out", "zero").code),
    ]
    tasks: list[Task] = [
        make_task({"n": number}, environment) for environment in environments for number in range(2)
    ]
    make_split(*tasks[:2], environment=environments[0])
    runs = [make_run(name) for name in ("first", "second")]
    for task in tasks:
        for cause, value in CAUSES.items():
            for run in runs:
                last = end_episode(
                    value, task=task, cause=cause, run=run, run_step=3, model="m-1", steps_count=1
                )
                make_step(last)
            ending: dict[str, Any] = {
                "task": task,
                "cause": cause if cause != "no_call" else "finished",
            }
            end_episode(value, player="human", key_label="@ada", **ending)
            continued = end_episode(value, player="human", key_label="@ada", **ending)
            Play.objects.create(episode=continued, parent_step=0)
            end_episode(0.0, task=task, cause="abandoned", is_probe=True)
    catch_up()
    Environment.objects.update(counted="")
    count_statistics()
    return Played(tasks[0].pk, runs[0].pk, runs[1].pk, last.pk, environments[0].pk)


def counted_links(page: str) -> Iterator[tuple[str, int]]:
    """Return the filter and the number in the text of each link to a list of episodes."""
    for query, content in LINK.findall(page):
        title = re.search(r"<title>(.*?)</title>", content)
        text = title.group(1) if title else re.sub(r"<[^>]*>", "", content)
        if found := COUNT.search(text.strip()):
            yield unescape(query), int(found.group(1).replace(",", ""))


def rows_behind(query: str) -> int:
    """Return how many episodes the list at this address has."""
    asked = EpisodeFilter.parse(QueryDict(query), UNRESTRICTED)
    return EpisodeListQuery(asked).match_count(EpisodeListQuery(asked).result()).count


def test_a_figure_counts_the_rows_that_its_link_lists(client: Client, played: Played) -> None:
    rows = cache(rows_behind)  # many pages have the same links
    chosen = zip(PAGES, cycle(CONVENTIONS))
    for path, asked in (*((path, "") for path in PAGES), *chosen):
        address = path.format(**played._asdict())
        address += f"{'&' if '?' in address else '?'}{asked}" if asked else ""
        found = list(counted_links(client.get(address).content.decode()))
        assert len(found) > 1, address
        assert [
            (query, number, rows(query)) for query, number in found if rows(query) != number
        ] == [], address


def test_other_pages_link_what_they_count(admin_client: Client, played: Played) -> None:
    for path in OTHER_PAGES:
        found = list(
            counted_links(admin_client.get(path.format(**played._asdict())).content.decode())
        )
        assert [(query, number) for query, number in found if rows_behind(query) != number] == [], (
            path
        )


def test_coverage_stands_on_every_page_with_figures(admin_client: Client, played: Played) -> None:
    for path in (*PAGES[1:], *OTHER_PAGES):
        page = admin_client.get(path.format(**played._asdict())).content.decode()
        text = re.sub(r"<[^>]*>", "", page)
        assert re.search(r"\d+ (excluded|scored 0)", text), path


FILES = (
    *(
        f"/episodes/export?environment=math&format={format}"
        for format in ("jsonl", "csv", "parquet", "messages", "pairs")
    ),
    *(
        f"/api/episodes/export?environment=math&format={format}"
        for format in ("jsonl", "csv", "parquet", "messages", "pairs")
    ),
    *(
        "/runs/curves/?environment=math&format=csv",
        "/environments/math/leaderboard/?by=player&format=csv",
    ),
)


async def headers_of(address: str) -> dict[str, str]:
    """Return the headers of a file, which is read to its end."""
    answer = await AsyncClient().get(address)
    if answer.streaming:
        _ = [piece async for piece in answer.streaming_content]  # type: ignore[attr-defined]
    return dict(answer.headers)


def test_every_file_has_it_among_its_headers(played: Played) -> None:
    for address in FILES:
        headers = async_to_sync(headers_of)(address)
        assert re.search(
            r"\d+ attempts; \d+ no call scored 0, \d+ infrastructure",
            headers.get("X-Coverage", ""),
        ), address
        assert "no_call=zero" in headers["X-Definition"], address


def test_a_file_of_several_environments_goes_by_their_conventions(played: Played) -> None:
    headers = async_to_sync(headers_of)("/episodes/export?player=agent&format=csv")
    assert headers["X-Definition"].startswith(
        "return=environment; threshold=environment; no_call=environment"
    )
    # of each environment two tasks, with two runs; the other one leaves out no calls and counts
    # expired ones as 0
    assert headers["X-Coverage"] == (
        "28 attempts; 4 expired scored 0, 4 no call scored 0, 4 no call excluded, 24 infrastructure "
        "failures excluded"
    )


def figures_without_coverage(value: Any, place: str = "") -> Iterator[str]:
    """Return the places of objects with a mean or a rate that do not say how many rollouts they
    count."""
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from figures_without_coverage(one, f"{place}/{number}")
    elif isinstance(value, dict):
        if {"mean", "success", "return_mean"} & set(value) and "rollouts" not in value:
            yield place
        for name, one in value.items():
            # components are those of the points next to them
            yield from (
                figures_without_coverage(one, f"{place}/{name}") if name != "components" else ()
            )


def test_every_answer_of_the_api_has_it(client: Client, played: Played) -> None:
    for address in (
        "curves?run=first&x=step",
        "curves",
        "tasks",
        f"tasks/{played.task}",
        "environments/math/leaderboard",
    ):
        answer = client.get(f"/api/{address}").json()
        assert '"rollouts"' in str(answer).replace("'", '"'), address
        assert list(figures_without_coverage(answer)) == [], address


def test_an_image_of_a_chart_has_it_below(client: Client, played: Played) -> None:
    for figure in ("return", "success", "length"):
        chart = client.get(f"/runs/curves/?environment=math&y={figure}&format=json").json()[
            "charts"
        ][0]
        assert any(re.search(r"\d+ attempts; ", line) for line in chart["caption"])
