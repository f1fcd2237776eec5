"""Operations in a form: adding, removing and moving items, choosing branches, leaving out, JSON
view."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.episodes.people.forms.browser import Page
from tests.rows import each

STRING, WHOLE = {"type": "string"}, {"type": "integer"}
WORDS = {
    "type": "object",
    "properties": {"words": {"type": "array", "items": STRING}},
    "required": ["words"],
}
TREE = {
    "$defs": {
        "T": {
            "type": "object",
            "properties": {"name": STRING, "next": {"$ref": "#/$defs/T"}},
            "required": ["name", "next"],
        }
    },
    "$ref": "#/$defs/T",
}
CIRCLE = {
    "type": "object",
    "title": "Circle",
    "properties": {"is": {"const": "circle"}, "r": WHOLE, "at": WHOLE},
}
BOX = {
    "type": "object",
    "title": "Box",
    "properties": {"is": {"const": "box"}, "w": WHOLE, "at": WHOLE},
}
for shape in (CIRCLE, BOX):
    shape["required"] = list(shape["properties"])  # type: ignore[call-overload]
SHAPE = {"type": "object", "properties": {"shape": {"oneOf": [CIRCLE, BOX]}}, "required": ["shape"]}


def page_with(schema: Any, value: Any) -> Page:
    page = Page(schema)
    page.do("set", text=json.dumps(value))
    return page


def member(schema: Any, *, required: bool = True) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"] if required else []}


def test_an_item_is_added_at_the_end_and_gets_the_focus() -> None:
    page = page_with(WORDS, {"words": ["a"]})
    assert page.do("add", "/pwords")["focus"] == "/pwords/i1"
    page.state["v/pwords/i1"] = "b"
    assert page.read() == '{"words": ["a", "b"]}'


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}},
        member({"type": "object", "properties": {}}),
    ],
)
def test_an_object_without_fields_offers_none(schema: Any) -> None:
    page = Page(schema)
    assert "Add member" not in page.html and "No fields." in page.html


def test_a_map_offers_members() -> None:
    assert "Add member" in Page(member({"type": "object"})).html
    assert "Add member" in Page({"type": "object", "additionalProperties": STRING}).html


def test_an_item_is_added_to_a_list_in_a_union() -> None:
    page = page_with(member({"oneOf": [{"type": "array", "items": STRING}, WHOLE]}), {"a": ["x"]})
    assert page.do("add", "/pa")["focus"] == "/pa/b0/i1"


@each(
    ("do", "at", "left", "focus"),
    [
        ("remove", "/pwords/i0", ["b", "c"], "/pwords/i0"),
        ("remove", "/pwords/i2", ["a", "b"], "/pwords/i1"),
        ("up", "/pwords/i2", ["a", "c", "b"], "/pwords/i1"),
        ("down", "/pwords/i0", ["b", "a", "c"], "/pwords/i1"),
    ],
)
def test_items_are_removed_and_moved(do: str, at: str, left: list[str], focus: str) -> None:
    page = page_with(WORDS, {"words": ["a", "b", "c"]})
    assert page.do(do, at)["focus"] == focus
    assert json.loads(page.read()) == {"words": left}


def test_a_removed_item_is_removed_with_its_content() -> None:
    page = page_with(
        {"type": "object", "properties": {"rows": {"items": {"items": STRING}}}},
        {"rows": [["a"], ["b", "c"]]},
    )
    page.do("remove", "/prows/i0")
    assert page.read() == '{"rows": [["b", "c"]]}'


def test_an_item_of_an_impossible_index_does_not_matter() -> None:
    page = page_with(WORDS, {"words": ["a", "b"]})
    page.state[f"v/pwords/i{'9' * 5000}"] = "c"
    page.do("remove", "/pwords/i0")
    assert page.read() == '{"words": ["b"]}'


def test_text_that_is_not_a_number_moves_with_its_item() -> None:
    page = page_with(member({"items": WHOLE}), {"a": [1, 2]})
    page.state["v/pa/i0"] = "one"
    page.do("down", "/pa/i0")
    assert page.problems() == [
        (["a", 1], '"one" is not a number. Enter digits, such as 42 or 0.75.')
    ]


@each(
    ("do", "at"),
    [("up", "/pwords/i0"), ("down", "/pwords/i0"), ("remove", "/pwords/i7"), ("up", "/pwords")],
)
def test_impossible_moves_change_nothing(do: str, at: str) -> None:
    page = page_with(WORDS, {"words": ["a"]})
    assert "error" in page.do(do, at)
    assert page.read() == '{"words": ["a"]}'


def test_no_more_items_are_added_than_the_schema_allows() -> None:
    page = page_with(member({"items": STRING, "maxItems": 1}), {"a": ["x"]})
    assert page.do("add", "/pa")["error"] == "No more can be added here."


def test_a_list_starts_with_its_required_items() -> None:
    page = Page(member({"items": {"type": "string", "default": "x"}, "minItems": 2}))
    assert page.read() == '{"a": ["x", "x"]}'


def test_a_member_can_have_an_entered_name() -> None:
    page = Page(member({"type": "object", "additionalProperties": WHOLE}))
    assert page.do("add", "/pa")["focus"] == "/pa/e0"
    page.state |= {"k/pa/e0": "a/b.c", "v/pa/e0": "5"}
    assert page.read() == '{"a": {"a/b.c": 5}}'


def test_a_duplicate_name_is_refused() -> None:
    page = page_with(member({"additionalProperties": WHOLE}), {"a": {"x": 1, "y": 2}})
    page.state["k/pa/e1"] = "x"
    assert page.problems() == [(["a", "x"], 'There is another member named "x". Rename one.')]


def test_the_name_of_a_member_decides_what_it_has_to_be() -> None:
    page = page_with(member({"patternProperties": {"^n": WHOLE, "^s": STRING}}), {"a": {"n": 1}})
    page.state["k/pa/e0"] = "s"
    page.do("refresh", "/pa/e0")
    assert page.read() == '{"a": {"s": "1"}}'


def test_another_branch_keeps_common_members() -> None:
    page = page_with(SHAPE, {"shape": {"is": "circle", "r": 1, "at": 7}})
    page.do("choose", "/pshape", choice=1)
    page.state["v/pshape/b1/pw"] = "3"
    assert page.read() == '{"shape": {"is": "box", "w": 3, "at": 7}}'


def test_another_branch_keeps_texts_as_numbers_and_members_within_members() -> None:
    inner = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": STRING},
        "required": ["x", "y"],
    }
    other = {"type": "object", "properties": {"x": STRING, "z": STRING}, "required": ["x", "z"]}
    branches = [
        {
            "type": "object",
            "properties": {"n": STRING, "in": inner},
            "required": ["n", "in"],
            "title": "one",
        }
    ]
    branches.append(
        {**branches[0], "properties": {"n": {"type": "integer"}, "in": other}, "title": "two"}
    )
    page = page_with(member({"anyOf": branches}), {"a": {"n": "12", "in": {"x": 5, "y": "b"}}})
    page.do("choose", "/pa", choice=1)
    assert (page.state["v/pa/b1/pn"], page.state["v/pa/b1/pin/px"]) == ("12", "5")


def test_an_optional_member_is_left_out_until_it_is_included() -> None:
    page = Page(member({"type": "array", "items": STRING}, required=False))
    assert page.read() == "{}"
    page.do("include", "/pa")
    assert page.read() == '{"a": []}'


@pytest.mark.parametrize(
    ("presence", "value"), [("given", '{"a": ""}'), ("null", '{"a": null}'), ("absent", "{}")]
)
def test_absent_null_and_empty_are_three_things(presence: str, value: str) -> None:
    page = Page(member({"type": ["string", "null"]}, required=False))
    page.state["s/pa"] = presence
    assert page.read() == value


@each(
    ("schema", "value"),
    [
        ({"type": "string", "default": "x"}, '{"a": "x"}'),
        ({"type": "integer", "default": 3}, '{"a": 3}'),
        ({"type": "boolean", "default": True}, '{"a": true}'),
        ({"enum": ["x", "y"], "default": "y"}, '{"a": "y"}'),
        ({"anyOf": [STRING, {"type": "null"}], "default": None}, "{}"),
        (
            {"oneOf": [CIRCLE, BOX], "default": {"is": "box", "w": 1, "at": 2}},
            '{"a": {"is": "box", "w": 1, "at": 2}}',
        ),
        ({"type": "integer", "default": "no number"}, "{}"),
    ],
)
def test_a_default_is_filled_in(schema: Any, value: str) -> None:
    assert Page(member(schema, required=False)).read() == value


def test_a_recursive_part_is_opened_a_level_at_a_time() -> None:
    page = Page(TREE)
    assert "v/pname" in page.state and "v/pnext/pname" not in page.state
    page.do("include", "/pnext")
    assert "v/pnext/pname" in page.state and "v/pnext/pnext/pname" not in page.state
    assert page.problems() == [(["next", "next"], "Open this and fill it in.")]


def test_faulty_json_stays_in_its_view_with_line_and_column() -> None:
    page = Page(WORDS)
    page.do("raw")
    page.state["r"] = '{"words":\n  ["a",]}'
    [problem] = page.do("form")["errors"]
    assert problem["path"] == [] and problem["message"].startswith(
        "This is not JSON: line 2, column "
    )
    assert page.state["r"] == '{"words":\n  ["a",]}'


@each("text", ["NaN", "-Infinity", "1e999", "9" * 5000, "[" * 5000, '{"a": 1', ""])
def test_text_that_is_not_json_is_refused(text: str) -> None:
    page = Page(WORDS)
    page.do("raw")
    page.state["r"] = text
    assert page.do("form")["errors"][0]["message"].endswith(".")


def test_the_raw_view_shows_incomplete_input() -> None:
    page = Page({"type": "object", "properties": {"n": WHOLE, "s": STRING}, "required": ["n", "s"]})
    page.state |= {"v/pn": "3/4", "v/ps": "x"}
    page.do("raw")
    assert json.loads(page.state["r"]) == {"n": "3/4", "s": "x"}


def test_a_value_without_a_control_can_be_reset() -> None:
    page = page_with(member(WHOLE), {"a": "text"})
    assert page.do("form", "/pa")["errors"][0]["path"] == ["a"]
    page.do("reset", "/pa")
    page.state["v/pa"] = "4"
    assert page.read() == '{"a": 4}'


@each(
    ("message", "said"),
    [
        ({"tool": "other", "do": "show"}, 'There is no tool "other"; the tools are "tool".'),
        ({"tool": ["tool"], "do": "show"}, 'There is no tool ["tool"]; the tools are "tool".'),
        ({"do": "dance"}, "Unknown operation 'dance'; use include, add"),
        ({"do": "add", "at": "/pnowhere"}, "This part of the form no longer exists"),
        ({"do": "choose", "at": "/pwords"}, "There is nothing to choose here."),
        ({"do": "read", "state": {"v": 1}}, "The state of a form has to be an object of texts"),
        ({"do": "set", "text": "{"}, "This is not JSON: line 1, column 2"),
    ],
)
def test_a_faulty_message_is_answered_with_a_sentence(message: dict[str, Any], said: str) -> None:
    assert Page(WORDS).do(**{"do": "show", **message})["error"].startswith(said)


@each(
    ("schema", "field", "typed", "sent"),
    [
        ("date", "date", "2024-05-31", "2024-05-31"),
        ("time", "time", "14:30", "14:30:00"),
        ("date-time", "datetime-local", "2024-05-31T14:30", "2024-05-31T14:30:00Z"),
        ("email", "email", "a@b.org", "a@b.org"),
        ("uri", "url", "https://example.org", "https://example.org"),
    ],
)
def test_a_format_has_the_fitting_field(schema: str, field: str, typed: str, sent: str) -> None:
    page = Page(member({"type": "string", "format": schema}))
    assert f'type="{field}"' in page.html
    page.state["v/pa"] = typed
    assert json.loads(page.read()) == {"a": sent}
    page.do("set", text=json.dumps({"a": sent}))
    assert json.loads(page.read()) == {"a": sent}
