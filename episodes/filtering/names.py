"""Names in filters: the rows that a filter names, and the names that a form offers to choose from.

An unknown name gets a sentence with the nearest ones. Lists of names are read in steps along an index.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from environments.database.bulk import distinct_values
from environments.errors import nearest
from environments.models import Environment, Split, Task
from environments.scoring.convention import Convention
from environments.scoring.definition import definition_of
from environments.scoring.returns import RETURNS, Return
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.people import names, people
from episodes.models import Episode, Run

MAX_NAMES = 500


def models() -> list[str]:
    """Return the models that played episodes, in alphabetical order, up to MAX_NAMES."""
    return distinct_values(Episode, "model", MAX_NAMES)


def runs() -> list[str]:
    """Return the names of the latest runs, newest first, up to MAX_NAMES."""
    return list(Run.objects.order_by("-pk").values_list("name", flat=True)[:MAX_NAMES])


NEAREST = 5


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The rows that a filter names. Each is None when the filter names none, or one that does not exist."""

    environment: Environment | None
    split: Split | None
    run: Run | None
    unknown: str
    """One sentence for each name that does not exist; empty when all exist."""

    @classmethod
    def of(cls, asked: EpisodeFilter) -> NamedRows:
        """Read the rows: one query for each name, and one more for each that is unknown."""
        sentences = list[str]()
        environment = split = run = None
        if asked.environment is not None:
            environment = Environment.objects.defer("card", "description").filter(name=asked.environment).first()
            if environment is None:
                sentences.append(
                    _unknown("environment", asked.environment, Environment.objects.values_list("name", flat=True))
                )
        if asked.split is not None and environment is not None:
            split = environment.splits.filter(name=asked.split).first()
            if split is None:
                names = environment.splits.values_list("name", flat=True)
                sentences.append(_unknown(f"split of {environment.name}", asked.split, names))
        if asked.run is not None and (run := Run.objects.filter(name=asked.run).first()) is None:
            sentences.append(_unknown("run", asked.run, runs()))
        sentences += _unknown_task(asked.task) + _unknown_model(asked.model) + _unknown_person(asked.who)
        return cls(environment, split, run, " ".join(sentences))

    def convention(self, asked: EpisodeFilter) -> Convention:
        """Return the convention: that of the environment, or the default one, with the filter's parts."""
        return definition_of(self.environment, asked.asked).convention

    def definition(self, asked: EpisodeFilter) -> Return:
        """Return the definition of the return: the filter's, else the environment's, else the sum."""
        if asked.definition or self.environment is None:
            return asked.definition or "sum"
        own: Return | None = next((known for known in RETURNS if known == self.environment.default_return), None)
        return own or "sum"


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    first = f" There are {', '.join(map(repr, names[:NEAREST]))}." if names else " There is none yet."
    return f"No {kind} is named {name!r}.{nearest(name, names, NEAREST) or first}"


def _unknown_task(task: int | None) -> list[str]:
    is_known = task is None or Task.objects.filter(pk=task).exists()
    return [] if is_known else [f"There is no task {task}; a task's number is in the address of its page."]


def _unknown_model(model: str | None) -> list[str]:
    is_known = model is None or Episode.objects.filter(model=model).exclude(model="").exists()
    return [] if is_known else [_unknown("model", model or "", models())]


def _unknown_person(who: str | None) -> list[str]:
    is_known = who is None or people().filter(key_label=who).exists()
    return [] if is_known else [_unknown("player", who or "", names())]
