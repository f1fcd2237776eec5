"""The loads that are put on several servers in turn, each with targets, which are ratios or absolute
values.

Ratios are relative to the reference in the same run on the same machine. Latencies assume two
otherwise idle cores; in scenarios with the reference, they are scaled to the speed of the machine
for which the targets were set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import Any

from benchmarks.load import Load, Sample, drive
from benchmarks.servers import Subject, Workshop

Samples = Mapping[Subject, Sample]

TARGETS_CPU_MS = 4.96
"""CPU time of the reference per episode, on the machine for which the targets were set
(docs/decisions/0008-speed.md)."""


@dataclass(frozen=True)
class Target:
    """A value computed from the samples of a scenario, and its bound."""

    text: str
    value: Callable[[Samples], float]
    bound: float
    unit: str = "x"
    at_least: bool = False

    def is_met(self, samples: Samples) -> bool:
        value = self.value(samples)
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True)
class Scenario:
    """A load that is put on several subjects in turn. The others are compared with the first."""

    name: str
    title: str
    load: Load
    subjects: Sequence[Subject]
    targets: Sequence[Target]
    loads: Mapping[Subject, Load] = field(default_factory=dict)
    """The loads of subjects that get another one: the reference if it cannot bear that of the
    scenario, or one that shows what is usual."""

    def load_of(self, subject: Subject) -> Load:
        return self.loads.get(subject, self.load)


def faster(subject: Subject, times: float) -> Target:
    def ratio(samples: Samples) -> float:
        return samples[subject].episodes_per_second / samples["reference"].episodes_per_second

    return Target(f"{subject}: episodes/s against the reference", ratio, times, at_least=True)


def cheaper(
    subject: Subject, times: float, reference: Subject = "reference", *, with_database: bool = False
) -> Target:
    """Return a target for how many times less CPU per episode than the reference's a subject
    takes."""

    def ratio(samples: Samples) -> float:
        costs = samples[subject].cpu_ms_per_episode
        own = sum(costs.values()) if with_database else costs["server"]
        return samples[reference].cpu_ms_per_episode["server"] / own

    what = " with the database's" if with_database else ""
    text = f"{subject}: times less CPU per episode{what} than {reference}"
    return Target(text, ratio, times, at_least=True)


def steady(subject: Subject, times: float) -> Target:
    return Target(
        f"{subject}: call p99 by p50",
        lambda samples: samples[subject].p99_ms / samples[subject].p50_ms,
        times,
    )


def slower(subject: Subject, usual: Subject, times: float) -> Target:
    return Target(
        f"{subject}: call p50 by that of {usual}",
        lambda samples: samples[subject].p50_ms / samples[usual].p50_ms,
        times,
    )


def costlier(subject: Subject, usual: Subject, times: float) -> Target:
    def ratio(samples: Samples) -> float:
        costs = samples[subject].cpu_ms_per_episode, samples[usual].cpu_ms_per_episode
        return costs[0]["server"] / costs[1]["server"]

    return Target(f"{subject}: CPU per episode by that of {usual}", ratio, times)


def below(name: str, text: str, bound: float, unit: str = "ms") -> Target:
    return Target(
        f"ours: {text}", lambda samples: float(getattr(samples["ours"], name)), bound, unit
    )


def quick(name: str, text: str, bound_ms: float) -> Target:
    """Return a target for a latency on a machine where the reference takes TARGETS_CPU_MS per
    episode."""

    def scaled(samples: Samples) -> float:
        return float(getattr(samples["ours"], name)) / slowness(samples["reference"])

    return Target(f"ours: {text}, scaled to the targets' machine", scaled, bound_ms, "ms")


def slowness(reference: Sample) -> float:
    """Return the factor by which this machine is slower than that of the targets, from the
    reference's CPU time per episode."""
    return reference.cpu_ms_per_episode["server"] / TARGETS_CPU_MS


