"""Tests of what only the ors client does: environments in the path, split and index without an
environment's name, no ids.
"""

from __future__ import annotations

import pytest

from tests.conformance.clients import OrsClient
from tests.conformance.record import Recorded


@pytest.mark.parametrize("name", ["slow", "OrwEcho", "SECRETIVE"])
def test_it_binds_a_nameless_session_to_the_environment_of_its_first_path(
    ors: OrsClient, record: Recorded, name: str
) -> None:
    with ors.environment(name).session(split="train", index=1) as session:
        assert session.get_prompt()
    assert record.episode(session.sid).environment.name == name.lower()


def test_it_binds_a_nameless_session_by_its_first_call(ors: OrsClient, record: Recorded) -> None:
    with ors.environment("orsecho").session(split="train", index=1) as session:
        assert session.call_tool("echo", {"text": "late"}).blocks[0].text == "late"
    assert record.episode(session.sid).environment.name == "orsecho"


def test_it_tells_the_first_call_that_its_environment_lacks_the_index(ors: OrsClient) -> None:
    session = ors.environment("orsecho").session(split="train", index=2)  # which Echo has
    with session, pytest.raises(RuntimeError, match="Invalid index"):
        session.call_tool("echo", {"text": "late"})


def test_it_opens_sessions_for_discovery_without_recording_them(
    ors: OrsClient, record: Recorded
) -> None:
    before = record.episodes.count()
    ors.environment("echo").list_tasks("train")
    assert record.episodes.count() == before


def test_it_gives_the_constructor_the_secrets_of_the_header(ors: OrsClient) -> None:
    secrets = {"token": "t-0123456789"}
    with ors.environment("secretive").session(split="train", index=0, secrets=secrets) as session:
        assert session.get_prompt()[0].text == "The token is t-0123456789."
