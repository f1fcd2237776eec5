"""Both SDK clients over the quotas of their key: sessions and calls wait for their turn, and all of
them play."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.clients import OpenRewardClient, OrsClient
from tests.server import LiveServer

QUOTAS = {"ORSWEB_QUOTA_SESSIONS": "2", "ORSWEB_QUOTA_CALLS": "1", "ORSWEB_QUOTA_STEPS": "2"}
AGENTS = 5


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Slow", env=QUOTAS) as running:
        yield running


@pytest.mark.parametrize("kind", [OrsClient, OpenRewardClient])
def test_more_agents_than_the_quota_allows_play_one_after_the_other(
    server: LiveServer, kind: type[OrsClient | OpenRewardClient]
) -> None:
    def play(_: int) -> str:
        with (
            kind(server) as client,
            client.environment("slow").session(split="train", index=0) as session,
        ):
            for _ in range(2):
                session.call_tool("wait", {"seconds": 0.05})
            with pytest.raises(Exception, match="was not run: the episode has ended") as refused:
                session.call_tool("wait", {"seconds": 0.05})
            return type(refused.value).__name__

    with ThreadPoolExecutor(AGENTS) as agents:
        assert list(agents.map(play, range(AGENTS))) == ["ToolCallError"] * AGENTS
