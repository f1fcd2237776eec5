"""What was played and exists for a viewer: the conditions behind `seen_by` of episodes, rollouts,
runs and suites.

They leave out what belongs to private environments that are hidden from the viewer
(`environments/models/viewer.py`).

They also leave out what belongs to studies that are not closed, for people who may not make
studies: the studies, the suites that were published for them, and the episodes that are played in
them.

And they leave out the episodes and rollouts of tasks of splits that are sealed for people, but
figures count these: a query for figures takes `outside_open_studies`, one for what people read
takes `visible_episodes`.

A rollout belongs to the environment of its episode, and to `hosted_environment`. The name that its
client gives counts only if its key could use that environment, because otherwise anybody could hide
a run by naming a private one.

A run is hidden as a whole as soon as one of its episodes or rollouts belongs to a hidden
environment, because its figures cannot be divided. From a key, a run is hidden only by what was
recorded with that key, as it reads only that.
A suite is hidden as a whole for the same reason.

For a key without the scope `admin`, only the episodes and rollouts exist that were recorded with
it, and the runs that it began or recorded something of.
"""

from __future__ import annotations

# The modules of the tables import this one for their query sets, so it finds tables by name.
from django.apps import apps
from django.db.models import Exists, OuterRef, Q

from environments.models import Split, Viewer
from environments.models.viewer import outside_sealed_splits, visible_environments, visible_splits

NAMELESS = Q(environment_name="", episode__isnull=True)
"""Rollouts of which nobody knows where they were played: not announced yet, or without the name of
an environment."""


def played_with(key_label: str, path: str = "") -> Q:
    """Return the condition on episodes, or what else has such a label, of a key. It is that of
    their index."""
    own = Q(**{f"{path}key_label": key_label})
    return own & ~Q(**{f"{path}key_label": ""}) if key_label else own


def own_records(viewer: Viewer, path: str = "") -> Q:
    """Return the condition on episodes and rollouts that a key reads only its own."""
    return Q() if viewer.key_label is None else played_with(viewer.key_label, path)


def open_studies(viewer: Viewer) -> list[int]:
    """Return the ids of the studies that do not exist for the viewer yet. One query, the first
    time."""
    if viewer.sees_open_studies:
        return []
    if viewer.open_studies is None:
        studies = apps.get_model("episodes.Study").objects.filter(closed=None)
        viewer.open_studies = list(studies.values_list("pk", flat=True))
    return viewer.open_studies


def visible_episodes(viewer: Viewer, path: str = "") -> Q:
    """Return the condition on episodes. `path`: from a row to its episode, with the underscores
    after it."""
    condition = own_records(viewer, path) & visible_environments(viewer, f"{path}environment")
    return condition & outside_hidden_parts(viewer, path)


def outside_hidden_parts(viewer: Viewer, path: str = "") -> Q:
    """Return the condition on episodes of environments that the person may see. `path`: as of
    `visible_episodes`."""
    return outside_open_studies(viewer, path) & outside_seals(viewer, path)


def outside_open_studies(viewer: Viewer, path: str = "") -> Q:
    """Return the same condition for figures, which count the episodes of sealed splits."""
    if not (studies := open_studies(viewer)):
        return Q()
    plays = apps.get_model("episodes.Play").objects.filter(guest__invite__study__in=studies)
    return ~Q(**{f"{path}pk__in": plays.values("pk")})


def outside_seals(viewer: Viewer, path: str = "") -> Q:
    """Return the condition on episodes that leaves out those of sealed splits, and of their
    tasks."""
    return outside_sealed_splits(viewer, f"{path}environment", f"{path}task", f"{path}split")


def visible_studies(viewer: Viewer) -> Q:
    """Return the condition on studies."""
    condition = visible_splits(viewer, "member__split__")
    return condition & (~Q(pk__in=studies) if (studies := open_studies(viewer)) else Q())


def visible_rollouts(viewer: Viewer) -> Q:
    """Return the condition on rollouts. People from whom something is hidden see no nameless
    ones."""
    condition = own_records(viewer)
    if environments := viewer.hidden_environments:
        condition &= ~(
            Q(episode__environment__in=environments) | Q(hosted_environment__in=environments)
        )
    if viewer.key_label is None and viewer.hides_anything:
        condition &= ~NAMELESS
    return condition & _outside_sealed_rollouts(viewer)


def visible_runs(viewer: Viewer) -> Q:
    """Return the condition on runs. The database reads all episodes of the hidden environments."""
    episodes = apps.get_model("episodes.Episode").objects
    rollouts = apps.get_model("episodes.Rollout").objects
    condition = Q()
    if (key_label := viewer.key_label) is not None:
        own = {"run": OuterRef("pk"), "key_label": key_label}
        condition &= (
            Q(key_label=key_label) | Exists(episodes.filter(**own)) | Exists(rollouts.filter(**own))
        )
    if environments := viewer.hidden_environments:
        of_runs = own_records(viewer) & Q(run__isnull=False)
        # one query would read all rollouts, because no index serves an "or" of two tables
        for rows in (
            episodes.filter(of_runs, environment__in=environments),
            rollouts.filter(of_runs, hosted_environment__in=environments),
            rollouts.filter(of_runs, episode__environment__in=environments),
        ):
            condition &= ~Q(pk__in=rows.order_by().values("run"))
    return condition


def visible_suites(viewer: Viewer) -> Q:
    """Return the condition on suites. One is hidden as a whole if any version of it has a hidden
    environment, or if it was published for a study that is hidden.
    """
    condition = Q()
    if environments := viewer.hidden_environments:
        members = apps.get_model("episodes.SuiteMember").objects.filter(
            environment__in=environments
        )
        condition &= ~Q(pk__in=members.values("version__suite"))
    if studies := open_studies(viewer):
        own = apps.get_model("episodes.Study").objects.filter(pk__in=studies, suite__isnull=False)
        condition &= ~Q(pk__in=own.values("suite"))
    return condition


def _outside_sealed_rollouts(viewer: Viewer) -> Q:
    """Return the condition that leaves out the rollouts of sealed splits: by their episode, or by
    what the client says.

    One without an episode may be of any split of its environment, unless it names another one
    exactly.
    """
    if not (sealed_splits := viewer.sealed_splits):
        return Q()
    splits = Split.objects.filter(
        environment=OuterRef("hosted_environment"), name=OuterRef("split")
    )
    is_sealed, is_open = (
        Exists(splits.filter(pk__in=list(sealed_splits))),
        Exists(splits.exclude(pk__in=list(sealed_splits))),
    )
    of_any = Q(
        ~is_open, episode__isnull=True, hosted_environment__in=sorted(set(sealed_splits.values()))
    )
    return outside_seals(viewer, "episode__") & ~Q(is_sealed) & ~of_any
