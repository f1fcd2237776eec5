"""An environment whose tool returns an image: a valid one, a damaged one, or one that is a
document."""

from __future__ import annotations

import base64

from environments import ImageBlock, ToolOutput, tool
from tests.envs_base import Small, Text

SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>window.hacked = '
    b"1</script></svg>"
)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ANSWERS = {
    "sound": ImageBlock(data=PIXEL, mimeType="image/png"),
    "damaged": ImageBlock(data=PIXEL[:40], mimeType="image/png"),
    "words": ImageBlock(data=base64.b64encode(b"no image").decode(), mimeType="image/jpeg"),
    "svg": ImageBlock(data=base64.b64encode(SVG).decode(), mimeType="image/svg+xml"),
}


class Pictures(Small):
    @tool
    async def draw(self, args: Text) -> ToolOutput:
        """Answer with the image that `text` names."""
        return ToolOutput(blocks=[ANSWERS[args.text]])
