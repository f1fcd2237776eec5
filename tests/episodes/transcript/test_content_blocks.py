"""A block that is assembled from its frame equals what the template renders."""

from __future__ import annotations

import itertools

from django.template.loader import render_to_string

from environments.display.parts import Part
from episodes.transcript.cards import MessageCard, message_card
from episodes.transcript.step_html import block_html
from tests.rows import each

PARTS = [
    Part("text", "name", "short", 0),
    Part("text", "", "a first line\nand a second <b>&amp;", 0),
    Part("text", "<label>", "x" * 2_000, 30),
    Part("json", "value", '{"a": 1}', 0),
    Part("text", "empty", "", 0),
    Part("text", "", "# heading\n\n- one\n- two", 0),
    Part("image", "image/png", "data:image/png;base64,AAAA", 0),
]
ADDRESSES = ("", '/episodes/7/steps/3/?a="&')
OPTIONS = list(itertools.product(ADDRESSES, ("", "/all/"), ("", "closest .step"), (False, True)))


@each("part", PARTS, ids=lambda part: f"{part.kind}-{part.label}")
def test_a_block_equals_the_rendered_template(part: Part) -> None:
    for number in (0, 1):
        one = message_card(part, "output", number)
        for source, whole, swap, is_open in OPTIONS:
            expected = _rendered(one, source=source, whole=whole, swap=swap, is_open=is_open)
            assert block_html(one, source, whole, swap, is_open=is_open) == expected


def test_blocks_of_one_shape_keep_their_own_texts() -> None:
    blocks = [
        block_html(message_card(Part("text", "name", text, 0), "input", 0))
        for text in ("left", "right")
    ]
    assert ["left" in block for block in blocks] == [True, False]
    assert ["right" in block for block in blocks] == [False, True]


def _rendered(one: MessageCard, **options: object) -> str:
    return str(render_to_string("episodes/content_block.html", {"one": one, **options}))
