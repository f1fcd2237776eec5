"""Live: which channels of events there are and who may follow them."""

from __future__ import annotations

import re
from typing import Any

from django_eventstream.channelmanager import DefaultChannelManager

EPISODES = "episodes"
_CHANNEL = re.compile(r"episodes|episode-[1-9]\d{0,18}")


def is_channel(name: str) -> bool:
    return _CHANNEL.fullmatch(name) is not None


class Channels(DefaultChannelManager):  # type: ignore[misc]  # it has no types
    """For django-eventstream, which settings lead here. Whoever may see pages may follow what they show."""

    def can_read_channel(self, user: Any, channel: str) -> bool:
        return user is not None and user.is_authenticated and is_channel(channel)

    def is_channel_reliable(self, channel: str) -> bool:
        """Events carry ids, and pages fetch what they show: none has to be kept."""
        return False
