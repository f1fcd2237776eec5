"""A record as researchers have it, for `manage.py demo --size research`: a healthy training run, a
second one that exploits its reward, a sweep, an evaluation of six models on a suite, and odd cases.

Its main environment is `repair`, the others are bundled. `bulk_play.py` plays the script.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Max

from environments.models import Split
from environments.models.viewer import UNRESTRICTED
from environments.scoring.definition import Definition
from episodes.models import Episode, Play, Run, Suite
from episodes.runs.description import parsed_description
from episodes.runs.scalars import StepScalars
from episodes.runs.trainer_updates import steer
from episodes.suites.versions import NewMember, UnchangedSuite, publish
from orsweb.demo.script import GROUP_ATTEMPTS, ScriptPart, script

EPISODES = 15_000
"""Episodes of a whole record; fewer have smaller groups, but the same runs, steps and tasks."""
STEPS, STEPS_SO_FAR, EXPLOIT_STEP = 100, 80, 36
"""Training steps of the healthy run, of the running one, and its step that begins to exploit."""
HEALTHY, EXPLOITING = "repair-grpo-v1", "repair-grpo-v2"
MODELS = {
    "aster-1b": 0.15, "aster-8b": 0.42, "aster-70b": 0.71,
    "birch-7b": 0.36, "birch-32b": 0.67, "cedar-14b": 0.55,
}  # fmt: skip
"""Skill of each evaluated model."""
SETTINGS = {
    (1e-6, 0.7): 0.3, (1e-6, 1.0): 0.38, (3e-6, 0.7): 0.55, (3e-6, 1.0): 0.7,
    (1e-5, 0.7): 0.82, (1e-5, 1.0): 0.92, (3e-5, 1.0): 0.0,
}  # fmt: skip
"""Learning rate and temperature of the sweep -> skill at the end; the last one diverges."""
SEEDS = 4
SUITE, TEST_TASKS = "repair-bench", 60
PERSON = "demo-person"
_BASE = {"algorithm": "grpo", "group_size": GROUP_ATTEMPTS, "base_model": "aster-8b"}


def research_script(
    counts: Mapping[tuple[str, str], int], episodes: int, seed: int
) -> list[ScriptPart]:
    """Return about `episodes` episodes in the order of their starts. `counts`: number of tasks by
    environment and split."""
    scale = episodes / EPISODES
    random = Random(f"research/{seed}")
    script_parts = script(
        ["math", "guess", "maze", "web"], dict(counts), max(60, round(900 * scale)), seed
    )
    parts = [
        *_training(HEALTHY, counts, scale, random),
        *_training(EXPLOITING, counts, scale, random),
        *_sweep(counts, scale, random),
        *_evaluation(scale, random),
        *_odd_cases(),
        *(part for part in script_parts if not part.is_left_open),
    ]
    return sorted(parts, key=lambda part: -part.days_ago)


def _training(
    run: str, counts: Mapping[tuple[str, str], int], scale: float, random: Random
) -> Iterator[ScriptPart]:
    is_healthy = run == HEALTHY
    steps, first_day, last_day = (STEPS, 9.0, 7.0) if is_healthy else (STEPS_SO_FAR, 1.3, 0.004)
    for step in range(steps):
        share = step / (STEPS - 1)
        skill = 0.12 + 0.62 * (1 - math.exp(-2.6 * share))
        greed = 0.0 if is_healthy else min(0.93, max(0.0, 0.09 * (step + 1 - EXPLOIT_STEP)))
        days_ago = first_day + (last_day - first_day) * step / (steps - 1)
        for _ in range(max(1, round(4 * scale))):
            index = random.randrange(counts["repair", "train"])
            for _ in range(_group_size(scale)):
                yield ScriptPart(
                    "repair", "train", index, skill, "aster-8b", run, step, days_ago,
                    is_exploit=random.random() < greed,
                )  # fmt: skip


def _group_size(scale: float) -> int:
    return max(2, min(GROUP_ATTEMPTS, round(GROUP_ATTEMPTS * scale)))


def _sweep(
    counts: Mapping[tuple[str, str], int], scale: float, random: Random
) -> Iterator[ScriptPart]:
    steps = max(3, round(15 * scale))
    for run, (setting, _) in sweep_runs().items():
        last_skill = SETTINGS[setting] + random.gauss(0, 0.05)
        peak = 0.5 if last_skill < 0.2 else last_skill
        first_day = 6.0 - 0.05 * random.random()
        tasks = Random("research/sweep")  # the same for every run
        for step in range(steps):
            share = step / (steps - 1)
            skill = 0.1 + (peak - 0.1) * min(1.0, 2 * share if peak > last_skill else share**0.6)
            if share > 0.5 and peak > last_skill:
                skill = max(0.0, peak * (1 - 2.5 * (share - 0.5)))
            for _ in range(max(1, round(2 * scale))):
                index = tasks.randrange(counts["guess", "train"])
                for _ in range(_group_size(scale)):
                    yield ScriptPart(
                        "guess",
                        "train",
                        index,
                        skill,
                        "aster-1b",
                        run,
                        step,
                        first_day - 1.5 * share,
                    )


def sweep_runs() -> dict[str, tuple[tuple[float, float], int]]:
    """Return the setting and the seed of each run of the sweep, by its name."""
    return {
        f"guess-sweep-lr{rate:g}-t{temperature:g}-s{seed}": ((rate, temperature), seed)
        for rate, temperature in SETTINGS
        for seed in range(SEEDS)
    }


def _evaluation(scale: float, random: Random) -> Iterator[ScriptPart]:
    for model, skill in MODELS.items():
        for index in range(TEST_TASKS):
            ease = Random(f"research/task/{index}").gauss(0, 0.2)
            for _ in range(max(1, min(4, round(4 * scale)))):
                yield ScriptPart(
                    "repair", "test", index, min(0.98, max(0.02, skill + ease)), model,
                    f"repair-eval-{model}", days_ago=3.0 - random.random() * 0.3,
                )  # fmt: skip


def _odd_cases() -> Iterator[ScriptPart]:
    """Yield transcripts of 500 steps, odd rewards, and what a person played."""
    endless = {"low": 1, "high": 10**7, "target": 7_654_321, "attempts": 500}
    for number, model in enumerate(MODELS):
        days_ago = 2.0 + 0.1 * number
        yield ScriptPart("guess", "", 0, 0.0, model, days_ago=days_ago, spec=endless)
        for index in range(8):
            yield ScriptPart("repair", "validation", index, 0.9, model, days_ago=days_ago - 0.05)
    for index in range(12):
        yield ScriptPart(
            "guess", "test", index, 0.8, "", days_ago=0.9 - 0.01 * index, player="human"
        )


def describe() -> None:
    """Add what is no episode: descriptions of the runs, the suite, and who the person is."""
    for name, (setting, seed) in sweep_runs().items():
        rate, temperature = setting
        has_failed = SETTINGS[setting] < 0.2 and seed % 2 == 1
        _describe_run(
            name,
            state="failed" if has_failed else "ended",
            config={**_BASE, "learning_rate": rate, "temperature": temperature, "seed": seed},
            git_commit="3f9c1d2ab0e477d1",
            tags=["sweep"],
            notes="Stopped: the loss is not a number." if has_failed else "",
        )
    config = {**_BASE, "learning_rate": 2e-6, "temperature": 1.0, "kl_coef": 0.01, "seed": 0}
    _describe_run(
        HEALTHY,
        state="ended",
        config=config,
        git_commit="8b1f20c4d95e6a73",
        tags=["baseline"],
        notes="Baseline of the **repair** study.",
    )
    _describe_run(
        EXPLOITING,
        state="running",
        config={**config, "learning_rate": 4e-6, "kl_coef": 0.0},
        git_commit="c27e4a91f30b8d56",
        tags=["no-kl"],
        notes="As v1, without the KL term and with twice the learning rate.",
    )
    for model in MODELS:
        _describe_run(
            f"repair-eval-{model}", state="ended", config={"temperature": 0.6}, tags=["eval"]
        )
    split = Split.objects.select_related("environment").get(environment__name="repair", name="test")
    suite = Suite.objects.filter(name=SUITE).first() or Suite(name=SUITE)
    with contextlib.suppress(UnchangedSuite):
        publish(suite, "success", [NewMember(split, Definition())], PERSON)
    person, _ = get_user_model().objects.get_or_create(
        username=PERSON, defaults={"is_active": False}
    )
    Play.objects.bulk_create(
        Play(episode=episode, user=person)
        for episode in Episode.objects.filter(player="human", user_agent="orsweb demo", play=None)
    )


def _describe_run(name: str, **description: Any) -> None:
    """Describe the newest run of the name as its trainer would have done when it last played."""
    episodes = Episode.objects.filter(run__title=name)
    last = episodes.aggregate(acted=Max("last_acted"), step=Max("run_step"))
    rate, has_failed = description["config"].get("learning_rate"), description["state"] == "failed"
    points = [] if rate is None else list(_scalars(name, (last["step"] or 0) + 1, rate, has_failed))
    run = steer(name, parsed_description(description), UNRESTRICTED, (), points).run
    Run.objects.filter(pk=run.pk).update(updated=last["acted"])


def _scalars(run: str, steps: int, rate: float, has_failed: bool) -> Iterator[StepScalars]:
    """Yield what the trainer logs at each step; the loss of a run that has failed ends as NaN, and
    the KL of the one without its term grows."""
    random = Random(f"scalars/{run}")
    for step in range(steps):
        share = step / max(1, steps - 1)
        is_lost = has_failed and share > 0.8
        drift = 0.9 * share**2 if run == EXPLOITING else 0.04 * share
        yield (
            step,
            {
                "loss": math.nan
                if is_lost
                else 0.08 * math.exp(-3 * share) + random.gauss(0, 0.006),
                "kl": drift * (30 if has_failed else 1) + abs(random.gauss(0, 0.004)),
                "entropy": 1.4 * math.exp(-1.8 * share) + random.gauss(0, 0.02),
                "learning_rate": rate * min(1.0, 10 * share + 0.1) * (1 - 0.9 * share),
                "grad_norm": math.inf
                if is_lost
                else abs(random.gauss(0.6 + 4 * has_failed * share, 0.1)),
                "tokens_per_second": random.gauss(5200, 180),
            },
        )
