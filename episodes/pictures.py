"""Pictures: images of prompts and outputs as browsers may be given them. No request, no HTML."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from environments.parts import Part


class NoPicture(LookupError):
    """There is none to be shown, in words."""


def picture_at(found: Sequence[Part], number: int) -> tuple[str, bytes]:
    """Media type and content of the image at place `number`. Raises: NoPicture."""
    part = found[number] if number < len(found) else None
    if part is None or part.kind != "image":
        raise NoPicture(f"There is no image at place {number}.")
    head, _, data = part.text.partition(";base64,")
    return head.removeprefix("data:"), base64.b64decode(data)
