"""What exists for a person, what is hidden while they play blind, and what people and API keys may
not read of tasks.

The first two are used by all pages of single episodes and tasks, the third by pages, exports and
the API.

Nothing of a private environment exists for people who are not its members, nor a task of a split
that is sealed for people for those who may not see hidden fields
(`environments/access/privacy.py`), nor an episode of a study that is not closed for people who may
not make studies. The functions about that make a query about
the thing only if something is hidden from the person; otherwise they say yes without looking.

A person who plays an episode blind sees its rewards and its answer when it has ended. Until then no
page shows them that episode or its task; other accounts may watch. Three things stay visible: a
task's line in lists, which does not contain the `hidden_fields` of its class; the admin's pages of
tasks and splits, where curators see everything; and the episodes of other players at the same task.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

from django.db.models import QuerySet

from environments.access.permissions import SEE_HIDDEN
from environments.access.privacy import viewer_of
from environments.keys.agent_key import ADMIN, CURATE, EVERYBODY, SCOPES, AgentKey
from environments.keys.task_view import public_hash, visible_spec
from environments.models import Split, SplitEntry, Task, Viewer
from environments.models.viewer import visible_tasks
from environments.service import hidden_fields
from episodes.models import Episode, Play, Run
from episodes.models.privacy import visible_episodes, visible_runs


def sees_episode(user: Any, pk: int) -> bool:
    """Return whether the episode exists for the person."""
    condition = visible_episodes(viewer_of(user))
    return not condition or Episode.objects.filter(condition, pk=pk).exists()


def sees_task(user: Any, pk: int) -> bool:
    """Return whether the task exists for the person."""
    condition = visible_tasks(viewer_of(user))
    return not condition or Task.objects.filter(condition, pk=pk).exists()


def sees_run(user: Any, pk: int) -> bool:
    """Return whether the run exists for the person."""
    condition = visible_runs(viewer_of(user))
    return not condition or Run.objects.filter(condition, pk=pk).exists()


def blind_to(user: Any) -> QuerySet[Play, int]:
    """Return the ids of the running episodes that `user` plays blind; none for a visitor without an
    account."""
    pk = getattr(user, "pk", None)
    if pk is None:
        return Play.objects.none().values_list("pk", flat=True)
    running = Play.objects.filter(user=pk, guest=None, is_blind=True, episode__status="running")
    return running.values_list("pk", flat=True)


def sight_of(user: Any) -> tuple[object, ...]:
    """Return what lists of episodes show to `user` differently from others: what exists for them,
    and the ids of the running episodes that they play blind.
    """
    return viewer_of(user), tuple(blind_to(user))


def is_blind_to(user: Any, episode: int) -> bool:
    """Return whether `user` plays that episode blind and it still runs. One query."""
    return blind_to(user).filter(pk=episode).exists()


def blind_tasks(user: Any) -> QuerySet[Play, int]:
    """Return the ids of the tasks that `user` plays blind."""
    return blind_to(user).values_list("episode__task", flat=True)


def blind_episode(user: Any, task: int) -> int | None:
    """Return the running episode in which `user` plays that task blind. One query."""
    return blind_to(user).filter(episode__task=task).first()


def sentence(episode: int) -> str:
    """Return the sentence about why a page does not show that episode."""
    return (
        f"You're playing episode {episode} blind. You can see its record once the episode has "
        "ended."
    )


def task_sentence(episode: int) -> str:
    """Return the sentence about why a page does not show the task of that episode."""
    return (
        f"You're playing this task blind in episode {episode}. You can see it once the episode has "
        "ended."
    )


READER = AgentKey("", frozenset(SCOPES) - {CURATE, ADMIN})
"""What a person may do by the API who does not see hidden fields."""


def key_of_person(user: Any) -> AgentKey:
    """Return the key that stands for what a person may do."""
    return EVERYBODY if user.has_perm(SEE_HIDDEN) else READER


def content_of(fields: Sequence[Labelled], environment: str, guard: TaskGuard) -> dict[str, Any]:
    """Return the parts of a task as template variables: `spec`, and those hidden from agents as
    `hidden`.

    All are hidden without a class (`is_hosted` is then false). `withheld` is the number of those
    that the reader may not see either.
    """
    names = hidden_fields(environment)
    apart = [field for field in fields if names is None or field.label in names]
    return {
        "spec": [field for field in fields if field not in apart],
        "hidden": apart if guard.reads_all else [],
        "withheld": 0 if guard.reads_all else len(apart),
        "is_hosted": names is not None,
    }


class Labelled(Protocol):
    """A part of a task."""

    @property
    def label(self) -> str: ...


class TaskGuard:
    """What may be read of tasks without the scope `curate`: no hidden fields, and for keys no tasks
    of sealed splits.

    People read the tasks of splits that are sealed for keys alone, whose prompts they see in
    replays. The tasks of those that are sealed for people, too, do not exist for them.
    """

    def __init__(self, viewer: Viewer) -> None:
        self._reads_all, self._keeps_seals = viewer.reads_hidden_fields, viewer.is_key

    @property
    def reads_all(self) -> bool:
        """Whether the reader may read hidden fields."""
        return self._reads_all

    def hash(self, content_hash: str) -> str:
        """Return the hash that identifies a task for the reader."""
        return content_hash if self._reads_all else public_hash(content_hash)

    def spec(self, task: int, environment: str, spec: str) -> str:
        """Return what the reader may read of a task, as JSON; empty if that is nothing."""
        if self._reads_all:
            return spec
        hidden_names = hidden_fields(environment)
        return visible_spec(
            spec, hidden_names, is_sealed=hidden_names is not None and self.is_sealed(task)
        )

    def is_sealed(self, task: int) -> bool:
        """Return whether the reader may not read the task because it is in a sealed split or was
        played from one."""
        if self._reads_all or not self._keeps_seals or not self._sealed:
            return False
        places = SplitEntry.objects.filter(task=task, until=None, split__in=self._sealed)
        return places.exists() or Episode.objects.filter(task=task, split__in=self._sealed).exists()

    @cached_property
    def _sealed(self) -> list[int]:
        return list(Split.objects.filter(is_sealed=True).values_list("pk", flat=True))
