"""Tests of the figures of people and agents on the pages of a task and of an environment."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.episodes.ended import count_statistics, end_episode
from tests.stored import make_environment, make_task

pytestmark = pytest.mark.django_db


def section(page: str) -> str:
    """Return the text of the section about players."""
    return re.search(r'aria-labelledby="people-beside".*?</section>', page, re.DOTALL)[0]  # type: ignore[index]


def test_a_task_shows_people_next_to_agents(client: Client) -> None:
    task = make_task()
    end_episode(1.0, task=task, player="human")
    end_episode(0.0, task=task)
    found = section(client.get(f"/tasks/{task.pk}/").content.decode())
    assert found.index("player=human&amp;ending=attempt") < found.index(
        "player=agent&amp;ending=attempt"
    )
    assert "100%" in found and "0%" in found


def test_an_environment_shows_them_by_the_definition_requested(client: Client) -> None:
    end_episode(0.5, player="human", return_sum=3.0)
    end_episode(0.25)
    own = section(client.get("/environments/math/").content.decode())
    last = section(client.get("/environments/math/?return=last&threshold=0.4").content.decode())
    assert "+3.00" in own and "agents and scripted players" in own
    assert "+0.50" in last and "success &gt; 0.4" in last


@pytest.mark.parametrize("page", ["/tasks/{}/", "/environments/math/"])
def test_it_says_so_if_no_person_has_played(client: Client, page: str) -> None:
    task = make_task(environment=make_environment("math"))
    end_episode(task=task)
    assert "No person has an attempt that counts yet" in section(
        client.get(page.format(task.pk)).content.decode()
    )


def test_the_admins_page_of_a_task_shows_people_beside_the_others(client: Client) -> None:
    task = make_task()
    end_episode(1.0, task=task, player="human")
    end_episode(0.0, task=task)
    count_statistics()
    page = client.get(f"/admin/environments/task/{task.pk}/change/").content.decode()
    assert re.search(
        r"people</a></td><td class=\"right\"><a class=\"number\" href=\"[^\"]*\">1</a>", page
    )
