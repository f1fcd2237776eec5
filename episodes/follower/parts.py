"""The parts there are."""

from __future__ import annotations

from episodes.follower.activity import ActivityPart
from episodes.follower.blocks import BlocksPart
from episodes.follower.part import Part
from episodes.follower.run_tasks import RunTasksPart
from episodes.follower.spans import SpansPart
from episodes.follower.text import TextPart
from episodes.follower.tools import ToolsPart


def make_parts() -> list[Part]:
    """Each new, for one thread."""
    return [ActivityPart(), BlocksPart(), SpansPart(), ToolsPart(), RunTasksPart(), TextPart()]
