"""Lines of CSV files whose cells spreadsheets do not treat as formulas, and the table of episodes
made of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from environments.display.numbers import digits_of
from environments.files.cells import FORMULA_STARTS
from environments.scoring.convention import CONVENTION_PARTS, Coverage
from environments.scoring.definition import (
    Definitions,
)
from environments.scoring.returns import RETURNS
from episodes.analytics.components import names_of
from episodes.filtering.columns import further_columns
from episodes.models import Episode, EpisodeComponent, RewardComponent, Rollout
from episodes.rollups.components import late_components
from episodes.transfer.export_source import EpisodeFacts, Recorded
from episodes.uploads.matching import rollouts_of_episodes
from episodes.uploads.usage import USAGE_FIELDS

MAX_WAITING = 250
"""Maximum number of episodes whose components are read together."""

_COLUMNS = {
    **{"episode": "id", "environment": "environment", "split": "split", "task_index": "task_index"},
    **{
        "task": "content_hash",
        "run": "run",
        "run_step": "run_step",
        "model": "model",
        "player": "player",
    },
    **{
        "status": "status",
        "cause": "cause",
        "detail": "detail",
        "is_probe": "is_probe",
        "steps": "steps_count",
    },
    **{"failed": "failed_count", "refused": "refused_count"},
    **{name: name for name in ("return_sum", "return_last", "return_max", "return_mean")},
    **{
        name: name
        for name in ("created", "ready", "first_acted", "last_acted", "ended", "duration_seconds")
    },
    **{name: name for name in ("session_id", "user_agent", "key_label", "labels")},
}
"""Column -> field of EpisodeFacts."""
_ROLLOUT_COLUMNS = ("rollout", *USAGE_FIELDS)
"""What the client uploaded: the id that it gave the rollout, tokens and cost."""


def csv_line(values: Iterable[Any]) -> str:
    """Return one line of a CSV file, with its line end."""
    file = io.StringIO(newline="")
    csv.writer(file).writerow(
        [_cell(value) for value in values]
    )  # ends lines with \r\n, since otherwise it leaves \r unquoted
    return file.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: Any) -> str:
    """Return a value as a cell. Texts that look like a formula are prefixed with an apostrophe;
    None is empty.

    Numbers have all their digits, and other values are written as in addresses.
    """
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA_STARTS) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None:
        return ""
    return repr(value) if isinstance(value, int | float) else str(value)


COVERAGE_COLUMNS = (
    *("rollouts", "rollouts_own", "rollouts_zero", "rollouts_out"),
    "rollouts_numberless",
)
"""Columns of figures: all rollouts, those that count with their return, those that count as 0,
those left out, and those whose return lacks a reward that was not a number."""
DEFINITION_HEADER = "X-Definition"
"""Header of a response with figures: the definition of return and success and the convention that
hold for them."""


COVERAGE_HEADER = "X-Coverage"
"""Header of a response with figures or episodes: how many rollouts count, as pages say it next to
figures."""


def coverage_values(coverage: Coverage | None) -> list[Any]:
    """Return the values of COVERAGE_COLUMNS."""
    if coverage is None:
        return [None] * len(COVERAGE_COLUMNS)
    return [
        coverage.rollouts,
        coverage.own,
        sum(coverage.zero.values()),
        sum(coverage.out.values()),
        coverage.numberless,
    ]


def definition_header(*definitions: Definitions) -> dict[str, str]:
    """Return the header with the definition of a file, or with that of each of its series where
    they differ.

    Parts in which the environments of a series differ are "environment".
    """
    texts = [_definition_text(one) for one in definitions]
    return {DEFINITION_HEADER: texts[0] if len(set(texts)) == 1 else " | ".join(texts)}


def _definition_text(definition: Definitions) -> str:
    threshold = None if definition.threshold is None else digits_of(definition.threshold)
    parts = {"return": definition.return_, "threshold": threshold}
    parts |= {name: definition.part(name) for name in CONVENTION_PARTS}
    return "; ".join(f"{name}={value or 'environment'}" for name, value in parts.items())


def coverage_header(coverages: Iterable[Coverage | None]) -> dict[str, str]:
    """Return the header of a file of figures with the coverage of each of its series, in their
    order."""
    return {
        COVERAGE_HEADER: " | ".join(
            "" if coverage is None else coverage.text for coverage in coverages
        )
    }


class EpisodeTable:
    """Writes a CSV file with a row per episode, for spreadsheets.

    A column for each component of rewards follows the others; its value is by the definition of the
    environment.
    """

    needs_steps = False

    def __init__(self, episodes: QuerySet[Episode]) -> None:
        self._names, self._further = _components_among(episodes), further_columns(_COLUMNS)
        self._waiting: list[EpisodeFacts] = []

    def start(self) -> str:
        return csv_line(
            [
                *_COLUMNS,
                *(column.name for column in self._further),
                *_ROLLOUT_COLUMNS,
                *(f"component:{name}" for name in self._names),
            ]
        )

    def write(self, episode: Recorded) -> Iterator[str]:
        self._waiting.append(episode.facts)
        if len(self._waiting) == MAX_WAITING:
            yield self.end()

    def end(self) -> str:
        """Return the lines of the episodes whose components were not read yet."""
        waiting, self._waiting = self._waiting, []
        found = _components_of(waiting) if self._names else {}
        further = dict[int, list[Any]]()
        if self._further:  # EpisodeFacts does not have them
            rows = Episode.objects.filter(pk__in=[facts.id for facts in waiting])
            sources = [column.source for column in self._further]
            further = {pk: values for pk, *values in rows.values_list("pk", *sources)}
        rollouts = rollouts_of_episodes(facts.id for facts in waiting)
        return "".join(
            csv_line(
                [
                    *_values(facts),
                    *further.get(facts.id, ()),
                    *_reported(rollouts.get(facts.id)),
                    *(found.get((facts.id, name)) for name in self._names),
                ]
            )
            for facts in waiting
        )


def _components_among(episodes: QuerySet[Episode]) -> list[str]:
    """Return the names of the components that the environments of `episodes` report, as far as is
    known."""
    late = {name for _, name in late_components(episodes)}
    reporting = (
        RewardComponent.objects.order_by().values_list("environment_id", flat=True).distinct()
    )
    present = [pk for pk in reporting if episodes.order_by().filter(environment=pk).exists()]
    return sorted(late.union(names_of(present) if present else []))


def _components_of(episodes: Sequence[EpisodeFacts]) -> dict[tuple[int, str], float]:
    """Return the values of the components by episode and name, each by the definition of its
    environment."""
    definitions = {facts.id: RETURNS.index(facts.default_return) for facts in episodes}
    late = late_components(Episode.objects.filter(pk__in=definitions))
    rows = EpisodeComponent.objects.filter(episode__in=definitions).values_list(
        "episode_id", "component__name", *(f"value_{name}" for name in RETURNS)
    )
    found = late | {(episode, name): tuple(values) for episode, name, *values in rows}
    return {
        (episode, name): values[definitions[episode]] for (episode, name), values in found.items()
    }


def _reported(rollout: Rollout | None) -> list[Any]:
    """Return the values of _ROLLOUT_COLUMNS."""
    if rollout is None:
        return [None] * len(_ROLLOUT_COLUMNS)
    return [rollout.event_id, *(getattr(rollout, name) for name in USAGE_FIELDS)]


def _values(facts: EpisodeFacts) -> Iterator[Any]:
    return (getattr(facts, name) for name in _COLUMNS.values())
