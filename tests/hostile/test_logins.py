"""A storm of logins leaves agents what they need."""

from __future__ import annotations

import asyncio

from tests.hostile.login_storm import LOGINS, measure
from tests.hostile.sizes import size
from tests.server import LiveServer


def test_agents_wait_at_most_twice_as_long_while_many_log_in() -> None:
    """Measured up to three times, because other programs may begin to work between the quiet and the storm."""
    with LiveServer("tests.envs:Echo", env={"ORSWEB_API_KEYS": "lab:0123456789"}) as server:
        for _ in range(3):
            report = asyncio.run(measure(server.url, logins=LOGINS, seconds=size(0.3, 20.0)))
            print(report)
            assert set(report.answers) <= {200, 503}
            if report.storm_seconds <= 2 * report.quiet_seconds + 0.005:
                return
    raise AssertionError(report)
