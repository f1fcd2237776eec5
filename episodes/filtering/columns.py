"""Figures of episodes that the list, its JSON and CSV files have in common, each declared once.
`filters.py` declares by what episodes are filtered.

A new column is a line here: the list shows it behind its other columns, JSON and CSV files get a
member and a column of its name.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.db.models.expressions import Combinable
from django.db.models.functions import Left

from environments.display.task_line import MAX_READ_CHARACTERS
from episodes.models import Episode

HEADINGS = {
    "ending": "Ending",
    "environment": "Environment",
    "task": "Task",
    "player": "Player",
    "run": "Run",
    "success": "Success",
    "return": "Return",
    "steps": "Steps",
    "duration": "Duration",
    "time": "Started",
}
"""Headings of the columns whose cells browse_table.html writes, by name. Those of EPISODE_COLUMNS
that have a heading follow them."""
Rows = TypeVar("Rows", bound=QuerySet[Any])


@dataclass(frozen=True, slots=True)
class EpisodeColumn:
    name: str
    """Its name in JSON and in CSV files."""
    source: str | Combinable
    """Column of Episode, or the expression that computes it."""
    text: str = ""
    """What it is, in the description of the API."""
    kind: type = int
    is_optional: bool = False
    """Whether episodes may lack it."""
    heading: str = ""
    """Its heading in the list; empty: the list has a cell of its own for it, or does not show
    it."""

    @property
    def attribute(self) -> str:
        """Attribute of episodes that come from `with_columns`."""
        return self.source if isinstance(self.source, str) else f"column_{self.name}"


EPISODE_COLUMNS = (
    EpisodeColumn("steps", "steps_count", "Tool calls that ran; 0 while the episode runs"),
    EpisodeColumn(
        "failed", "failed_count", "Tool calls that ran and failed; 0 while the episode runs"
    ),
    EpisodeColumn(
        "refused",
        "refused_count",
        "Tool calls that were refused and did not run; 0 while the episode runs",
    ),
    EpisodeColumn("created", "created", kind=datetime),
    EpisodeColumn("ended", "ended", kind=datetime, is_optional=True),
    EpisodeColumn(
        "duration_seconds",
        "duration_seconds",
        "From ready to the last response",
        kind=float,
        is_optional=True,
    ),
)


def with_columns(episodes: Rows) -> Rows:
    """Return `episodes` with the columns that are computed."""
    sources = {column.attribute: column.source for column in EPISODE_COLUMNS}
    return episodes.annotate(
        **{name: source for name, source in sources.items() if not isinstance(source, str)}
    )


def with_list_columns(episodes: Rows) -> Rows:
    """Return `episodes` with what a line of a list needs. `head` is the start of the task's spec,
    which may have megabytes."""
    rows = with_columns(episodes).select_related(
        "environment", "split", "task", "run", "play__guest__invite__study"
    )
    return rows.annotate(head=Left("task__spec", MAX_READ_CHARACTERS)).defer(
        "task__spec", "task__folded", "environment__description", "environment__card", "labels"
    )


def further_columns(names: Container[str]) -> list[EpisodeColumn]:
    """Return the columns that a CSV file with columns of these names lacks."""
    return [column for column in EPISODE_COLUMNS if column.name not in names]


def headings() -> dict[str, str]:
    """Return the headings of the list by name of the column, in order."""
    further = {column.name: column.heading for column in EPISODE_COLUMNS if column.heading}
    return HEADINGS | further


def cells_of(episode: Episode) -> list[tuple[str, Any]]:
    """Return the names and the episode's values of the columns that follow HEADINGS."""
    return [
        (column.name, getattr(episode, column.attribute))
        for column in EPISODE_COLUMNS
        if column.heading
    ]
