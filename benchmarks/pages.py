"""The pages to measure: each default view, filter, sort, curve and search of the seeded
episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

VIEW_MS, SEARCH_MS = 100.0, 1000.0
"""Targets for the 95th percentile."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One page to measure. `url` takes the number of the request, so that requests can differ."""

    name: str
    url: Callable[[int], str]
    target_ms: float = VIEW_MS
    unfinished: bytes = b""
    """Text that marks a page with incomplete results, which are counted; empty if the page has no
    such state."""


def subjects(episodes: int, runs: int) -> Iterator[Subject]:
    """Yield every page that has a target. `runs`: number of runs that share the episodes."""
    yield from _pages(episodes, runs)
    yield from _lists(episodes, runs)
    yield from _curves(runs)
    yield Subject("doctor", lambda n: f"/environments/bench{n % 6}/doctor/", SEARCH_MS)
    yield Subject(
        "doctor of a run",
        lambda n: f"/environments/bench{n % 6}/doctor/?run=grpo-{n % runs}",
        SEARCH_MS,
    )
    yield from _searches()


def _searches() -> Iterator[Subject]:
    """Yield searches for words that a third of the episodes or more contain, and for one that none
    contains."""
    searches = {
        "one word": ("zephyr", "oasis", "larch"),
        "two words": ("lantern granite", "kestrel orchid", "meadow copper"),
        "three words": ("willow yarrow zephyr", "amber basin cable", "river iris jade"),
        "a phrase": ('"beside the"', '"there is amber"', '"look at river"'),
        "a prefix": ("gran*", "lant*", "saff*"),
        "no match": ("nosuchword", "neither", "norother"),
    }
    for name, texts in searches.items():
        yield Subject(
            f"search for {name}",
            lambda n, texts=texts: f"/episodes/?{urlencode({'text': texts[n % len(texts)]})}",  # type: ignore[misc]
            SEARCH_MS,
        )


def _pages(episodes: int, runs: int) -> Iterator[Subject]:
    yield Subject("overview", lambda n: "/")
    yield Subject("environments", lambda n: "/environments/")
    yield Subject("environment", lambda n: f"/environments/bench{n % 6}/")
    yield Subject("leaderboard", lambda n: f"/environments/bench{n % 6}/leaderboard/?split=train")
    yield Subject("runs", lambda n: "/runs/")
    yield Subject("run", lambda n: f"/runs/{1 + n % runs}/")
    yield Subject("task", lambda n: f"/tasks/{1 + n * 37 % 4000}/")
    yield Subject(
        "group", lambda n: f"/tasks/{1 + n * 37 % 4000}/group/?run={1 + n % runs}&step={n}"
    )
    yield Subject("replay", lambda n: f"/episodes/{1 + n * 7919 % episodes}/")
    yield Subject("compare", lambda n: f"/compare/?episodes={1 + n},{2 + n}")
    if runs > 1:
        yield Subject(
            "compare runs", lambda n: f"/compare/?runs={1 + n % (runs - 1)},{2 + n % (runs - 1)}"
        )


def _lists(episodes: int, runs: int) -> Iterator[Subject]:
    """Yield the list of episodes: its default view, each filter, and each sort."""
    filters: dict[str, Callable[[int], str]] = {
        "environment": lambda n: f"environment=bench{n % 6}",
        "environment and split": lambda n: f"environment=bench{n % 6}&split=train",
        "task": lambda n: f"task={1 + n * 37 % 4000}",
        "run": lambda n: f"run=grpo-{n % runs}",
        "run and step": lambda n: f"run=grpo-{n % runs}&step={n}",
        "model": lambda n: f"model=model-{n % 8}",
        "player": lambda n: f"player={('agent', 'human', 'script')[n % 3]}",
        "error": lambda n: f"error={('yes', 'no')[n % 2]}",
        "return range": lambda n: f"return_from={-0.5 + n / 10}&return_to={n / 10}",
        "steps range": lambda n: f"steps_from={n}&steps_to={n + 3}",
        "rare steps": lambda n: f"steps_from={50 + n % 5}",
        "since": lambda n: f"since={n + 1}d",
        "until": lambda n: f"until={n + 1}d",
        "endings": lambda n: f"ends_from={1 + n * 5000}&ends_to={128 + n * 5000}",
    }
    endings = [
        "finished",
        "abandoned",
        "expired",
        "setup_failed",
        "env_error",
        "interrupted",
        "probe",
        "attempt",
        "running",
    ]
    filters |= {f"ending {name}": lambda n, name=name: f"ending={name}" for name in endings}  # type: ignore[misc]
    yield Subject("episodes", lambda n: "/episodes/")
    for name, query in filters.items():
        yield Subject(f"episodes by {name}", lambda n, query=query: f"/episodes/?{query(n)}")  # type: ignore[misc]
    for sort in ("time", "return", "steps", "duration"):
        for sign in ("", "-"):
            yield Subject(
                f"episodes sorted {sign}{sort}",
                lambda n, by=f"{sign}{sort}": f"/episodes/?sort={by}",  # type: ignore[misc]
            )
    for by in ("last", "max", "mean"):
        yield Subject(
            f"episodes sorted {by}",
            lambda n, by=by: f"/episodes/?sort=-return&return={by}",  # type: ignore[misc]
        )
    yield Subject(
        "two filters, sorted",
        lambda n: f"/episodes/?environment=bench{n % 6}&error=yes&sort=-return",
    )


def _curves(runs: int) -> Iterator[Subject]:
    for x in ("episode", "time", "step"):
        yield Subject(
            f"curve by {x}",
            lambda n, x=x: f"/runs/curves/?environment=bench{n % 6}&x={x}",  # type: ignore[misc]
        )
    yield Subject(
        "curve by step zoomed",
        lambda n: f"/runs/curves/?environment=bench{n % 6}&x=step&from=10&to={20 + n}",
    )
    yield Subject("curves of runs by step", lambda n: "/runs/curves/?by=run&x=step")
    for x in ("episode", "time", "step"):
        yield Subject(
            f"curve of a run by {x}",
            lambda n, x=x: f"/runs/curves/?run=grpo-{n % runs}&x={x}",  # type: ignore[misc]
        )
        yield Subject(
            f"API: curve of a run by {x}",
            lambda n, x=x: f"/api/curves?run=grpo-{n % runs}&x={x}",  # type: ignore[misc]
        )
    asked = "no_call=out&expired=zero&env_error=zero"
    yield Subject(
        "curve of a run, other convention",
        lambda n: f"/runs/curves/?run=grpo-{n % runs}&x=step&{asked}",
    )
    yield Subject("API: figures of a run", lambda n: f"/api/runs/{1 + n % runs}")
    yield Subject(
        "curve of a split", lambda n: f"/runs/curves/?environment=bench{n % 6}&split=train"
    )
    yield Subject("curve of a task", lambda n: f"/runs/curves/?task={1 + n * 37 % 4000}")
