"""Stores reports of incidents, and disables an environment whose calls have killed the server three
times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from environments.curation.environment_settings import SetEnabled
from environments.database.storable import storable
from environments.models import Environment
from environments.runtime.crash_notes import NotedCall
from environments.runtime.fault_reports import MAX_OCCURRENCES
from environments.runtime.incident_reports import IncidentReport, LeftBehind
from episodes.models import Incident

MAX_DEATHS = 3
"""Deaths of the server that an environment may cause before it is disabled. Enabling it starts a
new count."""
SAME_INCIDENT = timedelta(hours=1)
MAX_OTHERS = 20
MAX_EXCEPTIONS = 1_000
"""Rows of exceptions that are kept, each with a traceback of 32,000 characters at most."""
SERVER = "server"
"""Author of what the server does to an environment by itself."""

log = structlog.get_logger(__name__)


def store_reports(left: LeftBehind) -> None:
    """Store the reports and delete their files. Called again, it stores none twice."""
    for report in left.reports:
        with transaction.atomic():
            _store(report)
    left.discard()


def explanations(left: LeftBehind) -> tuple[dict[int, str], str]:
    """Return why the episodes of a process that died were interrupted: by episode, and for all
    others."""
    died = (
        f"The server's process died {left.death}".rstrip()
        if left.death
        else "The server's process was ended"
    )
    return {
        call.episode: f"{died} while {call.what!r} ran." for call in left.running if call.episode
    }, f"{died}."


def _store(report: IncidentReport) -> None:
    call = (
        report.suspects[0]
        if report.suspects and (report.is_certain or len(report.suspects) == 1)
        else None
    )
    name = report.environment or (call.environment if call else "")
    environment = Environment.objects.filter(name=name).first() if name else None
    incident = Incident(
        kind=report.kind,
        happened=datetime.fromtimestamp(report.at, UTC),
        how=report.how[:200],
        seconds=report.seconds,
        environment=environment,
        call=storable(call.what, 100) if call else "",
        episode=call.episode or None if call else None,
        input_hash=call.input_hash if call else "",
        since=datetime.fromtimestamp(call.since, UTC) if call and report.kind != "code" else None,
        is_certain=report.is_certain,
        count=report.count,
        others="\n".join(report.occurrences)
        if call
        else "\n".join(map(_line, report.suspects[:MAX_OTHERS])),
        trace=storable(report.trace),
    )
    if Incident.objects.filter(
        kind=incident.kind, happened=incident.happened
    ).exists() or _is_merged(incident):
        return
    incident.save()
    if incident.kind == "code":
        _forget_old_ones()
    if environment is not None and incident.kind == "died" and incident.is_certain:
        _disable_after_too_many(environment, incident)


def _is_merged(incident: Incident) -> bool:
    """Count an incident with a similar one of the last hour; return whether there is one. Deaths
    are never merged.

    Exceptions are similar that the same line has raised.
    """
    if incident.kind == "died":
        return False
    similar = Incident.objects.filter(
        kind=incident.kind,
        environment=incident.environment,
        call=incident.call,
        is_certain=incident.is_certain,
        happened__gt=incident.happened - SAME_INCIDENT,
    )
    if incident.kind == "code":
        similar = similar.filter(how=incident.how)
    latest = similar.order_by("-pk").first()
    if latest is None:
        return False
    occurrences = [*latest.others.splitlines(), *incident.others.splitlines()][-MAX_OCCURRENCES:]
    Incident.objects.filter(pk=latest.pk).update(
        count=F("count") + incident.count,
        seconds=Greatest(F("seconds"), incident.seconds),
        happened=incident.happened,
        how=incident.how,
        others="\n".join(occurrences) if incident.kind == "code" else latest.others,
    )
    return True


def _forget_old_ones() -> None:
    """Keep the newest MAX_EXCEPTIONS exceptions."""
    rows = Incident.objects.filter(kind="code").order_by("-pk").values_list("pk", flat=True)
    for pk in rows[MAX_EXCEPTIONS : MAX_EXCEPTIONS + 1]:
        Incident.objects.filter(kind="code", pk__lte=pk).delete()


def _disable_after_too_many(environment: Environment, incident: Incident) -> None:
    deaths = Incident.objects.filter(environment=environment, kind="died", is_certain=True)
    last = deaths.filter(has_disabled=True).values_list("pk", flat=True).first() or 0
    if not environment.is_enabled or (count := deaths.filter(pk__gt=last).count()) < MAX_DEATHS:
        return
    reason = f"Its calls killed the server {count} times, last {incident.how} in {incident.call!r}."
    SetEnabled(environment.pk, False, reason).apply(SERVER)
    Incident.objects.filter(pk=incident.pk).update(has_disabled=True)
    log.error("an environment is taken out of service", environment=environment.name, reason=reason)


def _line(call: NotedCall) -> str:
    return storable(f"{call.environment}: {call.what} (episode {call.episode or 'unknown'})")
