"""Code of an environment kills the server again and again: what is recorded, and what becomes of
the environment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from environments.models import Environment
from episodes.models import Incident
from tests.conformance.agent import Agent, eventually
from tests.conformance.record import ALIAS, Recorded, recorded
from tests.server import LiveServer

KILLERS = ("crash_in_thread", "crash", "leave")


@dataclass(frozen=True)
class Crashed:
    """A server that one environment has killed three times, while another one played."""

    server: LiveServer
    record: Recorded
    killed: dict[str, str] = field(default_factory=dict)
    """Session id by the tool that killed the server."""
    innocent: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def crashed(django_db_blocker: DjangoDbBlocker) -> Iterator[Crashed]:
    with LiveServer("tests.envs_fatal:Fatal", "tests.envs_fatal:Harmless") as server:
        killed, innocent = {}, []
        for count, tool in enumerate(KILLERS, 1):
            other, agent = (
                Agent(server).open({"id": 1}, "harmless"),
                Agent(server).open({"id": 1}, "fatal"),
            )
            other.begin("wait")
            agent.begin(tool)
            killed[tool] = agent.sid
            innocent.append(other.sid)
            eventually(lambda count=count: server.log.count("is started again") == count)  # type: ignore[misc]
            eventually(server.is_healthy)
        with recorded(server, django_db_blocker) as record:
            yield Crashed(server, record, killed, innocent)


def test_it_says_which_call_killed_the_server(crashed: Crashed) -> None:
    details = [crashed.record.episode(crashed.killed[tool]).detail for tool in KILLERS]
    assert details == [
        "The server's process died by signal 11 (SIGSEGV) while 'crash_in_thread' ran.",
        "The server's process died by signal 11 (SIGSEGV) while 'crash' ran.",
        "The server's process died with status 0 while 'leave' ran.",
    ]
    assert {crashed.record.episode(sid).cause for sid in crashed.killed.values()} == {"interrupted"}


def test_it_blames_nobody_else(crashed: Crashed) -> None:
    incidents = Incident.objects.using(ALIAS).filter(kind="died").order_by("pk")
    blamed = [
        (one.environment and one.environment.name, one.call, one.is_certain) for one in incidents
    ]
    assert blamed == [("fatal", tool, True) for tool in KILLERS]
    assert [one.episode for one in incidents] == [
        crashed.record.episode(crashed.killed[tool]).pk for tool in KILLERS
    ]
    assert "envs_fatal.py" in incidents[0].trace
    assert len(incidents[0].input_hash) == 32


def test_it_tells_the_others_that_the_process_died(crashed: Crashed) -> None:
    assert "while 'wait' ran" in crashed.record.episode(crashed.innocent[0]).detail


def test_it_takes_the_environment_out_of_service_after_three_deaths(crashed: Crashed) -> None:
    refusal = Agent(crashed.server).post("/create_session")
    agent = Agent(crashed.server)
    agent.sid = refusal.json()["sid"]
    answer = agent.create({"id": 1}, "fatal")
    assert answer.status_code >= 400
    assert (
        "Its calls killed the server 3 times, last with status 0 in 'leave'. It is disabled"
        in answer.text
    )
    Agent(crashed.server).open({"id": 1}, "harmless").close()


def test_a_person_puts_it_back(crashed: Crashed) -> None:
    row = Environment.objects.using(ALIAS).get(name="fatal")
    with httpx.Client(base_url=crashed.server.url, timeout=60, follow_redirects=True) as browser:
        assert "Its calls killed the server 3 times" in browser.get("/environments/fatal/").text
        page = browser.get(f"/admin/environments/environment/{row.pk}/change/").text
        assert "Its calls killed the server 3 times" in page
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[0]
        form = {"csrfmiddlewaretoken": token, "action": "enable"}
        browser.post(f"/admin/environments/environment/{row.pk}/do/", data=form).raise_for_status()
    row.refresh_from_db()
    assert row.is_enabled and not row.disabled_reason
    Agent(crashed.server).open({"id": 1}, "fatal").close()


def test_it_names_who_holds_the_event_loop(crashed: Crashed) -> None:
    with Agent(crashed.server).open({"id": 1}, "harmless") as agent:
        assert agent.call("nap").text == "slept"
    eventually(lambda: Incident.objects.using(ALIAS).filter(kind="held").exists())
    held = Incident.objects.using(ALIAS).get(kind="held")
    assert (held.environment and held.environment.name, held.call, held.how) == (
        "harmless",
        "nap",
        "the event loop",
    )
    assert "in nap" in held.trace and 1 < held.seconds < 30


def test_it_does_not_blame_who_computes_beside_the_one_that_holds_the_event_loop(
    crashed: Crashed,
) -> None:
    before = _holds()
    with Agent(crashed.server).open({"id": 1}, "fatal") as other:
        other.begin("compute")
        with Agent(crashed.server).open({"id": 1}, "harmless") as agent:
            assert agent.call("spin").text == "spun"
        eventually(lambda: len(_holds()) > len(before))
    blamed = [
        (held.environment and held.environment.name, held.call, held.is_certain)
        for held in _holds() - before
    ]
    assert blamed == [("harmless", "spin", True)]


def test_it_blames_no_call_when_several_may_hold_the_interpreters_lock(crashed: Crashed) -> None:
    before = _holds()
    for tool in ("seize", "digest", "work"):
        Agent(crashed.server).open({"id": 1}, "harmless").begin(tool)
    eventually(lambda: len(_holds()) > len(before))
    (held,) = _holds() - before
    assert not held.is_certain and held.environment is None
    named = [tool for tool in ("seize", "digest", "work") if f": {tool} (" in held.others]
    assert len(named) > 1, held.others  # on a busy machine not all of them get a core meanwhile


def test_it_names_who_holds_the_interpreters_lock_even_if_it_shows_only_later(
    crashed: Crashed,
) -> None:
    beside = Agent(crashed.server).open({"id": 1}, "harmless")
    beside.begin("digest")  # which is taken for it, until it has ended
    Agent(crashed.server).open({"id": 1}, "harmless").begin("backtrack")
    # on a busy machine `digest` takes long, and the looks after its end come after 32, 64 or 128
    # seconds
    eventually(lambda: "call=backtrack environment=harmless" in crashed.server.log, seconds=240)
    assert "code of an environment holds the interpreter's lock" in crashed.server.log


def _holds() -> set[Incident]:
    return set(Incident.objects.using(ALIAS).filter(kind="held").select_related("environment"))
