"""Episodes that an earlier server left running and whose sessions can go on: which they are, and what is on record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import cast

from environments.runtime.crash_notes import NotedCall
from environments.runtime.incident_reports import LeftBehind
from environments.runtime.records import (
    GOES_ON,
    OpenEpisode,
    RecordedPast,
    SnapshotTaken,
    StepStatus,
    StepTaken,
    Survival,
)
from episodes.models import Episode, SessionSecrets, SessionSnapshot, Step

_OPEN_FIELDS = (
    *("pk", "environment__name", "session_id", "key_label", "survival", "run__name", "model"),
    *("prompt_id", "created", "ready"),
)


PAGE_SESSIONS = 2000
"""Sessions that are read at once: computing the names of their leases holds the event loop for some milliseconds."""


def running_sessions(after: int) -> list[tuple[int, str]]:
    """Return the numbers and sessions of the next episodes after a number that have not ended."""
    running = Episode.objects.filter(status="running", pk__gt=after).order_by("pk")
    return list(running.values_list("pk", "session_id")[:PAGE_SESSIONS])


def recorded_sessions(sids: Collection[str]) -> set[str]:
    """Return those of the sessions of which an episode is on record, also one that has ended."""
    return {*Episode.objects.filter(session_id__in=sids).values_list("session_id", flat=True)}


def open_episodes(
    left: LeftBehind, replayable: Collection[str], sessions: Collection[str] | None = None
) -> list[OpenEpisode]:
    """Return the running episodes of the environments named in `replayable` whose sessions can go on.

    The calls that ended the server are left out: they would end it again. `sessions`: ids of the sessions to look at;
    None: all.
    """
    died = [report for report in left.reports if report.kind == "died" and report.is_certain]
    blamed = {call.episode for report in died for call in report.suspects}
    running = Episode.objects.filter(status="running", survival__in=GOES_ON, environment__name__in=replayable)
    if sessions is not None:
        running = running.filter(session_id__in=sessions)
    found = [row for row in running.order_by("pk").values_list(*_OPEN_FIELDS) if row[0] not in blamed]
    by_session = {row[2]: _open_episode(left, *row) for row in found}
    return list(by_session.values())


def _open_episode(
    left: LeftBehind,
    number: int,
    environment: str,
    session_id: str,
    key_label: str,
    survival: Survival,
    run: str | None,
    model: str,
    prompt: str | None,
    created: datetime,
    ready: datetime | None,
) -> OpenEpisode:
    unsent = left.unsent.get(number, {})
    return OpenEpisode(
        number,
        environment,
        session_id,
        key_label,
        survival,
        run or "",
        is_named=bool(run or model),
        has_prompt=prompt is not None,
        created=created.timestamp(),
        ready=None if ready is None else ready.timestamp(),
        unsent=frozenset(unsent),
        running=(*(call for call in left.running if call.episode == number), *_unrecorded(number, unsent)),
    )


def _unrecorded(number: int, unsent: Mapping[int, NotedCall]) -> list[NotedCall]:
    """Return those of the calls whose steps are not recorded."""
    if not unsent:
        return []
    recorded = set(Step.objects.filter(episode=number, index__in=unsent).values_list("index", flat=True))
    return [call for index, call in unsent.items() if index not in recorded]


def recorded_past(number: int) -> RecordedPast:
    """Return what is recorded of an episode that goes on."""
    episode = Episode.objects.select_related("task", "prompt").get(pk=number)
    steps = Step.objects.filter(episode=number).order_by("index").select_related("input_blob", "output_blob")
    prompt = episode.prompt.text if episode.prompt else None
    kept = SessionSnapshot.objects.filter(pk=number).first()
    snapshot = SnapshotTaken(number, kept.step, bytes(kept.state), kept.problem) if kept else None
    sealed = SessionSecrets.objects.filter(pk=number).values_list("sealed", flat=True).first()
    return RecordedPast(
        episode.task.spec, prompt, [_step_taken(step) for step in steps], snapshot, bytes(sealed or b"")
    )


def _step_taken(step: Step) -> StepTaken:
    return StepTaken(
        episode=step.episode_id,
        index=step.index,
        tool=step.tool,
        input_json=step.input_json,
        output_json=step.output_json or None,
        reward=step.reward,
        finished=step.finished,
        status=cast(StepStatus, step.status),
        error=step.error,
        reason=step.reason,
        task_id=step.task_id,
        started=step.started.timestamp(),
        duration_ms=step.duration_ms,
        waited_ms=step.waited_ms,
    )
