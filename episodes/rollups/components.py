"""The part that makes EpisodeComponent rows from the components that environments report with their
rewards.

The recorder says of most episodes that no output mentions components; these are not read. Of the
others, the database picks the steps whose output mentions them. Large outputs, which are compressed
blobs, are read in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from django.db import connection
from django.db.models import QuerySet

from environments.database.bulk_writer import BulkWriter, Values
from environments.database.json_rows import rows_among
from environments.database.storable import finite
from environments.tasks.task_places import batched
from episodes.attempts.components import MARKS, components_in, may_report
from episodes.attempts.endings import Ending, endings_of
from episodes.models import Episode, EpisodeComponent, RewardComponent
from episodes.models.blobs import texts_of_blobs
from episodes.rollups.progress import followed_to, newest_end
from episodes.rollups.rollup_part import delete_some

MAX_NAMES = 100
"""Names of components that are stored for one environment; further ones are ignored."""
MAX_REMEMBERED = 10_000
MAX_LATE = 5_000
"""Episodes whose components are read from their steps because the part has not followed them
yet."""
MAX_BLOB_BYTES = 2 * 1024 * 1024
"""Size of an output that is still searched for components, before compression."""
_COLUMNS = ("episode_id", "component_id", "value_sum", "value_last", "value_max", "value_mean")
_FIND = {"sqlite": "instr(s.output, %s) > 0", "postgresql": "strpos(s.output, %s) > 0"}
_SQL = """
    SELECT s.episode_id, s.output, s.output_blob_id FROM episodes_step AS s
    WHERE s.status = 'ok' AND ({mentions} OR s.output_blob_id IS NOT NULL) AND s.episode_id {among}
    ORDER BY s.episode_id, s."index"
"""


class NewComponents(NamedTuple):
    """The components of one episode."""

    environment: int
    values: dict[str, list[float]]
    """By name: the values in the steps of the episode, in order."""

    def rows(self) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
        """Yield each name with its values by definition of return: sum, last, max and mean."""
        for name, values in self.values.items():
            total, highest = finite(sum(values)) or 0.0, max(values)
            yield name, (total, values[-1], highest, min(total / len(values), highest))


class ComponentsPart:
    name = "components"
    most_endings = 500
    most_steps = 5_000

    def __init__(self) -> None:
        # None: the environment has too many names
        self._ids: dict[tuple[int, str], int | None] = {}

    def gather(self, endings: Sequence[Ending]) -> dict[int, NewComponents]:
        """Return the components of each episode that has any, by episode id."""
        environments = {
            ending.episode: ending.environment
            for ending in endings
            if ending.steps and ending.has_components is not False
        }
        components = dict[int, NewComponents]()
        for episode, output in _outputs(list(environments)):
            for name, value in components_in(output).items():
                new = components.setdefault(episode, NewComponents(environments[episode], {}))
                new.values.setdefault(name, []).append(value)
        return components

    def write(self, components: dict[int, NewComponents]) -> None:
        if len(self._ids) > MAX_REMEMBERED:
            self._ids.clear()
        rows: list[Values] = []
        for episode, new in components.items():
            for name, values in new.rows():
                key = new.environment, name
                if key not in self._ids:
                    self._ids[key] = _stored_id(*key)
                if (component := self._ids[key]) is not None:
                    rows.append((episode, component, *values))
        BulkWriter(connection).insert(EpisodeComponent, _COLUMNS, rows)

    def forget(self) -> None:
        self._ids.clear()

    def remove(self, endings: Sequence[Ending]) -> None:
        EpisodeComponent.objects.filter(episode__in=[ending.episode for ending in endings]).delete()

    def empty(self) -> bool:
        return delete_some(EpisodeComponent) or delete_some(RewardComponent)


def late_components(
    episodes: QuerySet[Episode],
) -> dict[tuple[int, str], tuple[float, float, float, float]]:
    """Return the components of those of `episodes` that the part has not followed yet, read from
    their steps.

    By episode id and name, the values are by definition of return: sum, last, max and mean. Names
    are those that the part will store. Of more than MAX_LATE episodes, those that ended first are
    read.
    """
    last = followed_to(ComponentsPart.name)
    if newest_end() <= last:
        return {}
    late = endings_of(episodes.filter(end_number__gt=last), MAX_LATE)
    names_of = defaultdict[int, set[str]](set)
    for environment, name in RewardComponent.objects.values_list("environment_id", "name"):
        names_of[environment].add(name)
    ranges: dict[tuple[int, str], tuple[float, float, float, float]] = {}
    for endings in batched(late, ComponentsPart.most_endings):
        for episode, new in ComponentsPart().gather(endings).items():
            names = names_of[new.environment]
            for name, values in new.rows():
                if name in names or len(names) < MAX_NAMES:
                    names.add(name)
                    ranges[episode, name] = values
    return ranges


def _stored_id(environment: int, name: str) -> int | None:
    """Return the id of the component, which is created unless its environment has too many; then
    None."""
    components = RewardComponent.objects.filter(environment_id=environment)
    component = components.filter(name=name).values_list("pk", flat=True).first()
    if component is not None or components.count() >= MAX_NAMES:
        return component
    return RewardComponent.objects.create(environment_id=environment, name=name).pk


def _outputs(episodes: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield the outputs that mention components with their episodes, in the order of the steps."""
    if not episodes:
        return
    mentions = " OR ".join([_FIND[connection.vendor]] * len(MARKS))
    rows = rows_among(_SQL.replace("{mentions}", mentions), MARKS, episodes)
    texts = texts_of_blobs({blob for _, _, blob in rows if blob}, MAX_BLOB_BYTES)
    blobs = {digest: text for digest, text in texts if may_report(text)}
    for episode, output, blob in rows:
        if text := blobs.get(blob, "") if blob else output:
            yield episode, text
