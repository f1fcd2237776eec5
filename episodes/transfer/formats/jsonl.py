"""Writes episodes as JSON Lines without loss, one episode per line, which `importing.py` can
import.

`docs/dashboard.md` has the schema of a line; `episode_line.py` parses it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from json.encoder import encode_basestring_ascii as _text
from typing import Any

from environments.database.storable import finite
from environments.scoring.convention import Convention
from episodes.models import EnvironmentRevision, Rollout, RolloutMessage, Run
from episodes.transfer.conversations import messages_of
from episodes.transfer.embedded_json import SCHEMA, exact_member
from episodes.transfer.export_file import ExportFile
from episodes.transfer.export_rows import DEFINING, PLAY_COLUMNS, Recorded
from episodes.transfer.formats import ExportFormat, ExportLink

LINE_COLUMNS = (
    "task_index",
    "session_id",
    "user_agent",
    "key_label",
    "player",
    "run_step",
    "model",
    "status",
    "cause",
    "detail",
    "is_probe",
    "steps_count",
    "failed_count",
    "refused_count",
    "return_sum",
    "return_last",
    "return_max",
    "return_mean",
    "duration_seconds",
)
"""Columns of an episode that a line and an import take as they are."""
ROLLOUT_COLUMNS = (
    "event_id",
    "is_announced",
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
    "sent_ms",
    "problem",
)
"""Columns of an uploaded rollout that a line and an import take as they are."""
_TIMES = ("created", "ready", "first_acted", "last_acted", "ended")
_DESCRIPTION = ("step", "state", "git_commit", "notes")
_REVISION = ("code", "digest", "source_hash", "git_commit", "is_dirty")
_MESSAGE = (
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


def lines(file: ExportFile) -> Iterator[str]:
    """Yield the lines in pieces of at most one step or message, because an episode may be larger
    than memory."""
    heads = LineHeads(has_additions=file.has_additions)
    for episode in file.recorded():
        success = episode.facts.success_by(file.options.definition)
        yield f'{heads.head(episode)}, "success": {_encode(success)}'
        if rollouts := episode.additions.rollouts.get(episode.facts.id):
            yield from _rollouts_member(rollouts)
        yield ', "steps": ['
        between = ""
        for step in episode.steps:
            # formatting it here is three times as fast as a JSON encoder
            yield (
                f'{between}{{"index": {step.number}, "tool": {_text(step.tool)}, '
                f'"status": {_text(step.status)}, "reason": {_text(step.reason)}, '
                f'"error": {_text(step.error)}, "reward": {_number(step.reward)}, '
                f'"finished": {"true" if step.finished else "false"}, '
                f'"task_id": {_text(step.task_id)}, "started": "{_time(step.started)}", '
                f'"duration_ms": {_number(step.duration_ms)}, '
                f'"waited_ms": {_number(step.waited_ms)}'
                f"{exact_member('input', step.input)}{exact_member('output', step.output)}}}"
            )
            between = ", "
        yield "]}\n"


FORMATS = [
    ExportFormat(
        name="jsonl",
        label="JSONL",
        position=1,
        media_type="application/jsonl",
        extension="jsonl",
        pieces=lines,
        links=[ExportLink("JSONL", "all data; ended episodes can be imported again")],
        is_importable=True,
    )
]


class LineHeads:
    """Writes the beginnings of the lines of one file."""

    def __init__(self, *, has_additions: bool = True) -> None:
        """Create the heads; `has_additions` says whether to write what people added (plays and
        notes)."""
        self._has_additions = has_additions
        self._revisions: dict[int, dict[str, Any]] = {}
        self._runs: set[str] = set()
        """Names of the runs that a line has described."""

    def head(self, episode: Recorded, embed: Callable[[str, str], str] = exact_member) -> str:
        """Return the line up to its rollouts and steps: an object without its closing brace.

        `embed`: returns the member for a key and an exact JSON text, and nothing for an empty text.
        """
        facts = episode.facts
        environment = {
            "name": facts.environment,
            **{name: getattr(facts, name) for name in DEFINING},
            "convention": asdict(Convention.from_code(facts.convention)),
        }
        split = None if facts.split is None else {"name": facts.split, "type": facts.split_type}
        head = {"orsweb": SCHEMA, "id": facts.id, "environment": environment, "split": split}
        columns = {name: _unsigned(getattr(facts, name)) for name in (*LINE_COLUMNS, "end_number")}
        if facts.revision is not None:
            columns["revision"] = self._revision_values(facts.revision)
        columns["run"] = None if facts.run is None else self._run_values(facts.run, episode)
        columns |= {name: _time(getattr(facts, name)) for name in _TIMES}
        texts = [
            f', "task": {{"hash": "{facts.content_hash}"{embed("spec", facts.spec)}}}, ',
            _json(columns)[1:-1],
            embed("labels", facts.labels),
            embed("prompt", episode.prompt),
            embed("tools", episode.tools),
            _play_and_notes(episode) if self._has_additions else "",
        ]
        return _json(head)[:-1] + "".join(texts)

    def _revision_values(self, number: int) -> dict[str, Any]:
        """Return the code of an environment. One query for each revision."""
        if number not in self._revisions:
            row = EnvironmentRevision.objects.get(pk=number)
            values = {name: getattr(row, name) for name in _REVISION}
            values |= {"versions": row.version_of, "created": _time(row.created)}
            self._revisions[number] = values
        return self._revisions[number]

    def _run_values(self, name: str, episode: Recorded) -> dict[str, Any]:
        """Return the run. Its first line in the file has what its trainer said about it, which may
        be long. One query for each run."""
        facts = episode.facts
        values: dict[str, Any] = {
            "name": name,
            "model": facts.run_model,
            "created": _time(facts.run_created),
        }
        if facts.run_number != 1:
            values |= {"title": facts.run_title, "number": facts.run_number}
        if facts.run_own_id:
            values["run_id"] = facts.run_own_id
        if name not in self._runs:
            self._runs.add(name)
            run = Run.objects.prefetch_related("tags").get(name=name)
            if run.updated is not None:
                values["description"] = {
                    **{column: getattr(run, column) for column in _DESCRIPTION},
                    "config": json.loads(run.config) if run.config else None,
                    "tags": run.tag_names,
                    "updated": _time(run.updated),
                }
        return values


def _play_and_notes(episode: Recorded) -> str:
    """Return these members of the line, each preceded by a comma."""
    number, text = episode.facts.id, ""
    if (play := episode.additions.plays.get(number)) is not None:
        values = {name: play[name] for name in PLAY_COLUMNS}
        values["parent"] = play["parent"] and {
            "id": play["parent"],
            "session_id": play["parent__session_id"],
            "created": _time(play["parent__created"]),
        }
        values["parent_step"] = play["parent_step"]
        text += f', "play": {_json(values)}'
    if notes := episode.additions.notes.get(number):
        rows = [_json(note | {"created": _time(note["created"])}) for note in notes]
        text += f', "notes": [{", ".join(rows)}]'
    return text


def rollout_values(rollout: Rollout) -> dict[str, Any]:
    """Return a rollout as values of JSON, without the exact texts."""
    values = {name: getattr(rollout, name) for name in ROLLOUT_COLUMNS}
    return values | {
        "run": rollout.run.name if rollout.run else None,
        "received": rollout.received.isoformat(),
    }


def _rollouts_member(rollouts: Sequence[Rollout]) -> Iterator[str]:
    """Yield the member of the line, preceded by a comma."""
    between = ', "rollouts": ['
    for rollout in rollouts:
        head = json.dumps(rollout_values(rollout))[:-1]
        texts = exact_member("event", rollout.event_json) + exact_member("info", rollout.info)
        yield f'{between}{head}{texts}, "messages": ['
        for place, message in enumerate(messages_of(rollout)):
            yield ("" if place == 0 else ", ") + _message(message)
        yield "]}"
        between = ", "
    yield "]"


def _message(message: RolloutMessage) -> str:
    values = {name: _unsigned(getattr(message, name)) for name in _MESSAGE}
    values |= {"content": message.text, "summary": message.summary_text}
    values = {
        name: value
        for name, value in values.items()
        if value not in (None, "") and value is not False
    }
    head = json.dumps({"kind": ""} | values | {"received": message.received.isoformat()})
    return f"{head[:-1]}{exact_member('extra', message.extra_json)}}}"


def _number(value: float | None) -> str:
    """Return a number as JSON. Infinities, which only rows edited by hand hold, become the largest
    numbers."""
    return "null" if (number := finite(value)) is None else repr(_unsigned(number))


def _unsigned(value: Any) -> Any:
    """Return -0.0 as 0.0, because SQLite drops its sign and both databases must give the same
    file."""
    return 0.0 if value == 0.0 and isinstance(value, float) else value


def _time(moment: datetime | None) -> str | None:
    """Return a time as ISO 8601 with microseconds, in UTC."""
    return None if moment is None else moment.isoformat()


_encode = json.JSONEncoder(allow_nan=False).encode


def _json(values: Mapping[str, Any]) -> str:
    try:
        return _encode(values)
    except ValueError:  # an infinity in a row edited by hand
        return _encode(
            {
                key: finite(value) if isinstance(value, float) else value
                for key, value in values.items()
            }
        )
