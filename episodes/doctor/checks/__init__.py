"""What the reward doctor looks for: a function for each flaw, registered by `@check`. A new check is
a function in a module here; all modules are loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from pkgutil import iter_modules

from episodes.doctor.findings import DoctorFinding
from episodes.doctor.scope import DoctorScope
from episodes.doctor.thresholds import THRESHOLDS, Threshold

Check = Callable[[DoctorScope], DoctorFinding]
CHECKS: list[Check] = []
"""In the order of the report."""


def check(
    title: str, *thresholds: str | Threshold, is_cause: bool = False
) -> Callable[[Check], Check]:
    """Register the function as the check of its name. `thresholds`: those that decide it, by name,
    or a further one of its own. `is_cause`: whether it says why other checks find something; such
    checks come first."""
    names = []
    for threshold in thresholds:
        if isinstance(threshold, Threshold):
            THRESHOLDS[threshold.name] = threshold
        names.append(threshold if isinstance(threshold, str) else threshold.name)

    def decorate(function: Check) -> Check:
        @wraps(function)
        def examine(scope: DoctorScope) -> DoctorFinding:
            values = {name: scope.thresholds[name] for name in names}
            finding = function(scope)
            return replace(finding, check=function.__name__, title=title, thresholds=values)

        CHECKS.insert(0 if is_cause else len(CHECKS), examine)
        return examine

    return decorate


for module in iter_modules(__path__):
    import_module(f"{__name__}.{module.name}")
