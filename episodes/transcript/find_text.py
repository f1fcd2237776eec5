"""Search within one episode: which of its steps contain a text. Used by the replay's search."""

from __future__ import annotations

from dataclasses import dataclass

from environments.database.folding import holding
from environments.models.folding import fold_all_json, fold_term
from episodes.models import Blob, Episode

MAX_FOUND = 2_000
"""Maximum number of steps that one search returns."""
MAX_BLOB_BYTES = 64 * 1024 * 1024
"""Bytes of large inputs and outputs that one search reads; the others are not searched."""
_MAX_BLOBS_PER_QUERY = 200


@dataclass(frozen=True, slots=True)
class StepsFound:
    steps: list[int]
    """Indexes in ascending order, at most MAX_FOUND."""
    is_all: bool
    """False when there are more, or when some of the text was too large to be searched."""


def steps_with(episode: Episode, text: str) -> StepsFound:
    """Return the steps whose tool, input, output or error contains `text`, in whatever case and
    accents."""
    holds = holding(episode.steps.all(), text, ("tool", "error"), ("input", "output"))
    found = set(
        episode.steps.filter(holds)
        .order_by("index")
        .values_list("index", flat=True)[: MAX_FOUND + 1]
    )
    large, is_all = _in_blobs(episode, fold_term(text))
    steps = sorted(found | large)
    return StepsFound(steps[:MAX_FOUND], is_all and len(steps) <= MAX_FOUND)


def _in_blobs(episode: Episode, folded: str) -> tuple[set[int], bool]:
    """Return the steps whose large input or output contains what is folded, and whether all blobs
    were searched."""
    used: dict[str, list[int]] = {}
    for side in ("input", "output"):
        rows = episode.steps.filter(**{f"{side}_blob__isnull": False}).order_by("index")
        for index, digest in rows.values_list("index", f"{side}_blob"):
            used.setdefault(digest, []).append(index)
    digests, read, found = list(used), 0, set[int]()
    for start in range(0, len(digests), _MAX_BLOBS_PER_QUERY):
        chosen = _sized(digests[start : start + _MAX_BLOBS_PER_QUERY], MAX_BLOB_BYTES - read)
        for blob in Blob.objects.filter(digest__in=chosen).iterator(chunk_size=20):
            read += blob.size_bytes
            if folded in fold_all_json(blob.text):
                found.update(used[blob.digest])
        if len(chosen) < len(digests[start : start + _MAX_BLOBS_PER_QUERY]):
            return found, False
    return found, True


def _sized(digests: list[str], room: int) -> list[str]:
    """Return the first of `digests`, as many as fit into `room` bytes."""
    sizes = dict(Blob.objects.filter(digest__in=digests).values_list("digest", "size_bytes"))
    chosen = []
    for digest in digests:
        room -= sizes.get(digest, 0)
        if room < 0:
            break
        chosen.append(digest)
    return chosen
