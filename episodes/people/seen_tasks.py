"""Which tasks people have seen on pages, so that playing them later is no first attempt.

`SeenTaskMiddleware` notices pages of a task and of its episodes, which show hidden fields, metadata
or the end. In a server one thread writes the rows, so no page waits for the database's other
writers; other processes write at once. Guests get no such page. Lists, exports and the API are not
noticed: agents and scripts use them in a person's name.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from queue import Full, Queue
from typing import NamedTuple

import structlog
from django.db import Error, connections
from django.http import HttpRequest, HttpResponse

from environments.database.storable import id_in
from environments.models import Task
from episodes.models import Play, SeenTask

_TASK = "admin:environments_task_"
TASK_PAGES = {"task", "group", *(_TASK + name for name in ("change", "edit", "prompt", "spec"))}
_PARTS = ("preview", "text", "conversation", "rollout", "messages", "step_json")
EPISODE_PAGES = {
    "episode",
    *(f"episode_{name}" for name in _PARTS),
    "admin:episodes_episode_change",
}
MAX_COMPARED = 8
MAX_QUEUED = 10_000
MAX_STOP_SECONDS = 2.0

log = structlog.get_logger(__name__)


class Sight(NamedTuple):
    """What a person has opened: a task, or episodes."""

    user: int
    task: int | None
    episodes: tuple[int, ...]


class SeenTasks:
    """The sights of this process on their way to the database."""

    def __init__(self) -> None:
        self._queue: Queue[Sight | None] = Queue(MAX_QUEUED)
        self._thread: threading.Thread | None = None

    def take(self, sight: Sight) -> None:
        if self._thread is None:
            _write(sight)
        else:
            with contextlib.suppress(Full):  # the database is away
                self._queue.put_nowait(sight)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="seen-tasks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is queued and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(MAX_STOP_SECONDS)

    def _run(self) -> None:
        while (sight := self._queue.get()) is not None:
            try:
                _write(sight)
            except Error:
                log.exception("a seen task was not noted")
                connections.close_all()
        connections.close_all()


def _write(sight: Sight) -> None:
    """Note the tasks of a sight, and that running plays of them are no first attempts any more."""
    rows = (
        Task.objects.filter(pk=sight.task)
        if sight.task
        else Task.objects.filter(episodes__in=sight.episodes)
    )
    earlier = SeenTask.objects.filter(user=sight.user)
    new = rows.exclude(pk__in=earlier.values("task")).values_list("pk", flat=True).distinct()
    tasks = [SeenTask(user_id=sight.user, task_id=pk) for pk in new]
    if not tasks:
        return
    SeenTask.objects.bulk_create(tasks, ignore_conflicts=True)
    running = Play.objects.filter(
        user=sight.user, guest=None, is_repeat=False, episode__status="running"
    )
    running.filter(episode__task__in=[task.task_id for task in tasks]).update(is_repeat=True)


_seen_tasks = SeenTasks()
start = _seen_tasks.start
stop = _seen_tasks.stop


class SeenTaskMiddleware:
    """Notes the tasks of the pages that a person gets."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        match = request.resolver_match
        if response.status_code == 200 and match is not None:
            task, episodes = _tasks_of_page(request, match.view_name, match.kwargs)
            if (task or episodes) and request.user.is_authenticated:
                _seen_tasks.take(Sight(request.user.pk, task, tuple(episodes)))
        return response


def _tasks_of_page(
    request: HttpRequest, page: str, arguments: dict[str, object]
) -> tuple[int | None, Sequence[int]]:
    """Return the task or the episodes that a page shows."""
    pk = id_in(str(arguments.get("pk", arguments.get("object_id", ""))))
    if page in TASK_PAGES:
        return pk, ()
    if page in EPISODE_PAGES and pk is not None:
        return None, (pk,)
    if page == "compare":
        ids = (
            id_in(text.strip())
            for text in request.GET.get("episodes", "").split(",")[:MAX_COMPARED]
        )
        return None, [episode for episode in ids if episode is not None]
    return None, ()
