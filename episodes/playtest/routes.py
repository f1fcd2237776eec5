"""Routes of the player's socket, for `orsweb/asgi.py`."""

from __future__ import annotations

from typing import Any

from django.urls import path

from episodes.playtest.consumer import PlayConsumer

consumer: Any = PlayConsumer.as_asgi()

routes = [path("ws/play/<int:pk>/", consumer)]
