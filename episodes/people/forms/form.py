"""A tool's form: its HTML, and the input that a person has entered in it. `consumer.py` asks.

An entry is what the page sends: the text of each field by name, or one text with the whole input as
JSON. Numbers stay texts until the server reads them, because JavaScript would rewrite some.

    {"type": "form", "id": 7, "tool": "move"}                           -> "html"
    {"type": "form", "id": 7, "tool": "move", "entry": {"speed": "2"}}  -> "entry": the input as JSON
    {"type": "form", "id": 7, "tool": "move", "entry": '{"speed": 2}'}  -> "entry": a text per field

The answer has the `id` of the message, and instead of the above it can have "errors", a list of
{"path", "message"}, or "error", a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2s
from typing import Any

from django.template.loader import render_to_string

from environments.display.visible import visible_html
from episodes.people.forms.checking import Problem
from episodes.people.forms.fields import fields_of
from episodes.people.forms.values import NOTHING, json_text, kind_name, parsed_json, preview

Entry = str | dict[str, str]


def answer_form(
    tools: Mapping[str, Any], message: Mapping[str, Any], *, is_plain: bool = False
) -> dict[str, Any]:
    """Return the answer to a message of a form. `tools`: name -> schema of the input; None if the
    tool takes none.

    Takes milliseconds of CPU: too long for the loop.
    """
    head = {"type": "form", "id": message.get("id")}
    name, entry = message.get("tool"), message.get("entry")
    if not isinstance(name, str) or name not in tools:
        names = ", ".join(map(preview, tools))
        return head | {"error": f"There is no tool {preview(name)}; the tools are {names}."}
    schema = tools[name]
    if entry is None:
        return head | {"html": html_of(name, schema, is_plain=is_plain)}
    if not is_entry(entry):
        return head | {"error": "An entry is a text, or an object of texts."}
    value, problems = read_entry(schema, entry)
    if isinstance(entry, dict):
        return head | {"entry": json_text(value)}
    texts = dict[str, str]()
    if not problems:
        texts, problems = _texts_of(schema, value)
    if problems:
        return head | {"errors": [problem._asdict() for problem in problems]}
    return head | {"entry": texts}


def is_entry(value: Any) -> bool:
    is_form = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    return is_form or isinstance(value, str)


def read_entry(schema: Any, entry: Entry) -> tuple[Any, list[Problem]]:
    """Return the input, and the problems with it. A member that can't be read stands as its
    text."""
    if isinstance(entry, str):
        try:
            value = parsed_json(entry)
        except ValueError as error:
            return entry, [Problem((), str(error))]
        if isinstance(value, dict):
            return value, []
        sentence = f"An input has to be a JSON object, not {kind_name(value)}."
        return value, [Problem((), sentence)]
    members: dict[str, Any] = {}
    problems = []
    for field in fields_of(schema) or ():
        text = entry.get(field.name, "")
        try:
            member = field.value(text)
        except ValueError as error:
            problems.append(Problem((field.name,), str(error)))
            member = text
        if member is not NOTHING:
            members[field.name] = member
    return members, problems


def _texts_of(schema: Any, value: dict[str, Any]) -> tuple[dict[str, str], list[Problem]]:
    """Return the texts of the fields for an input, and the members that no field can hold."""
    texts, others = dict[str, str](), dict.fromkeys(value)
    for field in fields_of(schema) or ():
        text = field.text(value[field.name]) if field.name in value else ""
        if text is not None:
            texts[field.name] = text
            others.pop(field.name, None)
    if not others:
        return texts, []
    names = ", ".join(map(preview, others))
    sentence = f"No field can hold {names}. Change the JSON, or call the tool from here."
    return {}, [Problem((), sentence)]


def html_of(name: str, schema: Any, *, is_plain: bool) -> str:
    """Return the empty form of a tool. The page has the `<form>` around it.

    A plain form is for lay people: it folds optional fields and does not speak of JSON.
    """
    fields, more = fields_of(schema), []
    if is_plain and fields and any(field.is_required for field in fields):
        more = [field for field in fields if not field.is_required]
        fields = [field for field in fields if field.is_required]
    # a tool's name may contain any character
    prefix = blake2s(name.encode("utf-8", "replace"), digest_size=4).hexdigest()
    context = {
        "takes_input": schema is not None,
        "fields": fields,
        "more": more,
        "is_plain": is_plain,
        "prefix": f"form-{prefix}",
    }
    return visible_html(render_to_string("people/form.html", context))
