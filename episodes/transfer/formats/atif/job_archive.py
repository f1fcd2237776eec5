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
from environments.scoring.definition import DefinitionOverrides
from episodes.attempts.rule import FAILURES
from episodes.transfer.export_file import ExportFile
from episodes.transfer.export_rows import EpisodeFacts
from episodes.transfer.formats.atif.steps import data_of
from episodes.transfer.formats.atif.trajectory_lines import Trajectories

JOB = "orsweb"
"""Name of the job's directory."""
HARBOR_AGENT = "terminus-2"
"""An agent that Harbor ships and that writes ATIF."""
TRAJECTORY = "agent/trajectory.json"
MAX_MEMORY_BYTES = 4 * 1024 * 1024
"""Size of the images of a trajectory from which they are collected in a temporary file."""


def job_archive(file: ExportFile) -> Iterator[bytes]:
    trajectories = Trajectories(file)
    totals = _Totals()
    sink = TakenFile()
    archive = zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED)
    config = {"job_name": JOB, "agents": [{"name": HARBOR_AGENT}]}
    archive.writestr(_entry(f"{JOB}/config.json"), json.dumps(config))
    for episode in file.recorded():
        facts = episode.facts
        trial = f"{slugify(facts.environment)[:60] or 'episode'}__{facts.id}"
        result = _result(facts, trial, file.options.definition)
        totals.add(facts, result)
        path, moment = f"{JOB}/{trial}", facts.created
        archive.writestr(_entry(f"{path}/config.json", moment), json.dumps(result["config"]))
        archive.writestr(_entry(f"{path}/result.json", moment), json.dumps(result))
        with _Images() as images:
            entry = _entry(f"{path}/{TRAJECTORY}", moment)
            with archive.open(entry, "w", force_zip64=True) as trajectory:
                for piece in trajectories.pieces(episode, images.place):
                    trajectory.write(piece.encode())
                    yield sink.taken()
            for name, data in images.files():
                archive.writestr(_entry(f"{path}/agent/{name}", moment), data)
                yield sink.taken()
    archive.writestr(_entry(f"{JOB}/result.json"), json.dumps(totals.result()))
    archive.close()
    yield sink.taken()


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
    entry = zipfile.ZipInfo(name)  # of 1980, the first year that a zip can say
    if moment and 1980 <= moment.year < 2108:
        entry.date_time = moment.timetuple()[:6]
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _result(facts: EpisodeFacts, trial: str, definition: DefinitionOverrides) -> dict[str, Any]:
    """Return `result.json` of a trial."""
    task = f"{facts.environment}/{facts.content_hash[:12]}"
    agent, version = facts.agent
    model = facts.model or facts.run_model
    reward = exception = None
    if facts.cause in FAILURES:
        exception = {
            "exception_type": facts.cause,
            "exception_message": facts.detail,
            "exception_traceback": "",
            "occurred_at": (facts.ended or facts.created).isoformat(),
        }
    else:
        reward = facts.return_by(definition)
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
            "name": agent,
            "version": version,
            "model_info": {"name": model} if model else None,
        },
        "verifier_result": None if reward is None else {"rewards": {"reward": reward + 0.0}},
        "exception_info": exception,
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
        self._trials = self._errors = 0
        self._evals: dict[str, dict[str, int]] = {}
        self._rewards: dict[str, list[float]] = {}

    def add(self, facts: EpisodeFacts, result: dict[str, Any]) -> None:
        self._first = min(self._first or facts.created, facts.created)
        self._last = max(self._last or facts.created, facts.ended or facts.created)
        info = result["agent_info"]
        model = [info["model_info"]["name"]] if info["model_info"] else []
        name = "__".join([info["name"], *model, facts.environment])
        counts = self._evals.setdefault(name, {"n_trials": 0, "n_errors": 0})
        rewards = self._rewards.setdefault(name, [0, 0.0])
        is_error = result["exception_info"] is not None
        self._trials += 1
        self._errors += is_error
        counts["n_trials"] += 1
        counts["n_errors"] += is_error
        if result["verifier_result"]:
            rewards[0] += 1
            rewards[1] += result["verifier_result"]["rewards"]["reward"]

    def result(self) -> dict[str, Any]:
        first, last = self._first or datetime.now(UTC), self._last or datetime.now(UTC)
        name = f"{first.isoformat()} {last.isoformat()} {self._trials}"
        evals = dict[str, Any]()
        for key, counts in self._evals.items():
            count, total = self._rewards[key]
            evals[key] = counts | {"metrics": [{"mean": total / count}] if count else []}
        return {
            "id": str(uuid5(NAMESPACE_URL, name)),
            "started_at": first.isoformat(),
            "finished_at": last.isoformat(),
            "n_total_trials": self._trials,
            "stats": {
                "n_completed_trials": self._trials,
                "n_errored_trials": self._errors,
                "evals": evals,
            },
        }
