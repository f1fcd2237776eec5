"""The forms in which a secret can appear in a text, as regular expressions.

* Written: as it is, or with characters escaped for JSON (up to three times), URLs, HTML or Python
  literals.
* In hexadecimal, with or without separators such as spaces, colons, `%` and `\\x`.
* In base64 or base64url, alone or within more, such as `user:secret`. Characters that hold bits of
  the secret belong to it, also those that it shares with the bytes around it.

The expressions are valid for Python and for pydantic, whose regular expressions are those of Rust.
Their repetitions are bounded, so no text makes a search slow.
"""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Iterator

WINDOW_CHARACTERS = 64
MAX_WINDOWS = 64
"""A long secret is searched for in so many parts at most, so that a line or the beginning of a key
is masked too."""
MIN_LINE_CHARACTERS = 16
"""Shorter lines of a secret are searched for with the next: they are too likely to be ordinary
text."""
MIN_HINT_CHARACTERS, HINT_CHARACTERS = 6, 12
"""How much of a form is enough to suspect it."""

_PLUS = r"(?:[+-]|%2[bB]|\\{1,7}u002[bB])"
_SLASH = r"(?:\\{0,7}/|_|%2[fF])"
_SHARED = "[A-Za-z0-9+/_-]?"
"""A character of base64 that may hold bits of the secret and of what stands beside it."""
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9_.~-]")
_UNESCAPED_RUN = re.compile(r"[A-Za-z0-9_.~-]+")
_BACKSLASHES = r"\\{1,7}"
"""Those before a character that was escaped up to three times."""
_BETWEEN_BYTES = r"[ :,%\\\n\r\t-]{0,7}(?:0?x)?"
_USUAL_BETWEEN_BYTES = ("[ :%-]?", ", ?0x", rf"{_BACKSLASHES}x")
_SHORT_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def lines_of(secret: str) -> list[str]:
    """Return the lines of `secret`, such as a private key, which may be written one by one.

    Short lines are joined with the next; those of more than MAX_WINDOWS are joined so that each has
    a 64th of the secret. White space around them is dropped: a file ends in a line break.
    """
    all_lines, lines = secret.split("\n"), [""]
    least = MIN_LINE_CHARACTERS if len(all_lines) <= MAX_WINDOWS else len(secret) // MAX_WINDOWS
    for line in all_lines:
        if len(lines[-1].strip()) < least:
            lines[-1] += f"\n{line}"
        else:
            lines.append(line)
    if len(lines) > 1 and len(lines[-1].strip()) < least:
        lines[-2:] = ["\n".join(lines[-2:])]
    return [line.strip() for line in lines]


def windows_of(secret: str) -> list[str]:
    """Return the parts of `secret` that are searched for: itself unless it is long."""
    if len(secret) <= 2 * WINDOW_CHARACTERS:
        return [secret]
    size = max(WINDOW_CHARACTERS, -(-len(secret) // MAX_WINDOWS))
    starts = range(0, len(secret) - size, size)
    return [*(secret[start : start + size] for start in starts), secret[-size:]]


def patterns_of(window: str) -> list[str]:
    """Return expressions of which each matches one form of `window`."""
    data = window.encode("utf-8", "surrogatepass")
    if len(window) < WINDOW_CHARACTERS:
        hexadecimal = [_BETWEEN_BYTES.join(_any_case(f"{byte:02x}") for byte in data)]
    else:  # Python takes long to compile the other one
        hexadecimal = [data.hex(), data.hex().upper()]
    return [_written(window), *hexadecimal, *(_base64(data, offset) for offset in range(3))]


def hints_of(window: str) -> list[str]:
    """Return short expressions: every text with `window` in any form has one, and others rarely.

    They are plain characters as far as possible, because many of those are searched for as fast as
    one. Encoders break lines of base64, so each half of that is a hint.
    """
    data = window.encode("utf-8", "surrogatepass")
    run = max(_UNESCAPED_RUN.findall(window) or [""], key=len)
    hints = [_written(run if len(run) >= MIN_HINT_CHARACTERS else window)]
    for digits in {data[:4].hex(" "), data[:4].hex(" ").upper()}:
        hints += [digits.replace(" ", between) for between in _USUAL_BETWEEN_BYTES]
    for offset in range(3):
        certain = _certain_base64(data, offset)
        half = len(certain) // 2
        hints += [
            _of_base64(certain[:half][:HINT_CHARACTERS]),
            _of_base64(certain[half:][-HINT_CHARACTERS:]),
        ]
    return hints


# --- written --------------------------------------------------------------------------------------


def _written(secret: str) -> str:
    if _NEVER_ESCAPED.sub("", secret) == "":
        return secret.replace(".", r"\.")
    expressions = []
    for part in re.findall(r"\\+|[^\\]", secret, re.DOTALL):
        if _NEVER_ESCAPED.fullmatch(part):
            expressions.append(re.escape(part))
        elif part[0] == "\\":
            count = len(part)
            expressions.append(rf"(?:\\{{{count},{8 * count}}}|(?:%(?:25)?5[cC]){{{count}}})")
        else:
            expressions.append(f"(?:{'|'.join(_ways(part))})")
    return "".join(expressions)


def _ways(character: str) -> Iterator[str]:
    """Yield the ways of writing a character that encoders escape."""
    code = ord(character)
    yield re.escape(character) if code > 127 else rf"\\{{0,7}}{re.escape(character)}"
    for data in {
        character.encode("utf-8", "surrogatepass"),
        character.encode("latin-1", "ignore"),
    } - {b""}:
        yield "".join(f"%(?:25)?{_any_case(f'{byte:02x}')}" for byte in data)
        yield "".join(f"{_BACKSLASHES}x{_any_case(f'{byte:02x}')}" for byte in data)
    units = character.encode("utf-16-be", "surrogatepass").hex()
    yield "".join(
        f"{_BACKSLASHES}u{_any_case(units[at : at + 4])}" for at in range(0, len(units), 4)
    )
    yield f"&#(?:{code}|[xX]0{{0,6}}{_any_case(f'{code:x}')});"
    if character in _SHORT_ESCAPES:
        yield _BACKSLASHES + _SHORT_ESCAPES[character]
    if character == " ":
        yield r"\+"
    if (entity := html.escape(character)) != character:
        yield entity


# --- encoded --------------------------------------------------------------------------------------


def _any_case(digits: str) -> str:
    return "".join(digit if digit.isdecimal() else f"[{digit}{digit.upper()}]" for digit in digits)


def _base64(data: bytes, offset: int) -> str:
    """Return the expression of `data` in base64 with `offset` bytes before it in its group of
    three."""
    start = _SHARED if offset else ""
    end = _SHARED if (offset + len(data)) % 3 else ""
    return start + _of_base64(_certain_base64(data, offset)) + end


def _certain_base64(data: bytes, offset: int) -> str:
    """Return the characters that hold bits of `data` only."""
    characters = b64encode(bytes(offset) + data).decode().rstrip("=")
    has_shared_end = (offset + len(data)) % 3 > 0
    return characters[offset + 1 if offset else 0 : len(characters) - has_shared_end]


def _of_base64(characters: str) -> str:
    return characters.replace("+", "(+)").replace("/", _SLASH).replace("(+)", _PLUS)
