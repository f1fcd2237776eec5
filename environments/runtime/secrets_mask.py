"""Masking of a session's secrets in everything that is recorded or logged.

A text is first searched for hints of all secrets at once, by pydantic's regular expressions: they
take 2 to 5 us for an ordinary text and 1.5 ms for 1 MB, where Python's take 10 ms for each secret.
Only a text with a hint is searched closely. A long text is searched in slices, because no other
thread runs during a search.
"""

from __future__ import annotations

import json
import re
from collections import Counter
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
"""Secrets of ended sessions that are remembered for each key: uploads and some prints come late."""
JOINED_SIZES = (8, 32)
"""Numbers of secrets, or parts of long ones, that are searched for at once. Each secret is in three
searches one after the other: making one takes 0.4 ms for each secret, while the event loop waits,
and one for 512 was slow by itself."""
MAX_MASKS = 512
"""Masks that are kept for further sessions with the same secrets."""
SLICE_CHARACTERS = 256 * 1024
OVERLAP_CHARACTERS = 32 * 1024
"""Slices of a text overlap by more than any form of a secret, or of a part of a long one, takes."""
STARS = "********"
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(_STRING + r"?|-?\d[\d.eE+-]*", re.DOTALL)
"""Matches a string or a number in JSON text. A string without an end goes to the end, so that it is
read once."""
_MESSAGE_KEYS = ('"content":', '"text":', '"delta":')
_MESSAGE_TEXT = re.compile(rf"(?:{'|'.join(_MESSAGE_KEYS)})\s*({_STRING})", re.DOTALL)
"""Matches a part of a message in JSON text."""
_LINE_BREAKS = re.compile(r"((?:\s|\\{1,7}[rn]|%0[aAdD])+)")


class Mask:
    """Replaces the secrets of a session by asterisks. Costs nothing when there are none."""

    __slots__ = ("_any", "_shortest", "_windows")

    def __init__(self, secrets: Iterable[str], min_characters: int = MIN_SECRET_CHARACTERS) -> None:
        texts = dict.fromkeys(secret for secret in secrets if len(secret) >= min_characters)
        self._search_for([_Window(window) for secret in texts for window in windows_of(secret)])

    def _search_for(self, windows: list[_Window]) -> None:
        self._windows = windows
        # no form is shorter
        self._shortest = min((len(window.text) for window in windows), default=0)
        self._any = (
            _Hint([hint for window in windows for hint in window.hints]) if windows else None
        )

    @classmethod
    def of_all(cls, masks: Iterable[Mask]) -> Mask:
        """Return the mask of the secrets of all `masks`."""
        union = cls(())
        union._search_for([window for mask in masks for window in mask._windows])
        return union

    def __len__(self) -> int:
        """Return how many secrets, or parts of long ones, are searched for."""
        return len(self._windows)

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

        Each string is decoded and masked by itself, because a match in the raw text could cut an
        escape sequence in two. A number that contains a secret becomes a masked string. Everything
        else stays as it is.
        """
        text = self.json_strings(text)
        messages = None if self._any is None else _message_texts(text)
        return self.message_texts(text, messages) if messages else text

    def json_strings(self, text: str) -> str:
        """Return the JSON text with secrets masked that are within one string."""
        if self._any is None or len(text) < self._shortest or not self._any.is_in(text):
            return text
        return _TOKEN.sub(self._masked_token, text)

    def message_texts(self, text: str, messages: _MessageTexts) -> str:
        """Return the JSON text with secrets masked that are split over its messages."""
        assert self._any is not None
        if len(messages.whole) < self._shortest or not self._any.is_in(messages.whole):
            return text
        texts = self._masked(messages.texts)
        return messages.replaced(text, texts) if texts != messages.texts else text

    def _masked_token(self, match: re.Match[str]) -> str:
        raw = match[0]
        if raw[0] != '"':
            return raw if self.text(raw) == raw else json.dumps(STARS)
        try:
            value = json.loads(raw, strict=False)
        except ValueError:  # not JSON, which a client may send
            return self.text(raw)
        text = self.text(value)
        return raw if text == value else json.dumps(text)

    def _masked(self, pieces: Sequence[str]) -> list[str]:
        """Return the pieces with what is masked in all of them together."""
        spans = self._spans("".join(pieces))
        starts = [0, *accumulate(map(len, pieces))]
        if not spans:
            return [*pieces]
        return [_cut(piece, start, spans) for piece, start in zip(pieces, starts, strict=False)]

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Return where secrets are, in order, with those that touch each other as one."""
        spans = list[tuple[int, int]]()
        for start, end in sorted(span for window in self._windows for span in window.spans(text)):
            if spans and start <= spans[-1][1]:
                start, end = spans[-1][0], max(end, spans.pop()[1])
            spans.append((start, end))
        return spans


