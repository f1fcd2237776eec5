"""The part that makes EpisodeComponent rows from the components that environments report with their
rewards.

The recorder says of most episodes that no output mentions components; these are not read. Of the
others, the database picks the steps whose output mentions them. Large outputs, which are compressed
blobs, are read in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class _Values:
    """The values of one component in the steps of an episode, in order."""

    values: list[float] = field(default_factory=list)

    def row(self) -> tuple[float, float, float, float]:
        """Return the values by definition of return: sum, last, max and mean."""
        total = finite(sum(self.values)) or 0.0
        return (
            total,
            self.values[-1],
            max(self.values),
            min(total / len(self.values), max(self.values)),
        )


class NewComponent:
    """The components of one episode by name."""

    def __init__(self, environment: int) -> None:
        self.environment = environment
        self.values: dict[str, _Values] = {}


class ComponentsPart:
    name = "components"
    most_endings = 500
    most_steps = 5_000

    def __init__(self) -> None:
        # None: the environment has too many names
        self._ids: dict[tuple[int, str], int | None] = {}

    def gather(self, endings: Sequence[Ending]) -> dict[int, NewComponent]:
        """Return the components of each episode that has any, by episode id."""
        environments = {
            ending.episode: ending.environment
            for ending in endings
            if ending.steps and _may_have(ending)
        }
        components: dict[int, NewComponent] = {}
        for episode, output in _outputs(list(environments)):
            for name, value in components_in(output).items():
                new = components.setdefault(episode, NewComponent(environments[episode]))
                new.values.setdefault(name, _Values()).values.append(value)
        return components

    def write(self, components: dict[int, NewComponent]) -> None:
        if len(self._ids) > MAX_REMEMBERED:
            self._ids.clear()
        rows: list[Values] = []
        for episode, new in components.items():
            for name, values in new.values.items():
                if (component := self._id_of(new.environment, name)) is not None:
                    rows.append((episode, component, *values.row()))
        BulkWriter(connection).insert(EpisodeComponent, _COLUMNS, rows)

    def forget(self) -> None:
        self._ids.clear()

    def remove(self, endings: Sequence[Ending]) -> None:
        EpisodeComponent.objects.filter(episode__in=[ending.episode for ending in endings]).delete()

    def empty(self) -> bool:
        return delete_some(EpisodeComponent) or delete_some(RewardComponent)

    def _id_of(self, environment: int, name: str) -> int | None:
        if (environment, name) not in self._ids:
            self._ids[environment, name] = _stored_id(environment, name)
        return self._ids[environment, name]


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
            for name, values in new.values.items():
                if name in names or len(names) < MAX_NAMES:
                    names.add(name)
                    ranges[episode, name] = values.row()
    return ranges


def _may_have(ending: Ending) -> bool:
    return ending.has_components is None or bool(ending.has_components)


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
    blobs = _mentioning({blob for _, _, blob in rows if blob})
    for episode, output, blob in rows:
        if text := blobs.get(blob, "") if blob else output:
            yield episode, text


def _mentioning(digests: Collection[str]) -> dict[str, str]:
    """Return the texts of the blobs that mention components, by digest."""
    return {
        digest: text for digest, text in texts_of_blobs(digests, MAX_BLOB_BYTES) if may_report(text)
    }
