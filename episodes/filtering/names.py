"""Names in filters: the rows that a filter names, and the names that a form offers to choose from.

An unknown name gets a sentence with the nearest ones. Lists of names are read in steps along an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from environments.database.bulk import distinct_values
from environments.errors import nearest
from environments.models import Environment, Split, Task
from environments.scoring.returns import RETURNS, Return
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.people import names, people
from episodes.models import EnvironmentRevision, Episode, Run

MAX_NAMES = 500
REVISION_DIGITS = 8
"""Digits of a revision's code that pages show, and fewest that a filter takes."""


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
    revisions: Sequence[int]
    """Ids of the rows of the revision that the filter names; empty if it names none."""
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
        revisions = _revisions(asked.revision)
        if asked.revision is not None and not revisions:
            sentences.append(_unknown("revision", asked.revision, _latest_revisions()))
        sentences += _unknown_task(asked.task) + _unknown_model(asked.model) + _unknown_person(asked.who)
        return cls(environment, split, run, revisions, " ".join(sentences))

    def definition(self, asked: EpisodeFilter) -> Return:
        """Return the definition of the return: the filter's, else the environment's, else the sum."""
        if asked.definition or self.environment is None:
            return asked.definition or "sum"
        own: Return | None = next((known for known in RETURNS if known == self.environment.default_return), None)
        return own or "sum"


def _revisions(name: str | None) -> list[int]:
    if name is None or len(name) < REVISION_DIGITS:
        return []
    return list(EnvironmentRevision.objects.filter(code__startswith=name).values_list("pk", flat=True)[:MAX_NAMES])


def _latest_revisions() -> list[str]:
    codes = EnvironmentRevision.objects.order_by("-pk").values_list("code", flat=True)[:MAX_NAMES]
    return list(dict.fromkeys(code[:REVISION_DIGITS] for code in codes))


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
