"""Runs and their rollouts, as the command `orwd` lists them.

A run shows the rollouts that clients uploaded, and those of its recorded episodes of which nobody
has uploaded one.
"""

from __future__ import annotations

from typing import Any

from environments.agents.http.response import Response, json_response
from environments.database.folding import holding
from environments.database.storable import id_in, storable
from environments.errors import OrsError
from environments.models import Viewer
from environments.service import get_record
from episodes.models import Episode, Rollout, Run
from episodes.models.privacy import own_records
from episodes.platform_api.platform_view import MAX_PAGE, PlatformView, failure
from episodes.uploads.rollout_figures import (
    run_figures,
    unreported_episodes,
    with_figures,
)


class NoSuchRun(OrsError):
    """No run has this id, or none that the key may see."""


class RunListing(PlatformView):
    """GET /v1/runs: runs, newest first, by `limit`, `offset` and `search` in the name."""

    http_method_names = ["get"]

    async def get(self) -> Response:
        page = self.number("offset", 0) or 0, self.number("limit", 50, MAX_PAGE) or 0
        return json_response(
            await get_record().read(_runs, self.key.viewer, self.query.get("search", ""), *page)
        )


class RunDescription(PlatformView):
    """GET /v1/runs/{id}: one run."""

    http_method_names = ["get"]

    async def get(self) -> Response:
        return await self.of_run(_run)

    async def of_run(self, read: Any, *arguments: int) -> Response:
        try:
            return json_response(
                await get_record().read(read, self.key.viewer, self.arguments["run"], *arguments)
            )
        except NoSuchRun as error:
            return failure(404, str(error))


class RunRollouts(RunDescription):
    """GET /v1/runs/{id}/rollouts: the rollouts of a run, newest first, by `limit` and `offset`."""

    async def get(self) -> Response:
        return await self.of_run(
            _rollouts, self.number("offset", 0) or 0, self.number("limit", 50, MAX_PAGE) or 0
        )


def _runs(viewer: Viewer, search: str, offset: int, limit: int) -> dict[str, Any]:
    runs = Run.objects.seen_by(viewer)
    if search:
        runs = runs.filter(holding(runs, search, ("name",)))
    found = [_described(run, viewer) for run in runs.order_by("-pk")[offset : offset + limit]]
    return {"runs": found, "total": runs.count()}


def _run(viewer: Viewer, text: str) -> dict[str, Any]:
    run = _find(viewer, text)
    figures = run_figures(run, viewer)
    received = (
        Rollout.objects.seen_by(viewer)
        .filter(run=run)
        .order_by("-id")
        .values_list("received", flat=True)
        .first()
    )
    episodes = Episode.objects.filter(own_records(viewer), run=run)
    created = episodes.order_by("-id").values_list("created", flat=True).first()
    updated = max(filter(None, (received, created)), default=run.created).isoformat()
    return {
        **_described(run, viewer),
        "avg_rollout_length": figures.mean_length,
        "updated_at": updated,
    }


def _find(viewer: Viewer, text: str) -> Run:
    pk = id_in(text)
    runs = Run.objects.seen_by(viewer)
    run = (runs.named(storable(text)) if pk is None else runs.filter(pk=pk)).first()
    if run is None:
        raise NoSuchRun(f"There is no run {text[:200]!r}; GET /v1/runs lists the runs.")
    return run


def _described(run: Run, viewer: Viewer) -> dict[str, Any]:
    figures = run_figures(run, viewer)
    return {
        "id": str(run.pk),
        "name": run.name,
        "num_rollouts": figures.rollouts,
        "avg_rollout_reward": figures.mean_reward,
        "created_at": run.created.isoformat(),
    }


def _rollouts(viewer: Viewer, text: str, offset: int, limit: int) -> dict[str, Any]:
    """Return a page of the rollouts and episodes of a run, newest first. Both are read from the
    first page on."""
    run, end = _find(viewer, text), offset + limit
    rollouts = Rollout.objects.seen_by(viewer).filter(run=run)
    episodes = unreported_episodes(run, viewer)
    times = [
        *(
            ("rollout", *row)
            for row in rollouts.order_by("-id").values_list("received", "pk")[:end]
        ),
        *(("episode", *row) for row in episodes.order_by("-id").values_list("created", "pk")[:end]),
    ]
    page = sorted(times, key=lambda one: one[1], reverse=True)[offset:end]
    uploaded = with_figures(Rollout.objects.order_by()).in_bulk(
        [pk for kind, _, pk in page if kind == "rollout"]
    )
    played = Episode.objects.select_related("environment").in_bulk(
        [pk for kind, _, pk in page if kind == "episode"]
    )
    rows = [
        _rollout(uploaded[pk]) if kind == "rollout" else _episode(played[pk])
        for kind, _, pk in page
    ]
    return {"rollouts": rows, "total": rollouts.count() + episodes.count()}


def _rollout(rollout: Any) -> dict[str, Any]:
    return {
        "id": rollout.event_id,
        "rolloutName": rollout.name or None,
        "environment": rollout.environment or None,
        "max_reward": rollout.max_reward,
        "num_messages": rollout.sent_messages,
        "created_at": rollout.received.isoformat(),
    }


def _episode(episode: Episode) -> dict[str, Any]:
    return {
        "id": f"episode-{episode.pk}",
        "rolloutName": f"episode {episode.pk}",
        "environment": episode.environment.name,
        "max_reward": episode.return_max,
        "num_messages": episode.steps_count,
        "created_at": episode.created.isoformat(),
    }
