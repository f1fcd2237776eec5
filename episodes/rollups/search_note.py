"""What a search for text leaves out, in sentences for pages and the API."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from episodes.models import Episode, Rollout, TranscriptText
from episodes.rollups.progress import followed_to, newest_end
from episodes.rollups.text import TextPart
from episodes.search.documents import PART_CHARACTERS
from episodes.search.index import newest_searched
from episodes.search.words import terms_of

MAX_COUNTED = 25_000
"""Number of the newest endings that are counted; beyond, a share is said."""
MAX_OTHERS_COUNTED = 1_000
"""Number of other rows that are counted."""


def search_note(text: str, visible: Q) -> str:
    """Return what a search for `text` leaves out, in sentences; empty if that is nothing.

    `visible`: the condition on episodes that the reader may see; others are not counted. Five or six
    queries.
    """
    cut = TranscriptText.objects.filter(is_cut=True, part=0).values("episode_id")
    sentences = (
        _progress(visible),
        _counted(
            Episode.objects.filter(visible, status="running"),
            "running episode is not searched",
            "running episodes are not searched",
        ),
        _limit(text),
        _counted(
            Episode.objects.filter(visible, pk__in=cut),
            "transcript is indexed only in part",
            "transcripts are indexed only in part",
        ),
        _far_from_phrases(text, visible),
    )
    return " ".join(filter(None, sentences))


def rollout_search_note(text: str, visible: Q, visible_rollouts: Q) -> str:
    """Return what a search for `text` leaves out of the rollouts that the reader may see. One query
    more."""
    waiting = _counted(
        Rollout.objects.filter(visible_rollouts, is_summarised=False),
        "conversation is not in the search index yet",
        "conversations are not in the search index yet",
    )
    return " ".join(filter(None, (search_note(text, visible), waiting)))


def _counted(rows: QuerySet[Any], singular: str, plural: str) -> str:
    """Return a sentence with the number of rows, counted up to MAX_OTHERS_COUNTED; empty if there
    are none."""
    count = rows.order_by()[: MAX_OTHERS_COUNTED + 1].count()
    if not count:
        return ""
    number = f"More than {MAX_OTHERS_COUNTED:,}" if count > MAX_OTHERS_COUNTED else f"{count:,}"
    return f"{number} {plural if count > 1 else singular}."


def _progress(visible: Q) -> str:
    """Return a sentence if some ended episodes cannot be searched yet; empty if all can."""
    last, newest = followed_to(TextPart.name), newest_end()
    if newest <= last:
        return ""
    if newest - last > MAX_COUNTED:
        share = last * 1_000 // newest / 10
        return f"The search index has {share}% of the episodes so far."
    episodes = Episode.objects.ended().filter(visible).order_by()
    missing = episodes.filter(end_number__gt=last).count()
    if not missing:
        return ""
    if newest <= MAX_COUNTED:
        total = episodes.filter(end_number__lte=newest).count()
        return f"The search index has {total - missing:,} of {total:,} episodes so far."
    return f"{missing:,} episode{'s are' if missing > 1 else ' is'} not in the search index yet."


def _limit(text: str) -> str:
    """Return a sentence if more transcripts contain the words than a search considers."""
    number = newest_searched(text)
    return (
        ""
        if number is None
        else f"Only the newest {number:,} transcripts with these words were searched."
    )


def _far_from_phrases(text: str, visible: Q) -> str:
    """Return a sentence if words in a row may be missed in long transcripts, because other words
    are in other parts."""
    terms = terms_of(text)
    if len(terms) < 2 or all(len(term.words) == 1 for term in terms):
        return ""
    long = TranscriptText.objects.filter(part=1).values("episode_id")
    if not Episode.objects.filter(visible, pk__in=long).exists():
        return ""
    return (
        f"In transcripts of more than {PART_CHARACTERS:,} characters, a phrase may be missed if "
        "the other words are far"
        " from it."
    )
