"""Runs and their rollouts, as the command `orwd` lists them.

A run shows the rollouts that clients uploaded, and those of its recorded episodes of which nobody
has uploaded one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from environments.agents.http.response import Response, json_response
from environments.database.folding import holding
from environments.database.storable import id_in, storable
from environments.errors import OrsError
from environments.models import Viewer
from episodes.models import Episode, Rollout, Run
from episodes.models.privacy import own_records
from episodes.platform_api.platform_view import PlatformView, failure
from episodes.uploads.rollout_figures import (
    RunFigures,
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
        search = self.query.get("search", "")
        return json_response(await self.record.read(_runs, self.key.viewer, search, self.page(50)))


class RunDescription(PlatformView):
    """GET /v1/runs/{id}: one run."""

    http_method_names = ["get"]

    async def get(self) -> Response:
        return await self.of_run(_run)

    async def of_run(self, read: Any, *arguments: slice) -> Response:
        try:
            return json_response(
                await self.record.read(read, self.key.viewer, self.arguments["run"], *arguments)
            )
        except NoSuchRun as error:
            return failure(404, str(error))


class RunRollouts(RunDescription):
    """GET /v1/runs/{id}/rollouts: the rollouts of a run, newest first, by `limit` and `offset`."""

    async def get(self) -> Response:
        return await self.of_run(_rollouts, self.page(50))


def _runs(viewer: Viewer, search: str, page: slice) -> dict[str, Any]:
    runs = Run.objects.seen_by(viewer)
    if search:
        runs = runs.filter(holding(runs, search, ("name",)))
    rows = [_described(run, run_figures(run, viewer)) for run in runs.order_by("-pk")[page]]
    return {"runs": rows, "total": runs.count()}


def _run(viewer: Viewer, text: str) -> dict[str, Any]:
    run = _find(viewer, text)
    figures = run_figures(run, viewer)
    newest_rollout = Rollout.objects.seen_by(viewer).filter(run=run).order_by("-id").first()
    newest_episode = Episode.objects.filter(own_records(viewer), run=run).order_by("-id").first()
    moments = [
        newest_rollout.received if newest_rollout else run.created,
        newest_episode.created if newest_episode else run.created,
    ]
    return {
        **_described(run, figures),
        "avg_rollout_length": figures.mean_length,
        "updated_at": max(moments).isoformat(),
    }


def _find(viewer: Viewer, text: str) -> Run:
    pk = id_in(text)
    runs = Run.objects.seen_by(viewer)
    run = (runs.named(storable(text)) if pk is None else runs.filter(pk=pk)).first()
    if run is None:
        raise NoSuchRun(f"There is no run {text[:200]!r}; GET /v1/runs lists the runs.")
    return run


def _described(run: Run, figures: RunFigures) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "name": run.name,
        "num_rollouts": figures.rollouts,
        "avg_rollout_reward": figures.mean_reward,
        "created_at": run.created.isoformat(),
    }


def _rollouts(viewer: Viewer, text: str, page: slice) -> dict[str, Any]:
    """Return a page of the rollouts and episodes of a run, newest first. Both are read from the
    first page on."""
    run = _find(viewer, text)
    rollouts = Rollout.objects.seen_by(viewer).filter(run=run).order_by("-id")
    episodes = unreported_episodes(run, viewer).order_by("-id")
    moments = [(moment, pk, True) for moment, pk in _newest(rollouts, "received", page)]
    moments += [(moment, pk, False) for moment, pk in _newest(episodes, "created", page)]
    moments = sorted(moments, key=lambda row: row[0], reverse=True)[page]
    rollout_rows = with_figures(Rollout.objects.order_by()).in_bulk(
        [pk for _, pk, is_rollout in moments if is_rollout]
    )
    episode_rows = Episode.objects.select_related("environment").in_bulk(
        [pk for _, pk, is_rollout in moments if not is_rollout]
    )
    rows = [
        _rollout(rollout_rows[pk]) if is_rollout else _episode(episode_rows[pk])
        for _, pk, is_rollout in moments
    ]
    return {"rollouts": rows, "total": rollouts.count() + episodes.count()}


def _newest(rows: QuerySet[Any], column: str, page: slice) -> list[tuple[datetime, int]]:
    return list(rows.values_list(column, "pk")[: page.stop])


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
