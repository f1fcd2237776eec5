"""The server's figures in the text format of Prometheus.

Each request reads everything anew, from numbers that the server keeps anyway. Labels are names
of environments that are served, outcomes, causes (a bounded number) and names of threads: never
sessions, tasks or keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from environments import conf
from environments.runtime.bucket_counts import CountedValues
from orsweb.operations.readiness import ReadyCheck
from orsweb.operations.server_load import ServerLoad

UNBOUND = "(not chosen yet)"
"""Label of sessions that are not bound to an environment."""
PASSED_ON = ("answered", "moved", "no answer", "given up")
TAKEN_OVER = ("going on", "closed")
"""Outcomes, as ClusterCounts has them."""


def metrics_text(load: ServerLoad, checks: Sequence[ReadyCheck]) -> bytes:
    """Return the text for `load`, with figures about the process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(load, checks))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Metrics(Collector):
    def __init__(self, load: ServerLoad, checks: Sequence[ReadyCheck]) -> None:
        self._load, self._checks = load, checks

    def collect(self) -> Iterator[Metric]:
        yield _gauge("info", "Version of the server", {conf.version(): 1}, "version")
        yield from self._of_play()
        yield from self._of_workers()
        yield from self._of_recorder()
        yield from self._of_cluster()
        yield _gauge(
            "threads", "Threads by name", dict(sorted(self._load.threads.items())), "thread"
        )
        readiness = {check.name: check.is_met for check in self._checks}
        yield _gauge("ready", "1 for each check of /ready that is met", readiness, "check")
        values = {check.name: check.value for check in self._checks if check.value is not None}
        yield _gauge("ready_value", "Value of each check of /ready, in its unit", values, "check")

    def _of_play(self) -> Iterator[Metric]:
        play = self._load.play
        for name, text, live in (
            ("live_sessions", "Sessions that are open", play.live),
            ("running_calls", "Tool calls that run, or wait for the setup", play.running),
        ):
            samples = {environment or UNBOUND: count for environment, count in live.items()}
            yield _gauge(name, text, samples, "environment")
        environments = dict(sorted(play.counts.items()))
        calls = {name: counts.calls for name, counts in environments.items()}
        yield _counter(
            "calls", "Tool calls that were answered", _flat(calls), "environment", "outcome"
        )
        yield _histogram(
            "call_seconds",
            "Time from a call's arrival to its recorded result",
            {name: counts.seconds for name, counts in environments.items()},
            "environment",
        )
        yield _counter(
            "call_errors",
            "Tool calls that failed, by the reason that is recorded",
            _flat({name: counts.errors for name, counts in environments.items()}),
            "environment",
            "cause",
        )
        yield _counter(
            "episodes_ended",
            "Episodes by how they ended",
            _flat({name: counts.endings for name, counts in environments.items()}),
            "environment",
            "cause",
        )

    def _of_workers(self) -> Iterator[Metric]:
        workers = dict(sorted(self._load.workers.items()))
        for field, text in {
            "processes": "Worker processes that run",
            "sessions": "Sessions that worker processes play",
            "machines": "Machines on which they run",
            "lag_seconds": "Longest time that a worker process takes to answer a ping while it has "
            "a call",
        }.items():
            samples = {name: getattr(load, field) for name, load in workers.items()}
            yield _gauge(f"worker_{field}", text, samples, "environment")
        deaths = {name: load.deaths for name, load in workers.items()}
        yield _counter(
            "worker_deaths",
            "Worker processes that ended while they had sessions",
            deaths,
            "environment",
        )

    def _of_recorder(self) -> Iterator[Metric]:
        recorder = self._load.recorder
        commits = recorder.commits
        for name, text, values in (
            ("commit_batch_calls", "Calls that were committed together", commits.calls),
            ("commit_seconds", "Time that a batch took to be written", commits.seconds),
            (
                "commit_lag_seconds",
                "Time from the oldest call of a batch to its commit",
                commits.lag_seconds,
            ),
        ):
            yield _histogram(name, text, {(): values})
        yield _counter("rejected_rows", "Rows that the database refused", {(): recorder.rejected})
        yield _gauge("queue_calls", "Calls that wait to be recorded", {(): recorder.queued})
        yield _gauge(
            "queue_oldest_seconds",
            "How long the oldest of those waits",
            {(): recorder.oldest_seconds},
        )
        yield _gauge(
            "follower_behind_episodes",
            "Ended episodes that figures don't count yet",
            recorder.behind,
            "part",
        )
        yield _gauge(
            "follower_seconds",
            "Time since all figures last followed the record",
            {(): recorder.follower_seconds},
        )

    def _of_cluster(self) -> Iterator[Metric]:
        cluster = self._load.cluster
        living: Samples[float] = {}
        leaders: Samples[float] = {}
        leases: Samples[float] = {}
        passed_on: Mapping[str, int] = {}
        taken_over: Mapping[str, int] = {}
        if cluster is not None:
            servers = cluster.servers
            living = {(): sum(server.ended is None for server in servers)}
            leaders = {(): cluster.is_leader}
            own = sum(server.sessions for server in servers if server.id == cluster.own_id)
            dead = sum(server.sessions for server in servers if server.ended is not None)
            leases = {"this server": own, "dead servers": dead}
            passed_on, taken_over = cluster.passed_on, cluster.taken_over
        yield _gauge("cluster_servers", "Servers of the database that live", living)
        yield _gauge("cluster_leader", "1 if this server leads", leaders)
        yield _gauge("cluster_leases", "Sessions that a server has, in the database", leases, "of")
        yield _counter(
            "passed_on_requests",
            "Requests passed on to another server",
            {outcome: passed_on.get(outcome, 0) for outcome in PASSED_ON},
            "outcome",
        )
        yield _counter(
            "taken_over_sessions",
            "Sessions taken over from dead servers",
            {outcome: taken_over.get(outcome, 0) for outcome in TAKEN_OVER},
            "outcome",
        )


