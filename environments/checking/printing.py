"""The report as a table for people, grouped by subject."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from environments.checking.report import RESULTS, Report, Result

_STYLES: dict[Result, str] = {"ok": "green", "warning": "yellow", "failed": "bold red", "not applicable": "dim"}
_SHOWN: dict[Result, str] = {"not applicable": "n/a"}


def print_report(report: Report, console: Console) -> None:
    """The table, then one line that counts."""
    table = Table(title=escape(f"Check of {report.target}"), title_justify="left", show_lines=False, expand=True)
    table.add_column("Subject", no_wrap=True)
    table.add_column("Check", no_wrap=True)
    table.add_column("Result", no_wrap=True)
    table.add_column("What was seen", ratio=1, overflow="fold")
    subjects = list(dict.fromkeys(finding.subject for finding in report.findings))
    ordered = sorted(report.findings, key=lambda finding: subjects.index(finding.subject))
    for subject, findings in groupby(ordered, key=lambda finding: finding.subject):
        for number, finding in enumerate(findings):
            result = f"[{_STYLES[finding.result]}]{_SHOWN.get(finding.result, finding.result)}[/]"
            table.add_row("" if number else subject, finding.check, result, escape(finding.sentence))
        table.add_section()
    console.print(table)
    counts = [f"{report.count(result)} {result}" for result in RESULTS if report.count(result)]
    console.print(", ".join(counts) + ".")
