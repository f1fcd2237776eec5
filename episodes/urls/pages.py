"""URLs of pages, at the root of the site. Their first segments are in
`reserved_names.PAGES`."""

from __future__ import annotations

from typing import Any

from django.urls import path
from django.views.generic import RedirectView

from environments.features import url_patterns
from episodes.dashboard import replay, replay_conversation, replay_raw
from episodes.dashboard.browse import episode_preview, episodes
from episodes.dashboard.events import events
from episodes.dashboard.guards import of_episode, unless_blind
from episodes.dashboard.palette import palette
from episodes.dashboard.rollouts import rollout_link, rollout_page, rollouts
from episodes.dashboard.saved_views import delete_view, save_view
from episodes.figures import urls as figures

OF_EPISODE: list[tuple[str, Any, str]] = [
    ("", replay.replay, "episode"),
    ("headline/", replay.headline, "episode_headline"),
    ("facts/", replay.about, "episode_facts"),
    ("peers/", replay.peers, "episode_peers"),
    ("prompt/", replay.prompt, "episode_prompt"),
    ("prompt/images/<int:number>", replay_raw.prompt_image, "episode_prompt_image"),
    ("rail.json", replay.rail, "episode_rail"),
    ("find.json", replay.find_text, "episode_find"),
    ("steps/", replay.steps, "episode_steps"),
    ("steps/<id:index>/", replay.step, "episode_step"),
    ("steps/<id:index>.json", replay_raw.step, "episode_step_json"),
    ("steps/<id:index>/images/<int:number>", replay_raw.image, "episode_image"),
    ("preview/", episode_preview, "episode_preview"),
    ("conversation/", replay_conversation.conversation, "episode_conversation"),
    ("rollout/", replay_conversation.rollout_line, "episode_rollout"),
    ("messages/", replay_conversation.messages, "episode_messages"),
    ("messages/<id:number>/", replay_conversation.message, "episode_message"),
    ("messages.json", replay_conversation.message_count, "episode_message_count"),
    ("<str:name>.json", replay_raw.text, "episode_text"),
]
"""Path below the address of an episode, view, and name of the URL."""
FORMER = [("rollouts/", "rollouts"), ("rollouts/<path:event_id>/", "rollout")]
"""Former address of a page, and name of the URL to which it redirects."""

urlpatterns = [
    *(
        path(f"episodes/<id:pk>/{address}", of_episode(unless_blind(view)), name=name)
        for address, view, name in OF_EPISODE
    ),
    path("episodes/", episodes, name="episodes"),
    path("episodes/palette.json", palette, name="palette"),
    path("episodes/views/", save_view, name="save_view"),
    path("episodes/views/<id:pk>/delete/", delete_view, name="delete_view"),
    path("conversations/", rollouts, name="rollouts"),
    path("conversations/<path:event_id>/", rollout_page, name="rollout"),
    *(
        path(address, RedirectView.as_view(pattern_name=name, permanent=True, query_string=True))
        for address, name in FORMER
    ),
    path("rollout/<path:event_id>", rollout_link, name="rollout_link"),
    path("events/", events, name="events"),
    *figures.pages,
    *url_patterns("pages"),  # such as episodes/export in episodes/transfer/urls.py
]
