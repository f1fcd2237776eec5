"""What the protocol promises holds wherever sessions are played: tests of the server's, on its
other hosts of sessions.

Each runs in a process of its own, whose servers play in worker processes, on this machine or as
actors of Ray.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
from ray.cluster_utils import Cluster

from tests import programs
from tests.server import ROOT, SETTINGS, LiveServer

EVERYWHERE = (
    *(
        "bundled",
        "checklist",
        "episodes",
        "keys",
        "limits",
        "openreward_client",
        "ors_client",
        "quotas",
    ),
    *("reconnection", "restart", "secrets", "slow_code", "stream_bytes", "texts", "traffic"),
)
HERE = ("platform_clients", "returning", "saved_sessions")
"""Tests whose environments read variables that Ray doesn't pass to its actors, or which need a
second interpreter."""
WORKERS = {"ORSWEB_WORKERS": "2"}
MAX_SECONDS = 1200


@pytest.fixture(scope="module")
def on_ray() -> Iterator[Mapping[str, str]]:
    """Yield settings of servers that play on a cluster with room for the processes of several
    servers."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 64, "include_dashboard": False}
    )
    yield WORKERS | {"ORSWEB_SESSION_HOSTS": f"ray={made.address}"}
    made.shutdown()


def run(names: tuple[str, ...], settings: Mapping[str, str]) -> None:
    """Run the tests of the protocol with these names on servers with these settings. Raises:
    AssertionError."""
    files = [f"tests/conformance/test_{name}.py" for name in names]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        "--dist",
        "loadfile",
        *files,
    ]
    environment = {**os.environ, SETTINGS: json.dumps(dict(settings))}
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=MAX_SECONDS
    )
    assert ran.returncode == 0, ran.stdout[-8000:]


def check(settings: Mapping[str, str]) -> None:
    """Let the checks of environments play at a server with these settings. Raises:
    AssertionError."""
    with LiveServer("environments.builtin.guess:Guess", env=settings) as server:
        ran = programs.run(
            "check_environment", "--url", server.url, "--env", "guess", env=server.env
        )
    assert ran.returncode == 0, ran.stdout


def test_the_protocol_on_worker_processes() -> None:
    run((*EVERYWHERE, *HERE), WORKERS)


def test_the_checks_on_worker_processes() -> None:
    check(WORKERS)


def test_the_protocol_on_ray(on_ray: Mapping[str, str]) -> None:
    run(EVERYWHERE, on_ray)


def test_the_checks_on_ray(on_ray: Mapping[str, str]) -> None:
    check(on_ray)
