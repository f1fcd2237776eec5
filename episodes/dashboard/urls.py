"""The dashboard's pages, at the root of the site. First segments are among `environments.reserved.PAGES`."""

from __future__ import annotations

from django.urls import path

from episodes.dashboard import raw, replay
from episodes.dashboard.browse import delete_view, episode_preview, episodes, save_view
from episodes.dashboard.compare import compare
from episodes.dashboard.curves import curves
from episodes.dashboard.environment import environment, environments
from episodes.dashboard.events import events
from episodes.dashboard.export import episode_export
from episodes.dashboard.leaderboard import board
from episodes.dashboard.overview import overview
from episodes.dashboard.runs import run, runs
from episodes.dashboard.task import group, task

urlpatterns = [
    path("", overview, name="overview"),
    path("environments/", environments, name="environments"),
    path("environments/<str:name>/", environment, name="environment"),
    path("tasks/<int:pk>/", task, name="task"),
    path("tasks/<int:pk>/group/", group, name="group"),
    path("episodes/<int:pk>/", replay.replay, name="episode"),
    path("episodes/<int:pk>/headline/", replay.headline, name="episode_headline"),
    path("episodes/<int:pk>/facts/", replay.about, name="episode_facts"),
    path("episodes/<int:pk>/peers/", replay.peers, name="episode_peers"),
    path("episodes/<int:pk>/prompt/", replay.prompt, name="episode_prompt"),
    path("episodes/<int:pk>/prompt/images/<int:number>", raw.prompt_image, name="episode_prompt_image"),
    path("episodes/<int:pk>/rail.json", replay.rail, name="episode_rail"),
    path("episodes/<int:pk>/find.json", replay.found, name="episode_find"),
    path("episodes/<int:pk>/steps/", replay.steps, name="episode_steps"),
    path("episodes/<int:pk>/steps/<int:index>/", replay.step, name="episode_step"),
    path("episodes/<int:pk>/steps/<int:index>.json", raw.step, name="episode_step_json"),
    path("episodes/<int:pk>/steps/<int:index>/images/<int:number>", raw.image, name="episode_image"),
    path("episodes/<int:pk>/<str:name>.json", raw.text, name="episode_text"),
    path("episodes/", episodes, name="episodes"),
    path("episodes/export", episode_export, name="episode_export"),
    path("episodes/views/", save_view, name="save_view"),
    path("episodes/views/<int:pk>/delete/", delete_view, name="delete_view"),
    path("episodes/<int:pk>/preview/", episode_preview, name="episode_preview"),
    path("compare/", compare, name="compare"),
    path("environments/<str:name>/leaderboard/", board, name="leaderboard"),
    path("runs/", runs, name="runs"),
    path("runs/<int:pk>/", run, name="run"),
    path("runs/curves/", curves, name="curves"),
    path("events/", events, name="events"),
]
