"""Exceptions of an author's code get to Incidents, and to the replay for those who may see it."""

from __future__ import annotations

from datetime import datetime, timedelta

import httpx
import pytest
from django.utils import timezone

from environments.runtime.crash_notes import NotedCall
from environments.runtime.incident_reports import IncidentReport, LeftBehind
from episodes.models import Episode, Incident
from episodes.recording import fatal_environments
from episodes.recording.fatal_environments import store_reports
from episodes.removal.batch import new_removal, remove_all
from tests.environments.agents.ors.serving import in_database, opened, serving
from tests.people import client_of
from tests.stored import make_environment, make_episode, make_task

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "clients-own-token-4711"


async def leak(client: httpx.AsyncClient, headers: dict[str, str], times: int = 1) -> None:
    for _ in range(times):
        await client.post("/secretive/call", json={"name": "leak", "input": {}}, headers=headers)


async def test_a_tool_that_raises_again_and_again_is_one_incident_with_the_authors_line() -> None:
    async with serving("tests.envs:Secretive") as client:
        first = await opened(client, secrets={"token": SECRET})
        await leak(client, first, 3)
        await leak(client, await opened(client, secrets={"token": SECRET}))
        await client.post("/delete", headers=first)
    [incident] = await in_database(lambda: list(Incident.objects.select_related("environment")))
    assert (incident.kind, incident.count, incident.call, incident.environment.name) == (
        "code",
        4,
        "leak",
        "secretive",
    )
    assert incident.how.startswith("RuntimeError in ") and "tests/envs.py, line " in incident.how
    assert (
        "in leak\n" in incident.trace
        and "bad token ********" in incident.trace
        and SECRET not in incident.trace
    )
    assert incident.others.split("\n") == [
        *(f"episode {incident.episode}, step {step}" for step in range(3)),
        f"episode {incident.episode + 1}, step 0",
    ]


async def test_a_failed_setup_is_one_too() -> None:
    async with serving("tests.envs:Secretive") as client:
        body = {"task_spec": {"fail": "constructor"}, "secrets": {"token": SECRET}}
        assert (
            await client.post("/create", json=body, headers={"X-Session-ID": "s"})
        ).status_code != 200
    [incident] = await in_database(lambda: list(Incident.objects.all()))
    assert (
        incident.call == "construction"
        and "_maybe_fail" in incident.trace
        and SECRET not in incident.trace
    )


def stored(
    episode: int, how: str = "KeyError in /srv/shop.py, line 12", at: datetime | None = None
) -> None:
    call = NotedCall("math", episode, "submit", 1.0, "", 0, 0)
    when, occurrences = (at or timezone.now()).timestamp(), (f"episode {episode}, step 0",)
    report = IncidentReport(
        "code",
        when,
        how,
        suspects=(call,),
        is_certain=True,
        trace=f"Traceback of {how}",
        occurrences=occurrences,
    )
    store_reports(LeftBehind(reports=(report,)))


def test_the_replay_shows_it_to_those_who_see_incidents() -> None:
    episode, other = (
        make_episode(task=make_task({"id": n}, make_environment()), failed_count=1) for n in (1, 2)
    )
    stored(other.pk)
    stored(episode.pk)  # counted with the other one
    shown = [
        client_of(group, name=group).get(f"/episodes/{episode.pk}/").content
        for group in ("operator", "curator")
    ]
    assert ["KeyError in /srv/shop.py, line 12" in page.decode() for page in shown] == [True, False]
    assert Incident.objects.get().count == 2


def test_only_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fatal_environments, "MAX_EXCEPTIONS", 3)
    make_environment()
    for number in range(5):
        stored(0, f"Error{number}", timezone.now() + timedelta(seconds=number))
    assert sorted(Incident.objects.values_list("how", flat=True)) == ["Error2", "Error3", "Error4"]


async def test_it_goes_with_its_episode() -> None:
    async with serving("tests.envs:Secretive") as client:
        headers = await opened(client, secrets={"token": SECRET})
        await leak(client, headers)
        await client.post("/delete", headers=headers)
    episode = await in_database(Episode.objects.get)
    await in_database(lambda: remove_all(new_removal("ada", "a test"), [episode.pk]))
    assert await in_database(lambda: [*Episode.objects.all(), *Incident.objects.all()]) == []
