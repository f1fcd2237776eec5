"""How far the text search has followed the episodes that have ended, in a sentence for pages and the API."""

from __future__ import annotations

from django.db.models import Q

from episodes.models import Episode
from episodes.rollups.progress import followed_to, newest_end
from episodes.rollups.text import TextPart

MAX_COUNTED = 25_000
"""Number of the newest endings that are counted; beyond, a share is said."""


def search_progress(seen: Q) -> str:
    """Return a sentence if some ended episodes cannot be searched yet; empty if all can, after two queries.

    `seen`: the condition on episodes that the reader may see; others are not counted.
    """
    followed, newest = followed_to(TextPart.name), newest_end()
    if newest <= followed:
        return ""
    if newest - followed > MAX_COUNTED:
        share = followed * 1_000 // newest / 10
        return f"The search index has {share}% of the episodes so far."
    ended = Episode.objects.ended().filter(seen).order_by()
    missing = ended.filter(end_number__gt=followed).count()
    if not missing:
        return ""
    if newest <= MAX_COUNTED:
        total = ended.count()
        return f"The search index has {total - missing:,} of {total:,} episodes so far."
    return f"{missing:,} episode{'s are' if missing > 1 else ' is'} not in the search index yet."
