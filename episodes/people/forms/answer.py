"""Answers to the messages that a form on the player's page sends over the socket
(`static/people/form.js`).

    {"type": "form", "id": 7, "tool": "move", "do": "add", "at": "/ppath", "state": {"v/pspeed":
    "2"}}
    {"type": "form", "id": 7, "html": "…", "focus": "/ppath/i1"}

`do`: "show" (the empty form), "set" ("text": a value as JSON), "read" (the value in the controls),
or an operation at the slot named `at`: include, add, remove, up, down, choose ("choice": index of
the branch), raw, form, reset, refresh. The answer has the `id` of the message and one of:

    "html", "focus"    the new HTML of the form, and the name of the slot that gets the focus, or null
    "input"            for "read": the value as JSON text, which keeps numbers that JavaScript would rewrite
    "errors"           [{"path": […], "message": "…"}]: why nothing was done, at the control of that path
    "error"            a sentence: why the message cannot be answered
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2s
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from environments.display.visible import visible_html
from episodes.people.forms.checking import check
from episodes.people.forms.control import State
from episodes.people.forms.form import Form, TooLarge
from episodes.people.forms.operations import Operation, Unworkable, operate
from episodes.people.forms.values import NOTHING, shown

MAX_KEYS = 5_000
"""Maximum number of texts in the state of a form."""
Schemas = Mapping[str, Any]
"""Name of a tool -> schema of its input; None if the tool takes no input."""


def answer_form(
    tools: Schemas, message: Mapping[str, Any], *, is_plain: bool = False
) -> dict[str, Any]:
    """Return the answer to one message of a form. Never raises. Takes milliseconds of CPU: too long
    for the loop.

    In a plain form, optional fields are folded, and nothing speaks of JSON.
    """
    head = {"type": "form", "id": message.get("id")}
    try:
        return {**head, **_members_of_answer(tools, message, is_plain=is_plain)}
    except (Unworkable, TooLarge, RecursionError) as error:
        is_unworkable = isinstance(error, Unworkable)
        return {
            **head,
            "error": str(error)
            if is_unworkable
            else "The form would be too large. Use the JSON view.",
        }


def check_input(schema: Any, value: Any) -> list[dict[str, Any]]:
    """Return why a tool's schema refuses an input: [{"path": […], "message": "…"}], as the form
    shows it."""
    return (
        [_problem_json(one.path, one.message) for one in check(schema, value)]
        if schema is not None
        else []
    )


def _html_of(form: Form) -> SafeString:
    """Return the controls of a form with a value. The page has the `<form>` around them."""
    page = render_to_string(
        "people/form.html", {"form": form, "slot": form.root, "prefix": form.prefix}
    )
    return mark_safe(visible_html(page))  # nosec B308 # of our own template


def _problem_json(path: tuple[str | int, ...], message: str) -> dict[str, Any]:
    return {"path": list(path), "message": message}


def _members_of_answer(
    tools: Schemas, message: Mapping[str, Any], *, is_plain: bool
) -> dict[str, Any]:
    name, state = message.get("tool"), _state(message.get("state"))
    if not isinstance(name, str) or name not in tools:
        raise Unworkable(
            f"There is no tool {shown(name)}; the tools are {', '.join(map(shown, tools))}."
        )
    form = Form(tools[name], _prefix(name), is_plain=is_plain)
    if message.get("do") == "read":
        return _read(form, state)
    outcome = operate(form, state, _operation(message))
    if outcome.problems:
        return {
            "errors": [_problem_json(problem.path, problem.message) for problem in outcome.problems]
        }
    return {"html": _html_of(form), "focus": outcome.focus}


def _read(form: Form, state: State) -> dict[str, Any]:
    if form.document.root is None:
        return {"input": "{}"}
    form.load(state)
    value, problems = form.value()
    if not problems and not isinstance(value, dict):
        given = shown(None if value is NOTHING else value)
        problems = [form.root.problem(f"An input has to be a JSON object, not {given}.")]
    if problems:
        return {"errors": [_problem_json(problem.path, problem.message) for problem in problems]}
    return {"input": json.dumps(value)}


def _operation(message: Mapping[str, Any]) -> Operation:
    do, at, choice, text = (message.get(key) for key in ("do", "at", "choice", "text"))
    return Operation(
        do=do if isinstance(do, str) else "",
        at=at if isinstance(at, str) else "",
        choice=choice if isinstance(choice, int) else 0,
        text=text if isinstance(text, str) else "",
    )


def _state(value: Any) -> State:
    state = value if isinstance(value, dict) else {}
    if len(state) > MAX_KEYS or not all(isinstance(text, str) for text in state.values()):
        raise Unworkable(f"The state of a form has to be an object of texts, at most {MAX_KEYS:,}.")
    return state


def _prefix(name: str) -> str:
    """Return the prefix of the ids in a tool's form. It is a hash, because a tool's name may
    contain any character."""
    return f"form-{blake2s(name.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"
