"""Forms of tools: which members have fields, what their texts mean, and the way to JSON and back."""

from __future__ import annotations

import json
from typing import Any

from episodes.people.forms.form import answer_form, html_of, read_entry
from tests.rows import each

STRING, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
BOOLEAN, NULL = {"type": "boolean"}, {"type": "null"}
WORDS = {"type": "array", "items": STRING}
WAYS = {"enum": ["up", "down"]}


def tool(part: Any, *, required: bool = True) -> dict[str, Any]:
    """Return the schema of an input with the member `a`."""
    defs = {"Way": WAYS, "T": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}}}
    names = ["a"] if required else []
    return {"type": "object", "properties": {"a": part}, "required": names, "$defs": defs}


def read(schema: Any, text: str) -> str:
    """Return the input, as JSON, of a form whose field `a` has `text`."""
    value, problems = read_entry(schema, {"a": text})
    assert problems == []
    return json.dumps(value)


def convert(schema: Any, entry: Any) -> Any:
    """Return the entry of the other view."""
    return answer_form({"t": schema}, {"tool": "t", "entry": entry})["entry"]


@each(
    ("schema", "text", "value"),
    [
        (STRING, "two\nlines", '"two\\nlines"'),
        (STRING, "", '""'),
        (NUMBER, " 1.0 ", "1.0"),
        (NUMBER, ".5", "0.5"),
        (NUMBER, "1e20", "1e+20"),
        (WHOLE, "123456789012345678901234567890", "123456789012345678901234567890"),
        ({"anyOf": [NUMBER, {"type": "string", "maxLength": 9}]}, "42", "42"),
        ({"anyOf": [NUMBER, {"type": "string", "maxLength": 9}]}, "3/4", '"3/4"'),
        ({"type": ["integer", "string"]}, "1.5", '"1.5"'),
        ({"type": ["integer", "string"]}, "1e999", '"1e999"'),
        (BOOLEAN, "1", "false"),
        (WAYS, "1", '"down"'),
        ({"$ref": "#/$defs/Way"}, "0", '"up"'),
        ({"allOf": [{"$ref": "#/$defs/Way"}], "description": "Where to."}, "0", '"up"'),
        ({"const": "v1"}, "0", '"v1"'),
        (WORDS, "a\n\nb", '["a", "", "b"]'),
        (WORDS, "", "[]"),
        ({"type": "object"}, '{"b": 1.0}', '{"b": 1.0}'),
        ({"$ref": "#/$defs/T"}, '{"next": {}}', '{"next": {}}'),
        ({"oneOf": [STRING, WORDS]}, '["x"]', '["x"]'),
        ({}, "null", "null"),
    ],
)
def test_a_text_means_what_the_schema_says(schema: Any, text: str, value: str) -> None:
    assert read(tool(schema), text) == f'{{"a": {value}}}'


@each("schema", [STRING, NUMBER, BOOLEAN, WAYS, WORDS, {"type": "object"}])
def test_an_empty_optional_field_is_left_out_and_a_nullable_one_that_is_required_is_null(
    schema: Any,
) -> None:
    nullable = {"anyOf": [schema, NULL]}
    assert (
        read(tool(schema, required=False), "") == read(tool(nullable, required=False), "") == "{}"
    )
    if schema not in (BOOLEAN, WAYS):  # null is an option of a choice
        assert read(tool(nullable), "") == '{"a": null}'


@each(
    ("schema", "text", "problem"),
    [
        (WHOLE, "three", '"three" is not a number. Enter digits, such as 42 or 0.75.'),
        (NUMBER, "1e999", '"1e999" is too large. The largest number is about 1.8e308.'),
        (WAYS, "7", "Choose one of up, down."),
        ({}, '{"b":\n  1,}', "This is not JSON: "),
        ({}, "[" * 5000, "The JSON is nested too deeply."),
        ({}, "NaN", "NaN is not JSON. Enter a number, null or a text in quotes."),
    ],
)
def test_a_text_that_cannot_be_read_is_a_problem_of_its_field(
    schema: Any, text: str, problem: str
) -> None:
    value, problems = read_entry(tool(schema), {"a": text})
    assert value == {"a": text} and [one.path for one in problems] == [("a",)]
    assert problems[0].message.startswith(problem)


@each("text", ['{"a": 1', "", "[1]", "9" * 5000])
def test_a_text_of_the_json_view_has_to_be_an_object(text: str) -> None:
    assert [one.path for one in read_entry(tool(NUMBER), text)[1]] == [()]


