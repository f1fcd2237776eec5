"""Creates and changes runs as their trainers describe them, and ends what an ended run left open.

Several trainers' processes may describe one run at the same time: each change is one transaction
that locks the run's row, so none is lost. A training step never goes back by accident: setting a
lower one needs the ETag of what the trainer has read, so a late message of another process is
refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from environments import conf
from environments.database.storable import storable_json
from environments.errors import OrsError
from environments.filtering.parameters import BadFilter
from environments.models import Environment, Viewer
from environments.service import MAX_CLOSE_SECONDS, close_sessions_of_run
from episodes.models import Episode, Run, RunTag
from episodes.runs.change_counter import advance
from episodes.runs.known_runs import is_late
from episodes.runs.scalars import StepScalars, store_scalars

BATCH_EPISODES = 1_000
"""Number of episodes that one transaction gives a model."""
POLL_SECONDS = 0.05
"""Time between two looks at whether other servers have ended their sessions of a run."""
ANY_VERSION = "*"
"""As an expected ETag: whatever the run contains, it has to exist."""


class RunConflict(OrsError):
    """A description was refused because of what the run contains; the trainer has to read it
    first."""


class RunNotFound(OrsError):
    """No run has the name, or none that the key may see."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is no run {name!r} that you can see. PUT creates it, unless a run of another "
            "key has this name."
        )


@dataclass(frozen=True, slots=True)
class SteeredRun:
    run: Run
    is_new: bool


def run_by_name(name: str, viewer: Viewer) -> Run:
    """Return the newest run of this title, or the run of this name, with its tags. Raises:
    RunNotFound."""
    run = Run.objects.seen_by(viewer).named(name).prefetch_related("tags").first()
    if run is None:
        raise RunNotFound(name)
    return run


def etag_of(run: Run) -> str:
    """Return the ETag of everything that a description may change, with its quotation marks."""
    values = [
        run.pk,
        run.step,
        run.state,
        run.model,
        run.config,
        run.git_commit,
        run.notes,
        run.tag_names,
    ]
    digest = blake2b(json.dumps([*values, str(run.updated)]).encode(), digest_size=12)
    return f'"{digest.hexdigest()}"'


def steer(
    name: str,
    description: Mapping[str, Any],
    viewer: Viewer,
    etags: Collection[str],
    points: Sequence[StepScalars] = (),
) -> SteeredRun:
    """Change the members of the run that `description` has; all others keep their values.
    Store its scalars, which belong to its current step, and those of `points`.

    That is the newest run of the title `name`, or the one with its `run_id`; or the next one, if
    the
    trainer begins another execution and doesn't `resume`. A model becomes that of the episodes of
    the run that name none, recorded ones included.

    `etags`: ETags of which the run must have one; empty for an unconditional change. If the
    description ends the run, its live sessions that the same key opened are closed, for a person
    those of all keys.

    Raises: RunConflict for another ETag and for a training step that goes back without one;
    RunNotFound for another key's run; BadFilter for scalars without a step, and for too many.
    """
    values = dict(description)
    scalars = values.pop("scalars", {})
    own_id, is_resumed = values.pop("run_id", ""), values.pop("resume", False)
    new = {"created": timezone.now(), "key_label": viewer.key_label or "", "own_id": own_id}
    visible = Run.objects.seen_by(viewer)
    with transaction.atomic():
        run, is_new = _newest(name, own_id), False
        if etags and (run is None or not visible.filter(pk=run.pk).exists()):
            raise RunConflict(
                f"If-Match was sent, but there is no run {name!r}; leave it out to create the run."
            )
        if run is None:
            run, is_new = _begin(name, None if own_id else 1, new)
        if not is_new and not visible.filter(pk=run.pk).exists():
            raise RunNotFound(name)
        etag, step = etag_of(run), values.get("step")
        if etags and not {ANY_VERSION, etag}.intersection(etags):
            raise RunConflict(
                f"The run has changed: its ETag is {etag}, and If-Match has {', '.join(etags)}. "
                "Read it again."
            )
        is_chosen = bool(own_id) or is_resumed or run.title != name
        if not is_new and not is_chosen and _is_another(run, values, is_expected=bool(etags)):
            run, is_new = _begin(run.title, run.number + 1, new)
        is_back = step is not None and run.step is not None and step < run.step
        if is_back and not (is_resumed or etags):
            raise RunConflict(
                f"step={step} is before the current step {run.step} of {run.name!r}, and a step "
                'goes back only on purpose. Send "resume": true to go on with this run, "state": '
                f'"running" to begin the next one, If-Match: {etag_of(run)} to correct this one, '
                "or leave step out."
            )
        if is_resumed and run.is_over:
            values.setdefault("state", "running")
        _change(run, values)
        if scalars and run.step is None:
            legal = 'they belong to a training step, and the run has none: send "step", too'
            raise BadFilter("scalars", ", ".join(scalars)[:80], legal)
        if points or scalars:
            store_scalars(run, [*points, (run.step or 0, scalars)])
    advance()
    if values.get("model"):
        _name_model(run)
    if values.get("state") in Run.ENDED_STATES:
        _close_sessions(run, viewer.key_label)
    return SteeredRun(Run.objects.prefetch_related("tags").get(pk=run.pk), is_new)


