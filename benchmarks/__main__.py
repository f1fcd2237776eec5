"""`python -m benchmarks [scenario …]`: measures the named scenarios, or all of them, which takes about five minutes.

`python -m benchmarks dashboard` and `python -m benchmarks task_list` measure pages instead, `python -m benchmarks
sizing` what a server needs. They have their own options (`dashboard.py`, `task_list.py`, `sizing.py`).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping

from benchmarks import dashboard, sizing, task_list
from benchmarks.load import Sample
from benchmarks.report import print_scenario
from benchmarks.scenarios import SCENARIOS, Scenario, measure, middle
from benchmarks.servers import Subject, Workshop

_PAGES: Mapping[str, Callable[[list[str]], int]] = {
    "dashboard": dashboard.main,
    "task_list": task_list.main,
    "sizing": sizing.main,
}
_NAMES = ", ".join(scenario.name for scenario in SCENARIOS)


def main() -> int:
    """Return the exit status: 1 if a response was wrong or, with `--strict`, if a target was missed."""
    if len(sys.argv) > 1 and sys.argv[1] in _PAGES:
        return _PAGES[sys.argv[1]](sys.argv[2:])
    options = _options()
    all_met = all_right = True
    with Workshop() as workshop:
        for scenario in options.scenarios or SCENARIOS:
            samples = _samples(scenario, workshop, options)
            medians = {subject: middle(found) for subject, found in samples.items()}
            all_met &= print_scenario(scenario, medians)
            all_right &= not any(sample.errors for sample in medians.values())
            sys.stdout.flush()
    return int(not all_right or (options.strict and not all_met))


def _samples(scenario: Scenario, workshop: Workshop, options: argparse.Namespace) -> dict[Subject, list[Sample]]:
    samples: dict[Subject, list[Sample]] = defaultdict(list)
    for subject, sample in measure(scenario, workshop, options.seconds, options.rounds):
        samples[subject].append(sample)
        if options.verbose:
            print(f"{scenario.name} {subject}: {sample}", file=sys.stderr, flush=True)
    return samples


def _scenario(name: str) -> Scenario:
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise argparse.ArgumentTypeError(f"unknown scenario {name!r}; use any of {_NAMES}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks of orsweb against the reference server."
    )
    parser.add_argument("scenarios", nargs="*", type=_scenario, metavar="scenario", help=f"any of {_NAMES}")
    parser.add_argument("--seconds", type=float, default=5.0, help="time for which each server is measured")
    parser.add_argument("--rounds", type=int, default=2, help="how often each server is started and measured")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a target is missed")
    parser.add_argument("--verbose", action="store_true", help="print each sample when it is taken")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
