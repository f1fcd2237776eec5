"""Writes the uploaded rollouts of an episode as a member of its line, which `rollout_line.py`
parses.

A guess is written, too: after an import the rollouts look for their episodes again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from django.db.models import Q

from episodes.models import Rollout, RolloutMessage
from episodes.transfer.embedded_json import embedded

BATCH_MESSAGES = 200
"""Messages that one query reads."""
_ROLLOUT_COLUMNS = (
    *(
        "event_id",
        "is_announced",
        "run_step",
        "name",
        "environment",
        "environment_name",
        "variant",
        "split",
    ),
    *("task_index", "model", "model_params", "training_stage", "sent_ms", "problem"),
)
_MESSAGE_COLUMNS = (
    "index",
    "event_id",
    "kind",
    "name",
    "call_id",
    "reward",
    "is_finished",
    "sent_ms",
    "problem",
)


class EpisodeUploads:
    """The rollouts of `episodes`. Takes a query on first use, and one for every BATCH_MESSAGES
    messages."""

    def __init__(self, episodes: Sequence[int]) -> None:
        self._episodes = episodes

    def pieces(self, episode: int) -> Iterator[str]:
        """Yield the member `, "rollouts": […]` in pieces of a message each; nothing if there are no
        rollouts."""
        between = ', "rollouts": ['
        for rollout in self._found.get(episode, ()):
            head = json.dumps(rollout_values(rollout))[:-1]
            texts = embedded("event", rollout.event_json) + embedded("info", rollout.info)
            yield f'{between}{head}{texts}, "messages": ['
            for place, message in enumerate(_messages(rollout)):
                yield ("" if place == 0 else ", ") + _message(message)
            yield "]}"
            between = ", "
        if episode in self._found:
            yield "]"

    @cached_property
    def _found(self) -> dict[int, list[Rollout]]:
        rows = (
            Rollout.objects.filter(episode__in=self._episodes)
            .select_related("run", "event_blob")
            .order_by("pk")
        )
        found: dict[int, list[Rollout]] = {}
        for rollout in rows:
            if rollout.episode_id is not None:
                found.setdefault(rollout.episode_id, []).append(rollout)
        return found


NO_UPLOADS = EpisodeUploads(())


def rollout_values(rollout: Rollout) -> dict[str, Any]:
    """Return a rollout as values of JSON, without the exact texts."""
    values = {name: getattr(rollout, name) for name in _ROLLOUT_COLUMNS}
    return values | {
        "run": rollout.run.name if rollout.run else None,
        "received": rollout.received.isoformat(),
    }


def _messages(rollout: Rollout) -> Iterator[RolloutMessage]:
    """Yield the messages in order. Each query is read to its end, so no transaction stays open in
    between."""
    blobs = ("content_blob", "summary_blob", "extra_blob")
    ordered, rest = rollout.messages.order_by("index", "pk").select_related(*blobs), Q()
    while batch := list(ordered.filter(rest)[:BATCH_MESSAGES]):
        yield from batch
        last = batch[-1]
        rest = Q(index__gt=last.index) | Q(index=last.index, pk__gt=last.pk)


def _message(message: RolloutMessage) -> str:
    texts = {"content": message.text, "summary": message.summary_text}
    values = {name: getattr(message, name) for name in _MESSAGE_COLUMNS} | texts
    if values["reward"] is not None:
        # SQLite drops the sign of -0.0, and both databases must give the same file
        values["reward"] += 0.0
    told = {
        name: value
        for name, value in values.items()
        if value not in (None, "") and value is not False
    }
    head = json.dumps({"kind": ""} | told | {"received": message.received.isoformat()})
    return f"{head[:-1]}{embedded('extra', message.extra_json)}}}"
