"""Tests of the reward doctor's page."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from django.test import Client

from environments.models import Split
from episodes.doctor.checks import CHECKS
from episodes.doctor.thresholds import THRESHOLDS
from tests.episodes.ended import count_statistics, end_episodes
from tests.rows import each
from tests.stored import make_blob, make_environment, make_run, make_split, make_step, make_task

pytestmark = pytest.mark.django_db
PAGE = "/environments/math/doctor/"
PAGE_OF_DOCS = Path(__file__).resolve().parents[3] / "docs/reward-doctor.md"


def play_healthily() -> None:
    """Record a run without a flaw: half of the attempts succeed, on train and on test tasks, in
    every training step."""
    run, tools = make_run(), make_blob('{"tools": [{"name": "submit", "description": ""}]}')
    tasks = [make_task() for _ in range(8)]
    train, test = make_split(*tasks[:4], name="train"), make_split(*tasks[4:], name="test")
    Split.objects.filter(pk=test.pk).update(type="test")
    attempts = []
    for step in range(16):
        for place, task in enumerate(tasks):
            values = {
                "run": run,
                "run_step": step,
                "task": task,
                "split": train if place < 4 else test,
                "tools": tools,
            }
            attempts += [(0.0, values), (1.0, values)]
    end_episodes(*attempts)
    last = run.episodes.order_by("pk").last()
    assert last is not None
    for _ in range(60):
        make_step(last)
    count_statistics()


def text_of(client: Client, path: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", client.get(path).content.decode()))


def test_a_healthy_run_has_a_page_that_says_so(client: Client) -> None:
    play_healthily()
    page = text_of(client, f"{PAGE}?run=grpo-3")
    assert f"{len(CHECKS)} checks found no problem." in page
    assert "Problems" not in page and f"Passed {len(CHECKS)}" in page


def test_without_episodes_it_says_what_is_needed(client: Client) -> None:
    make_environment()
    page = text_of(client, PAGE)
    assert "No check has enough data." in page
    assert "Needs 30 attempts; there are 0." in page


def test_a_threshold_of_the_address_decides(client: Client) -> None:
    play_healthily()
    assert (
        "Sparse rewards 50% of attempts have no non-zero reward (128 of 256)"
        in text_of(client, f"{PAGE}?sparse=0.4").partition("Passed")[0]
    )
    assert 'value="0.4"' in client.get(f"{PAGE}?sparse=0.4").content.decode()


def test_a_large_threshold_is_kept_in_links_as_it_was_given(client: Client) -> None:
    play_healthily()
    page = client.get(f"{PAGE}?attempts=1000000&scale=123456.75").content.decode()
    assert f'href="{PAGE}?attempts=1000000&amp;scale=123456.75&amp;run=grpo-3"' in page
    assert 'value="1000000"' in page and 'value="123456.75"' in page


@each(
    ("query", "said"),
    [
        (
            "sparse=2",
            "sparse=&#x27;2&#x27; cannot be used: it has to be a number from 0 to 1, such as 0.95.",
        ),
        ("attempts=none", "it has to be a whole number from 1 to 1000000"),
        ("scale=0", "it has to be a number from 1 to 1000000, such as 10."),
        ("split=dev", "No split of math is named &#x27;dev&#x27;."),
        ("run=grpo-4", "No run is named &#x27;grpo-4&#x27;."),
        ("sparce=1", "no parameter has that name. Did you mean"),
    ],
)
def test_what_cannot_be_used_is_named(client: Client, query: str, said: str) -> None:
    make_environment()
    answer = client.get(f"{PAGE}?{query}")
    assert answer.status_code == 400
    assert said in answer.content.decode()


def test_the_pages_of_the_environment_and_of_the_run_lead_to_it(client: Client) -> None:
    play_healthily()
    assert f'href="{PAGE}"' in client.get("/environments/math/").content.decode()
    run = make_run()
    assert f'href="{PAGE}?run=grpo-3"' in client.get(f"/runs/{run.pk}/").content.decode()


def test_the_doctor_of_an_environment_leads_to_those_of_its_runs(client: Client) -> None:
    play_healthily()
    assert (
        f'href="{PAGE}?sparse=0.9&amp;run=grpo-3"'
        in client.get(f"{PAGE}?sparse=0.9").content.decode()
    )


def test_the_documented_thresholds_are_these() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| ([\d.]+) \| (.+) \|$", PAGE_OF_DOCS.read_text(encoding="utf-8"), re.M
    )
    assert {name: (float(default), words) for name, default, words in rows} == {
        name: (threshold.default, threshold.words) for name, threshold in THRESHOLDS.items()
    }


def part_of_run(client: Client, run: int) -> str:
    """Return the part that the page of a run loads when it comes into view."""
    page = client.get(f"/runs/{run}/").content.decode()
    address = unescape(
        re.findall(rf'hx-get="({PAGE}[^"]*)" hx-trigger="intersect once, load', page)[0]
    )
    return client.get(address, headers={"HX-Request": "true"}).content.decode()


def test_the_page_of_a_run_loads_the_findings_and_where_they_begin(client: Client) -> None:
    run, task = make_run(), make_task()
    for step in range(24):
        rewards = [1.0, 0.0] if step < 12 else [0.8, 0.85]
        end_episodes(*((r, {"run": run, "run_step": step, "task": task}) for r in rewards * 8))
    part = part_of_run(client, run.pk)
    assert part.lstrip().startswith("<section") and "From training step 12" in part
    numbers = list(run.episodes.order_by("pk").values_list("pk", flat=True))
    around = numbers[12 * 16 - 5 : 12 * 16 + 5]
    assert re.findall(r'<td><a href="/episodes/(\d+)/">', part) == [str(pk) for pk in around]
    assert re.findall(r'data-success="(\w+)"', part) == ["no", "yes"] * 2 + ["no"] * 6


def test_a_healthy_run_has_no_finding_on_its_page(client: Client) -> None:
    play_healthily()
    part = part_of_run(client, make_run().pk)
    assert "found no problem" in part and "<dl" not in part


def test_the_cause_is_the_first_problem_and_thresholds_are_words(client: Client) -> None:
    run = make_run()
    for step in range(24):
        value = 0.5 if step < 16 else 0.8
        end_episodes(*((value, {"run": run, "run_step": step, "steps_count": 3}) for _ in range(8)))
    for episode in run.episodes.order_by("-pk")[:64]:
        for _ in range(3):
            make_step(episode, reward=0.1)
    page = client.get(f"{PAGE}?run=grpo-3").content.decode()
    text = text_of(client, f"{PAGE}?run=grpo-3")
    assert page.index('id="repeated_calls"') < page.index('id="reward_without_success"')
    assert "3 times that the same call with the same output is paid in an attempt" in text