def _newest(name: str, own_id: str) -> Run | None:
    """Return the newest run of the title, or the one with the id, locked until the end of the
    transaction."""
    rows = Run.objects.named(name)
    rows = rows.filter(own_id=own_id) if own_id else rows
    run = rows.select_for_update().first()
    # another began while this one waited
    while run is not None and run != (newest := rows.first()):
        run = newest and rows.select_for_update().filter(pk=newest.pk).first()
    return run


def _begin(title: str, number: int | None, values: Mapping[str, Any]) -> tuple[Run, bool]:
    """Return the run of the title with this number, locked until the end of the transaction, and
    whether it is new."""
    run, is_new = Run.objects.begin(title, number, **values)
    return (run if is_new else Run.objects.select_for_update().get(pk=run.pk)), is_new


def _is_another(run: Run, description: Mapping[str, Any], *, is_expected: bool) -> bool:
    """Return whether the description begins another execution than `run`.

    `is_expected`: whether the sender has read the run, and so corrects it unless it says `running`.
    """
    state, step = description.get("state"), description.get("step")
    begins = state == "running"
    if state in Run.ENDED_STATES or (is_expected and not begins):
        return False
    if begins and run.is_over:
        return True
    episodes = Episode.objects.filter(run=run)
    if not episodes.exists():
        return False
    if step is not None:
        highest: int | None = episodes.aggregate(last=Max("run_step"))["last"]
        steps = [number for number in (run.step, highest) if number is not None]
        last_step = max(steps, default=step)
        if run.is_over and step != last_step:
            return True
        if step < last_step and (begins or not is_late(run.pk, step, last_step)):
            return True
    if run.updated is None:
        return False
    model, config = description.get("model"), description.get("config")
    if model and run.model and model != run.model:
        return True
    if not (config and run.config):
        return False
    return bool(json.loads(config) != json.loads(storable_json(run.config)))


def _close_sessions(run: Run, key_label: str | None) -> None:
    """End the live sessions of the run, and wait until this is recorded, also by other servers of
    the database."""
    running = Episode.objects.filter(run=run, status="running")
    if key_label is not None:
        running = running.filter(key_label=key_label)
    playing = list(running.values_list("pk", flat=True)) if conf.is_one_of_several() else []
    others = Episode.objects.filter(run__title=run.title, status="running").exclude(run=run)
    close_sessions_of_run(run.title, key_label, list(others.values_list("pk", flat=True)))
    until = time.monotonic() + MAX_CLOSE_SECONDS
    while playing and time.monotonic() < until:
        playing = list(running.filter(pk__in=playing).values_list("pk", flat=True))
        if playing:
            time.sleep(POLL_SECONDS)


def _name_model(run: Run) -> None:
    """Give the run's model to its episodes that name none, in batches, and have their environments
    counted again."""
    episodes, environments, last = Episode.objects.filter(run=run), set[int](), 0
    columns = episodes.order_by("pk").values_list("pk", "environment_id", "model")
    while rows := list(columns.filter(pk__gt=last)[:BATCH_EPISODES]):
        last = rows[-1][0]
        nameless = {pk: environment for pk, environment, model in rows if not model}
        if nameless:
            Episode.objects.filter(pk__in=list(nameless), model="").update(model=run.model)
            environments.update(nameless.values())
    Environment.objects.filter(pk__in=environments).update(counted="")


def _change(run: Run, description: Mapping[str, Any]) -> None:
    values = dict(description)
    tags: list[str] | None = values.pop("tags", None)
    if not run.state:
        values.setdefault("state", "running")
    for name, value in values.items():
        setattr(run, name, value)
    run.updated = timezone.now()
    run.save(update_fields=[*values, "updated"])
    if tags is not None and tags != run.tag_names:
        run.tags.all().delete()
        RunTag.objects.bulk_create(RunTag(run=run, name=tag) for tag in tags)
