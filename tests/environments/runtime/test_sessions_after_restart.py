"""Sessions that an earlier server left: what becomes of those that are not simply played on.

tests/conformance/test_returning.py restarts real servers under real clients.
"""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from environments.errors import Draining, SessionExists
from environments.quotas import KeyUsage, Quotas
from environments.runtime.records import EpisodeEnded, OpenEpisode
from environments.runtime.secrets_mask import STARS
from environments.runtime.secrets_vault import SecretsVault
from environments.runtime.session_request import SessionRequest
from environments.runtime.sessions_after_restart import REOPENED
from tests.environments.runtime.play import Play, until
from tests.envs_returning import Adding, Telling


@asynccontextmanager
async def left_behind(
    numbers: tuple[int, ...] = (1, 2), **limits: Any
) -> AsyncIterator[tuple[Play, OpenEpisode]]:
    """Play a session `s` of the run `r` with calls for `numbers`, stop, and return the next
    service, without it."""
    async with Play(Adding) as before:
        await before.open("s", can_return=True)
        for number in numbers:
            await before.answer("s", "add", number=number)
    assert not before.record.of(EpisodeEnded)
    async with Play(Adding, **limits) as after:
        after.record.rows += before.record.rows
        for _ in range(before.record.next_episode() - 1):
            after.record.next_episode()
        now = time.time()
        yield (
            after,
            OpenEpisode(
                1,
                "adding",
                "s",
                "",
                "replay",
                "r",
                is_named=True,
                has_prompt=True,
                created=now,
                ready=now,
            ),
        )


def take_over(play: Play, left: OpenEpisode, usage: KeyUsage | None = None) -> KeyUsage:
    usage = usage or KeyUsage()
    play.service.take_over([left], lambda label: usage)
    return usage


async def test_it_goes_on_with_its_sum_and_its_steps() -> None:
    async with left_behind() as (play, left):
        take_over(play, left)
        assert (await play.answer("s", "add", number=3)).text == "6"
        await play.service.delete("s", "")
        assert [step.index for step in play.record.steps] == [0, 1, 2]
        assert (play.record.end.cause, play.record.end.steps, play.record.end.return_sum) == (
            "abandoned",
            3,
            6.0,
        )


async def test_its_server_does_not_say_that_it_is_gone() -> None:
    async with Play(Adding) as play:
        await play.open("s", can_return=True)
        await play.answer("s", "add", number=1)
        await play.service.drain(1.0)
        with pytest.raises(Draining):
            await play.start("s", "process")
        with pytest.raises(Draining):
            await play.service.delete("s", "")
        with pytest.raises(Draining):
            play.service.ping("s", "")
    assert not play.record.of(EpisodeEnded)


async def test_it_expires_if_it_is_not_used() -> None:
    async with left_behind(session_timeout_seconds=0.02) as (play, left):
        take_over(play, left)
        await until(lambda: not play.service.live_sessions)
        assert (play.record.end.cause, play.record.end.steps, play.record.end.return_max) == (
            "expired",
            2,
            2.0,
        )


async def test_it_ends_when_the_time_of_its_quota_is_over() -> None:
    async with left_behind() as (play, left):
        usage = KeyUsage(quotas=Quotas(seconds=100))
        play.service.take_over([replace(left, created=time.time() - 99.99)], lambda label: usage)
        await until(lambda: play.record.of(EpisodeEnded))
        assert "seconds of an episode are limited to 100" in play.record.end.detail


async def test_it_has_a_place_among_the_sessions_of_its_key() -> None:
    async with left_behind() as (play, left):
        usage = take_over(play, left)
        assert usage.sessions.taken == 1
        await play.service.delete("s", "")
        assert usage.sessions.taken == 0


async def test_it_ends_with_its_run() -> None:
    async with left_behind() as (play, left):
        take_over(play, left)
        assert await play.service.close_run("r", None) == 1
        assert (play.record.end.cause, play.record.end.steps) == ("abandoned", 2)


async def test_it_stays_for_the_server_after_the_next_one() -> None:
    async with left_behind() as (play, left):
        take_over(play, left)
    assert not play.record.of(EpisodeEnded)


