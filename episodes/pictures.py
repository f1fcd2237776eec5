"""Pictures: images of prompts and outputs as browsers may be given them. No request, no HTML."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from environments.parts import Part

IMAGE_TYPES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"))
"""What is given to browsers as an image. SVG is not among them: it is a document, which runs scripts."""


class NoPicture(LookupError):
    """There is none to be shown, in words."""


def picture_at(found: Sequence[Part], number: int) -> tuple[str, bytes]:
    """Media type and content of the image at place `number`. Raises: NoPicture."""
    part = found[number] if number < len(found) else None
    if part is None or part.kind != "image":
        raise NoPicture(f"There is no image at place {number}.")
    head, _, data = part.text.partition(";base64,")
    media = head.removeprefix("data:")
    if media not in IMAGE_TYPES:
        raise NoPicture(f"{media} is not shown as an image; the step's JSON holds it.")
    try:
        return media, base64.b64decode(data)
    except binascii.Error:
        raise NoPicture("The image is damaged: its data is no base64. The step's JSON holds it.") from None
