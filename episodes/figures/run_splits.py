"""The splits that runs played, and the one whose figures are shown of a run that played several.

That is the one that the reader names, else the first that the run began to play; all of them
together
only if the reader asks for that. Pages and the API take `splits=together`, and name the split.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from django.db.models import Exists, Min, OuterRef, QuerySet

from environments.database.json_rows import rows_among
from environments.filtering.parameters import LEGAL, BadFilter, any_text, chosen, given
from environments.models import Environment, Split, Viewer
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode
from episodes.models.privacy import own_records

MAX_NAMED = 12
"""Splits that a message names."""
TOGETHER = "together"
"""Value of the parameter `splits` that pools the splits of a run."""
# a loose index scan: the splits of a run are few and its episodes many
_PLAYED = """
    WITH RECURSIVE played(run_id, split_id) AS (
        SELECT r.id, (SELECT MIN(e.split_id) FROM episodes_episode AS e
            WHERE e.run_id = r.id AND e.split_id IS NOT NULL)
        FROM episodes_run AS r WHERE r.id {among}
        UNION ALL
        SELECT p.run_id, (SELECT MIN(e.split_id) FROM episodes_episode AS e
            WHERE e.run_id = p.run_id AND e.split_id > p.split_id)
        FROM played AS p WHERE p.split_id IS NOT NULL
    )
    SELECT p.run_id, p.split_id, (SELECT MIN(e.id) FROM episodes_episode AS e
        WHERE e.run_id = p.run_id AND e.split_id = p.split_id) AS first
    FROM played AS p WHERE p.split_id IS NOT NULL
"""


def splits_of(runs: Collection[int], viewer: Viewer) -> dict[int, list[Split]]:
    """Return the splits of each run in the order in which it began to play them, for a key those of
    its own episodes. Two queries."""
    if not runs:
        return {}
    own = own_records(viewer)
    if not own:
        rows = rows_among(_PLAYED, [], runs)
    else:
        episodes = Episode.objects.filter(own, run__in=runs, split__isnull=False)
        rows = list(episodes.order_by().values_list("run", "split").annotate(first=Min("pk")))
    splits = Split.objects.select_related("environment").in_bulk({split for _, split, _ in rows})
    splits_by_run = dict[int, list[Split]]()
    for run, split, _ in sorted(rows, key=lambda row: row[2]):
        if split in splits:
            splits_by_run.setdefault(run, []).append(splits[split])
    return splits_by_run


def played_split(name: str, splits: QuerySet[Split], viewer: Viewer) -> Exists:
    """Return the condition on runs that played a split of this name. Raises: BadFilter if none of
    `splits` has it.

    `splits`: those of which the viewer may know.
    """
    splits_named = splits.filter(name=name)
    if not splits_named.exists():
        splits_served = splits.filter(is_served=True).order_by(
            "environment__position", "position", "name"
        )
        legal = list(dict.fromkeys(splits_served.values_list("name", flat=True)))
        names = ", ".join(legal[:MAX_NAMED]) + (" and more" if len(legal) > MAX_NAMED else "")
        raise BadFilter(
            "split",
            name,
            f"no split has that name; {LEGAL}{names}" if legal else "there are no splits",
        )
    own = own_records(viewer)
    return Exists(
        Episode.objects.filter(own, run=OuterRef("pk"), split__in=splits_named.values("pk"))
    )


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """What a reader says about the splits of runs."""

    environment: str | None = None
    split: str | None = None
    are_together: bool = False

    PARAMETERS: ClassVar = ("split", "splits")

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> SplitChoice:
        """Return the choice in an address. Raises: BadFilter."""
        environment, split = (given(query, name, any_text) for name in ("environment", "split"))
        return cls(environment, split, are_together_in(query))

    def of(self, splits: Sequence[Split], environment: str | None = None) -> Split | None:
        """Return the split that is shown of a run that played these; None: all that it played.
        Raises: BadFilter.

        `environment`: name of the one in which it played alone, also tasks of no split; None: there
        are several.
        """
        fitting = [split for split in splits if self.split in (None, split.name)]
        if self.split is not None and not fitting:
            raise BadFilter("split", self.split, _played(splits, environment))
        if self.environment is not None:
            fitting = [split for split in fitting if split.environment.name == self.environment]
            if not fitting and (self.split is not None or self.environment != environment):
                raise BadFilter("environment", self.environment, _played(splits, environment))
        return None if self.are_together or len(splits) < 2 else fitting[0]


def _played(splits: Sequence[Split], environment: str | None) -> str:
    names = [f"{split.environment.name} {split.name}" for split in splits]
    return (
        "the run played "
        f"{', '.join(names) or environment or 'tasks of several environments, and of no split'}"
    )


def split_named(environment: Environment, name: str | None) -> Split | None:
    """Return the split of the environment; None for no name. Raises: BadFilter."""
    if not name:
        return None
    splits = {split.name: split for split in environment.splits.all()}
    if name not in splits:
        raise BadFilter("split", name, f"{environment.name} has {', '.join(splits) or 'no splits'}")
    return splits[name]


def are_together_in(query: Mapping[str, str]) -> bool:
    """Return whether the address asks for the splits of runs together. Raises: BadFilter."""
    return given(query, "splits", chosen((TOGETHER,))) is not None


def common_split(splits_by_run: Sequence[Sequence[Split]]) -> Split | None:
    """Return the split that is shown of runs that are compared: the first of the first run that all
    of them played.

    `splits_by_run`: the splits of each run. None if no run has several, or all have none in common.
    """
    if all(len(splits) < 2 for splits in splits_by_run):
        return None
    return next(
        (
            split
            for split in splits_by_run[0]
            if all(split in splits for splits in splits_by_run[1:])
        ),
        None,
    )


def of_one_split(filters: EpisodeFilter, split: Split | None) -> EpisodeFilter:
    """Return the filter for the split alone; as it is for None."""
    fields: dict[str, Any] = dict(in_split(split))
    return replace(filters, **fields)


def in_split(split: Split | None) -> dict[str, str]:
    """Return the parameters of the filter that finds the episodes of the split; none for None."""
    return {} if split is None else {"environment": split.environment.name, "split": split.name}


def labelled(splits: Sequence[Split], *, has_several: bool = False) -> list[tuple[Split, str]]:
    """Return each split with its name, after that of its environment where they are of several.

    `has_several`: whether what else is shown is of other environments.
    """
    has_several |= len({split.environment_id for split in splits}) > 1
    return [
        (split, f"{split.environment.name} {split.name}" if has_several else split.name)
        for split in splits
    ]


def pools_splits(filters: EpisodeFilter) -> bool:
    """Return whether the filter may find episodes of several splits, and its sender has not said of
    which."""
    return filters.split is None and not filters.is_of_tasks


def within(splits: Sequence[Split], filters: EpisodeFilter) -> list[Split]:
    """Return those of the splits that are in the environment of the filter, if it names one."""
    return [split for split in splits if filters.environment in (None, split.environment.name)]


def named_split(filters: EpisodeFilter, rows: NamedRows) -> Split | None:
    """Return the split that is shown where the filter names a run, and no split; None: all that it
    finds."""
    if rows.run is None or not pools_splits(filters):
        return None
    return SplitChoice().of(
        within(splits_of([rows.run.pk], filters.viewer).get(rows.run.pk, []), filters)
    )