async def test_a_client_that_opens_it_again_gets_another_one_unless_it_has_calls() -> None:
    async with left_behind(numbers=()) as (play, left):
        take_over(play, left)
        await play.open("s", can_return=True)
        assert (play.record.end.episode, play.record.end.cause, play.record.end.detail) == (
            1,
            "interrupted",
            REOPENED,
        )
        assert (await play.answer("s", "add", number=3)).text == "3"
    async with left_behind() as (play, left):
        take_over(play, left)
        with pytest.raises(SessionExists):
            await play.open("s")


def unbound(sealed: bytes = b"", **values: Any) -> SessionRequest:
    request = SessionRequest(
        "s", "", None, split="train", index=1, can_return=True, sealed=sealed, **values
    )
    return SessionRequest.from_opening("s", request.opening_json())


async def test_a_session_without_an_environment_goes_on_unless_it_was_bound() -> None:
    async with Play(Adding) as play:
        play.service.take_over([unbound()], lambda label: KeyUsage())
        play.service.ping("s", "")
        assert (await play.answer("s", "add", number=3)).text == "3"
        await play.service.delete("s", "")
        assert (play.record.end.cause, play.record.end.steps) == ("abandoned", 1)


async def test_a_session_without_an_environment_is_opened_again() -> None:
    async with Play(Adding) as play:
        play.service.take_over([unbound()], lambda label: KeyUsage())
        await play.open("s", can_return=True)
        assert (await play.answer("s", "add", number=3)).text == "3"
        assert not play.record.of(EpisodeEnded)


async def test_a_session_without_an_environment_keeps_its_secrets_encrypted() -> None:
    vault = SecretsVault([base64.urlsafe_b64encode(b"k" * 32).decode()])
    secrets = {"token": "a-long-secret"}
    request = SessionRequest(
        "s", "", None, split="train", index=1, can_return=True, secrets=secrets
    )
    assert request.opening_json() == ""
    request.masked_texts = ("a-long-secret",)
    request.seal(vault)
    opening = request.opening_json()
    assert opening and "a-long-secret" not in opening
    async with Play(Telling) as play:
        play.service.keep_secrets(vault)
        play.service.take_over(
            [SessionRequest.from_opening("s", opening)], lambda label: KeyUsage()
        )
        assert (await play.answer("s", "tell")).text == "a-long-secret"
        assert "a-long-secret" not in str(play.record.rows)


def test_no_secret_is_kept_with_what_opens_a_session() -> None:
    request = SessionRequest(
        "s", "", None, split="train", index=1, can_return=True, user_agent="by a-long-secret"
    )
    assert request.opening_json()
    request.masked_texts = ("a-long-secret",)
    assert request.opening_json() == ""


async def test_a_session_that_is_opened_again_is_not_given_up_to_other_servers() -> None:
    class Places:
        """Notes what it is told."""

        def __init__(self) -> None:
            self.told = list[str]()

        async def claim(self, sid: str, opening: str) -> None:
            self.told.append(f"claim {sid}")

        def release(self, sid: str) -> None:
            self.told.append(f"release {sid}")

    async with left_behind(numbers=()) as (play, left):
        places = Places()
        play.service.share_sessions(places)
        take_over(play, left)
        await play.open("s", can_return=True)
        assert places.told == ["claim s"]
        await play.service.delete("s", "")
        assert places.told == ["claim s", "release s"]


async def test_a_call_that_ran_out_of_time_cannot_be_made_again() -> None:
    async with left_behind() as (play, left):
        play.record.steps[1].status, play.record.steps[1].reason = "failed", "timeout"
        take_over(play, left)
        assert (
            "because step 1 ('add') did not end by itself"
            in (await play.answer("s", "add", number=3)).data
        )
        await until(lambda: not play.service.live_sessions)
        assert play.record.end.cause == "interrupted"


async def test_the_openreward_client_needs_no_key_on_a_server_without_keys() -> None:
    async with left_behind() as (play, left):
        take_over(play, replace(left, survival="key"))
        assert (await play.answer("s", "add", number=3)).text == "6"


async def test_the_key_of_its_client_is_masked_as_soon_as_it_is_sent() -> None:
    async with left_behind() as (play, left):
        take_over(play, replace(left, key_label="lab", survival="key"))
        play.service.mask_key("s", "lab", "lab-key-0123")
        assert play.service.recent_secrets.log_line("it is lab-key-0123") == f"it is {STARS}"
