"""Prints results: a table of a scenario's subjects, and whether each target is met."""

from __future__ import annotations

from benchmarks.load import Sample
from benchmarks.scenarios import Samples, Scenario

_COLUMNS = ("episodes/s", "ratio", "p50 ms", "p99 ms", "CPU ms/ep", "ratio", "MB")
_WIDTHS = (11, 8, 9, 9, 11, 8, 6)
_NOTE = " " * 24


def print_scenario(scenario: Scenario, samples: Samples) -> bool:
    """Print the results of a scenario; return whether every target was met and nothing failed."""
    print(f"\n{scenario.name}: {scenario.title}\n{'':<22}{_cells(*_COLUMNS)}")
    base = samples[scenario.subjects[0]]
    for subject in scenario.subjects:
        sample = samples[subject]
        cpu, base_cpu = sample.cpu_ms_per_episode["server"], base.cpu_ms_per_episode["server"]
        cells = _cells(
            f"{sample.episodes_per_second:.0f}",
            f"{sample.episodes_per_second / base.episodes_per_second:.2f}x",
            f"{sample.p50_ms:.1f}",
            f"{sample.p99_ms:.1f}",
            f"{cpu:.2f}",
            f"{cpu / base_cpu:.2f}x",
            f"{sample.memory_mb['server']:.0f}",
        )
        print(f"{subject:<22}{cells}")
        _print_notes(sample)
    results = [
        print_target(
            target.text,
            target.value(samples),
            target.bound,
            target.unit,
            at_least=target.at_least,
        )
        for target in scenario.targets
    ]
    return all(results) and not any(sample.errors for sample in samples.values())


def print_target(
    text: str, value: float, bound: float, unit: str, *, at_least: bool = False
) -> bool:
    """Print a value with its target; return whether it is met."""
    is_met = value >= bound if at_least else value <= bound
    limit = f"{'at least' if at_least else 'at most'} {bound:g} {unit}"
    print(
        f"  {'PASS' if is_met else 'FAIL'}  {text}: {value:.2f} {unit} (target: {limit})",
        flush=True,
    )
    return is_met


def _cells(*values: str) -> str:
    return "".join(f"{value:>{width}}" for value, width in zip(values, _WIDTHS, strict=True))


def _print_notes(sample: Sample) -> None:
    for name, cpu in sample.cpu_ms_per_episode.items():
        if name != "server":
            print(f"{_NOTE}and {cpu:.2f} CPU ms per episode in {name}")
    print(f"{_NOTE}p95 {sample.p95_ms:.1f} ms")
    if sample.idle_session_kb:
        print(
            f"{_NOTE}{sample.idle_session_kb:.1f} KB a session, ping p99 {sample.ping_p99_ms:.1f} ms"
        )
    if sample.load_share > 0.9:
        print(f"{_NOTE}the load process, {sample.load_share:.0%} busy, limits the result")
    if sample.others_share > 0.1:
        print(
            f"{_NOTE}other programs used {sample.others_share:.0%} of the machine; measure again "
            "when it is idle"
        )
    if sample.errors:
        print(f"{_NOTE}{sample.errors} ERRORS, the first: {sample.first_error}")