class _Hint:
    """Says whether something that looks like a secret is in a text."""

    def __init__(self, hints: Iterable[str]) -> None:
        self._hints = [*hints]

    @cached_property
    def _validator(self) -> SchemaValidator | None:
        """It takes 0.4 ms to make, so that is left until there is a text to search."""
        # half a character is something that only Python's expressions can have, and too much is
        # refused
        with suppress(SchemaError, UnicodeEncodeError):
            return SchemaValidator(
                core_schema.str_schema(pattern="|".join(self._hints), strict=True)
            )
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
class _MessageTexts:
    """The texts of blocks or messages in JSON text, which are read one after another."""

    matches: Sequence[re.Match[str]]
    texts: list[str]
    whole: str
    """All of them in one text."""

    def replaced(self, text: str, texts: Sequence[str]) -> str:
        """Return the JSON text with these texts in place of its own."""
        parts, end = list[str](), 0
        for match, old, new in zip(self.matches, self.texts, texts, strict=True):
            parts += [text[end : match.start(1)], match[1] if new == old else json.dumps(new)]
            end = match.end()
        return "".join([*parts, text[end:]])


def _message_texts(text: str) -> _MessageTexts | None:
    """Return the messages' texts in JSON text; None if there are less than two, or if it is no
    JSON."""
    if sum(text.count(key) for key in _MESSAGE_KEYS) < 2:
        return None
    matches = [
        match for match in _MESSAGE_TEXT.finditer(text)
    ]  # list() would let no other thread run
    if len(matches) < 2:
        return None
    try:
        texts = [json.loads(match[1], strict=False) for match in matches]
    except ValueError:
        return None
    return _MessageTexts(matches, texts, "".join(texts))


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


class SecretSet:
    """Secrets of many sessions, which are searched for together: a text costs a few searches,
    however many there are.

    One thread at a time changes it; any thread may mask.
    """

    def __init__(self) -> None:
        self._masks: dict[str, Mask] = {}
        self._joined: tuple[Mask, ...] = ()
        self._forgotten = 0  # secrets that are still searched for

    def __contains__(self, secret: str) -> bool:
        return secret in self._masks

    def __bool__(self) -> bool:
        return bool(self._masks)

    def add(self, secret: str) -> None:
        self._masks[secret] = mask = mask_of((secret,))
        self._joined = _joined((*self._joined, mask))

    def discard(self, secret: str) -> None:
        del self._masks[secret]
        self._forgotten += 1
        if self._forgotten > len(self._masks):
            masks: tuple[Mask, ...] = ()
            for mask in self._masks.values():
                masks = _joined((*masks, mask))
            self._forgotten, self._joined = 0, masks

    def text(self, text: str) -> str:
        """Return the text without the secrets."""
        for mask in self._joined:
            text = mask.text(text)
        return text

    def json(self, text: str) -> str:
        """Return the JSON text without the secrets, also if they are split over messages."""
        for mask in self._joined:
            text = mask.json_strings(text)
        messages = None
        for mask in self._joined:
            if messages is None and (messages := _message_texts(text)) is None:
                break
            new_text = mask.message_texts(text, messages)
            if new_text is not text:
                text, messages = new_text, None
        return text


