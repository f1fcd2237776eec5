"""What a page's form asks over the websocket, answered. Driven by the consumer; `static/playtest/form.js` asks.

    {"type": "form", "id": 7, "tool": "move", "do": "add", "at": "/ppath", "state": {"v/pspeed": "2"}}
    {"type": "form", "id": 7, "html": "…", "focus": "/ppath/i1"}

`do`: "show" (the form as it is at first), "set" ("text": a value as JSON), "read" (the value that the controls hold),
or an operation at the slot named `at`: include, add, remove, up, down, choose ("choice": index of the branch), raw,
form, anew, refresh. `id` comes back as it was sent. The answer holds one of:

    "html", "focus"    the form anew, and the name of the slot where the focus goes, or null
    "input"            for "read": the value as JSON text, which keeps numbers that JavaScript would rewrite
    "errors"           [{"path": […], "message": "…"}]: nothing was done, and why, at the control of that path
    "error"            a sentence: the message was not understood

A form as HTML, by `templates/playtest/form*.html`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2s
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from episodes.playtest.forms.checking import check
from episodes.playtest.forms.control import State
from episodes.playtest.forms.form import Form, TooLarge
from episodes.playtest.forms.operations import Operation, Unworkable, operate
from episodes.playtest.forms.values import NOTHING, shown


def html_of(form: Form) -> SafeString:
    """The controls of a form that was begun; the page's own `<form>` is around them."""
    return render_to_string("playtest/form.html", {"form": form, "slot": form.root, "prefix": form.prefix})


def problem_json(path: tuple[str | int, ...], message: str) -> dict[str, Any]:
    return {"path": list(path), "message": message}


MAX_KEYS = 5_000
Schemas = Mapping[str, Any]
"""Tool -> its input schema; None: it takes no input."""


def answer_form(tools: Schemas, message: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one message of a page's form. Takes milliseconds of CPU: not for the event loop. Never raises."""
    head = {"type": "form", "id": message.get("id")}
    try:
        return {**head, **_answered(tools, message)}
    except (Unworkable, TooLarge, RecursionError) as error:
        said = str(error) if isinstance(error, Unworkable) else "The form would become too large; use the JSON view."
        return {**head, "error": said}


def check_input(schema: Any, value: Any) -> list[dict[str, Any]]:
    """What a tool's schema refuses of an input: [{"path": […], "message": "…"}], as the form shows it."""
    return [problem_json(one.path, one.message) for one in check(schema, value)] if schema is not None else []


def _answered(tools: Schemas, message: Mapping[str, Any]) -> dict[str, Any]:
    name, state = message.get("tool"), _state(message.get("state"))
    if not isinstance(name, str) or name not in tools:
        raise Unworkable(f"There is no tool {shown(name)}; there are {', '.join(map(shown, tools))}.")
    form = Form(tools[name], _prefix(name))
    if message.get("do") == "read":
        return _read(form, state)
    outcome = operate(form, state, _operation(message))
    if outcome.problems:
        return {"errors": [problem_json(one.path, one.message) for one in outcome.problems]}
    return {"html": html_of(form), "focus": outcome.focus}


def _read(form: Form, state: State) -> dict[str, Any]:
    if form.document.root is None:
        return {"input": "{}"}
    form.load(state)
    value, problems = form.value()
    if not problems and not isinstance(value, dict):
        problems = [
            form.root.problem(f"{shown(None if value is NOTHING else value)} is no JSON object; an input is one.")
        ]
    if problems:
        return {"errors": [problem_json(one.path, one.message) for one in problems]}
    return {"input": json.dumps(value)}


def _operation(message: Mapping[str, Any]) -> Operation:
    do, at, choice, text = (message.get(key) for key in ("do", "at", "choice", "text"))
    return Operation(
        do=do if isinstance(do, str) else "",
        at=at if isinstance(at, str) else "",
        choice=choice if isinstance(choice, int) else 0,
        text=text if isinstance(text, str) else "",
    )


def _state(told: Any) -> State:
    state = told if isinstance(told, dict) else {}
    if len(state) > MAX_KEYS or not all(isinstance(text, str) for text in state.values()):
        raise Unworkable("The state of a form is an object of texts, at most 5,000 of them.")
    return state


def _prefix(name: str) -> str:
    """What the ids of a tool's form begin with; a name may be anything."""
    return f"form-{blake2s(name.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"
