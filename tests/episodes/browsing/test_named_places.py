"""What the palette and the search field find by name."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from environments.models import Environment
from episodes.browsing import named_places
from episodes.models import Suite
from tests.episodes.ended import end_episode
from tests.people import client_of
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = pytest.mark.django_db


def found(client: Client, text: str) -> list[tuple[str, str]]:
    answer = client.get("/episodes/palette.json", {"text": text}).json()
    return [(place["kind"], place["name"]) for place in answer["places"]]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("GRPO", [("run", "grpo-3"), ("model", "grpo-tuned")]),
        ("mat", [("environment", "math")]),
        ("test #1", [("task", "math test #1")]),
        ("math TEST#1", [("task", "math test #1")]),
        ("test 1", [("task", "math test #1")]),
        ("doctor math", [("page", "math Reward doctor")]),
        ("math lead", [("page", "math Leaderboard")]),
        ("chess test #1", []),
        ("test #2", []),
        ("core", [("suite", "core-bench")]),
        ("3 grpo", [("run", "grpo-3")]),
        ("tuned GR", [("model", "grpo-tuned")]),
        ("bench core", [("suite", "core-bench")]),
        ("grpo 4", []),
        ("  ", []),
    ],
)
def test_places_are_found_by_their_names(client: Client, text: str, places: list[object]) -> None:
    make_split(make_task(), make_task(), name="test")
    end_episode(run=make_run("grpo-3"), model="grpo-tuned")
    Suite.objects.create(name="core-bench", author="ada")
    assert found(client, text) == places


def test_a_number_is_an_episode_and_its_address_opens_it(client: Client) -> None:
    episode = end_episode()
    for text in (f"{episode.pk}", f"#{episode.pk}"):
        [place] = client.get("/episodes/palette.json", {"text": text}).json()["places"]
        assert place == {
            "kind": "episode",
            "name": f"#{episode.pk}",
            "url": f"/episodes/{episode.pk}/",
        }
    assert found(client, "#999999") == []


def test_a_task_is_found_by_its_number_and_by_its_index_in_any_split(client: Client) -> None:
    task, other = (make_task({"question": f"Mend {name}."}) for name in "ab")
    make_split(task, other, name="train")
    numbered = ("task", f"task {other.pk}: Mend b. (math train #1)")
    assert numbered in found(client, f"Task {other.pk}")
    assert ("task", "math train #1") in found(client, "task 1")
    assert ("task", "math train #1") in found(client, "math task 1")


def test_the_best_match_comes_first(client: Client) -> None:
    for name in ("sweep-7", *(f"sweep-{number}7" for number in range(1, 8)), "a-sweep-7"):
        end_episode(run=make_run(name), model="sweep-model-7")
    names = [name for _, name in found(client, "sweep 7")]
    assert names[:3] == ["sweep-7", "a-sweep-7", "sweep-model-7"] and len(names) == 7


def test_tasks_are_found_by_the_words_of_their_lines_among_the_newest(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (make_task({"question": f"Mend {name}.", "answer": "teal"}) for name in "ab")
    make_split(old, new, name="test")
    both = [("task", "Mend b. (math test #1)"), ("task", "Mend a. (math test #0)")]
    assert found(client, "MEND") == both and found(client, "a. mend") == both[1:]
    assert found(client, "teal") == found(client, "mend teal") == found(client, "end a") == []
    monkeypatch.setattr(named_places, "MAX_SEARCHED_TASKS", 1)
    assert found(client, "mend") == both[:1]


def test_nobody_finds_what_is_private(settings: object) -> None:
    environment = make_environment("secret-lab")
    task = make_task({"question": "A secret?"}, environment)
    make_split(task, name="test", environment=environment)
    episode = end_episode(run=make_run("secret-run"), model="secret-model", environment=environment)
    Environment.objects.filter(pk=environment.pk).update(is_private=True)
    viewer, root = client_of("viewer"), Client()
    root.force_login(User.objects.create_superuser("root"))
    for text in ("secret", "a secret?", "test #0", str(episode.pk)):
        assert found(viewer, text) == [] and found(root, text) != []


def test_the_search_field_finds_names_too(client: Client) -> None:
    run = make_run("grpo-3")
    page = client.get("/episodes/?text=grpo").content.decode()
    assert f'run <a href="/runs/{run.pk}/">grpo-3</a>' in page
