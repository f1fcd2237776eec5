"""The forms that stand on the player's page before anything is asked."""

from __future__ import annotations

from typing import Any

from episodes.playtest.tools import MAX_FORM_CHARACTERS, MAX_FORMS, OfferedTool, first_forms

TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def tool(name: str, schema: Any = TEXT) -> OfferedTool:
    return OfferedTool(name, "", schema)


def test_each_of_the_first_tools_has_its_own() -> None:
    first, second = first_forms([tool("look"), tool("go", None)])
    assert 'name="v/ptext"' in first and 'name="v/ptext"' not in second


def test_of_many_tools_only_the_first_have_one() -> None:
    assert len(first_forms([tool(f"t{number}") for number in range(30)])) == MAX_FORMS


def test_forms_that_are_long_together_are_left_to_be_asked_for() -> None:
    many = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "x" * 900} for n in range(60)}}
    found = first_forms([tool(f"t{number}", many) for number in range(10)])
    assert 0 < len(found) < 10 and sum(map(len, found)) <= MAX_FORM_CHARACTERS


def test_a_schema_that_makes_no_form_leaves_its_place() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(3000):
        deep = {"type": "object", "properties": {"in": deep}, "required": ["in"]}
    assert len(first_forms([tool("deep", deep), tool("look")])) == 2
