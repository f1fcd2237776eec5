"""`python -m benchmarks [row …]`: measures the named rows, or all but those that are measured by
name only.

Without names, that takes about a quarter of an hour. `python -m benchmarks dashboard` measures
pages over a million episodes instead, with options of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import dashboard, lag, processes, restart, streams, viewers
from benchmarks.load import Sample
from benchmarks.report import print_scenario
from benchmarks.scenarios import SCENARIOS, Scenario, measure, middle
from benchmarks.servers import Subject, Workshop

MORE: Mapping[str, Callable[[Workshop, float], bool]] = {
    "viewers": viewers.measure,
    "streams": streams.measure,
    "lag": lag.measure,
    "restart": restart.measure,
    "processes": processes.measure,
    "sessions": processes.measure_sessions,
}
"""Rows of our server only, which print what they measure."""
BY_NAME = ("restart", "processes", "sessions")
"""Rows that are measured only if they are named; they take as long again as all others."""
_SCENARIOS = {scenario.name: scenario for scenario in SCENARIOS}
_NAMES = [*_SCENARIOS, *MORE]


def main() -> int:
    """Return the exit status: 1 if a response was wrong or, with `--strict`, if a target was
    missed."""
    arguments = sys.argv[1:]
    if "dashboard" in arguments:  # options may come before it, as from make
        return dashboard.main([argument for argument in arguments if argument != "dashboard"])
    options = _options(arguments)
    all_met = all_right = True
    with Workshop(options.data_dir) as workshop:
        for row in options.rows or [name for name in _NAMES if name not in BY_NAME]:
            if row in MORE:
                all_met &= MORE[row](workshop, options.seconds)
                continue
            samples = _samples(_SCENARIOS[row], workshop, options)
            medians = {subject: middle(rounds) for subject, rounds in samples.items()}
            all_met &= print_scenario(_SCENARIOS[row], medians)
            all_right &= not any(sample.errors for sample in medians.values())
    return int(not all_right or (options.strict and not all_met))


def _samples(
    scenario: Scenario, workshop: Workshop, options: argparse.Namespace
) -> Mapping[Subject, list[Sample]]:
    samples: dict[Subject, list[Sample]] = defaultdict(list)
    for subject, sample in measure(scenario, workshop, options.seconds, options.rounds):
        samples[subject].append(sample)
        if options.verbose:
            print(f"{scenario.name} {subject}: {sample}", file=sys.stderr, flush=True)
    return samples


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Benchmarks of orsweb against the reference server; `dashboard` measures pages "
        "and has options of its own.",
    )
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="row",
        help=f"any of {', '.join(_NAMES)}; by default all but {', '.join(BY_NAME)}",
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="for which a server is measured")
    parser.add_argument(
        "--rounds", type=int, default=1, help="how often each server is started and measured"
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="folder for databases; by default in memory, where no other program's writes count",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--verbose", action="store_true", help="print each sample when it is taken")
    options = parser.parse_args(arguments)
    if unknown := [row for row in options.rows if row not in _NAMES]:
        parser.error(f"unknown row {unknown[0]!r}; use any of {', '.join(_NAMES)}, dashboard")
    return options


if __name__ == "__main__":
    sys.exit(main())
