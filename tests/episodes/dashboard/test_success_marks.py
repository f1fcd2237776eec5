"""Tests of the mark of success, wherever pages show an episode."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from environments.display.formats import NONE
from environments.models import Task
from episodes.templatetags.record import ENDINGS, own_return, success_mark
from tests.episodes.ended import end_episode
from tests.stored import make_environment, make_episode, make_run, make_task

pytestmark = pytest.mark.django_db

PAGES = (
    "/",
    "/episodes/",
    "/episodes/{0}/",
    "/episodes/{0}/preview/",
    "/tasks/{task}/",
    "/tasks/{task}/group/?run={run}&step=1",
    "/runs/{run}/",
    "/compare/?episodes={0},{1}",
)
_MARK = re.compile(
    r'class="success-mark" data-success="(\w+)" title="[\w ]+"><b aria-hidden="true">(.)</b>'
    r'<span class="visually-hidden">([\w ]+)<'
)


def addresses() -> list[str]:
    """Return the pages of two attempts at a task, of which one is a success."""
    task = make_task(environment=make_environment("repair", success_threshold=0.9))
    values = {"task": task, "run": make_run(), "run_step": 1, "environment": task.environment}
    pair = [end_episode(value, **values).pk for value in (1.0, 0.85)]
    return [page.format(*pair, task=task.pk, run=values["run"].pk) for page in PAGES]


def marks(client: Client, address: str) -> set[tuple[str, ...]]:
    page = client.get(address)
    assert page.status_code == 200
    return set(_MARK.findall(page.content.decode()))


def test_every_page_marks_it_in_sign_and_words(client: Client) -> None:
    success, other = ("yes", "✓", "success"), ("no", "✗", "no success")
    for address in addresses():
        of_first = {success} if re.search(r"/episodes/\d", address) else {success, other}
        assert marks(client, address) == of_first, address


@pytest.mark.parametrize("threshold", ["0.8", "1.5"])
def test_it_follows_a_threshold_in_the_address(client: Client, threshold: str) -> None:
    name = "yes" if threshold == "0.8" else "no"
    for address in addresses():
        address += f"{'&' if '?' in address else '?'}threshold={threshold}"
        assert {mark[0] for mark in marks(client, address)} == {name}, address


@pytest.mark.parametrize("page", ["/", "/tasks/{task}/", "/environments/repair/"])
def test_a_link_from_a_figure_carries_the_threshold(client: Client, page: str) -> None:
    addresses()
    address = page.format(task=Task.objects.get().pk)
    links = client.get(f"{address}?threshold=0.8").content.decode()
    assert "ending=attempt&amp;threshold=0.8" in links or "24h&amp;threshold=0.8" in links
    assert "threshold" not in "".join(re.findall(r"ending=attempt[^\"]*", seen(client, address)))


def seen(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_what_no_figure_counts_has_no_mark(client: Client) -> None:
    probe = make_episode(is_probe=True, cause="abandoned", return_sum=1.0)
    running = make_episode(status="running", cause="", return_sum=1.0)
    for address in ("/", "/episodes/", f"/episodes/{probe.pk}/", f"/episodes/{running.pk}/"):
        assert marks(client, address) == set()
    assert 'data-level="0"' in own_return(probe)
    assert success_mark(None) == NONE


def test_a_return_has_the_colour_of_success_not_of_its_sign() -> None:
    low = make_environment("low", success_threshold=-0.5)
    assert 'data-level="-3"' in own_return(make_episode(return_sum=0.85))
    won = make_episode(task=make_task(environment=low), environment=low, return_sum=-0.2)
    assert 'data-level="3"' in own_return(won)


def test_an_ending_looks_like_no_success() -> None:
    assert not {"✓", "✗"} & set(ENDINGS.values())
