"""Search within one episode: which of its steps contain a text. Used by the replay's search."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate

from environments.database.folding import holding
from environments.database.json_rows import among
from environments.models.folding import fold_all_json, fold_term
from episodes.models import Blob, Episode

MAX_FOUND = 2_000
"""Maximum number of steps that one search returns."""
MAX_BLOB_BYTES = 64 * 1024 * 1024
"""Bytes of large inputs and outputs that one search reads; the others are not searched."""


@dataclass(frozen=True, slots=True)
class StepsFound:
    steps: list[int]
    """Indexes in ascending order, at most MAX_FOUND."""
    is_all: bool
    """False when there are more, or when some of the text was too large to be searched."""


def steps_with(episode: Episode, text: str) -> StepsFound:
    """Return the steps whose tool, input, output or error contains `text`, in whatever case and
    accents."""
    condition = holding(episode.steps.all(), text, ("tool", "error"), ("input", "output"))
    rows = episode.steps.filter(condition).order_by("index").values_list("index", flat=True)
    large, is_all = _in_blobs(episode, fold_term(text))
    steps = sorted({*rows[: MAX_FOUND + 1], *large})
    return StepsFound(steps[:MAX_FOUND], is_all and len(steps) <= MAX_FOUND)


def _in_blobs(episode: Episode, term: str) -> tuple[set[int], bool]:
    """Return the steps whose large input or output contains the folded term, and whether all blobs
    were searched."""
    steps, sizes = defaultdict[str, list[int]](list), dict[str, int]()
    for side in ("input_blob", "output_blob"):
        rows = episode.steps.filter(**{f"{side}__isnull": False}).order_by("index")
        for index, digest, size in rows.values_list("index", side, f"{side}__size_bytes"):
            steps[digest].append(index)
            sizes[digest] = size
    totals = accumulate(sizes.values())
    digests = [
        digest for digest, total in zip(sizes, totals, strict=True) if total <= MAX_BLOB_BYTES
    ]
    results = set[int]()
    for blob in Blob.objects.filter(among("pk", digests)).iterator(chunk_size=20):
        if term in fold_all_json(blob.text):
            results.update(steps[blob.digest])
    return results, len(digests) == len(sizes)
