"""Blinding: whose page must not show the record of an episode yet. For every face that shows single episodes or tasks.

Whoever plays an episode blind is told its rewards and its answer when it has ended. Until then the rest of the server
tells them nothing of it either, and has no page of its task; everybody else with a login may watch. Open stay a task's
line in lists, which is without its class's `hidden_fields`, the admin's pages of tasks and splits, where curators see
everything, and what was recorded of others who played the same task.
"""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from episodes.models import Play


def blind_to(user: Any) -> QuerySet[Play, int]:
    """Ids of the running episodes that `user` plays blind; of nobody, where it is no account."""
    pk = getattr(user, "pk", None)
    running = Play.objects.filter(user=pk, guest=None, is_blind=True, episode__status="running")
    return (running if pk is not None else Play.objects.none()).values_list("pk", flat=True)


def is_blind_to(user: Any, episode: int) -> bool:
    """One query."""
    return blind_to(user).filter(pk=episode).exists()


def blind_tasks(user: Any) -> QuerySet[Play, int]:
    """Ids of the tasks that `user` plays blind."""
    return blind_to(user).values_list("episode__task", flat=True)


def blind_episode(user: Any, task: int) -> int | None:
    """The running episode in which `user` plays that task blind. One query."""
    return blind_to(user).filter(episode__task=task).first()


def sentence(episode: int) -> str:
    return (
        f"You play episode {episode} blind, and it still runs: what is recorded of it is shown to you once it has "
        "ended. Others may watch."
    )


def task_sentence(episode: int) -> str:
    return f"You play this task blind in episode {episode}, which still runs: it is shown to you once it has ended."
