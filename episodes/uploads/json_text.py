"""A position in JSON text, for readers that want a part of it as it is, or one value after another.
Uploads and files of episodes are read with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from environments.wire import repeated

_SPACE = re.compile(r"[ \t\n\r]*")

Decode = Callable[[str, int], tuple[Any, int]]
"""Returns the value that starts at a position, and its end, as `json.JSONDecoder.raw_decode`."""


class JsonText:
    """The position moves on with what is read. All methods raise ValueError."""

    def __init__(self, text: str, decode: Decode) -> None:
        self._text, self._decode = text, decode
        self.position = 0

    def next_mark(self) -> str:
        """Return the next character that is no white space, and stay there; empty at the end."""
        self.position = _SPACE.match(self._text, self.position).end()  # type: ignore[union-attr]
        return self._text[self.position : self.position + 1]

    def mark(self, marks: str) -> str:
        """Return the next mark, which must be among `marks`."""
        mark = self.next_mark()
        if not mark or mark not in marks:
            names = " or ".join(map(repr, marks))
            raise ValueError(f"Expecting {names} at character {self.position + 1}")
        self.position += 1
        return mark

    def value(self) -> Any:
        """Return the next value."""
        self.next_mark()
        value, self.position = self._decode(self._text, self.position)
        return value

    def exact(self, decode: Decode) -> str:
        """Return the text of the next value, which `decode` can read."""
        self.next_mark()
        start = self.position
        _, self.position = decode(self._text, start)
        return self._text[start : self.position]

    def members(self) -> Iterator[str]:
        """Yield the name of each member of an object. The caller reads its value."""
        names = set[str]()
        for _ in self.items("{}"):
            if self.next_mark() != '"':
                raise ValueError(f"Expecting the name of a member at character {self.position + 1}")
            if (name := str(self.value())) in names:
                raise repeated(name)
            names.add(name)
            self.mark(":")
            yield name

    def items(self, marks: str = "[]") -> Iterator[None]:
        """Yield before each item of an array, which the caller reads."""
        self.mark(marks[0])
        if self.next_mark() == marks[1]:
            self.mark(marks[1])
            return
        mark = ","
        while mark == ",":
            yield
            mark = self.mark("," + marks[1])

    def check_end(self) -> None:
        if self.next_mark():
            raise ValueError(f"Extra data at character {self.position + 1}")
