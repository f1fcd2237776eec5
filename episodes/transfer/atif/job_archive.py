"""Writes episodes as a zip of a Harbor job: a directory per episode with its trajectory, its result
and its images.

    unzip episodes.harbor.zip -d jobs
    harbor view jobs
    harbor traces export --path jobs

Unlike a line, a trajectory in a directory has its images as files, which Harbor's viewer shows. The
reward of a trial is the return of the episode; an episode that the machinery failed has an
exception instead.

`harbor traces export` accepts only trials of agents that Harbor itself ships, so the configuration
of each trial names one of them. The result of the trial and the trajectory name the agent that
played.
"""

from __future__ import annotations

import base64
import binascii
import json
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from django.utils.text import slugify

from environments.database.storable import digest_of
from environments.files.output import TakenFile
from environments.scoring.definition import DefinitionAsked
from episodes.attempts.rule import FAILURES
from episodes.transfer.atif.lines import Trajectories
from episodes.transfer.atif.steps import data_of
from episodes.transfer.export_source import EpisodeFacts, Recorded
from episodes.transfer.training import TrainingFile

JOB = "orsweb"
"""Name of the job's directory."""
HARBOR_AGENT = "terminus-2"
"""An agent that Harbor ships and that writes ATIF."""
TRAJECTORY = "agent/trajectory.json"
MAX_MEMORY_BYTES = 4 * 1024 * 1024
"""Size of the images of a trajectory from which they are collected in a temporary file."""


class JobArchive:
    """Writes one file; see `exporting.EpisodeFileWriter`."""

    needs_steps = True

    def __init__(self, file: TrainingFile, *, has_additions: bool = True) -> None:
        self._trajectories = Trajectories(file, has_additions=has_additions)
        self._definition = file.options.definition
        self._sink = TakenFile()
        self._zip = zipfile.ZipFile(self._sink, "w", zipfile.ZIP_DEFLATED)
        self._totals = _Totals()

    def start(self) -> bytes:
        config = {"job_name": JOB, "agents": [{"name": HARBOR_AGENT}]}
        self._zip.writestr(_entry(f"{JOB}/config.json"), json.dumps(config))
        return self._sink.taken()

    def write(self, episode: Recorded) -> Iterator[bytes]:
        facts = episode.facts
        trial = f"{slugify(facts.environment)[:60] or 'episode'}__{facts.id}"
        result = _result(facts, trial, self._definition)
        self._totals.take(facts, result)
        path = f"{JOB}/{trial}"
        self._zip.writestr(
            _entry(f"{path}/config.json", facts.created), json.dumps(result["config"])
        )
        self._zip.writestr(_entry(f"{path}/result.json", facts.created), json.dumps(result))
        with _Images() as images:
            entry = _entry(f"{path}/{TRAJECTORY}", facts.created)
            with self._zip.open(entry, "w", force_zip64=True) as file:
                for piece in self._trajectories.pieces(episode, images.place):
                    file.write(piece.encode())
                    yield self._sink.taken()
            for name, data in images.files():
                self._zip.writestr(_entry(f"{path}/agent/{name}", facts.created), data)
                yield self._sink.taken()

    def end(self) -> bytes:
        self._zip.writestr(_entry(f"{JOB}/result.json"), json.dumps(self._totals.result()))
        self._zip.close()
        return self._sink.taken()


class _Images:
    """The images of one trajectory, each once. They follow it, because a zip is written one file
    after another."""

    def __init__(self) -> None:
        self._data = tempfile.SpooledTemporaryFile(MAX_MEMORY_BYTES)  # noqa: SIM115  # closed by __exit__
        self._sizes: dict[str, int] = {}

    def __enter__(self) -> _Images:
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()

    def place(self, uri: str) -> str:
        """Return the path of an image relative to its trajectory; the data URI itself if it cannot
        be decoded."""
        kind, text = data_of(uri)
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return uri
        if base64.b64encode(data).decode() != text:  # an import would not get the exact text back
            return uri
        name = f"images/{digest_of(data)}.{kind.partition('/')[2]}"
        if name not in self._sizes:
            self._sizes[name] = len(data)
            self._data.write(data)
        return name

    def files(self) -> Iterator[tuple[str, bytes]]:
        self._data.seek(0)
        for name, size in self._sizes.items():
            yield name, self._data.read(size)