@each(
    ("schema", "value"),
    [
        (STRING, '"</textarea> ünï 😀\\n"'),
        (NUMBER, "1.0"),
        (NUMBER, "-0.0"),
        (NUMBER, "1e-320"),
        (WHOLE, "123456789012345678901234567890"),
        ({"type": ["integer", "string"]}, '"1.5"'),
        (BOOLEAN, "true"),
        ({"enum": ["a", 1, 1.5, None, {"k": [1]}, "1", True]}, "1.5"),
        ({"enum": ["a", 1, 1.5, None, {"k": [1]}, "1", True]}, '{"k": [1]}'),
        ({"anyOf": [WAYS, NULL]}, "null"),
        ({"anyOf": [WHOLE, NULL]}, "null"),
        (WORDS, '["a", "", "b"]'),
        ({"type": "object"}, '{"b": [1.0, {"c": null}]}'),
        ({}, '"a\\r\\n\\u0000\\ud800"'),
    ],
)
def test_an_input_goes_from_json_to_fields_and_back_unchanged(schema: Any, value: str) -> None:
    text = f'{{"a": {value}}}'
    entry = convert(tool(schema), text)
    assert isinstance(entry, dict)
    assert json.dumps(json.loads(convert(tool(schema), entry))) == json.dumps(json.loads(text))


@each(
    ("schema", "text"),
    [
        (tool(STRING), '{"a": 1}'),
        (tool(STRING), '{"a": "\\r"}'),
        (tool(STRING, required=False), '{"a": ""}'),
        (tool(STRING, required=False), '{"a": null}'),
        (tool(WHOLE), '{"a": "1"}'),
        (tool(WHOLE), '{"a": true}'),
        (tool({"type": ["integer", "string"]}), '{"a": "1"}'),
        (tool(WAYS), '{"a": "left"}'),
        (tool({"enum": [1]}), '{"a": 1.0}'),
        (tool(WORDS), '{"a": ["x\\ny"]}'),
        (tool(WORDS), '{"a": [1]}'),
    ],
)
def test_an_input_that_no_field_can_hold_stays_json(schema: Any, text: str) -> None:
    [error] = answer_form({"t": schema}, {"tool": "t", "entry": text})["errors"]
    assert error["path"] == () and error["message"].startswith('No field can hold "a".')


def test_a_member_without_a_field_is_named() -> None:
    answer = answer_form({"t": tool(STRING)}, {"tool": "t", "entry": '{"a": "x", "b": 1}'})
    assert 'No field can hold "b".' in answer["errors"][0]["message"]


def test_json_shows_what_cannot_be_read_as_its_text() -> None:
    assert json.loads(convert(tool(WHOLE), {"a": "3/4"})) == {"a": "3/4"}


@each(
    ("schema", "html"),
    [
        ({"type": "string", "default": "\nx"}, "\n\nx</textarea>"),
        ({"type": "integer", "default": 3}, 'value="3"'),
        ({**BOOLEAN, "default": True}, 'value="0" checked><span>true'),
        ({"enum": [f"way {n}" for n in range(9)], "default": "way 4"}, 'value="4" selected'),
        ({"type": "integer", "default": "no number"}, 'value=""'),
        ({"type": "object", "default": {"b": 1.0}}, "&quot;b&quot;: 1.0"),
        ({"anyOf": [STRING, NULL], "default": None}, "\n</textarea>"),
        ({"type": "string", "examples": ["Ada"]}, 'placeholder="e.g. Ada"'),
        (STRING, 'id="form-38f3c041-1"'),
        ({"type": "integer", "minimum": 2}, "whole number, at least 2"),
        ({"type": "array", "items": {"type": "object"}}, "list of object"),
        ({"type": "string", "description": "Who `asks`."}, "Who <b>asks</b>."),
    ],
)
def test_a_field_starts_with_its_default_and_says_what_it_takes(schema: Any, html: str) -> None:
    assert html in html_of("t", tool(schema, required=False), is_plain=False)


@each("schema", [{"type": "object"}, {"type": "object", "properties": {}}, {}])
def test_an_input_without_members_has_no_fields(schema: Any) -> None:
    html = html_of("t", schema, is_plain=False)
    assert "No fields." in html and read_entry(schema, {}) == ({}, [])


def test_a_tool_without_an_input_takes_none() -> None:
    assert "This tool takes no input." in html_of("t", None, is_plain=False)
    assert read_entry(None, {}) == ({}, [])


@each(
    "schema", [{"type": "object", "additionalProperties": STRING}, {"oneOf": []}, {"type": "array"}]
)
def test_an_input_that_is_not_flat_is_entered_as_json(schema: Any) -> None:
    html = html_of("t", schema, is_plain=False)
    assert "data-fields" not in html and "Input as JSON" in html


@each(
    ("message", "sentence"),
    [
        ({"tool": "other"}, 'There is no tool "other"; the tools are "t".'),
        ({"tool": ["t"]}, 'There is no tool ["t"]; the tools are "t".'),
        ({"tool": "t", "entry": {"a": 1}}, "An entry is a text, or an object of texts."),
    ],
)
def test_a_faulty_message_is_answered_with_a_sentence(message: Any, sentence: str) -> None:
    answer = answer_form({"t": tool(STRING)}, {"id": 3, **message})
    assert answer == {"type": "form", "id": 3, "error": sentence}
