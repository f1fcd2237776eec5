"""Tests of the spread of returns on every page that shows it: no spread above zero is ever shown as
zero."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from environments.models import Task
from tests.episodes.ended import end_episode
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = pytest.mark.django_db

PAGES = (
    *(
        "/",
        "/environments/",
        "/environments/math/",
        "/environments/math/leaderboard/",
        "/tasks/{task}/",
    ),
    *("/runs/", "/runs/{run}/", "/runs/curves/", "/compare/?runs={run},{other}"),
)


def played(scale: float) -> dict[str, int]:
    """Return the ids of what two runs played, with returns that differ by about `scale`."""
    environment = make_environment()
    tasks: list[Task] = [make_task({"n": number}, environment) for number in range(3)]
    make_split(*tasks, environment=environment)
    runs = [make_run(name) for name in ("first", "second")]
    for number, run in enumerate(runs, 1):
        for place, task in enumerate(tasks):
            end_episode(
                scale * number * place**2, run=run, run_step=1, task=task, player="human", model="m"
            )
            end_episode(scale * number * (place + 1), run=run, run_step=1, task=task, model="m")
    return {"task": tasks[-1].pk, "run": runs[0].pk, "other": runs[1].pk}


def spreads(client: Client, address: str) -> list[str]:
    """Return the text after each plus-minus sign, on the page with several measures that of
    returns."""
    page = client.get(address).content.decode()
    of_returns = page.partition("<strong>Return</strong>")[2].partition("</tr>")[0]
    return re.findall(r">± ([^<]+)</span>", of_returns or page)


@pytest.mark.parametrize("path", PAGES)
def test_a_small_spread_is_not_shown_as_none(client: Client, path: str) -> None:
    found = spreads(client, path.format(**played(0.0002)))
    assert found and all(re.fullmatch(r"0\.000\d{1,2}", figure) for figure in found)


@pytest.mark.parametrize("path", PAGES)
def test_a_large_spread_takes_few_digits(client: Client, path: str) -> None:
    found = spreads(client, path.format(**played(1e9)))
    assert found and all(re.fullmatch(r"\d{1,3}(\.\d+)?[MB]", figure) for figure in found)


@pytest.mark.parametrize("path", PAGES)
def test_any_other_has_two_decimals(client: Client, path: str) -> None:
    found = spreads(client, path.format(**played(1.0)))
    assert found and all(re.fullmatch(r"\d\.\d\d", figure) for figure in found)


@pytest.mark.parametrize(("scale", "figure"), [(0.0002, "0.0001"), (1.0, "0.50"), (1e9, "500M")])
def test_a_small_standard_deviation_of_a_group_is_shown(
    client: Client, scale: float, figure: str
) -> None:
    numbers = played(scale)
    page = client.get("/tasks/{task}/group/?run={run}&step=1".format(**numbers)).content.decode()
    assert f'<dt>Standard deviation</dt><dd class="figure">{figure}</dd>' in page


@pytest.mark.parametrize(
    ("scale", "figure"), [(-0.0002, "\N{MINUS SIGN}0.0008"), (0.0002, "0.0008"), (1e9, "4B")]
)
def test_the_percentiles_of_a_curve_are_shown(client: Client, scale: float, figure: str) -> None:
    page = client.get("/runs/curves/?runs={run}".format(**played(scale))).content.decode()
    [ends] = re.findall(r'<td class="right number nowrap">(\S+) \N{EN DASH} (\S+)</td>', page)
    assert figure in ends
