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


def store_reports(leftovers: LeftBehind) -> None:
    """Store the reports and delete their files. Called again, it stores none twice."""
    for report in leftovers.reports:
        with transaction.atomic():
            _store(report)
    leftovers.discard()


def explanations(leftovers: LeftBehind) -> tuple[dict[int, str], str]:
    """Return why the episodes of a process that died were interrupted: by episode, and for all
    others."""
    ending = (
        f"The server's process died {leftovers.death}".rstrip()
        if leftovers.death
        else "The server's process was ended"
    )
    by_episode = {
        call.episode: f"{ending} while {call.what!r} ran."
        for call in leftovers.running
        if call.episode
    }
    return by_episode, f"{ending}."


def _store(report: IncidentReport) -> None:
    call = None
    if report.suspects and (report.is_certain or len(report.suspects) == 1):
        call = report.suspects[0]
        others = "\n".join(report.occurrences)
    else:
        others = "\n".join(
            storable(f"{other.environment}: {other.what} (episode {other.episode or 'unknown'})")
            for other in report.suspects[:MAX_OTHERS]
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
        others=others,
        trace=storable(report.trace),
    )
    is_stored = Incident.objects.filter(kind=report.kind, happened=incident.happened).exists()
    if is_stored or _merge(incident):
        return
    incident.save()
    if incident.kind == "code":
        rows = Incident.objects.filter(kind="code").order_by("-pk").values_list("pk", flat=True)
        for pk in rows[MAX_EXCEPTIONS : MAX_EXCEPTIONS + 1]:
            Incident.objects.filter(kind="code", pk__lte=pk).delete()
    if environment is not None and incident.kind == "died" and incident.is_certain:
        _disable_after_too_many(environment, incident)


def _merge(incident: Incident) -> bool:
    """Count an incident with a similar one of the last hour; return whether there is one.

    Deaths are never merged. Exceptions are similar if the same line raised them.
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


def _disable_after_too_many(environment: Environment, incident: Incident) -> None:
    deaths = Incident.objects.filter(environment=environment, kind="died", is_certain=True)
    last = deaths.filter(has_disabled=True).values_list("pk", flat=True).first() or 0
    if not environment.is_enabled or (count := deaths.filter(pk__gt=last).count()) < MAX_DEATHS:
        return
    reason = f"Its calls killed the server {count} times, last {incident.how} in {incident.call!r}."
    SetEnabled(environment.pk, False, reason).apply(SERVER)
    Incident.objects.filter(pk=incident.pk).update(has_disabled=True)
    log.error("an environment is taken out of service", environment=environment.name, reason=reason)
