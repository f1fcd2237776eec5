"""Prints the results of a scenario: a line for each subject, then each target with the measured
value."""

from __future__ import annotations

from benchmarks.load import Sample
from benchmarks.scenarios import Samples, Scenario, Target

_HEADINGS = f"{'':<22}{'episodes/s':>11}{'ratio':>8}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms/ep':>11}{'ratio':>8}{'MB':>6}"


def print_scenario(scenario: Scenario, samples: Samples) -> bool:
    """Print the results of a scenario; return whether every target was met and nothing failed."""
    print(f"\n{scenario.name}: {scenario.title}\n{_HEADINGS}")
    base = samples[scenario.subjects[0]]
    for subject in scenario.subjects:
        print(f"{subject:<22}{_line(samples[subject], base)}")
        _print_notes(samples[subject])
    is_clean = not any(sample.errors for sample in samples.values())
    met = [_print_target(target, samples) for target in scenario.targets]
    return is_clean and all(met)


def _line(sample: Sample, base: Sample) -> str:
    cpu, base_cpu = sample.cpu_ms_per_episode["server"], base.cpu_ms_per_episode["server"]
    speed = f"{sample.episodes_per_second:>11.0f}{sample.episodes_per_second / base.episodes_per_second:>7.2f}x"
    latency = f"{sample.p50_ms:>9.1f}{sample.p99_ms:>9.1f}"
    return f"{speed}{latency}{cpu:>11.2f}{cpu / base_cpu:>7.2f}x{sample.memory_mb['server']:>6.0f}"


def _print_notes(sample: Sample) -> None:
    for name, cpu in sample.cpu_ms_per_episode.items():
        if name != "server":
            print(f"{'':<22}  and {cpu:.2f} CPU ms per episode in {name}")
    if sample.p95_ms:
        print(f"{'':<22}  p95 {sample.p95_ms:.1f} ms")
    if sample.load_share > 0.9:
        print(
            f"{'':<22}  the load process was busy {sample.load_share:.0%} of the time, so it "
            "limits the result"
        )
    if sample.others_share > 0.1:
        print(
            f"{'':<22}  other programs used {sample.others_share:.0%} of the machine; measure "
            "again when it is idle"
        )
    if sample.errors:
        print(f"{'':<22}  {sample.errors} ERRORS, the first: {sample.first_error}")


def _print_target(target: Target, samples: Samples) -> bool:
    is_met, value = target.is_met(samples), target.value(samples)
    bound = f"{'at least' if target.at_least else 'at most'} {target.bound:g} {target.unit}"
    print(
        f"  {'PASS' if is_met else 'FAIL'}  {target.text}: {value:.2f} {target.unit} (target: "
        f"{bound})"
    )
    return is_met
