"""Writes uploads inside the recorder's transactions, so that they are committed together with the
steps of live play.

Events arrive in any order and may arrive twice. Messages are distinguished by their ids. The row of
a rollout is created by the first event that names it. Of each key of its `rollout_info` the value
with the latest time is stored; of two with the same time the one whose JSON is greater, so that the
order of arrival does not matter.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from environments.database.bulk_writer import BulkWriter, Values
from environments.database.storable import bigint, storable, storable_json
from environments.errors import shorten
from environments.models import Environment
from environments.wire import infinite_place, value_json
from episodes.models import Rollout, RolloutMessage
from episodes.uploads.events import (
    CONTENT,
    EXTRA,
    MAX_CLOCK_SECONDS,
    MAX_PROBLEM_CHARACTERS,
    SUMMARY,
    RolloutStart,
    UploadChunk,
)
from episodes.uploads.start_fields import model_named, run_info_of, word_in

MAX_REMEMBERED = 50_000
MAX_LOOKUP = 500

RolloutKey = tuple[str, str]
"""Label of the API key, id that the client gave the rollout."""
TextStore = Callable[[str], tuple[str, str | None]]
"""Returns the text to store in a row, and the digest of the blob that holds it instead."""
RunChoice = Callable[[Mapping[str, Any], str, float], tuple[int | None, str]]
"""Returns the id of the run of a rollout, or None and why; given its event, the key's label and the
time of arrival."""

NEW_COLUMNS = (
    "key_label",
    "event_id",
    "received",
    "is_announced",
    "name",
    "environment",
    "environment_name",
    "variant",
    "split",
    "model",
    "training_stage",
    "event",
    "info",
    "problem",
)
STATE_COLUMNS = (
    "is_announced",
    "run_id",
    "run_step",
    "name",
    "environment",
    "environment_name",
    "variant",
    "split",
    "task_index",
    "model",
    "model_params",
    "training_stage",
    "event",
    "event_blob_id",
    "info",
    "sent_ms",
    "problem",
    "is_summarised",
    "hosted_environment_id",
)
MESSAGE_COLUMNS = (
    "rollout_id",
    "index",
    "event_id",
    "kind",
    "name",
    "call_id",
    "content",
    "content_blob_id",
    "summary",
    "summary_blob_id",
    "extra",
    "extra_blob_id",
    "reward",
    "is_finished",
    "response_characters",
    "sent_ms",
    "problem",
    "received",
)


class KnownRollouts:
    """Ids of the rollouts that were written lately, and of the environments that they named.

    After a failed transaction everything is forgotten.
    """

    def __init__(self) -> None:
        self._ids: dict[RolloutKey, int] = {}
        self._environments: dict[str, int] = {}

    def forget(self) -> None:
        self._ids.clear()
        self._environments.clear()

    def environments(self, names: Collection[str]) -> Mapping[str, int]:
        """Return the ids of at least those environments of these names that exist. A query if one
        is not known yet."""
        if missing := sorted(name for name in names if name and name not in self._environments):
            rows = Environment.objects.only("name").in_bulk(missing, field_name="name")
            self._environments.update({name: row.pk for name, row in rows.items()})
        return self._environments

    def learn(self, times: Mapping[RolloutKey, float], writer: BulkWriter) -> dict[RolloutKey, int]:
        """Return the id of each rollout; those that don't exist are created, received at the given
        time."""
        if missing := {key: time for key, time in times.items() if key not in self._ids}:
            if len(self._ids) + len(missing) > MAX_REMEMBERED:
                self._ids.clear()
                missing = dict(times)
            empty = ("",) * (len(NEW_COLUMNS) - 4)
            rows = [(*key, writer.time(time), False, *empty) for key, time in missing.items()]
            writer.insert(Rollout, NEW_COLUMNS, rows)
            self._ids.update(rollout_ids(missing))
        return {key: self._ids[key] for key in times}


def rollout_ids(keys: Collection[RolloutKey]) -> dict[RolloutKey, int]:
    """Return the id of each rollout that exists, by key and event id."""
    ids: dict[RolloutKey, int] = {}
    event_ids = sorted({event_id for _, event_id in keys})
    for start in range(0, len(event_ids), MAX_LOOKUP):
        rollouts = Rollout.objects.filter(event_id__in=event_ids[start : start + MAX_LOOKUP])
        rows = rollouts.values_list("key_label", "event_id", "pk")
        ids.update({(label, event_id): pk for label, event_id, pk in rows})
    return ids


@dataclass(slots=True)
class _Change:
    """What a transaction adds to one rollout."""

    start: tuple[RolloutStart, UploadChunk] | None = None
    """The first event that announces it, and its upload."""
    infos: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)


class UploadBatch:
    """The rows of the uploads of one transaction. `prepare` comes first, `write` last."""

    def __init__(
        self, known_rollouts: KnownRollouts, writer: BulkWriter, large: TextStore, run_of: RunChoice
    ) -> None:
        self._known, self._writer, self._large, self._run_of = known_rollouts, writer, large, run_of
        self._messages: list[Values] = []
        self._states: list[Values] = []

    def prepare(self, uploads: Collection[UploadChunk]) -> None:
        """Convert all events to rows. Raises: django.db.Error while ids are looked up."""
        times: dict[RolloutKey, float] = {}
        for upload in uploads:
            event_ids = dict.fromkeys(rollout for rollout, _ in upload.messages)
            for event in upload.events():
                event_ids[event.event_id] = None
            for event_id in event_ids:
                times.setdefault((upload.key_label, event_id), upload.received)
        if not times:
            return
        ids = self._known.learn(times, self._writer)
        for upload in uploads:
            self._add_messages(upload, ids)
        self._prepare_states(uploads, ids)

    def write(self) -> None:
        """Write the rows. Blobs that they refer to are written by the caller. Raises:
        django.db.Error."""
        self._writer.update(Rollout, STATE_COLUMNS, self._states)
        self._writer.insert(RolloutMessage, MESSAGE_COLUMNS, self._messages)

    def _add_messages(self, upload: UploadChunk, ids: Mapping[RolloutKey, int]) -> None:
        label, large, add = upload.key_label, self._large, self._messages.append
        moment = self._writer.time(upload.received)
        for rollout, values in upload.messages:
            add(
                (
                    ids[label, rollout],
                    *values[:CONTENT],
                    *large(values[CONTENT]),
                    *large(values[SUMMARY]),
                    *large(values[EXTRA]),
                    *values[EXTRA + 1 :],
                    moment,
                )
            )

    def _prepare_states(
        self, uploads: Iterable[UploadChunk], ids: Mapping[RolloutKey, int]
    ) -> None:
        changes = defaultdict[int, _Change](_Change)
        environments = self._known.environments(
            {start.environment_name for upload in uploads for start in upload.starts}
        )
        for upload in uploads:
            for event in upload.events():
                change = changes[ids[upload.key_label, event.event_id]]
                if isinstance(event, RolloutStart) and change.start is None:
                    change.start = event, upload
                if event.info is not None:
                    received_ms = int(upload.received * 1000)
                    sent_ms = received_ms if event.sent_ms is None else event.sent_ms
                    change.infos.append((sent_ms, event.info))
        numbers = list(changes)
        for first in range(0, len(numbers), MAX_LOOKUP):
            rows = Rollout.objects.filter(pk__in=numbers[first : first + MAX_LOOKUP])
            for state in rows.values("id", *STATE_COLUMNS):
                self._change(state, changes[state["id"]], environments)

    def _change(
        self, state: dict[str, Any], change: _Change, environments: Mapping[str, int]
    ) -> None:
        if change.start is not None and not state["is_announced"]:
            start, upload = change.start
            state |= self._start(start, upload.key_label, upload.received)
            name = start.environment_name
            state["hosted_environment_id"] = (
                None if name in upload.hidden_environments else environments.get(name)
            )
        info = merged(json.loads(state["info"] or "{}"), change.infos)
        latest = {key: value for key, (_, value) in info.items()}
        state["info"] = storable_json(value_json(info)) if info else ""
        state["is_summarised"] = False
        state["task_index"] = _number(latest.get("task_index"))
        if state["run_step"] is None:
            state["run_step"] = _number(latest.get("current_step"))
        self._states.append((*(state[name] for name in STATE_COLUMNS), state["id"]))

    def _start(self, start: RolloutStart, key_label: str, now: float) -> dict[str, Any]:
        """Return the columns that the event of the rollout sets."""
        fields, run_info = start.fields, run_info_of(start.fields)
        run, reason = self._run_of(fields, key_label, now)
        problems = [*_problems(start, now), *filter(None, [reason])]
        text, blob = self._large(storable_json(value_json(fields)))
        return {
            "is_announced": True,
            "run_id": run,
            "run_step": _number(fields.get("step")),
            "name": word_in(fields, "rolloutName", 300),
            "environment": word_in(fields, "environment", 300),
            "environment_name": start.environment_name,
            "variant": word_in(fields, "variant"),
            "split": word_in(fields, "split"),
            "model": model_named(fields),
            "model_params": _number(run_info.get("model_params")),
            "training_stage": word_in(run_info, "training_stage", 20),
            "event": text,
            "event_blob_id": blob,
            "sent_ms": start.sent_ms,
            "problem": "; ".join(problems)[:MAX_PROBLEM_CHARACTERS],
        }


def merged(
    info: Mapping[str, list[Any]], changes: Iterable[tuple[int, Mapping[str, Any]]]
) -> dict[str, list[Any]]:
    """Return `info` with the values of `changes` that are later. By key of rollout_info, it has the
    time in ms and the value."""
    latest = dict(info)
    for time, values in changes:
        for key, value in values.items():
            old = latest.get(key := storable(key))
            is_later = old is None or (time, value_json(value)) > (old[0], value_json(old[1]))
            if value is not None and is_later:
                latest[key] = [time, value]
    return latest


def _number(value: Any) -> int | None:
    return bigint(value) if type(value) is int else None


_TEXTS = {"runName": 200, "rolloutName": 300, "environment": 300, "variant": 200, "split": 200}
"""Texts of a rollout, and how many characters of each its columns hold. Its `event` has them
whole."""
_OBJECTS = ("metadata", "task_spec", "run_info", "rollout_info")


def _problems(start: RolloutStart, now: float) -> Iterable[str]:
    fields = start.fields
    if not isinstance(fields.get("runName"), str) or not fields["runName"]:
        yield "no runName"
    if start.sent_ms is None:
        yield "no valid timestamp"
    elif abs(ahead := start.sent_ms / 1000 - now) > MAX_CLOCK_SECONDS:
        side = "ahead of" if ahead > 0 else "behind"
        yield f"the client's clock is {abs(ahead):.0f} s {side} this server's"
    for name, limit in _TEXTS.items():
        text = fields.get(name, "")
        if not isinstance(text, str | None):
            yield f"{name} wasn't a text"
        elif text and len(text) > limit:
            yield f"{name} had more than {limit} characters"
        elif text and storable(text) != text:
            yield f"{name} had characters that cannot be stored"
    if fields.get("step") is not None and _number(fields["step"]) is None:
        yield "step wasn't a whole number"
    for name in _OBJECTS:
        if not isinstance(fields.get(name), dict | None):
            yield f"{name} wasn't an object"
        elif storable_json(text := value_json(fields.get(name))) != text:
            yield f"{name} had characters that cannot be stored"
    if (place := infinite_place(fields)) is not None:
        yield f"{shorten(place, 80)} wasn't a finite number"
