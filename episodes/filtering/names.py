"""Names that forms of filters offer, and the sentence about a name that does not exist.

People are named by the key label of their episodes: `@` and an account's name, or `Guest.label`.
A name that only hidden environments have is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from environments.database.json_rows import distinct_values
from environments.errors import nearest
from environments.models import Viewer
from environments.models.viewer import visible_environments
from episodes.models import EnvironmentRevision, Episode, Rollout, Run, Study

MAX_NAMES = 500
REVISION_DIGITS = 8
"""Digits of a revision's code that pages show, and fewest that a filter takes."""
MAX_EPISODES_OF_PEOPLE = 50_000
"""Number of newest episodes of people that are read for their names and results."""
MAX_NEAREST = 5
"""Number of names in the sentence about an unknown one."""


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """Return the sentence that nothing of a kind has the name, with the nearest `names` or the
    first."""
    names = list(names)
    first = " There is none yet."
    if names:
        first = f" There are {', '.join(map(repr, names[:MAX_NEAREST]))}."
    return f"No {kind} is named {name!r}.{nearest(name, names, MAX_NEAREST) or first}"


def models(viewer: Viewer) -> list[str]:
    """Return the models that played episodes, in alphabetical order, up to MAX_NAMES."""
    names = distinct_values(Episode, "model", MAX_NAMES)
    if not (condition := visible_environments(viewer)):
        return names
    episodes = Episode.objects.filter(condition).exclude(model="")
    return [name for name in names if episodes.filter(model=name).exists()]


def models_of_rollouts(viewer: Viewer) -> list[str]:
    """Return the models that uploaded rollouts name, in alphabetical order, up to MAX_NAMES."""
    names = distinct_values(Rollout, "model", MAX_NAMES)
    if not visible_environments(viewer):
        return names
    rollouts = Rollout.objects.seen_by(viewer)
    return [name for name in names if rollouts.filter(model=name).exists()]


def runs(viewer: Viewer) -> list[str]:
    """Return the names of the latest runs, newest first, up to MAX_NAMES."""
    rows = Run.objects.seen_by(viewer)
    return list(rows.order_by("-pk").values_list("name", flat=True)[:MAX_NAMES])


def people(viewer: Viewer) -> list[str]:
    """Return the names of the people who played the newest MAX_EPISODES_OF_PEOPLE, in alphabetical
    order."""
    episodes = Episode.objects.by_people().seen_by(viewer)
    newest = episodes.order_by("-pk").values_list("key_label", flat=True)
    return sorted(set(newest[:MAX_EPISODES_OF_PEOPLE]) - {""})


def studies(viewer: Viewer) -> list[str]:
    """Return the names of studies in alphabetical order, up to MAX_NAMES."""
    rows = Study.objects.seen_by(viewer)
    return list(rows.order_by("name").values_list("name", flat=True)[:MAX_NAMES])


def revisions(viewer: Viewer) -> list[str]:
    """Return the names of the latest revisions of environments, newest first, up to MAX_NAMES."""
    rows = EnvironmentRevision.objects.filter(visible_environments(viewer))
    codes = rows.order_by("-pk").values_list("code", flat=True)[:MAX_NAMES]
    return list(dict.fromkeys(code[:REVISION_DIGITS] for code in codes))


def revision_ids(code: str, viewer: Viewer) -> list[int]:
    """Return the ids of the rows whose code begins with `code`; none if it is shorter than pages
    show."""
    if len(code) < REVISION_DIGITS:
        return []
    rows = EnvironmentRevision.objects.filter(visible_environments(viewer), code__startswith=code)
    return list(rows.values_list("pk", flat=True)[:MAX_NAMES])