_PLAIN = "reference, plain"
_PACED = Load(agents=8, interval_seconds=0.0125, by_content=True)
"""About as many requests as eight clients of an SDK make in a process of two cores."""
SCENARIOS = [
    Scenario(
        "play",
        "32 agents, 5 calls an episode, inputs of 100 bytes",
        Load(),
        ["reference", "ours", "ours, ors class", "ours, PostgreSQL", "reference, no logs"],
        [
            faster("ours", 4),
            cheaper("ours", 4.7),
            faster("ours, ors class", 3),
            faster("ours, PostgreSQL", 3),
            quick("p99_ms", "call p99", 15),
            steady("ours", 3),
        ],
    ),
    Scenario(
        "sdk",
        "32 agents that name tasks by their content, as the SDKs do; classes with plain code, ors "
        "built with a constructor of its own",
        Load(by_content=True),
        [
            "reference, plain",
            "ours, plain",
            "ours, plain, by index",
            "ours, ors plain",
            "ours, ors built",
            "ours, plain, PG",
            "openreward, plain",
            "ours, openreward",
        ],
        [
            cheaper("ours, plain", 4.7, _PLAIN),
            cheaper("ours, ors plain", 3.8, _PLAIN),
            cheaper("ours, ors built", 3.3, _PLAIN),
            cheaper("ours, openreward", 6, "openreward, plain"),
            cheaper("ours, plain, PG", 3.5, _PLAIN, with_database=True),
            costlier("ours, plain", "ours, plain, by index", 1.05),
            steady("ours, plain", 2.5),
            steady("ours, ors built", 3),
        ],
        loads={"ours, plain, by index": Load()},
    ),
    Scenario(
        "clients",
        "8 agents that are the clients of the SDKs, and 8 that send the same bytes at about their "
        "pace; classes with plain code",
        Load(agents=8, sdk="ors-sdk"),
        [
            "reference, plain",
            "reference, plain, paced",
            "ours, plain",
            "ours, plain, paced",
            "ours, ors plain",
            "openreward, plain",
            "ours, openreward",
        ],
        [
            costlier("reference, plain", "reference, plain, paced", 1.5),
            costlier("ours, plain", "ours, plain, paced", 1.5),
            cheaper("ours, plain", 1, _PLAIN),
            cheaper("ours, ors plain", 1, _PLAIN),
            cheaper("ours, openreward", 1, "openreward, plain"),
        ],
        loads={
            "reference, plain, paced": _PACED,
            "ours, plain, paced": _PACED,
            "openreward, plain": Load(agents=8, sdk="openreward"),
            "ours, openreward": Load(agents=8, sdk="openreward"),
        },
    ),
    Scenario("crowd", "512 agents", Load(agents=512), ["reference", "ours"], [faster("ours", 6)]),
    Scenario(
        "large",
        "32 agents, inputs and outputs of 20 KB",
        Load(text_bytes=20_000),
        ["reference", "ours"],
        [faster("ours", 2.5), cheaper("ours", 3)],
    ),
    Scenario(
        "hosts",
        "32 agents, every tenth calls a synchronous tool that computes for 50 ms, in the server or "
        "in a worker process; latencies of the others",
        Load(nap_every=10, nap_seconds=0.05, nap_tool="spin"),
        ["reference", "ours", "ours, worker", "ours, quiet"],
        [below("p50_ms", "the others' call p50", 100), slower("ours, worker", "ours, quiet", 3)],
        loads={"ours, quiet": Load()},
    ),
    Scenario(
        "idle",
        "5,000 idle sessions, pinged every 10 s, while 32 agents play. The reference: 32 agents",
        Load(idle_sessions=5000),
        ["reference", "ours"],
        [
            below("idle_session_kb", "memory of an idle session", 5, "KB"),
            quick("ping_p99_ms", "ping p99", 10),
        ],
        loads={"reference": Load()},
    ),
]


def measure(
    scenario: Scenario, workshop: Workshop, seconds: float, rounds: int
) -> Iterator[tuple[Subject, Sample]]:
    """Yield the samples of all subjects in turn, round after round, each from a newly started
    server."""
    for _ in range(rounds):
        for subject in scenario.subjects:
            with workshop.started(subject) as (port, processes):
                load = replace(
                    scenario.load_of(subject), seconds=seconds, port=port, processes=processes
                )
                yield subject, drive(load)


def slowness_now(seconds: float = 5.0) -> float:
    """Return `slowness` of this machine, measured by running the reference."""
    scenario = replace(SCENARIOS[0], subjects=["reference"])
    with Workshop() as workshop:
        [(_, sample)] = measure(scenario, workshop, seconds, rounds=1)
    return slowness(sample)


def middle(samples: Sequence[Sample]) -> Sample:
    """Return a sample with the median of each field; errors are summed."""
    values: dict[str, Any] = {
        field.name: _middle([getattr(sample, field.name) for sample in samples])
        for field in fields(Sample)
    }
    values["errors"] = sum(sample.errors for sample in samples)
    return Sample(**values)


def _middle(values: Sequence[Any]) -> Any:
    if isinstance(values[0], dict):
        return {name: median(value[name] for value in values) for name in values[0]}
    if isinstance(values[0], str):
        return next(filter(None, values), "")
    return median(values)
