"""The operator's page: the figures of `/metrics` and `/ready`, refreshed every two seconds.

Other live pages are refreshed when an episode ends; this one has to show above all what stands
still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments import conf
from environments.access.privacy import hidden_names, viewer_of
from environments.display import formats
from environments.errors import Draining, NotPlaying
from environments.filtering.addresses import takes
from environments.filtering.parameters import BadFilter
from environments.runtime.bucket_counts import CountedValues
from environments.runtime.play_counts import PlayedOfEnvironment
from environments.runtime.service import SessionService
from environments.service import ask_service
from orsweb.operations.readiness import READINESS, ReadyCheck
from orsweb.operations.server_load import ServerLoad, load_of
from orsweb.server.succession import state_of_supervisor

MAX_WAIT_SECONDS = 5.0
"""How long the page waits for the event loop, which code of an environment may hold."""
HELD = (
    f"Code of an environment may hold the event loop: it has not answered for {MAX_WAIT_SECONDS:g} "
    "s. See Incidents."
)
CHECKS = {
    "stopping": "Takes new sessions",
    "database": "The database answers",
    "queue": "Calls to record",
    "commit_lag": "The oldest of them waits for",
    "disk": "Free space",
    "follower": "Figures updated",
}
"""What the page calls each check of `/ready`."""

PASSED_ON = {
    "answered": "Requests passed on and answered",
    "moved": "Sent again because the session had moved",
    "no answer": "Sent again because the server was lost",
    "given up": "Given up after all",
}
TAKEN_OVER = {
    "going on": "Sessions of dead servers that go on here",
    "closed": "Those that ended as interrupted",
}
"""What the page calls the outcomes of ClusterCounts."""

WORDS: Mapping[str, Callable[[float], str]] = {"disk": filesizeformat, "queue": "{:,.0f}".format}
"""How the page writes values of checks that are no durations."""


@dataclass(frozen=True, slots=True)
class CheckRow:
    label: str
    value: str
    limit: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """What the page says about one environment."""

    name: str
    live: int
    running: int
    calls: int
    refused: int
    failed: int
    median: str
    slowest: str
    """Time that 95 % of the calls don't exceed."""
    endings: list[tuple[str, int]]


@require_safe
@never_cache
@takes("part")
def operations(request: HttpRequest) -> HttpResponse:
    """Return the page, or with `?part=state` what is fetched again."""
    if (part := request.GET.get("part", "")) not in ("", "state"):
        raise BadFilter("part", part, "allowed is state")
    template = "orsweb/operations_state.html" if part else "orsweb/operations.html"
    return render(request, template, _state(hidden_names(viewer_of(request.user))))


def _state(private_names: frozenset[str]) -> dict[str, Any]:
    """Return the template variables. `private_names`: of the environments that do not exist for
    the person."""

    async def read(service: SessionService) -> tuple[ServerLoad, list[ReadyCheck]]:
        return await load_of(service), await READINESS.checks(service)

    try:
        load, checks = ask_service(read, MAX_WAIT_SECONDS)
    except (NotPlaying, Draining) as error:
        return {"problem": str(error)}
    except TimeoutError:
        return {"problem": HELD}
    supervisor = state_of_supervisor()
    refusal = supervisor.problem if supervisor else ""
    recorder = load.recorder
    rows = [row for row in _environments(load) if row.name not in private_names]
    between_servers = list[tuple[str, int]]()
    if cluster := load.cluster:
        between_servers += [(PASSED_ON[key], cluster.passed_on.get(key, 0)) for key in PASSED_ON]
        between_servers += [(TAKEN_OVER[key], cluster.taken_over.get(key, 0)) for key in TAKEN_OVER]
    return {
        # it may name what is hidden
        "refusal": "The log says why." if refusal and private_names else refusal,
        "is_ready": all(check.is_met for check in checks),
        "checks": [_check_row(check) for check in checks],
        "environments": rows,
        "live": sum(row.live for row in rows) + load.play.live.get("", 0),
        "running": sum(row.running for row in rows),
        "errors": sorted(
            (
                (name, cause, count)
                for name, counts in load.play.counts.items()
                for cause, count in counts.errors.items()
                if name not in private_names
            ),
            key=lambda error: -error[2],
        ),
        "recorder": recorder,
        "oldest": formats.seconds(recorder.oldest_seconds),
        "commits": _commit_figures(load),
        "behind": sorted((part, count) for part, count in recorder.behind.items() if count),
        "makes_figures": bool(recorder.behind),
        "load": load,
        "workers": sorted(
            (name, workers) for name, workers in load.workers.items() if name not in private_names
        ),
        "threads": sorted(load.threads.items(), key=lambda pair: (-pair[1], pair[0])),
        "thread_count": sum(load.threads.values()),
        "version": conf.version(),
        "cluster": load.cluster,
        "between_servers": between_servers,
    }


def _environments(load: ServerLoad) -> Iterator[EnvironmentRow]:
    play = load.play
    nothing = PlayedOfEnvironment({}, CountedValues((), (0,), 0.0), {}, {})
    for name in filter(None, play.live):
        counts = play.counts.get(name, nothing)
        yield EnvironmentRow(
            name=name,
            live=play.live[name],
            running=play.running[name],
            calls=sum(counts.calls.values()),
            refused=counts.calls.get("refused", 0),
            failed=counts.calls.get("failed", 0),
            median=_quantile_text(counts.seconds, 0.5),
            slowest=_quantile_text(counts.seconds, 0.95),
            endings=sorted(counts.endings.items(), key=lambda pair: -pair[1]),
        )


def _commit_figures(load: ServerLoad) -> list[tuple[str, str]]:
    commits = load.recorder.commits
    batches = commits.calls.count
    mean = f"{commits.calls.total / batches:.1f}" if batches else formats.NOTHING
    return [
        ("Batches", f"{batches:,}"),
        ("Calls in a batch, on average", mean),
        ("Time to write a batch, median", _quantile_text(commits.seconds, 0.5)),
        ("Wait for the commit, median", _quantile_text(commits.lag_seconds, 0.5)),
        ("Wait for the commit, 99%", _quantile_text(commits.lag_seconds, 0.99)),
        ("Rejected rows", f"{load.recorder.rejected:,}"),
    ]


def _quantile_text(values: CountedValues, share: float) -> str:
    """Return the bound that `share` of the durations don't exceed."""
    limit = values.quantile(share)
    if limit is None:
        return formats.NOTHING
    if limit == float("inf"):
        return f"> {formats.seconds(values.bounds[-1])}"
    return f"≤ {formats.seconds(limit)}"


def _check_row(check: ReadyCheck) -> CheckRow:
    if check.name == "stopping":
        value = "yes" if check.is_met else "no, it is stopping"
        return CheckRow(CHECKS[check.name], value, "", check.is_met)
    words = WORDS.get(check.name, formats.seconds)
    value = words(check.value) if check.value is not None else "no answer"
    if check.name == "follower":
        value += " ago"
    limit = f"{'at least' if check.is_minimum else 'at most'} {words(check.limit)}"
    return CheckRow(CHECKS[check.name], value, limit, check.is_met)
