"""`/health`, `/ready` and `/metrics` of a real server, as probes and Prometheus read them."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests import programs
from tests.conformance.agent import Agent, eventually
from tests.conformance.away import away
from tests.server import LiveServer

KEYS = {"ORSWEB_API_KEYS": "lab:lab-key-0123", "ORSWEB_READY_MAX_COMMIT_LAG": "0.3"}
LAB = {"X-API-Key": "lab-key-0123"}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo", "tests.envs_faulty:Raises") as running:
        yield running


@pytest.fixture(scope="module")
def keyed() -> Iterator[LiveServer]:
    with LiveServer("tests.envs:Echo", env=KEYS) as running:
        yield running


@pytest.fixture(scope="module")
def monitor(keyed: LiveServer) -> dict[str, str]:
    made = programs.run("create_key", "prometheus", "--scope", "monitor", env=keyed.env, check=True)
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    eventually(lambda: httpx.get(f"{keyed.url}/metrics", headers=headers).status_code == 200)
    return headers


Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def metrics_of(server: LiveServer, headers: Mapping[str, str] | None = None) -> Samples:
    """Return the value of each sample by its name and labels, as Prometheus' own parser reads
    them."""
    answer = httpx.get(f"{server.url}/metrics", headers=headers)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4"), answer.text
    families = list(text_string_to_metric_families(answer.text))
    assert all(family.documentation and family.type != "unknown" for family in families)
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in families
        for one in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((f"orsweb_{name}", frozenset(labels.items())), 0.0)


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/metrics", "/openapi.json", "/echo/tools", "/api/schema"]
)
def test_head_is_answered_as_get_without_the_body(server: LiveServer, path: str) -> None:
    with httpx.Client(base_url=server.url) as client:
        answer, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == answer.headers["content-type"]
        assert int(head.headers["content-length"]) > 0
        assert client.get("/health").status_code == 200  # on the same connection


def test_calls_are_counted_by_environment_and_outcome(server: LiveServer) -> None:
    before = metrics_of(server)
    with Agent(server).open({"id": 1}, "raises") as agent:
        agent.call("echo", {"text": "hi"})
        agent.call("nothing_like_it")
        agent.call("fault")
        during = metrics_of(server)
    for outcome in ("ok", "refused", "failed"):
        labels = {"environment": "raises", "outcome": outcome}
        assert value(during, "calls_total", **labels) - value(before, "calls_total", **labels) == 1
    assert value(during, "live_sessions", environment="raises") == 1
    assert value(during, "live_sessions", environment="echo") == 0


def test_calls_are_counted_by_their_time(server: LiveServer) -> None:
    before = metrics_of(server)
    with Agent(server).open({"id": 1}, "echo") as agent:
        agent.call("echo", {"text": "hi"})
    after = metrics_of(server)
    labels = {"environment": "echo"}
    assert (
        value(after, "call_seconds_count", **labels) - value(before, "call_seconds_count", **labels)
        == 1
    )
    assert value(after, "call_seconds_bucket", le="+Inf", **labels) == value(
        after, "call_seconds_count", **labels
    )
    assert value(after, "call_seconds_sum", **labels) > value(before, "call_seconds_sum", **labels)


def test_errors_and_endings_have_causes(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "raises") as agent:
        agent.call("silent_fault")
    found = metrics_of(server)
    assert value(found, "call_errors_total", environment="raises", cause="ValueError") == 1
    assert value(found, "episodes_ended_total", environment="raises", cause="env_error") >= 1


def test_commits_and_the_process_are_measured(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "echo") as agent:
        agent.call("echo", {"text": "hi"})
    found = metrics_of(server)
    assert value(found, "commit_batch_calls_sum") >= value(found, "commit_batch_calls_count") > 0
    assert value(found, "commit_lag_seconds_sum") >= value(found, "commit_seconds_sum") > 0
    assert (value(found, "rejected_rows_total"), value(found, "threads", thread="recorder")) == (
        0,
        1,
    )
    assert found["process_resident_memory_bytes", frozenset()] > 10e6
    assert value(found, "ready", check="disk") == 1


def test_labels_name_no_sessions(server: LiveServer) -> None:
    with Agent(server).open({"id": 1}, "echo") as agent:
        assert agent.sid not in httpx.get(f"{server.url}/metrics").text
    names = {name for _, labels in metrics_of(server) for name, _ in labels}
    assert names <= {"environment", "outcome", "cause", "le", "thread", "part", "check", "version"}


def test_a_server_that_can_be_used_is_ready(server: LiveServer) -> None:
    answer = httpx.get(f"{server.url}/ready")
    checks = answer.json()["checks"]
    assert (answer.status_code, answer.json()["status"]) == (200, "ready"), answer.text
    assert set(checks) == {"stopping", "database", "queue", "commit_lag", "disk", "follower"}
    assert all(check["ok"] and {"value", "unit"} < set(check) for check in checks.values())


def test_a_full_disk_and_a_follower_that_stands_still_are_not_ready() -> None:
    limits = {
        "ORSWEB_READY_MIN_FREE_BYTES": str(2**60),
        "ORSWEB_READY_MAX_FOLLOWER_LAG": "0.000001",
    }
    with LiveServer("tests.envs:Echo", env=limits) as full:
        answer = httpx.get(f"{full.url}/ready")
        assert httpx.get(f"{full.url}/health").status_code == 200
    checks = answer.json()["checks"]
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert [name for name, check in checks.items() if not check["ok"]] == ["disk", "follower"]
    assert 0 < checks["disk"]["value"] < checks["disk"]["minimum"] == 2**60


def test_a_database_that_takes_nothing_is_not_ready(
    keyed: LiveServer, monitor: dict[str, str]
) -> None:
    with Agent(keyed, **LAB) as agent, ThreadPoolExecutor(1) as player:
        agent.open({"id": 1}, "echo")
        with away(keyed):
            calling = player.submit(agent.call, "echo", {"text": "hi"})
            eventually(lambda: httpx.get(f"{keyed.url}/ready").status_code == 503)
            found = httpx.get(f"{keyed.url}/ready", headers=monitor).json()["checks"]
            assert (
                not found["commit_lag"]["ok"]
                and found["commit_lag"]["value"] > found["commit_lag"]["maximum"]
            )
            assert httpx.get(f"{keyed.url}/health").json() == {"status": "ok"}
        assert calling.result(timeout=30).text == "hi"
        eventually(lambda: httpx.get(f"{keyed.url}/ready").status_code == 200)


def test_anybody_learns_whether_it_is_ready_and_nothing_else(keyed: LiveServer) -> None:
    eventually(lambda: httpx.get(f"{keyed.url}/ready").status_code == 200)
    assert httpx.get(f"{keyed.url}/ready").json() == {"status": "ready"}


@pytest.mark.parametrize("path", ["/metrics", "/ready"])
def test_figures_are_for_keys_that_monitor(
    keyed: LiveServer, monitor: dict[str, str], path: str
) -> None:
    statuses = [
        httpx.get(f"{keyed.url}{path}", headers=headers).status_code
        for headers in ({"X-API-Key": "x"}, LAB)
    ]
    assert statuses == [401, 403]
    assert httpx.get(f"{keyed.url}{path}", headers=monitor).status_code in (200, 503)


def test_metrics_need_a_key(keyed: LiveServer) -> None:
    assert httpx.get(f"{keyed.url}/metrics").status_code == 401


@pytest.mark.parametrize("path", ["/metrics", "/ready", "/health"])
def test_a_proxy_in_front_of_a_server_without_keys_reads_nothing(
    server: LiveServer, path: str
) -> None:
    assert (
        httpx.get(f"{server.url}{path}", headers={"X-Forwarded-For": "192.0.2.1"}).status_code
        == 403
    )


@pytest.mark.parametrize("path", ["/metrics", "/ready", "/health"])
def test_they_are_read_only(server: LiveServer, path: str) -> None:
    assert httpx.post(f"{server.url}{path}").status_code == 405


def test_it_is_alive_and_not_ready_while_it_stops() -> None:
    with LiveServer("tests.envs_slow:Slow", env={"ORSWEB_SHUTDOWN_TIMEOUT": "20"}) as stopping:
        agent = Agent(stopping).open({"id": 1}, "slow")
        agent.begin("sleep", {"seconds": 3}).hear(b"task_id")
        stopping.process.send_signal(signal.SIGTERM)
        eventually(lambda: httpx.get(f"{stopping.url}/ready").status_code == 503)
        assert httpx.get(f"{stopping.url}/ready").json()["checks"]["stopping"] == {
            "ok": False, "value": 1.0, "maximum": 0, "unit": "1 while the server stops",
        }  # fmt: skip
        assert httpx.get(f"{stopping.url}/health").json() == {"status": "ok"}
