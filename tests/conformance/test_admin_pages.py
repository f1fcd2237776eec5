"""An episode that a client has played can be read in the admin, over HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.conformance.clients import Client
from tests.conformance.record import Recorded
from tests.server import LiveServer


@pytest.fixture(scope="module")
def admin(server: LiveServer) -> httpx.Client:
    return httpx.Client(base_url=server.url, follow_redirects=True, timeout=60)


@pytest.mark.parametrize("name", ["echo", "orsecho", "orwecho"])
def test_it_shows_the_whole_episode(
    client: Client, record: Recorded, admin: httpx.Client, name: str
) -> None:
    with client.environment(name).session(split="train", index=1) as session:
        session.get_prompt()
        session.call_tool("echo", {"text": "words <to> find"})
        session.call_tool("finish", {})
    page = admin.get(f"/admin/episodes/episode/{record.episode(session.sid).pk}/")
    assert page.status_code == 200
    for shown in (
        "Task train-1.",
        "words &lt;to&gt; find",
        "bye",
        session.sid,
        client.user_agent,
        "finished",
    ):
        assert shown in page.text


def test_it_lists_the_episode_first(client: Client, record: Recorded, admin: httpx.Client) -> None:
    with client.environment("echo").session(split="train", index=0) as session:
        session.call_tool("finish", {})
    page = admin.get("/admin/episodes/episode/")
    assert page.status_code == 200
    assert f"#{record.episode(session.sid).pk}" in page.text


def test_it_shows_no_secret(client: Client, record: Recorded, admin: httpx.Client) -> None:
    secrets = client.secrets({"token": "swordfish-0123456789"})
    with client.environment("secretive").session(
        split="train", index=0, secrets=secrets
    ) as session:
        session.get_prompt()
        session.call_tool("reveal", {})
    page = admin.get(f"/admin/episodes/episode/{record.episode(session.sid).pk}/")
    assert "token ********" in page.text
    assert "swordfish" not in page.text
