"""The arithmetic of the benchmarks: medians over rounds, targets, and one real load on the
reference server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.load import Load, Sample
from benchmarks.scenarios import (
    SCENARIOS,
    TARGETS_CPU_MS,
    Samples,
    Scenario,
    Target,
    cheaper,
    faster,
    measure,
    middle,
    quick,
)
from benchmarks.servers import Workshop
from tests.rows import each

SAMPLE = Sample(
    episodes_per_second=100.0,
    p50_ms=1.0,
    p99_ms=10.0,
    cpu_ms_per_episode={"server": 4.0},
    memory_mb={"server": 50.0},
    load_share=0.2,
    others_share=0.0,
    errors=0,
    first_error="",
)
FOUR_TIMES: Samples = {
    "reference": SAMPLE,
    "ours": replace(SAMPLE, episodes_per_second=400.0, cpu_ms_per_episode={"server": 1.0}),
}


@each(
    ("target", "is_met"),
    [
        (faster("ours", 4.0), True),
        (faster("ours", 4.1), False),
        (cheaper("ours", 4.0), True),
        (cheaper("ours", 4.1), False),
    ],
)
def test_a_target_compares_with_the_reference(target: Target, is_met: bool) -> None:
    assert target.is_met(FOUR_TIMES) is is_met


def test_a_latency_is_scaled_to_the_machine_of_its_target() -> None:
    slow = replace(SAMPLE, cpu_ms_per_episode={"server": 3 * TARGETS_CPU_MS})
    assert quick("p99_ms", "", 15).value(
        {"reference": slow, "ours": replace(SAMPLE, p99_ms=30.0)}
    ) == pytest.approx(10)


def test_the_reference_may_have_a_load_of_its_own() -> None:
    rows = {scenario.name: scenario for scenario in SCENARIOS}
    idle, play = rows["idle"], rows["play"]
    assert (idle.load_of("ours").idle_sessions, idle.load_of("reference").idle_sessions) == (
        5000,
        0,
    )
    assert play.load_of("reference") == play.load_of("ours")


def test_rounds_become_medians_and_errors_add_up() -> None:
    rounds = [
        replace(SAMPLE, p99_ms=p99, errors=1, first_error=text, memory_mb={"server": p99})
        for p99, text in [(1.0, ""), (30.0, "first"), (2.0, "second")]
    ]
    found = middle(rounds)
    assert (found.p99_ms, found.memory_mb, found.errors, found.first_error) == (
        2.0,
        {"server": 2.0},
        3,
        "first",
    )


def test_every_scenario_measures_what_its_targets_read() -> None:
    for scenario in SCENARIOS:
        samples = {subject: SAMPLE for subject in scenario.subjects}
        assert all(target.value(samples) >= 0 for target in scenario.targets)


def test_a_load_plays_the_reference_without_an_error() -> None:
    scenario = Scenario(
        "short", "", Load(agents=2, nap_every=2, nap_seconds=0.01), ["reference"], []
    )
    with Workshop() as workshop:
        [(subject, sample)] = measure(scenario, workshop, seconds=0.5, rounds=1)
    assert subject == "reference"
    assert sample.errors == 0, sample.first_error
    assert sample.episodes_per_second > 0
    assert sample.cpu_ms_per_episode["server"] > 0
