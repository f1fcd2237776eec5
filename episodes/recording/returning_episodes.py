"""Episodes that an earlier server left running and whose sessions can go on: which they are, and
what is on record."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from environments.database.storable import MAX_BIGINT
from environments.runtime.incident_reports import LeftBehind
from environments.runtime.records import (
    GOES_ON,
    OpenEpisode,
    RecordedPast,
    SnapshotTaken,
    StepTaken,
    Survival,
)
from episodes.models import Episode, SessionSecrets, SessionSnapshot, Step
from episodes.models.blobs import texts_of_blobs

_OPEN_FIELDS = (
    "pk",
    "environment__name",
    "session_id",
    "key_label",
    "survival",
    "run__title",
    "model",
    "prompt_id",
    "created",
    "ready",
)
PAGE_SESSIONS = 2000
"""Sessions that are read at once: computing the names of their leases holds the event loop for some
milliseconds."""


def running_sessions(after: int) -> list[tuple[int, str]]:
    """Return the numbers and sessions of the next episodes after a number that have not ended."""
    running = Episode.objects.filter(status="running", pk__gt=after).order_by("pk")
    return list(running.values_list("pk", "session_id")[:PAGE_SESSIONS])


def are_sessions_left() -> bool:
    """Return whether any episode that has not ended may go on."""
    return Episode.objects.filter(status="running", survival__in=GOES_ON).exists()


def recorded_sessions(sids: Collection[str]) -> set[str]:
    """Return those of the sessions of which an episode is on record, also one that has ended."""
    return {*Episode.objects.filter(session_id__in=sids).values_list("session_id", flat=True)}


def open_episodes(
    leftovers: LeftBehind, replayable: Collection[str], sessions: Collection[str] | None = None
) -> list[OpenEpisode]:
    """Return the running episodes of the environments named in `replayable` whose sessions can go
    on.

    The calls that ended the server are left out: they would end it again. `sessions`: ids of the
    sessions to look at; None: all.
    """
    deaths = [report for report in leftovers.reports if report.kind == "died" and report.is_certain]
    suspects = {call.episode for report in deaths for call in report.suspects}
    running = Episode.objects.filter(
        status="running", survival__in=GOES_ON, environment__name__in=replayable
    )
    if sessions is not None:
        running = running.filter(session_id__in=sessions)
    rows = [
        row for row in running.order_by("pk").values_list(*_OPEN_FIELDS) if row[0] not in suspects
    ]
    secrets = dict(
        SessionSecrets.objects.filter(pk__in=running.filter(survival="sealed")).values_list(
            "pk", "sealed"
        )
    )
    by_session = {
        row[2]: _open_episode(leftovers, bytes(secrets.get(row[0], b"")), *row) for row in rows
    }
    return list(by_session.values())


def _open_episode(
    leftovers: LeftBehind,
    secrets: bytes,
    number: int,
    environment: str,
    session_id: str,
    key_label: str,
    survival: Survival,
    run: str | None,
    model: str,
    prompt: str | None,
    moment: datetime,
    ready: datetime | None,
) -> OpenEpisode:
    unsent = leftovers.unsent.get(number, {})
    indexes = set[int]()
    if unsent:
        steps = Step.objects.filter(episode=number, index__in=unsent)
        indexes.update(steps.values_list("index", flat=True))
    return OpenEpisode(
        number,
        environment,
        session_id,
        key_label,
        survival,
        run or "",
        is_named=bool(run or model),
        has_prompt=prompt is not None,
        created=moment.timestamp(),
        ready=None if ready is None else ready.timestamp(),
        unsent=frozenset(unsent),
        running=(
            *(call for call in leftovers.running if call.episode == number),
            *(call for index, call in unsent.items() if index not in indexes),
        ),
        sealed=secrets,
    )


_STEP_FIELDS = (
    "episode",
    "index",
    "tool",
    "input",
    "output",
    "reward",
    "finished",
    "status",
    "error",
    "reason",
    "task_id",
    "started",
    "duration_ms",
    "waited_ms",
    "input_blob",
    "output_blob",
)
"""In the order of the fields of StepTaken, then the digests of what is stored elsewhere."""


def recorded_past(number: int) -> RecordedPast:
    """Return what is recorded of an episode that goes on.

    Rows are read as tuples, because hundreds of sessions come back at once and model objects take
    half as long again.
    """
    spec, prompt = Episode.objects.values_list("task__spec", "prompt").get(pk=number)
    rows = list(Step.objects.filter(episode=number).order_by("index").values_list(*_STEP_FIELDS))
    digests = {digest for row in rows for digest in row[-2:] if digest}
    if prompt:
        digests.add(prompt)
    texts = dict(texts_of_blobs(digests, MAX_BIGINT)) if digests else {}
    snapshots = SessionSnapshot.objects.filter(pk=number).values_list("step", "state", "problem")
    snapshot = next(
        (SnapshotTaken(number, step, bytes(state), problem) for step, state, problem in snapshots),
        None,
    )
    steps = []
    for *columns, input_blob, output_blob in rows:
        step = StepTaken(*columns)
        if input_blob:
            step.input_json = texts[input_blob]
        step.output_json = texts[output_blob] if output_blob else step.output_json or None
        step.started = columns[_STEP_FIELDS.index("started")].timestamp()
        steps.append(step)
    return RecordedPast(spec, texts[prompt] if prompt else None, steps, snapshot)
