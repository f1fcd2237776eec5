"""A block that is put together from its shape is what the template makes of it."""

from __future__ import annotations

import itertools

import pytest
from django.template.loader import render_to_string

from environments.display.parts import Part
from episodes.transcript.cards import MessageCard, said_as
from episodes.transcript.step_html import block_html

PARTS = [
    Part("text", "name", "short", 0),
    Part("text", "", "a first line\nand a second <b>&amp;", 0),
    Part("text", "<label>", "x" * 2_000, 30),
    Part("json", "value", '{"a": 1}', 0),
    Part("text", "empty", "", 0),
    Part("text", "", "# heading\n\n- one\n- two", 0),
    Part("image", "image/png", "data:image/png;base64,AAAA", 0),
]
WAYS = list(itertools.product(("", '/episodes/7/steps/3/?a="&'), ("", "/all/"), ("", "closest .step"), (False, True)))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.kind}-{part.label}")
def test_a_block_is_as_the_template_has_it(part: Part) -> None:
    for number in (0, 1):
        one = said_as(part, "output", number)
        for source, whole, swap, is_open in WAYS:
            expected = _templates(one, source=source, whole=whole, swap=swap, is_open=is_open)
            assert block_html(one, source, whole, swap, is_open=is_open) == expected


def test_blocks_of_one_shape_keep_their_own_texts() -> None:
    blocks = [block_html(said_as(Part("text", "name", text, 0), "input", 0)) for text in ("left", "right")]
    assert ["left" in block for block in blocks] == [True, False]
    assert ["right" in block for block in blocks] == [False, True]


def _templates(one: MessageCard, **ways: object) -> str:
    return str(render_to_string("episodes/content_block.html", {"one": one, **ways}))
