"""The doctor's report: the findings of all checks about one scope. The page and the API show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from episodes.doctor.checks import CHECKS
from episodes.doctor.findings import RESULTS, DoctorFinding
from episodes.doctor.scope import DoctorScope


@dataclass(frozen=True, slots=True)
class DoctorReport:
    scope: DoctorScope
    findings: Sequence[DoctorFinding]
    """Problems first, then what there is too little data for, then the rest."""

    @property
    def problems(self) -> list[DoctorFinding]:
        return [finding for finding in self.findings if finding.result == "problem"]

    @property
    def sentence(self) -> str:
        """What the findings say together."""
        problems, total = len(self.problems), len(self.findings)
        open_ = sum(finding.result == "too_little_data" for finding in self.findings)
        if open_ == total:
            return "No check has enough data."
        if problems:
            sentence = f"{problems} of {total} checks found a problem."
        else:
            checks = total - open_
            sentence = f"{checks} check{'' if checks == 1 else 's'} found no problem."
        if open_:
            sentence += f" {open_} need{'s' if open_ == 1 else ''} more data."
        return sentence


def examine(scope: DoctorScope) -> DoctorReport:
    """Return what all checks say about the scope."""
    findings = [check(scope) for check in CHECKS]
    findings.sort(key=lambda finding: RESULTS.index(finding.result))
    return DoctorReport(scope, findings)
