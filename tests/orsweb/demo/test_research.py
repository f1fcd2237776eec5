"""`manage.py demo --size research`: the record that it promises, in a small edition."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models import Count, Max

from environments.wire import NO_NUMBER
from episodes.models import Episode, Play, Rollout, Run, Step, SuiteTask
from orsweb.demo.research import research_script

pytestmark = pytest.mark.django_db(transaction=True)


def success(run: str, first: int, last: int) -> float:
    """Return the share of successes from one training step to another."""
    returns = Episode.objects.filter(run__name=run, run_step__range=(first, last)).values_list(
        "return_sum", flat=True
    )
    return sum(value > 0.9 for value in returns) / len(returns)


def mean(values: Any) -> float:
    numbers = list(values)
    return float(sum(numbers)) / len(numbers)


def test_it_records_what_researchers_have() -> None:
    call_command("demo", size="research", episodes=700, stdout=io.StringIO())
    the_healthy_run_learns()
    the_running_run_exploits_its_reward()
    the_sweep_has_configurations()
    two_tasks_of_the_suite_always_crash()
    odd_cases_are_there()
    ends = list(Episode.objects.order_by("end_number").values_list("ended", flat=True))
    assert ends == sorted(ends)


def the_healthy_run_learns() -> None:
    run = Run.objects.get(name="repair-grpo-v1")
    assert run.state == "ended"
    assert Episode.objects.filter(run=run).aggregate(last=Max("run_step"))["last"] == 99
    assert success(run.name, 0, 19) < 0.4 < 0.5 < success(run.name, 80, 99)


def the_running_run_exploits_its_reward() -> None:
    run = Run.objects.get(name="repair-grpo-v2")
    assert run.state == "running"
    assert success(run.name, 60, 79) < 0.2 < success(run.name, 16, 35)
    episodes = Episode.objects.filter(run=run)
    before = episodes.filter(run_step__range=(16, 35))
    after = episodes.filter(run_step__range=(60, 79))
    for column in ("return_sum", "steps_count"):
        assert mean(before.values_list(column, flat=True)) < mean(
            after.values_list(column, flat=True)
        )
    output = Step.objects.filter(episode__in=after, tool="run_tests").first().output  # type: ignore[union-attr]
    assert json.loads(output)["metadata"] == {"reward_components": {"visible_tests": 0.05}}


def the_sweep_has_configurations() -> None:
    runs = Run.objects.filter(tags__name="sweep")
    configs = [json.loads(run.config) for run in runs]
    assert len({(c["learning_rate"], c["temperature"], c["seed"]) for c in configs}) == 28
    assert Counter(run.state for run in runs) == {"ended": 26, "failed": 2}


def two_tasks_of_the_suite_always_crash() -> None:
    tasks = SuiteTask.objects.values_list("task_id", flat=True)
    assert len(tasks) == 60
    attempts = Episode.objects.filter(task_id__in=tasks)
    assert len(set(attempts.values_list("model", flat=True))) == 6
    crashes = attempts.filter(cause="env_error")
    by_task = crashes.values_list("task_id").annotate(count=Count("pk"))
    assert [count for _, count in by_task] == [6, 6]
    assert not attempts.filter(task_id__in=dict(by_task)).exclude(cause="env_error").exists()
    errors = Step.objects.filter(episode__in=crashes, status="failed").values_list("error")
    assert len(set(errors)) == 1


def odd_cases_are_there() -> None:
    assert Episode.objects.filter(steps_count=500).count() == 6
    assert Episode.objects.filter(detail__contains=NO_NUMBER).exists()
    assert Episode.objects.filter(return_sum__lt=-2).exists()
    assert Episode.objects.filter(return_sum__gt=39).exists()
    assert Episode.objects.filter(cause="finished", return_last=None).exists()
    assert Rollout.objects.count() == 12
    assert Play.objects.count() == 12


def test_the_same_seed_plays_the_same() -> None:
    counts = {
        (name, split): 50
        for name in ("math", "guess", "maze", "web", "repair")
        for split in ("train", "test")
    }
    assert research_script(counts, 700, 3) == research_script(counts, 700, 3)
    assert research_script(counts, 700, 3) != research_script(counts, 700, 4)