Value = TypeVar("Value")
Samples = Mapping[Any, Value]
"""Values by label, or by several labels; by () without one."""


def _gauge(name: str, text: str, samples: Samples[float], *labels: str) -> Metric:
    return _fill(GaugeMetricFamily(f"orsweb_{name}", text, labels=labels), samples)


def _counter(name: str, text: str, samples: Samples[float], *labels: str) -> Metric:
    return _fill(CounterMetricFamily(f"orsweb_{name}", text, labels=labels), samples)


def _fill(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples[float]) -> Metric:
    for values, value in samples.items():
        family.add_metric([values] if isinstance(values, str) else values, value)
    return family


def _histogram(name: str, text: str, samples: Samples[CountedValues], *labels: str) -> Metric:
    family = HistogramMetricFamily(f"orsweb_{name}", text, labels=labels)
    for names, values in samples.items():
        bounds = [*map(floatToGoString, values.bounds), "+Inf"]
        buckets = list(zip(bounds, values.cumulated(), strict=True))
        family.add_metric([names] if isinstance(names, str) else names, buckets, values.total)
    return family


def _flat(counts: Mapping[str, Mapping[Any, int]]) -> dict[tuple[str, ...], float]:
    """Return the counts by both keys."""
    return {(name, key): count for name, inner in counts.items() for key, count in inner.items()}


# --- several servers on one port ------------------------------------------------------------------

_SAMPLE_NAME = re.compile(r"(\w+)(\{?)")


def merged(texts: Mapping[str, str]) -> str:
    """Return the texts of several servers as one, with the label `server` at each sample. `texts`:
    by the label's value."""
    families: dict[str, list[str]] = {}
    for server, text in texts.items():
        samples: list[str] = []
        for line in text.splitlines():
            if line.startswith("#"):
                samples = families.setdefault(line.split(" ", 3)[2], [])
                if line not in samples:
                    samples.append(line)
            else:
                name, brace = _SAMPLE_NAME.match(line).groups()  # type: ignore[union-attr]  # each sample begins with its name
                rest = line[len(name) + len(brace) :]
                samples.append(f'{name}{{server="{server}"{"," if brace else "}"}{rest}')
    return "".join(f"{line}\n" for samples in families.values() for line in samples)


def label_of(address: str) -> str:
    """Return the label of a server that others reach at `address`: without the directory of its
    socket."""
    return PurePath(address).name if address.startswith("/") else address
