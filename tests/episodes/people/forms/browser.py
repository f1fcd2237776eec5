"""A browser that knows what HTML says of forms, and nothing else: what the elements of a form would
send."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from episodes.people.forms.answer import answer_form


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.state: dict[str, str] = {}
        self.classes: list[str] = []
        self.texts: list[str] = []
        self._select = self._textarea = ""
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name = given.get("name", "")
        if tag == "input" and given.get("type") in ("checkbox", "radio"):
            self._tick(name, given)
        elif tag == "input":
            self.state[name] = given.get("value", "")
        elif tag == "select":
            self._select = name
        elif tag == "option" and "selected" in given:
            self.state[self._select] = given["value"]
        elif tag == "textarea":
            self._textarea, self._text = name, []

    def _tick(self, name: str, given: dict[str, str]) -> None:
        if given["type"] == "checkbox":
            self.state[name] = "true" if "checked" in given else "false"
        elif "checked" in given:
            self.state[name] = given["value"]

    def handle_data(self, data: str) -> None:
        self._text.append(data)
        self.texts.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            # as the standard has it
            self.state[self._textarea] = "".join(self._text).removeprefix("\n")
            self._textarea = ""


def state_of(html: str) -> dict[str, str]:
    """Return the values of the elements of `html`, by name."""
    elements = _Elements()
    elements.feed(html)
    return elements.state


class Page:
    """A page with one tool's form, which does what `form.js` does."""

    def __init__(self, schema: Any) -> None:
        self.tools = {"tool": schema}
        self.html = ""
        self.state: dict[str, str] = {}
        self.do("show")

    def do(self, do: str, at: str = "", **more: Any) -> dict[str, Any]:
        """An operation; the form is as the answer has it, if it has one."""
        message = {
            "type": "form",
            "id": 1,
            "tool": "tool",
            "do": do,
            "at": at,
            "state": self.state,
            **more,
        }
        answer = answer_form(self.tools, message)
        if "html" in answer:
            self.html, self.state = answer["html"], state_of(answer["html"])
        return answer

    def read(self) -> str:
        """Return the value as JSON text. Raises: KeyError where the form has problems."""
        return str(self.do("read")["input"])

    def problems(self) -> list[tuple[list[Any], str]]:
        return [(one["path"], one["message"]) for one in self.do("read").get("errors", [])]
