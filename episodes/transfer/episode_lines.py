"""Writes episodes as JSON Lines without loss, one episode per line, which `importing.py` can
import.

`docs/dashboard.md` has the schema of a line; `episode_line.py` parses it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime
from json.encoder import encode_basestring_ascii as _text
from typing import Any

from environments.database.storable import finite
from environments.scoring.convention import Convention
from episodes.models import EnvironmentRevision, Run
from episodes.transfer.embedded_json import embedded
from episodes.transfer.export_source import (
    DEFINING,
    EpisodeFacts,
    ExportedPlay,
    ExportedStep,
    Recorded,
)

SCHEMA = "episode/1"

_UNCHANGED = (
    *("task_index", "session_id", "user_agent", "key_label", "player", "run_step", "model"),
    *("status", "cause", "detail", "is_probe", "steps_count", "failed_count", "refused_count"),
    *("return_sum", "return_last", "return_max", "return_mean", "duration_seconds", "end_number"),
)
_TIMES = ("created", "ready", "first_acted", "last_acted", "ended")


class EpisodeLines:
    """Writes one file; see `exporting.EpisodeFileWriter`."""

    needs_steps = True

    def __init__(self, *, has_additions: bool = True) -> None:
        """Create the lines; `has_additions` says whether to write what people added (plays and
        notes)."""
        self._has_additions = has_additions
        self._revisions: dict[int, dict[str, Any]] = {}
        self._described: set[str] = set()

    def start(self) -> str:
        return ""

    def write(self, episode: Recorded) -> Iterator[str]:
        """Yield the line in pieces of at most one step or message, because an episode may be larger
        than memory."""
        yield self.head(episode)
        yield from episode.uploads.pieces(episode.facts.id)
        yield ', "steps": ['
        between = ""
        for step in episode.steps:
            yield between + _step(step)
            between = ", "
        yield "]}\n"

    def head(self, episode: Recorded, embed: Callable[[str, str], str] = embedded) -> str:
        """Return the line up to its rollouts and steps: an object without its closing brace.

        `embed`: returns the member for a key and an exact JSON text, and nothing for an empty text.
        """
        facts = episode.facts
        head = _json(
            {
                "orsweb": SCHEMA,
                "id": facts.id,
                "environment": _environment(facts),
                "split": _split(facts),
            }
        )
        task = f'{{"hash": "{facts.content_hash}"{embed("spec", facts.spec)}}}'
        own = {name: _unsigned(getattr(facts, name)) for name in _UNCHANGED}
        rest = _json(own | self._revision(facts) | {"run": self._run(facts)} | _times(facts))
        texts = (("labels", facts.labels), ("prompt", episode.prompt), ("tools", episode.tools))
        exact = "".join(embed(*text) for text in texts)
        return (
            f'{head[:-1]}, "task": {task}, '
            f"{rest[1:-1]}{exact}{_added(episode) if self._has_additions else ''}"
        )

    def end(self) -> str:
        return ""

    def _revision(self, facts: EpisodeFacts) -> dict[str, Any]:
        """Return the member about the code of the environment; none if it is unknown. One query for
        each revision."""
        if facts.revision is None:
            return {}
        if facts.revision not in self._revisions:
            self._revisions[facts.revision] = _revision(
                EnvironmentRevision.objects.get(pk=facts.revision)
            )
        return {"revision": self._revisions[facts.revision]}

    def _run(self, facts: EpisodeFacts) -> dict[str, Any] | None:
        """Return the run. Its first line in the file has the description, which may be long. One
        query for each run."""
        if facts.run is None:
            return None
        found: dict[str, Any] = {
            "name": facts.run,
            "model": facts.run_model,
            "created": _time(facts.run_created),
        }
        if facts.run_number != 1:
            found |= {"title": facts.run_title, "number": facts.run_number}
        if facts.run_own_id:
            found["run_id"] = facts.run_own_id
        if facts.run in self._described:
            return found
        self._described.add(facts.run)
        run = Run.objects.prefetch_related("tags").get(name=facts.run)
        return found if run.updated is None else {**found, "description": _description(run)}


def _added(episode: Recorded) -> str:
    """Return the members of the line that people added, each preceded by a comma."""
    number, text = episode.facts.id, ""
    if (play := episode.additions.play(number)) is not None:
        text += f', "play": {_json(_play(play))}'
    if notes := episode.additions.notes(number):
        text += (
            ', "notes": '
            f"[{', '.join(_json(note._asdict() | {'created': _time(note.created)}) for note in notes)}]"
        )
    return text


def _play(play: ExportedPlay) -> dict[str, Any]:
    names = ("is_blind", "is_repeat", "counts_left", "is_excluded", "paused_seconds", "differs_at")
    values: dict[str, Any] = {name: getattr(play, name) for name in names}
    if play.parent is None:
        return values | {"parent": None, "parent_step": play.parent_step}
    parent = {
        "id": play.parent,
        "session_id": play.parent_session,
        "created": _time(play.parent_created),
    }
    return values | {"parent": parent, "parent_step": play.parent_step}


def _environment(facts: EpisodeFacts) -> dict[str, Any]:
    own = {name: getattr(facts, name) for name in DEFINING}
    return {
        "name": facts.environment,
        **own,
        "convention": asdict(Convention.from_code(facts.convention)),
    }


def _revision(row: EnvironmentRevision) -> dict[str, Any]:
    names = ("code", "digest", "source_hash", "git_commit", "is_dirty")
    own = {name: getattr(row, name) for name in names}
    return {**own, "versions": row.version_of, "created": _time(row.created)}


def _description(run: Run) -> dict[str, Any]:
    """Return what the trainer said about a run."""
    own = {name: getattr(run, name) for name in ("step", "state", "git_commit", "notes")}
    config = json.loads(run.config) if run.config else None
    return {**own, "config": config, "tags": run.tag_names, "updated": _time(run.updated)}


def _split(facts: EpisodeFacts) -> dict[str, Any] | None:
    return None if facts.split is None else {"name": facts.split, "type": facts.split_type}


def _times(facts: EpisodeFacts) -> dict[str, str | None]:
    return {name: _time(getattr(facts, name)) for name in _TIMES}


def _step(step: ExportedStep) -> str:
    """Return a step as JSON. Formatting it here is three times as fast as a JSON encoder."""
    return (
        f'{{"index": {step.number}, "tool": {_text(step.tool)}, "status": {_text(step.status)}, '
        f'"reason": {_text(step.reason)}, "error": {_text(step.error)}, "reward": '
        f"{_number(step.reward)}, "
        f'"finished": {"true" if step.finished else "false"}, "task_id": {_text(step.task_id)}, '
        f'"started": "{_time(step.started)}", "duration_ms": {_number(step.duration_ms)}, '
        '"waited_ms": '
        f"{_number(step.waited_ms)}{embedded('input', step.input)}{embedded('output', step.output)}}}"
    )


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


def _json(values: dict[str, Any]) -> str:
    try:
        return _encode(values)
    except ValueError:  # an infinity in a row edited by hand
        return _encode(
            {
                key: finite(value) if isinstance(value, float) else value
                for key, value in values.items()
            }
        )
