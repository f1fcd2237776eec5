"""Masking of a session's secrets in everything that is recorded or logged.

A text is first searched for hints of all secrets at once, by pydantic's regular expressions: they take 2 to 5 us for
an ordinary text and 1.5 ms for 1 MB, where Python's take 10 ms for each secret. Only a text with a hint is searched
closely. A long text is searched in slices, because no other thread runs during a search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

from pydantic_core import SchemaError, SchemaValidator, core_schema

from environments.database.storable import is_encodable
from environments.runtime.secret_forms import hints_of, lines_of, patterns_of, windows_of

MIN_SECRET_CHARACTERS = 8
"""Shorter secrets are not masked, because they are too likely to be part of ordinary text."""
MAX_SECRET_CHARACTERS = 65_536
"""Longer secrets are refused, because searching for them would take too long."""
MAX_RECENT_SECRETS = 32
"""Secrets that are remembered for each key: what a client uploads is searched for every one of them."""
MAX_MASKS = 512
"""Masks that are kept for further sessions with the same secrets."""
SLICE_CHARACTERS = 256 * 1024
OVERLAP_CHARACTERS = 32 * 1024
"""Slices of a text overlap by more than any form of a secret, or of a part of a long one, takes."""
STARS = "********"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + r"|-?\d[\d.eE+-]*", re.DOTALL)
"""Matches a string or a number in JSON text."""
_SAID_KEYS = ('"content":', '"text":', '"delta":')
_SAID = re.compile(rf"(?:{'|'.join(_SAID_KEYS)})\s*({_STRING})", re.DOTALL)
"""Matches a part of a message in JSON text."""
_LINE_BREAKS = re.compile(r"((?:\s|\\{1,7}[rn]|%0[aAdD])+)")


class Mask:
    """Replaces the secrets of a session by asterisks. Costs nothing when there are none."""

    __slots__ = ("_any", "_shortest", "_windows")

    def __init__(self, secrets: Iterable[str], min_characters: int = MIN_SECRET_CHARACTERS) -> None:
        texts = dict.fromkeys(secret for secret in secrets if len(secret) >= min_characters)
        self._windows = [_Window(window) for secret in texts for window in windows_of(secret)]
        self._shortest = min((len(one.text) for one in self._windows), default=0)  # no form is shorter
        self._any = _Hint([hint for window in self._windows for hint in window.hints]) if self._windows else None

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to mask."""
        return self._any is None

    def text(self, text: str) -> str:
        """Return the text with secrets masked, also if they are wrapped over lines."""
        if self._any is None or len(text) < self._shortest or not self._any.is_in(text):
            return text
        [text] = self._masked([text])
        parts = _LINE_BREAKS.split(text)
        if len(parts) > 1:
            parts[::2] = self._masked(parts[::2])
        return "".join(parts)

    def json(self, text: str) -> str:
        """Return the JSON text with secrets masked, also if they are split over blocks.

        Each string is decoded and masked by itself, because a match in the raw text could cut an escape sequence in
        two. A number that contains a secret becomes a masked string. Everything else stays as it is.
        """
        text = self.json_strings(text)
        said = None if self._any is None else _said_in(text)
        return self.said_texts(text, said) if said else text

    def json_strings(self, text: str) -> str:
        """Return the JSON text with secrets masked that are within one string."""
        if self._any is None or len(text) < self._shortest or not self._any.is_in(text):
            return text
        return _TOKEN.sub(self._masked_token, text)

    def said_texts(self, text: str, said: _SaidTexts) -> str:
        """Return the JSON text with secrets masked that are split over what is said in it."""
        assert self._any is not None
        if len(said.joined) < self._shortest or not self._any.is_in(said.joined):
            return text
        masked = self._masked(said.texts)
        return said.replaced(text, masked) if masked != said.texts else text

    def _masked_token(self, match: re.Match[str]) -> str:
        raw = match[0]
        if raw[0] != '"':
            return raw if self.text(raw) == raw else json.dumps(STARS)
        try:
            masked = self.text(said := json.loads(raw, strict=False))
        except ValueError:  # not JSON, which a client may send
            return self.text(raw)
        return raw if masked == said else json.dumps(masked)

    def _masked(self, pieces: Sequence[str]) -> list[str]:
        """Return the pieces with what is masked in all of them together."""
        spans = self._spans("".join(pieces))
        starts = [0, *accumulate(map(len, pieces))]
        return [_cut(piece, start, spans) for piece, start in zip(pieces, starts, strict=False)] if spans else [*pieces]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return where secrets are, in order, with those that touch each other as one."""
        merged = list[tuple[int, int]]()
        for start, end in sorted(span for window in self._windows for span in window.spans(text)):
            if merged and start <= merged[-1][1]:
                start, end = merged[-1][0], max(end, merged.pop()[1])
            merged.append((start, end))
        return merged


class _Hint:
    """Says whether something that looks like a secret is in a text."""

    def __init__(self, hints: Iterable[str]) -> None:
        self._hints = [*hints]

    @cached_property
    def _validator(self) -> SchemaValidator | None:
        """It takes 0.4 ms to make, so that is left until there is a text to search."""
        # half a character is something that only Python's expressions can have, and too much is refused
        with suppress(SchemaError, UnicodeEncodeError):
            return SchemaValidator(core_schema.str_schema(pattern="|".join(self._hints), strict=True))
        return None

    def is_in(self, text: str) -> bool:
        if self._validator is None:
            return True
        if len(text) <= SLICE_CHARACTERS:
            return self._is_in(text)
        return any(self._is_in(part) for _, part in _slices(text))

    def _is_in(self, text: str) -> bool:
        assert self._validator is not None
        return self._validator.isinstance_python(text) or not (text.isascii() or is_encodable(text))


class _Window:
    """A secret, or a part of a long one."""

    __slots__ = ("_hint", "_patterns", "hints", "text")

    def __init__(self, text: str) -> None:
        self.text, self.hints = text, hints_of(text)
        self._hint: _Hint | None = None
        self._patterns: list[re.Pattern[str]] | None = None

    def spans(self, text: str) -> Iterable[tuple[int, int]]:
        if self._hint is None:
            self._hint = _Hint(self.hints)
        if not self._hint.is_in(text):
            return ()
        if self._patterns is None:
            self._patterns = [re.compile(pattern) for pattern in patterns_of(self.text)]
        return (
            (start + match.start(), start + match.end())
            for start, part in _slices(text)
            for pattern in self._patterns
            for match in pattern.finditer(part)
        )


@dataclass(frozen=True, slots=True)
class _SaidTexts:
    """The texts of blocks or messages in JSON text, which are read one after another."""

    matches: Sequence[re.Match[str]]
    texts: list[str]
    joined: str

    def replaced(self, text: str, texts: Sequence[str]) -> str:
        """Return the JSON text with these texts in place of its own."""
        parts, end = list[str](), 0
        for match, old, new in zip(self.matches, self.texts, texts, strict=True):
            parts += [text[end : match.start(1)], match[1] if new == old else json.dumps(new)]
            end = match.end()
        return "".join([*parts, text[end:]])


def _said_in(text: str) -> _SaidTexts | None:
    """Return what is said in JSON text; None if that is less than two texts, or if it is not JSON."""
    found = 0
    if not any((found := found + text.count(key)) > 1 for key in _SAID_KEYS):
        return None
    matches = [match for match in _SAID.finditer(text)]  # list() would let no other thread run
    if len(matches) < 2:
        return None
    try:
        texts = [json.loads(match[1], strict=False) for match in matches]
    except ValueError:
        return None
    return _SaidTexts(matches, texts, "".join(texts))


def _slices(text: str) -> Iterator[tuple[int, str]]:
    """Yield the position and the text of overlapping slices; a short text is one."""
    if len(text) <= SLICE_CHARACTERS:
        yield 0, text
        return
    for start in range(0, len(text), SLICE_CHARACTERS):
        yield start, text[start : start + SLICE_CHARACTERS + OVERLAP_CHARACTERS]


@lru_cache(MAX_MASKS)
def mask_of(secrets: tuple[str, ...]) -> Mask:
    """Return the mask of a session, which sessions with the same secrets share."""
    return Mask(line for secret in secrets for line in lines_of(secret))


class RecentSecrets:
    """The latest secrets of the sessions of each key, to mask what its clients and the log say about them later."""

    def __init__(self) -> None:
        self._masks: dict[str, dict[str, Mask]] = {}
        self.on_new: Callable[[str, str], None] = lambda owner, secret: None
        """Called with each secret that was not known for its owner."""

    @property
    def are_none(self) -> bool:
        """Whether no secret was added yet."""
        return not self._masks

    def add(self, owner: str, secrets: Iterable[str]) -> None:
        """Remember the secrets of a new session; of more than MAX_RECENT_SECRETS, the oldest are forgotten."""
        for secret in secrets:
            known = self._masks.get(owner, {})
            if len(secret) >= MIN_SECRET_CHARACTERS and secret not in known:
                known[secret] = mask_of((secret,))
                self._masks[owner] = known
                if len(known) > MAX_RECENT_SECRETS:
                    del known[next(iter(known))]
                self.on_new(owner, secret)

    def is_empty(self, owner: str) -> bool:
        """Return whether no secret of the key is remembered."""
        return not self._masks.get(owner)

    def json(self, owner: str, text: str) -> str:
        """Return the JSON text without the secrets that are remembered for the key."""
        masks, said = tuple(self._masks.get(owner, {}).values()), None
        for mask in masks:
            text = mask.json_strings(text)
        for mask in masks:
            if (said := said or _said_in(text)) is None:
                break
            text, before = mask.said_texts(text, said), text
            said = said if text is before else None
        return text

    def log_line(self, line: str) -> str:
        """Return a line of the log, which any thread may have written, without the secrets of all keys."""
        if not line.startswith("{"):
            return self.text(line)
        for mask in self._all():
            line = mask.json(line)
        return line

    def text(self, text: str) -> str:
        """Return a text without the secrets of all keys."""
        for mask in self._all():
            text = mask.text(text)
        return text

    def _all(self) -> list[Mask]:
        return [mask for masks in tuple(self._masks.values()) for mask in tuple(masks.values())]


def _cut(piece: str, start: int, spans: Sequence[tuple[int, int]]) -> str:
    """Return the piece, which begins at `start` of the whole, with stars in place of its part of each span."""
    parts, end, last = list[str](), start, start + len(piece)
    for low, high in spans:
        if max(low, start) < min(high, last):
            parts += [piece[end - start : max(low, start) - start], STARS]
            end = min(high, last)
    return "".join([*parts, piece[end - start :]]) if parts else piece
