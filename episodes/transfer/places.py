"""Places: ids of the rows that imported episodes refer to, found or made. Used inside the importer's transactions.

An environment that is made here is not hosted, a split not served, until a class of that name is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from environments.models import Environment, Split, Task
from episodes.known import TASK_COLUMNS
from episodes.models import Run
from episodes.sql import BulkWriter
from episodes.transfer.line import EnvironmentPart, EpisodeLine, RunPart, SplitPart

MOST_REMEMBERED = 50_000


class Places:
    def __init__(self) -> None:
        self._environments: dict[str, int] = {}
        self._splits: dict[tuple[int, str], int] = {}
        self._runs: dict[str, int] = {}
        self._tasks: dict[tuple[int, str], int] = {}

    def forget(self) -> None:
        """After a transaction that failed: what it made is gone."""
        for kind in (self._environments, self._splits, self._runs, self._tasks):
            kind.clear()

    def environment(self, part: EnvironmentPart) -> int:
        if part.name not in self._environments:
            self._environments[part.name] = _environment(part)
        return self._environments[part.name]

    def split(self, environment: int, part: SplitPart | None) -> int | None:
        if part is None:
            return None
        key = (environment, part.name)
        if key not in self._splits:
            defaults = {"type": part.type, "is_served": False}
            made, _ = Split.objects.get_or_create(environment_id=environment, name=part.name, defaults=defaults)
            self._splits[key] = made.pk
        return self._splits[key]

    def run(self, part: RunPart | None) -> int | None:
        if part is None:
            return None
        if part.name not in self._runs:
            defaults = {"created": part.created, "model": part.model}
            run, _ = Run.objects.get_or_create(name=part.name, defaults=defaults)
            if part.model and not run.model:
                Run.objects.filter(pk=run.pk).update(model=part.model)
            self._runs[part.name] = run.pk
        return self._runs[part.name]

    def tasks(self, episodes: Sequence[EpisodeLine], writer: BulkWriter) -> list[int]:
        """Id of each episode's task. One that is there already keeps its own text of the spec."""
        if len(self._tasks) > MOST_REMEMBERED:
            self._tasks.clear()
        keys = [(self.environment(one.environment), one.task.hash or "") for one in episodes]
        missing = {key: one for key, one in zip(keys, episodes, strict=True) if key not in self._tasks}
        if missing:
            rows = [(*key, one.task.text, writer.time(_seconds(one.created))) for key, one in missing.items()]
            writer.insert(Task, TASK_COLUMNS, rows)
            found = Task.objects.filter(content_hash__in=[digest for _, digest in missing])
            for environment, digest, pk in found.values_list("environment_id", "content_hash", "pk"):
                self._tasks[environment, digest] = pk
        return [self._tasks[key] for key in keys]


def _environment(part: EnvironmentPart) -> int:
    """A new one counts what its class declares as the definition that the file tells."""
    definition = {
        **{"default_return": part.default_return, "declared_return": part.default_return},
        **{"reward_low": part.reward_low, "declared_low": part.reward_low},
        **{"reward_high": part.reward_high, "declared_high": part.reward_high},
        **{"success_threshold": part.success_threshold, "declared_threshold": part.success_threshold},
    }
    defaults = {"is_hosted": False, **definition}
    return Environment.objects.get_or_create(name=part.name, defaults=defaults)[0].pk


def _seconds(moment: datetime) -> float:
    return moment.timestamp()