def _entry(name: str, moment: datetime | None = None) -> zipfile.ZipInfo:
    year = moment.year if moment else 0
    entry = zipfile.ZipInfo(
        name, moment.timetuple()[:6] if moment and 1980 <= year < 2108 else (1980, 1, 1, 0, 0, 0)
    )
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _result(facts: EpisodeFacts, trial: str, definition: DefinitionAsked) -> dict[str, Any]:
    """Return `result.json` of a trial."""
    task = f"{facts.environment}/{facts.content_hash[:12]}"
    agent, _, version = facts.user_agent.partition("/")
    model = facts.model or facts.run_model
    reward = None if facts.cause in FAILURES else facts.return_by(definition)
    fault = {
        "exception_type": facts.cause,
        "exception_message": facts.detail,
        "exception_traceback": "",
    }
    ended = facts.ended or facts.created
    return {
        "id": str(uuid5(NAMESPACE_URL, f"{facts.session_id} {facts.created.isoformat()}")),
        "task_name": task,
        "trial_name": trial,
        "trial_uri": "",
        "task_id": {"path": task},
        "source": facts.environment,
        "task_checksum": facts.content_hash,
        "config": {
            "task": {"path": task, "source": facts.environment},
            "trial_name": trial,
            "agent": {"name": HARBOR_AGENT, "model_name": model},
        },
        "agent_info": {
            "name": agent.strip() or facts.player,
            "version": version.partition(" ")[0] or "unknown",
            "model_info": {"name": model} if model else None,
        },
        "verifier_result": None if reward is None else {"rewards": {"reward": reward + 0.0}},
        "exception_info": {**fault, "occurred_at": ended.isoformat()}
        if facts.cause in FAILURES
        else None,
        **_span(facts.created, facts.ended),
        "environment_setup": _span(facts.created, facts.ready),
        "agent_execution": _span(facts.ready, facts.ended),
    }


def _span(start: datetime | None, end: datetime | None) -> dict[str, str | None]:
    times = {"started_at": start, "finished_at": end}
    return {name: moment.isoformat() if moment else None for name, moment in times.items()}


class _Totals:
    """What `result.json` of the job says about its trials."""

    def __init__(self) -> None:
        self._first: datetime | None = None
        self._last: datetime | None = None
        self._evals: dict[str, dict[str, Any]] = {}

    def take(self, facts: EpisodeFacts, result: dict[str, Any]) -> None:
        self._first = min(self._first or facts.created, facts.created)
        self._last = max(self._last or facts.created, facts.ended or facts.created)
        info = result["agent_info"]
        names = [
            info["name"],
            *([info["model_info"]["name"]] if info["model_info"] else []),
            facts.environment,
        ]
        found = self._evals.setdefault(
            "__".join(names), {"n_trials": 0, "n_errors": 0, "sum": 0.0, "rewarded": 0}
        )
        found["n_trials"] += 1
        found["n_errors"] += result["exception_info"] is not None
        if result["verifier_result"]:
            found["sum"] += result["verifier_result"]["rewards"]["reward"]
            found["rewarded"] += 1

    def result(self) -> dict[str, Any]:
        first, last = self._first or datetime.now(UTC), self._last or datetime.now(UTC)
        trials = sum(found["n_trials"] for found in self._evals.values())
        errors = sum(found["n_errors"] for found in self._evals.values())
        return {
            "id": str(uuid5(NAMESPACE_URL, f"{first.isoformat()} {last.isoformat()} {trials}")),
            "started_at": first.isoformat(),
            "finished_at": last.isoformat(),
            "n_total_trials": trials,
            "stats": {
                "n_completed_trials": trials,
                "n_errored_trials": errors,
                "evals": {
                    name: {
                        **{key: found[key] for key in ("n_trials", "n_errors")},
                        "metrics": [{"mean": found["sum"] / found["rewarded"]}]
                        if found["rewarded"]
                        else [],
                    }
                    for name, found in self._evals.items()
                },
            },
        }
