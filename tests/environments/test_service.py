"""Trials of task specs by pages, through the service of this process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from django.test import override_settings

from environments.errors import NotPlaying, UnknownEnvironment
from environments.service import MAX_TRIALS, TrialsBusy, close_service, open_service, try_out_spec
from episodes.models import Episode

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def service() -> Iterator[asyncio.AbstractEventLoop]:
    """The service of this process, hosting Echo, on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with override_settings(ORSWEB_ENVIRONMENTS=["tests.envs:Echo"]):
        asyncio.run_coroutine_threadsafe(open_service(), loop).result(60)
        yield loop
        asyncio.run_coroutine_threadsafe(close_service(5.0), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_it_plays_a_tasks_beginning_and_counts_nothing(service: asyncio.AbstractEventLoop) -> None:
    trial = try_out_spec("echo", '{"id": "new"}')
    assert json.loads(trial.prompt_json)[0]["text"] == "Task new."
    assert not Episode.objects.exists()


def test_it_names_the_environments_that_are_hosted(service: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(UnknownEnvironment, match="did you mean 'echo'"):
        try_out_spec("ecko", "{}")


def test_without_a_server_it_says_so() -> None:
    with pytest.raises(NotPlaying):
        try_out_spec("echo", "{}")


def test_the_services_own_loop_may_not_wait_for_it(service: asyncio.AbstractEventLoop) -> None:
    async def ask() -> None:
        try_out_spec("echo", "{}")

    with pytest.raises(AssertionError, match="wait for itself"):
        asyncio.run_coroutine_threadsafe(ask(), service).result(30)


def test_it_refuses_one_more_than_may_run_at_once(
    service: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = threading.BoundedSemaphore(1)
    monkeypatch.setattr("environments.service._trial_slots", turns)
    monkeypatch.setattr("environments.service.MAX_WAIT_SECONDS", 0.0)
    with turns, pytest.raises(TrialsBusy, match="trials are running"):
        try_out_spec("echo", "{}")
    assert try_out_spec("echo", '{"id": "new"}').prompt_json


def test_a_failed_trial_frees_its_slot(service: asyncio.AbstractEventLoop) -> None:
    for _ in range(MAX_TRIALS + 1):
        with pytest.raises(UnknownEnvironment):
            try_out_spec("ecko", "{}")
