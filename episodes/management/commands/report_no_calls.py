"""`manage.py report_no_calls` lists what changed when agents' episodes without a tool call became
attempts.

Run it after an upgrade from a version that left these episodes out. It counts statistics first that
are due, as a server does. The server may be running.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from environments import conf
from environments.display.numbers import plain
from environments.display.terminal import TerminalCommand
from environments.models import Environment
from episodes.analytics.no_call_report import ChangedRow, NoCallReport, no_call_report
from episodes.rollups.recount import rebuild, stale

SHOWN = 20


class Command(TerminalCommand):
    help = (
        "List the figures, buckets and leaderboard rows that count episodes without a tool call as "
        "a return of 0."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--all",
            action="store_true",
            help=f"list every row and task, not only the first {SHOWN}",
        )

    def handle(self, *args: Any, all: bool, **options: Any) -> None:
        for environment in stale():
            rebuild(environment)
        reports = [
            no_call_report(one, conf.thresholds())
            for one in Environment.objects.order_by("position", "name")
        ]
        changed = [report for report in reports if report.episodes]
        if not changed:
            self.stdout.write(
                "No agent's episode ended without a tool call, so no figure has changed."
            )
        for report in changed:
            self._write(report, None if all else SHOWN)

    def _write(self, report: NoCallReport, most: int | None) -> None:
        are = "episode ended" if report.episodes == 1 else "episodes ended"
        self.stdout.write(
            f"{report.environment.name}: {report.episodes:,} {are} without a tool call"
        )
        for row in report.rows[:most]:
            self.stdout.write(f"  {_line(row)}")
        self._write_rest(len(report.rows), most, "rows")
        for (before, after), count in report.moves.most_common():
            self.stdout.write(
                f"  buckets: {count:,} task{'s' if count > 1 else ''} moved from "
                f"{before} to {after}"
            )
        for task in report.tasks[:most]:
            self.stdout.write(f"    task {task.task}: {task.before} -> {task.after}")
        self._write_rest(len(report.tasks), most, "tasks")

    def _write_rest(self, count: int, most: int | None, what: str) -> None:
        if most is not None and count > most:
            self.stdout.write(f"  ... and {count - most:,} more {what}; --all lists them")


def _line(row: ChangedRow) -> str:
    name = "all attempts" if row.by == "all" else f"leaderboard by {row.by}, {row.key}"
    attempts, mean, success = row.figures
    return (
        f"{name}: attempts {attempts[0]:,} -> {attempts[1]:,}, mean return {_number(mean[0])} -> "
        f"{_number(mean[1])},"
        f" success {_percent(success[0])} -> {_percent(success[1])}"
    )


def _number(value: float | None) -> str:
    return "none" if value is None else plain(value, 4)


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.1f} %"
