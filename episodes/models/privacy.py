"""Conditions that leave out rollouts, runs and suites of private environments. `visible` does so for everything else.

They also leave out what belongs to studies that are not closed, for people who may not make studies: the studies, the
suites that were published for them, and the episodes that are played in them.

And they leave out the episodes and rollouts of tasks of splits that are sealed for people, but figures count these: a
query for figures takes `outside_open_studies`, one for what people read takes `visible_episodes`.

`hidden` is the ids of the environments that do not exist for the reader, as in `environments/access/privacy.py`.
`key_label` is the label of the key that reads, which reads nothing but what was recorded with it; None for a person.

A rollout belongs to the environment of its episode, and to `hosted_environment`. The name that its client gives counts
only if its key could use that environment, because otherwise anybody could hide a run by naming a private one.

A run is hidden as a whole as soon as one of its episodes or rollouts belongs to a hidden environment, because its
figures cannot be divided. From a key, a run is hidden only by what was recorded with that key, as it reads only that.
A suite is hidden as a whole for the same reason.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from environments.access.privacy import (
    Hidden,
    hides_anything,
    outside_sealed_splits,
    sealed_splits,
    visible,
    visible_splits,
)
from environments.models import Split
from episodes.models.people import Play
from episodes.models.record import Episode, played_with
from episodes.models.rollouts import Rollout
from episodes.models.studies import Study
from episodes.models.suites import SuiteMember

NAMELESS = Q(environment_name="", episode__isnull=True)
"""Rollouts of which nobody knows where they were played: not announced yet, or without the name of an environment."""


def open_studies(hidden: frozenset[int]) -> list[int]:
    """Return the ids of the studies that do not exist for the person yet. One query, the first time."""
    if not isinstance(hidden, Hidden) or not hidden.hides_open_studies:
        return []
    if hidden.open_studies is None:
        hidden.open_studies = list(Study.objects.filter(closed=None).values_list("pk", flat=True))
    return hidden.open_studies


def visible_episodes(hidden: frozenset[int], path: str = "") -> Q:
    """Return the condition on episodes. `path`: from a row to its episode, with the underscores after it."""
    return visible(hidden, f"{path}environment") & outside_hidden_parts(hidden, path)


def outside_hidden_parts(hidden: frozenset[int], path: str = "") -> Q:
    """Return the condition on episodes of environments that the person may see. `path`: as of `visible_episodes`."""
    return outside_open_studies(hidden, path) & outside_seals(hidden, path)


def outside_open_studies(hidden: frozenset[int], path: str = "") -> Q:
    """Return the same condition for figures, which count the episodes of sealed splits."""
    if not (studies := open_studies(hidden)):
        return Q()
    played = Play.objects.filter(guest__invite__study__in=studies)
    return ~Q(**{f"{path}pk__in": played.values("pk")})


def outside_seals(hidden: frozenset[int], path: str = "") -> Q:
    """Return the condition on episodes that leaves out those of sealed splits, and of their tasks."""
    return outside_sealed_splits(hidden, f"{path}environment", f"{path}task", f"{path}split")


def visible_studies(hidden: frozenset[int]) -> Q:
    """Return the condition on studies."""
    found = visible_splits(hidden, "member__split__")
    return found & (~Q(pk__in=studies) if (studies := open_studies(hidden)) else Q())


def visible_rollouts(hidden: frozenset[int], key_label: str | None = None) -> Q:
    """Return the condition on rollouts. People from whom something is hidden see no nameless ones."""
    found = ~_hidden_rollouts(hidden) if hidden else Q()
    if key_label is None and hides_anything(hidden):
        found &= ~NAMELESS
    return found & _outside_sealed_rollouts(hidden)


def visible_runs(hidden: frozenset[int], key_label: str | None = None) -> Q:
    """Return the condition on runs. The database reads all episodes of the hidden environments."""
    if not hidden:
        return Q()
    read = Q(run__isnull=False) if key_label is None else Q(run__isnull=False) & played_with(key_label)
    visible = Q()
    for rows in (  # one query would read all rollouts, because no index serves an "or" of two tables
        Episode.objects.filter(read, environment__in=hidden),
        Rollout.objects.filter(read, hosted_environment__in=hidden),
        Rollout.objects.filter(read, episode__environment__in=hidden),
    ):
        visible &= ~Q(pk__in=rows.order_by().values("run"))
    return visible


def visible_suites(hidden: frozenset[int]) -> Q:
    """Return the condition on suites. One is hidden as a whole if any version of it has a hidden environment, or if it
    was published for a study that is hidden.
    """
    found = Q()
    if hidden:
        found &= ~Q(pk__in=SuiteMember.objects.filter(environment__in=hidden).values("version__suite"))
    if studies := open_studies(hidden):
        found &= ~Q(pk__in=Study.objects.filter(pk__in=studies, suite__isnull=False).values("suite"))
    return found


def _outside_sealed_rollouts(hidden: frozenset[int]) -> Q:
    """Return the condition that leaves out the rollouts of sealed splits: by their episode, or by what the client says.

    One without an episode may be of any split of its environment, unless it names another one exactly.
    """
    if not (sealed := sealed_splits(hidden)):
        return Q()
    named = Split.objects.filter(environment=OuterRef("hosted_environment"), name=OuterRef("split"))
    is_sealed, is_open = Exists(named.filter(pk__in=list(sealed))), Exists(named.exclude(pk__in=list(sealed)))
    of_any = Q(~is_open, episode__isnull=True, hosted_environment__in=sorted(set(sealed.values())))
    return outside_seals(hidden, "episode__") & ~Q(is_sealed) & ~of_any


def _hidden_rollouts(hidden: frozenset[int]) -> Q:
    return Q(episode__environment__in=hidden) | Q(hosted_environment__in=hidden)
