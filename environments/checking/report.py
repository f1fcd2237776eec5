"""The report of the checks: an in_order list of findings, each with a sentence that a person can act
on, as JSON and as a table for a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from environments.display.visible import visible
from environments.errors import shorten

Result = Literal["ok", "warning", "failed", "could not tell", "not applicable"]
RESULTS: tuple[Result, ...] = ("ok", "warning", "failed", "could not tell", "not applicable")

MAX_SENTENCE = 1000
MAX_PROBLEMS = 3
"""Problems of one check that are listed; the others show after these have been fixed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: its subject, what should be true, the result, and a sentence about what was
    seen."""

    subject: str
    check: str
    result: Result
    sentence: str


@dataclass
class CheckReport:
    """The findings about `target`, a class or an environment of a server."""

    target: str
    subject: str = ""
    """What the checks that run now are about."""
    findings: list[Finding] = field(default_factory=list)
    is_hung: bool = False
    """Whether code of the environment is still running and may delay the exit of the process."""

    def ok(self, check: str, sentence: str) -> None:
        self._add(check, "ok", sentence)

    def warn(self, check: str, sentence: str) -> None:
        self._add(check, "warning", sentence)

    def fail(self, check: str, sentence: str) -> None:
        self._add(check, "failed", sentence)

    def unclear(self, check: str, sentence: str) -> None:
        """Add that the check was made, but saw nothing that it could judge."""
        self._add(check, "could not tell", sentence)

    def skip(self, check: str, sentence: str) -> None:
        self._add(check, "not applicable", sentence)

    def judge(
        self,
        check: str,
        problems: Sequence[str],
        fine: str,
        result: Result = "failed",
    ) -> None:
        """Add `result` with the first `MAX_PROBLEMS` problems, or ok with the sentence `fine` if
        there are none."""
        if not problems:
            return self.ok(check, fine)
        more = len(problems) - MAX_PROBLEMS
        text = " ".join(problems[:MAX_PROBLEMS])
        self._add(check, result, f"{text} ({more} more.)" if more > 0 else text)

    def expect(
        self, check: str, holds: bool, problem: str, fine: str, result: Result = "failed"
    ) -> None:
        """Add ok with the sentence `fine` if it holds, else `result` with the problem."""
        self.judge(check, [] if holds else [problem], fine, result)

    def _add(self, check: str, result: Result, sentence: str) -> None:
        self.findings.append(
            Finding(self.subject, check, result, shorten(" ".join(sentence.split()), MAX_SENTENCE))
        )

    def count(self, result: Result) -> int:
        return sum(finding.result == result for finding in self.findings)

    def passes(self, *, strict: bool = False) -> bool:
        """Return whether nothing failed and, if `strict`, nothing was warned about or is
        unclear."""
        return not self.count("failed") and not (
            strict and self.count("warning") + self.count("could not tell")
        )

    def as_json(self, *, strict: bool = False) -> dict[str, Any]:
        """Return an object with `target`, `passed`, `counts` by result, and `findings`."""
        return {
            "target": self.target,
            "passed": self.passes(strict=strict),
            "counts": {result: self.count(result) for result in RESULTS},
            "findings": [asdict(finding) for finding in self.findings],
        }


_STYLES: dict[Result, str] = {"ok": "green", "warning": "yellow", "failed": "bold red",
                             "could not tell": "yellow", "not applicable": "dim"}  # fmt: skip
_SHOWN: dict[Result, str] = {"could not tell": "unclear", "not applicable": "n/a"}


def print_report(report: CheckReport, console: Console) -> None:
    """Print a table of the findings by subject, then one line with the number of each result."""
    table = Table(
        title=escape(f"Check of {visible(report.target)}"),
        title_justify="left",
        show_lines=False,
        expand=True,
    )
    table.add_column("Subject", no_wrap=True)
    table.add_column("Check", no_wrap=True)
    table.add_column("Result", no_wrap=True)
    table.add_column("What was seen", ratio=1, overflow="fold")
    subjects = list(dict.fromkeys(finding.subject for finding in report.findings))
    in_order = sorted(report.findings, key=lambda finding: subjects.index(finding.subject))
    for subject, findings in groupby(in_order, key=lambda finding: finding.subject):
        for number, finding in enumerate(findings):
            result = f"[{_STYLES[finding.result]}]{_SHOWN.get(finding.result, finding.result)}[/]"
            texts = ("" if number else subject, finding.check)
            table.add_row(
                *(escape(visible(text)) for text in texts),
                result,
                escape(visible(finding.sentence)),
            )
        table.add_section()
    console.print(table)
    counts = [f"{report.count(result)} {result}" for result in RESULTS if report.count(result)]
    console.print(", ".join(counts) + ".")
