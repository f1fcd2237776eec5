"""A storm of logins leaves agents what they need."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path

from orsweb.accounts.password_hashing import LOW_PRIORITY
from tests.hostile.login_storm import KEYS, LOGINS, measure
from tests.hostile.sizes import size
from tests.server import LiveServer

HASH_NANOSECONDS = 100_000
"""Less than a hash takes, short as it is in servers of tests."""


def test_agents_play_and_passwords_give_way_while_many_log_in() -> None:
    """How long agents wait then, other programs decide too: `login_storm.py` measures it on a quiet
    machine."""
    with LiveServer("tests.envs:Echo", env=KEYS) as server:
        report = asyncio.run(measure(server.url, logins=LOGINS, seconds=size(0.3, 20.0)))
        print(report)
        assert report.answers[200] and set(report.answers) <= {200, 503}
        assert (
            nanoseconds_by_niceness(server.pid)[LOW_PRIORITY]
            > report.answers[200] * HASH_NANOSECONDS
        )


def nanoseconds_by_niceness(pid: int) -> Counter[int]:
    """Return the processor time of the threads of a process."""
    spent = Counter[int]()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile; the one of passwords stays
            niceness = int((thread / "stat").read_text().rpartition(")")[2].split()[16])
            spent[niceness] += int((thread / "schedstat").read_text().split()[0])
    return spent
