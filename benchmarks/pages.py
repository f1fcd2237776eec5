"""The pages to measure: each default view, filter, sort, curve and search of the seeded
episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote_plus

VIEW_MS, SEARCH_MS = 100.0, 1000.0
"""Targets for the 95th percentile."""

_PAGES = {
    "overview": "/",
    "environments": "/environments/",
    "environment": "/environments/bench{bench}/",
    "leaderboard": "/environments/bench{bench}/leaderboard/?split=train",
    "runs": "/runs/",
    "run": "/runs/{run_id}/",
    "task": "/tasks/{task}/",
    "group": "/tasks/{task}/group/?run={run_id}&step={n}",
    "replay": "/episodes/{episode}/",
    "compare": "/compare/?episodes={next},{after}",
    "compare runs": "/compare/?runs={run_id},{next_run_id}",
    "episodes": "/episodes/",
    "two filters, sorted": "/episodes/?environment=bench{bench}&error=yes&sort=-return",
    "curve by step zoomed": "/runs/curves/?environment=bench{bench}&x=step&from=10&to={later}",
    "curves of runs by step": "/runs/curves/?by=run&x=step",
    "curve of a run, other convention": "/runs/curves/?run=grpo-{run}&x=step"
    "&no_call=out&expired=zero&env_error=zero",
    "API: figures of a run": "/api/runs/{run_id}",
    "scalar of all runs": "/runs/curves/?by=run&x=step&y=scalar.loss",
    "scalar of a run": "/runs/curves/?run=grpo-{run}&x=step&y=scalar.loss",
    "API: scalar of a run zoomed": "/api/scalars?run=grpo-{run}&name=loss&from={n}000&to=90000",
    "curve of a split": "/runs/curves/?environment=bench{bench}&split=train",
    "curve of a task": "/runs/curves/?task={task}",
}
_FILTERS = {
    "environment": "environment=bench{bench}",
    "environment and split": "environment=bench{bench}&split=train",
    "task": "task={task}",
    "run": "run=grpo-{run}",
    "run and step": "run=grpo-{run}&step={n}",
    "model": "model=model-{model}",
    "player": "player={player}",
    "error": "error={yes_no}",
    "return range": "return_from={low:.1f}&return_to={high:.1f}",
    "steps range": "steps_from={n}&steps_to={steps}",
    "rare steps": "steps_from={many_steps}",
    "since": "since={next}d",
    "until": "until={next}d",
    "endings": "ends_from={end}&ends_to={last_end}",
}
_ENDINGS = (
    *("finished", "abandoned", "expired", "setup_failed", "env_error", "interrupted"),
    *("probe", "attempt", "running"),
)
_SORTS = [
    *(f"{sign}{by}" for by in ("time", "return", "steps", "duration") for sign in ("", "-")),
    *(f"-return&return={by}" for by in ("last", "max", "mean")),
]
_DOCTOR = {
    "doctor": "/environments/bench{bench}/doctor/",
    "doctor of a run": "/environments/bench{bench}/doctor/?run=grpo-{run}",
}
_SEARCHES = {
    "one word": ("zephyr", "oasis", "larch"),
    "two words": ("lantern granite", "kestrel orchid", "meadow copper"),
    "three words": ("willow yarrow zephyr", "amber basin cable", "river iris jade"),
    "a phrase": ('"beside the"', '"there is amber"', '"look at river"'),
    "a prefix": ("gran*", "lant*", "saff*"),
    "no match": ("nosuchword", "neither", "norother"),
}
"""Words that a third of the episodes or more contain, and words that none contains."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page to measure. `urls` are taken in turn; the number of the request fills them in."""

    name: str
    urls: tuple[str, ...]
    target_ms: float = VIEW_MS

    def url(self, n: int, episodes: int, runs: int) -> str:
        """Return the address of request `n`: requests differ, as those of people do."""
        return self.urls[n % len(self.urls)].format(
            n=n,
            bench=n % 6,
            run=n % runs,
            run_id=1 + n % max(1, runs - 1),
            next_run_id=2 + n % max(1, runs - 1),
            task=1 + n * 37 % 4000,
            episode=1 + n * 7919 % episodes,
            next=n + 1,
            after=n + 2,
            later=20 + n,
            model=n % 8,
            player=("agent", "human", "script")[n % 3],
            yes_no=("yes", "no")[n % 2],
            low=-0.5 + n / 10,
            high=n / 10,
            steps=n + 3,
            many_steps=50 + n % 5,
            end=1 + n * 5000,
            last_end=128 + n * 5000,
        )


def pages(runs: int) -> Iterator[Page]:
    """Yield every page that has a target. `runs`: number of runs that share the episodes."""
    for name, url in _PAGES.items():
        if runs > 1 or name != "compare runs":
            yield Page(name, (url,))
    for name, query in _FILTERS.items():
        yield Page(f"episodes by {name}", (f"/episodes/?{query}",))
    for ending in _ENDINGS:
        yield Page(f"episodes by ending {ending}", (f"/episodes/?ending={ending}",))
    for sort in _SORTS:
        yield Page(f"episodes sorted {sort}", (f"/episodes/?sort={sort}",))
    for x in ("episode", "time", "step"):
        yield Page(f"curve by {x}", (f"/runs/curves/?environment=bench{{bench}}&x={x}",))
        yield Page(f"curve of a run by {x}", (f"/runs/curves/?run=grpo-{{run}}&x={x}",))
        yield Page(f"API: curve of a run by {x}", (f"/api/curves?run=grpo-{{run}}&x={x}",))
    for name, url in _DOCTOR.items():
        yield Page(name, (url,), SEARCH_MS)
    for name, texts in _SEARCHES.items():
        urls = tuple(f"/episodes/?text={quote_plus(text)}" for text in texts)
        yield Page(f"search for {name}", urls, SEARCH_MS)