def _joined(masks: tuple[Mask, ...]) -> tuple[Mask, ...]:
    """Return the masks with many small ones made one."""
    for size in JOINED_SIZES:
        small = [mask for mask in masks if len(mask) < size]
        if sum(map(len, small)) >= size:
            masks = (*(mask for mask in masks if len(mask) >= size), Mask.of_all(small))
    return masks


class _SecretsOfKey(SecretSet):
    """The secrets of the sessions of one key."""

    def __init__(self) -> None:
        super().__init__()
        self.holders = Counter[str]()
        """How many living sessions have each secret."""
        self.ended: dict[str, None] = {}
        """Those that no living session has, the oldest first."""


class RecentSecrets:
    """The secrets of the sessions of each key that live, and the latest of those that have ended.

    They are masked in what its clients, hosted code and the log say later.
    """

    def __init__(self) -> None:
        self._of_key: dict[str, _SecretsOfKey] = {}
        self._all = SecretSet()
        self._keys_with = Counter[str]()  # each secret
        self._listener: Callable[[str, bool], None] = lambda secret, is_known: None

    def listen(self, listener: Callable[[str, bool], None]) -> None:
        """Call `listener` with each known secret, and later with each that becomes known or is
        forgotten."""
        self._listener = listener
        for secret in self._keys_with:
            listener(secret, True)

    def hold(self, owner: str, secrets: Iterable[str]) -> None:
        """Remember the secrets of a session until it has released them, and some time longer."""
        own = self._of_key.setdefault(owner, _SecretsOfKey())
        for secret in _long_enough(secrets):
            if secret not in own:
                own.add(secret)
                self._keys_with[secret] += 1
                if self._keys_with[secret] == 1:
                    self._all.add(secret)
                    self._listener(secret, True)
            own.holders[secret] += 1
            own.ended.pop(secret, None)

    def release(self, owner: str, secrets: Iterable[str]) -> None:
        """Note that a session has ended. Of the secrets without one, the latest MAX_RECENT_SECRETS
        are remembered."""
        own = self._of_key[owner]
        for secret in _long_enough(secrets):
            own.holders[secret] -= 1
            if not own.holders[secret]:
                del own.holders[secret]
                own.ended[secret] = None
        while len(own.ended) > MAX_RECENT_SECRETS:
            oldest = next(iter(own.ended))
            del own.ended[oldest]
            own.discard(oldest)
            self._keys_with[oldest] -= 1
            if not self._keys_with[oldest]:
                del self._keys_with[oldest]
                self._all.discard(oldest)
                self._listener(oldest, False)

    def add(self, owner: str, secrets: Sequence[str]) -> None:
        """Remember secrets that no session has, or not yet, like those of one that has just
        ended."""
        self.hold(owner, secrets)
        self.release(owner, secrets)

    def is_empty(self, owner: str) -> bool:
        """Return whether no secret of the key is remembered."""
        return not self._of_key.get(owner)

    def json(self, owner: str, text: str) -> str:
        """Return the JSON text without the secrets that are remembered for the key."""
        own = self._of_key.get(owner)
        return text if own is None else own.json(text)

    def log_line(self, line: str) -> str:
        """Return a line of the log, which any thread may have written, without the secrets of all
        keys."""
        return self._all.json(line) if line.startswith("{") else self._all.text(line)


def _long_enough(secrets: Iterable[str]) -> Iterator[str]:
    return (secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS)


def _cut(piece: str, start: int, spans: Sequence[tuple[int, int]]) -> str:
    """Return the piece, which begins at `start` of the whole, with stars in place of its part of
    each span."""
    parts, end, last = list[str](), start, start + len(piece)
    for low, high in spans:
        if max(low, start) < min(high, last):
            parts += [piece[end - start : max(low, start) - start], STARS]
            end = min(high, last)
    return "".join([*parts, piece[end - start :]]) if parts else piece
