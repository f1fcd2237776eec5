"""Turns that go round by key."""

from __future__ import annotations

import threading

from environments.fair_turns import FairTurns, RoundRobin
from tests.conformance.agent import eventually


def test_keys_take_turns_and_each_is_served_in_order() -> None:
    waiting: RoundRobin[str] = RoundRobin()
    for item in ("a1", "a2", "a3", "b1", "b2", "c1"):
        waiting.put(item[0], item)
    waiting.discard("a", "a2")
    assert [waiting.take() for _ in range(len(waiting))] == ["a1", "b1", "c1", "a3", "b2"]


def test_a_thread_of_another_key_comes_before_the_rest_of_a_queue() -> None:
    turns, served = FairTurns(1), list[str]()
    assert turns.acquire("first", lambda: False)

    def wait(name: str) -> None:
        turns.acquire(name[0], lambda: False)
        served.append(name)
        turns.release()

    threads = []
    for count, name in enumerate(("a1", "a2", "a3", "b1"), 1):
        threads.append(threading.Thread(target=wait, args=[name], daemon=True))
        threads[-1].start()
        eventually(lambda count=count: len(turns._waiting) == count)  # type: ignore[misc]
    turns.release()
    for thread in threads:
        thread.join(5)
    assert served == ["a1", "b1", "a2", "a3"]


def test_who_gives_up_leaves_the_queue() -> None:
    turns = FairTurns(1)
    turns.acquire("a", lambda: False)
    assert not turns.acquire("b", lambda: True)
    turns.release()
    assert turns.acquire("c", lambda: False)
