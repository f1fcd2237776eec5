"""`python -m benchmarks [row …]`: measures the named rows, or all but those that are measured by
name only.

Without names, that takes about a quarter of an hour.

`python -m benchmarks dashboard` and `python -m benchmarks task_list` measure pages instead,
`python -m benchmarks sizing` what a server needs, `python -m benchmarks scale` what several servers
cost, `python -m benchmarks flat` what
an episode costs as the record grows. They have their own options (`dashboard.py`, `task_list.py`,
`sizing.py`, `scale.py`, `flat.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import (
    dashboard,
    faulty,
    flat,
    lag,
    new_tasks,
    processes,
    restart,
    scale,
    sizing,
    streams,
    task_list,
    undo,
    viewers,
)
from benchmarks.load import Sample
from benchmarks.report import print_scenario
from benchmarks.scenarios import SCENARIOS, Scenario, measure, middle
from benchmarks.servers import Subject, Workshop

_PAGES: Mapping[str, Callable[[list[str]], int]] = {
    "dashboard": dashboard.main,
    "task_list": task_list.main,
    "sizing": sizing.main,
    "scale": scale.main,
    "flat": flat.main,
}
_MORE: Mapping[str, Callable[[Workshop, float], bool]] = {
    "viewers": viewers.measure,
    "streams": streams.measure,
    "new_tasks": new_tasks.measure,
    "lag": lag.measure,
    "undo": undo.measure,
    "faulty": faulty.measure,
    "restart": restart.measure,
    "processes": processes.measure,
    "sessions": processes.measure_sessions,
}
"""Rows of our server only, which print what they measure."""
_SCENARIOS = {scenario.name: scenario for scenario in SCENARIOS}
_NAMES = [*_SCENARIOS, *_MORE]
BY_NAME = ("undo", "faulty", "restart", "processes", "sessions")
"""Rows that are measured only if they are named; they take as long again as all others."""


def main() -> int:
    """Return the exit status: 1 if a response was wrong or, with `--strict`, if a target was
    missed."""
    # options may come before it, as from make
    if page := next((one for one in sys.argv[1:] if one in _PAGES), None):
        return _PAGES[page]([one for one in sys.argv[1:] if one != page])
    options = _options()
    all_met = all_right = True
    with Workshop(options.data_dir) as workshop:
        for row in options.rows or [name for name in _NAMES if name not in BY_NAME]:
            if row in _MORE:
                all_met &= _MORE[row](workshop, options.seconds)
                continue
            samples = _samples(_SCENARIOS[row], workshop, options)
            medians = {subject: middle(found) for subject, found in samples.items()}
            all_met &= print_scenario(_SCENARIOS[row], medians)
            all_right &= not any(sample.errors for sample in medians.values())
            sys.stdout.flush()
    return int(not all_right or (options.strict and not all_met))


def _samples(
    scenario: Scenario, workshop: Workshop, options: argparse.Namespace
) -> dict[Subject, list[Sample]]:
    samples: dict[Subject, list[Sample]] = defaultdict(list)
    for subject, sample in measure(scenario, workshop, options.seconds, options.rounds):
        samples[subject].append(sample)
        if options.verbose:
            print(f"{scenario.name} {subject}: {sample}", file=sys.stderr, flush=True)
    return samples


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Benchmarks of orsweb against the reference server.",
    )
    parser.add_argument(
        "rows",
        nargs="*",
        metavar="row",
        help=f"any of {', '.join(_NAMES)}; by default all but {', '.join(BY_NAME)}",
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="time for which each server is measured"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="how often each server is started and measured"
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="folder for databases; by default in memory, where no other program's writes count",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit status 1 when a target is missed"
    )
    parser.add_argument("--verbose", action="store_true", help="print each sample when it is taken")
    options = parser.parse_args()
    if unknown := [row for row in options.rows if row not in _NAMES]:
        parser.error(f"unknown row {unknown[0]!r}; use any of {', '.join(_NAMES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
