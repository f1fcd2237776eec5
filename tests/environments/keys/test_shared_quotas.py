"""What two servers of a database tell each other about the usage of a key."""

from __future__ import annotations

import asyncio

from environments.keys.shared_quotas import SharedQuotas
from environments.quotas import KeyUsage, Quotas

LIMITS = Quotas(requests=10, sessions=2, calls=2)


class Server:
    """One of the servers, whose texts a test hands on."""

    def __init__(self, number: int, limits: Quotas = LIMITS) -> None:
        self.usage = KeyUsage("lab", limits)
        self.shared = SharedQuotas(number, lambda: [self.usage], lambda texts: None)

    async def tell(self, other: Server) -> int:
        """Let `other` hear what this one has to tell; return the number of texts."""
        texts = self.shared.texts()
        for text in texts:
            other.shared.hear(text)
        await asyncio.sleep(0)
        return len(texts)


async def test_places_of_other_servers_are_taken_here_too() -> None:
    first, second = Server(1), Server(2)
    assert first.usage.sessions.enter()
    await first.tell(second)
    assert (second.usage.sessions.enter(), second.usage.sessions.enter()) == (True, False)
    assert second.usage.used["sessions"] == 2
    first.usage.sessions.leave()
    await first.tell(second)
    assert second.usage.sessions.enter()


async def test_who_waits_goes_on_when_another_server_has_a_place_less() -> None:
    first, second = Server(1), Server(2)
    assert first.usage.calls.enter() and first.usage.calls.enter()
    await first.tell(second)
    waiting = asyncio.create_task(second.usage.calls.wait_to_enter(60))
    await asyncio.sleep(0)
    first.usage.calls.leave()
    await first.tell(second)
    second.usage.renew()
    assert await waiting


async def test_requests_are_counted_once_on_each_server() -> None:
    first, second = Server(1), Server(2)
    first.usage.requests_left -= 3
    second.usage.requests_left -= 2
    for _ in range(3):
        await first.tell(second)
        await second.tell(first)
    assert (first.usage.used["requests"], second.usage.used["requests"]) == (5, 5)


async def test_nothing_is_told_of_keys_that_use_nothing_or_have_no_quotas() -> None:
    first, second = Server(1), Server(2)
    assert await first.tell(second) == 0
    first.usage.requests_left -= 1
    assert [await first.tell(second) for _ in range(3)] == [1, 1, 0]
    unlimited = Server(3, Quotas())
    unlimited.usage.sessions.enter()
    assert await unlimited.tell(second) == 0
