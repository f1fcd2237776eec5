"""Whether an episode costs the same however many are recorded, and however many sessions are live.

    python -m benchmarks flat [--seconds 8] [--rounds 3] [--directory var/benchmark-dashboard]
    [--strict]

CPU per episode of 32 agents, on SQLite in memory: with 0, 200,000 and 1,000,000 recorded episodes,
and beside 100, 1,000 and 5,000 idle sessions, whose pings are part of the cost, of a native class
and of an `ors` class with plain code, each of whose sessions has a thread of its own. The recorded
ones are those of the benchmark `dashboard`, which are made at the first run and kept in
`--directory`; each run plays on a copy.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from benchmarks.load import Load, Sample
from benchmarks.scenarios import drive
from benchmarks.servers import ENV, ROOT, SUBJECTS, Workshop

RECORDED = [0, 200_000, 1_000_000]
SESSIONS = [100, 1_000, 5_000]
CLASSES = {
    "live sessions": ENV,
    "live sessions of plain code": SUBJECTS["ours, ors plain"].environment,
}
MAX_SHARE = 0.10
WARMUP_SECONDS = 5.0
"""Time in which the follower's process loads its code, and follows what it finds."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    sources = {count: _recorded(options.directory, count) for count in RECORDED if count}
    load = Load(seconds=options.seconds, warmup_seconds=WARMUP_SECONDS)
    samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    with Workshop() as workshop:
        copies = {count: workshop.copy_of(source) for count, source in sources.items()}
        for _ in range(options.rounds):
            for count in RECORDED:
                samples["recorded episodes", count].append(
                    _sample(workshop, load, copies.get(count))
                )
            for count in SESSIONS:
                with_sessions = Load(**{**vars(load), "idle_sessions": count})
                for kind, environment in CLASSES.items():
                    samples[kind, count].append(
                        _sample(workshop, with_sessions, environment=environment)
                    )
    print("\nflat: CPU per episode as the record and the number of sessions grow")
    met = [
        _print("recorded episodes", RECORDED, samples),
        *(_print(kind, SESSIONS, samples) for kind in CLASSES),
    ]
    has_failed = any(one.errors for found in samples.values() for one in found)
    return int(has_failed or (options.strict and not all(met)))


def _recorded(directory: Path, count: int) -> Path:
    """Return a data directory with `count` recorded episodes, which is filled unless an earlier run
    did."""
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "dashboard",
        "--prepare",
        "--episodes",
        str(count),
    ]
    subprocess.run([*command, "--directory", str(directory)], cwd=ROOT, check=True)
    return directory / str(count)


def _sample(
    workshop: Workshop, load: Load, directory: Path | None = None, environment: str = ENV
) -> Sample:
    with workshop.serving([f"echo={environment}"], directory) as (port, _, pid):
        return drive(Load(**{**vars(load), "port": port, "processes": {"server": pid}}))


def _print(what: str, counts: Iterable[int], samples: dict[tuple[str, int], list[Sample]]) -> bool:
    """Print the medians; return whether each is within the target of the first."""
    costs = {
        count: median(sample.cpu_ms_per_episode["server"] for sample in samples[what, count])
        for count in counts
    }
    first, *_ = costs.values()
    for count, cost in costs.items():
        verdict = "PASS" if cost / first - 1 <= MAX_SHARE else "FAIL"
        rate = median(sample.episodes_per_second for sample in samples[what, count])
        compared = f"{cost:.2f} CPU ms, {cost / first - 1:+.0%} (target: at most {MAX_SHARE:+.0%})"
        print(f"  {verdict}  {count:>9,} {what}: {compared}, {rate:.0f} episodes/s")
    return all(cost / first - 1 <= MAX_SHARE for cost in costs.values())


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks flat",
        description="Cost of an episode as record and sessions grow.",
    )
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="how long each server is measured"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each server is started and measured"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("var/benchmark-dashboard"),
        help="of recorded episodes; it is kept",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit status 1 when a target is missed"
    )
    return parser.parse_args(arguments)
