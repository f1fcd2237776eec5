"""What a prompt and a result become for a client of MCP."""

from __future__ import annotations

from environments.agents.mcp.content import content_of
from tests.images import BAD_IMAGES
from tests.rows import each


@each(("kind", "data"), BAD_IMAGES)
def test_an_image_that_no_model_takes_is_a_sentence(kind: str, data: str) -> None:
    [content] = content_of([{"type": "image", "mimeType": kind, "data": data}])
    assert content["type"] == "text" and content["text"].startswith(
        "An image that cannot be shown: the "
    )
