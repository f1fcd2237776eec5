"""A redaction that is killed anywhere is finished by the next one, and one beside playing agents
harms no call."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections
from pytest_django import DjangoDbBlocker

from episodes.models import Episode, Note, Rollout, RolloutMessage, RolloutText, Step
from episodes.redaction.replacement import redact
from episodes.search import index
from episodes.search import rollouts as rollout_index
from tests import programs
from tests.conformance.agent import Agent, eventually
from tests.conformance.record import recorded
from tests.episodes.redaction.test_redact import STARS, everything
from tests.server import LiveServer
from tests.stored import NOW, make_blob, make_episode, make_run, make_step, make_task

SECRET = "swordfish/0123"
WRITES = ("INSERT", "UPDATE", "DELETE", "RELEASE", "COMMIT")
STRIDE = 5
"""Writes between the places at which it is killed."""
PLAYERS = 2


def record_the_text() -> Episode:
    """Store it in every kind of place, with the text search filled; return the episode."""
    episode = make_episode(
        run=make_run(f"run of {SECRET}"),
        task=make_task({"question": SECRET}),
        steps_count=3,
        detail=f"saw {SECRET}",
    )
    for number in range(3):
        make_step(episode, f"fox{number} {SECRET}", index=number)
    blob = make_blob(json.dumps({"blocks": [{"text": f"{'x' * 9000} {SECRET}", "type": "text"}]}))
    Step.objects.filter(episode=episode, index=1).update(output="", output_blob=blob)
    Note.objects.create(episode=episode, author="alice", text=SECRET)
    rollout = Rollout.objects.create(
        event_id="r", received=NOW, event="{}", info="{}", is_summarised=True
    )
    RolloutMessage.objects.create(
        rollout=rollout, index=0, event_id="m", kind="user", content=SECRET, received=NOW
    )
    index.index([episode.pk])
    rollout_index.write(rollout_index.documents_of_rollouts([rollout.pk]))
    return episode


def redact_and_die(at: int) -> bool:
    """Redact in a process of its own, which is killed before its write number `at`; return whether
    it was."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        try:
            with connection.execute_wrapper(_killer(at)):
                redact(SECRET, "alice")
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _killer(at: int) -> Callable[..., Any]:
    left = at

    def execute(run: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal left
        left -= str(sql).lstrip().upper().startswith(WRITES)
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(sql, params, many, context)

    return execute


@pytest.mark.django_db(transaction=True)
def test_wherever_it_is_killed_the_next_one_finishes() -> None:
    index.empty()
    episode, at = record_the_text(), 1
    while redact_and_die(at):
        assert all(
            json.loads(text)
            for text in Step.objects.values_list("output", flat=True)
            if text.startswith("{")
        )
        assert redact(SECRET, "alice").is_complete
        left = everything()
        assert SECRET not in left and STARS in left, f"killed before write {at}"
        assert list(index.matching("fox0")) == [episode.pk], f"killed before write {at}"
        assert list(index.matching(f'"{SECRET}"')) == []
        rollout = Rollout.objects.get()
        assert not rollout.is_summarised or RolloutText.objects.exists(), (
            f"killed before write {at}"
        )
        _forget()
        episode, at = record_the_text(), at + STRIDE
    assert at > 5 * STRIDE


def _forget() -> None:
    index.empty()
    for model in (RolloutText, RolloutMessage, Rollout, Note, Step, Episode):
        model._default_manager.all().delete()


def test_agents_that_play_meanwhile_lose_no_call(django_db_blocker: DjangoDbBlocker) -> None:
    answered: list[str] = []
    is_over = threading.Event()

    def play() -> None:
        while not is_over.wait(0.1):
            with Agent(server).open({"id": 1}) as agent:
                for _ in range(3):
                    assert agent.call("echo", {"text": f"fox {SECRET}"}).text == f"fox {SECRET}"
                    answered.append(agent.sid)

    with LiveServer("tests.envs:Echo") as server, recorded(server, django_db_blocker) as record:
        players = [threading.Thread(target=play) for _ in range(PLAYERS)]
        for player in players:
            player.start()
        eventually(lambda: len(answered) >= 20)
        said = _redact(server)
        before = len(answered)
        eventually(lambda: len(answered) > before)
        is_over.set()
        for player in players:
            player.join(30)
        assert "Replaced in " in said
        assert "Replaced in " in _redact(server)
        assert sum(record.episodes.values_list("steps_count", flat=True)) == len(answered)
        assert SECRET not in record.everything()


def _redact(server: LiveServer) -> str:
    """Redact with the command beside the server; return what it prints."""
    return programs.run("redact", env=server.env, input=SECRET).stdout
