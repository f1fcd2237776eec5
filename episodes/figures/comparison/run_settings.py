"""What trainers say about runs that are compared: model, commit and configuration, value by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from episodes.models import Run
from episodes.runs.config_values import config_values, value_text


class RunSetting(NamedTuple):
    name: str
    values: Sequence[str | None]
    """By run, as text; None where a run says nothing."""

    @property
    def is_different(self) -> bool:
        return len(set(self.values)) > 1


def settings_of(runs: Sequence[Run]) -> list[RunSetting]:
    """Return the settings of the runs in the order in which their configurations have them."""
    by_run = [_settings(run) for run in runs]
    names = dict.fromkeys(name for settings in by_run for name in settings)
    return [RunSetting(name, [settings.get(name) for settings in by_run]) for name in names]


def _settings(run: Run) -> Mapping[str, str]:
    facts = {"model": run.model, "commit": run.git_commit}
    values = {name: value_text(value) for name, value in config_values(run.config).items()}
    return {name: text for name, text in facts.items() if text} | values
