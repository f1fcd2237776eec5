"""Addresses of the player's pages below /play/, and of its websocket."""

from __future__ import annotations

from typing import Any

from django.urls import include, path

from episodes.people import player_parts
from episodes.people.chooser import chooser
from episodes.people.consumer import PlayConsumer
from episodes.people.continuing.pages import again, continue_from
from episodes.people.invites.pages import invite, invites, leave, revoke_invite
from episodes.people.notes_and_flags import flag_task, notes
from episodes.people.people_page import people
from episodes.people.player import player
from episodes.people.studies.form import study_new
from episodes.people.studies.pages import (
    studies,
    study,
    study_close,
    study_csv,
    study_exclude,
    study_links,
    study_revoke,
)
from episodes.people.studies.participant import study_begin, study_home, study_next, study_return

consumer: Any = PlayConsumer.as_asgi()

sockets = [path("ws/play/<id:pk>/", consumer)]

BELOW_PLAY = [
    path("", chooser, name="play"),
    path("notes/<id:pk>/", notes, name="notes"),
    path("flag/<id:pk>/", flag_task, name="flag"),
    path("continue/<id:pk>/", continue_from, name="continue"),
    path("people/", people, name="people"),
    path("invites/", invites, name="invites"),
    path("invites/<id:pk>/revoke/", revoke_invite, name="revoke_invite"),
    path("invite/<str:token>/", invite, name="invite"),
    path("invite/back/<str:token>/", study_return, name="study_return"),
    path("study/", study_home, name="study_home"),
    path("study/begin/", study_begin, name="study_begin"),
    path("study/next/", study_next, name="study_next"),
    path("studies/", studies, name="studies"),
    path("studies/new/", study_new, name="study_new"),
    path("studies/<str:name>/", study, name="study"),
    path("studies/<str:name>/results.csv", study_csv, name="study_csv"),
    path("studies/<str:name>/links/", study_links, name="study_links"),
    path("studies/<str:name>/links/<id:pk>/revoke/", study_revoke, name="study_revoke"),
    path("studies/<str:name>/people/<id:pk>/exclude/", study_exclude, name="study_exclude"),
    path("studies/<str:name>/close/", study_close, name="study_close"),
    path("leave/", leave, name="leave"),
    path("<id:pk>/", player, name="player"),
    path("<id:pk>/again/", again, name="play_again"),
    path("<id:pk>/prompt/", player_parts.prompt, name="play_prompt"),
    path("<id:pk>/prompt/images/<int:number>", player_parts.prompt_image, name="play_prompt_image"),
    path("<id:pk>/steps/<id:index>/", player_parts.step, name="play_step"),
    path("<id:pk>/steps/<id:index>.json", player_parts.step_json, name="play_step_json"),
    path("<id:pk>/steps/<id:index>/images/<int:number>", player_parts.image, name="play_image"),
]

pages = [path("play/", include(BELOW_PLAY))]  # one pattern, which is tried for all other addresses
