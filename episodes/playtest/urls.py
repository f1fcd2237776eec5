"""The player's pages, below /play/."""

from __future__ import annotations

from django.urls import path

from episodes.playtest import pieces
from episodes.playtest.chooser import chooser
from episodes.playtest.continuing.ask_page import continue_from
from episodes.playtest.continuing.progress_page import again
from episodes.playtest.flagging import flag_task
from episodes.playtest.invites.entrance import invite, leave
from episodes.playtest.invites.page import invites, revoke_invite
from episodes.playtest.noting import notes
from episodes.playtest.people import people
from episodes.playtest.player import player

urlpatterns = [
    path("", chooser, name="play"),
    path("notes/<int:pk>/", notes, name="notes"),
    path("flag/<int:pk>/", flag_task, name="flag"),
    path("continue/<int:pk>/", continue_from, name="continue"),
    path("people/", people, name="people"),
    path("invites/", invites, name="invites"),
    path("invites/<int:pk>/revoke/", revoke_invite, name="revoke_invite"),
    path("invite/<str:token>/", invite, name="invite"),
    path("leave/", leave, name="leave"),
    path("<int:pk>/", player, name="player"),
    path("<int:pk>/again/", again, name="play_again"),
    path("<int:pk>/prompt/", pieces.prompt, name="play_prompt"),
    path("<int:pk>/prompt/images/<int:number>", pieces.prompt_image, name="play_prompt_image"),
    path("<int:pk>/steps/<int:index>/", pieces.step, name="play_step"),
    path("<int:pk>/steps/<int:index>.json", pieces.step_json, name="play_step_json"),
    path("<int:pk>/steps/<int:index>/images/<int:number>", pieces.image, name="play_image"),
]
