"""The player's pages, below /play/."""

from __future__ import annotations

from django.urls import path

from episodes.playtest import pieces
from episodes.playtest.chooser import chooser
from episodes.playtest.player import player

urlpatterns = [
    path("", chooser, name="play"),
    path("<int:pk>/", player, name="player"),
    path("<int:pk>/prompt/", pieces.prompt, name="play_prompt"),
    path("<int:pk>/prompt/images/<int:number>", pieces.prompt_image, name="play_prompt_image"),
    path("<int:pk>/steps/<int:index>/", pieces.step, name="play_step"),
    path("<int:pk>/steps/<int:index>.json", pieces.step_json, name="play_step_json"),
    path("<int:pk>/steps/<int:index>/images/<int:number>", pieces.image, name="play_image"),
]
