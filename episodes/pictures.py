"""Pictures: images of prompts and outputs as browsers may be given them. For the replay and the player."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from django.http import Http404, HttpResponse

from environments.parts import Part


def picture_answer(found: Sequence[Part], number: int) -> HttpResponse:
    """The image at place `number`. Raises: Http404."""
    part = found[number] if number < len(found) else None
    if part is None or part.kind != "image":
        raise Http404(f"There is no image at place {number}.")
    head, _, data = part.text.partition(";base64,")
    return HttpResponse(base64.b64decode(data), content_type=head.removeprefix("data:"))
