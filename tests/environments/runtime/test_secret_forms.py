"""A secret is masked in whatever form and place it appears; what else is there stays."""

from __future__ import annotations

import base64
import html
import json
import os
from collections.abc import Callable
from itertools import pairwise
from string import ascii_letters, digits
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from environments import wire
from environments.runtime.secret_forms import MAX_WINDOWS, WINDOW_CHARACTERS, lines_of, windows_of
from environments.runtime.secrets_mask import STARS, Mask, mask_of
from tests.rows import each

EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "8"))
"""Texts for each test; more find rarer mistakes and take longer."""
FEW = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # which measures how busy the machine is
)

WORDS = st.text(ascii_letters + digits + "-_", min_size=8, max_size=60)
SECRETS = st.one_of(
    WORDS, st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=60)
)
AROUND = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

Encoder = Callable[[str, str, str], str]
"""Encodes a text before, the secret, and a text after it."""


def _json(text: str, times: int = 1) -> str:
    for _ in range(times):
        text = json.dumps(text)[1:-1]
    return text


PLAIN: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": _json,
    "JSON in JSON": lambda text: _json(text, 2),
    "JSON in JSON in JSON": lambda text: _json(text, 3),
    "JSON of pydantic": lambda text: wire.value_json(text)[1:-1],
    "JSON with slashes escaped": lambda text: _json(text).replace("/", r"\/"),
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "URL": lambda text: quote(text, safe=""),
    "path": quote,
    "form": quote_plus,
    "URL with small letters": lambda text: (
        quote(text, safe="").lower() if text.islower() else quote(text, safe="")
    ),
    "URL, every byte": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "HTML": html.escape,
    "hexadecimal": lambda text: text.encode().hex(),
    "HEXADECIMAL": lambda text: text.encode().hex().upper(),
    "hexadecimal with colons": lambda text: text.encode().hex(":"),
    "a dump": lambda text: text.encode().hex(" "),
    "Python's bytes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "C's bytes": lambda text: ", ".join(f"0x{byte:02x}" for byte in text.encode()),
}
WITHIN: dict[str, Callable[[bytes], bytes]] = {
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
    "base64url without padding": lambda data: base64.urlsafe_b64encode(data).rstrip(b"="),
    "base64 in lines": base64.encodebytes,
    "base64 in a URL": lambda data: quote(base64.b64encode(data), safe="").encode(),
    "base64 in JSON of PHP": lambda data: base64.b64encode(data).replace(b"/", rb"\/"),
    "base64 in lines in JSON": lambda data: json.dumps(base64.encodebytes(data).decode()).encode(),
}


def _is_left(secret: str, text: str) -> bool:
    return secret in text and not set(secret) <= set(STARS)


@pytest.mark.parametrize("encode", PLAIN.values(), ids=PLAIN)
@FEW
@given(secret=SECRETS, before=AROUND, after=AROUND)
def test_it_masks_what_was_written(
    encode: Callable[[str], str], secret: str, before: str, after: str
) -> None:
    encoded = encode(secret)
    masked = Mask([secret]).text(f"{before} {encoded} {after}")
    assert not _is_left(encoded, masked)
    assert STARS in masked


@pytest.mark.parametrize("encode", WITHIN.values(), ids=WITHIN)
@FEW
@given(secret=SECRETS, before=st.binary(max_size=60), after=st.binary(max_size=60))
def test_it_masks_what_is_encoded_with_more(
    encode: Callable[[bytes], bytes], secret: str, before: bytes, after: bytes
) -> None:
    masked = Mask([secret]).text(encode(before + secret.encode() + after).decode())
    assert STARS in masked
    whole = base64.b64encode(before + secret.encode() + after).decode()
    alone = whole[-(-len(before) // 3) * 4 : (len(before) + len(secret.encode())) // 3 * 4]
    assert not alone or alone not in "".join(masked.split())


@FEW
@given(secret=WORDS, user=st.text(ascii_letters, max_size=20))
def test_it_masks_the_password_of_basic_authentication(secret: str, user: str) -> None:
    header = "Authorization: Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
    masked = Mask([secret]).text(header)
    assert masked.startswith("Authorization: Basic ") and masked.rstrip("=").endswith(STARS)


@FEW
@given(secret=SECRETS, data=st.data())
def test_it_masks_what_is_split_over_blocks(secret: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(secret)), min_size=1, max_size=5)))
    edges = [0, *cuts, len(secret)]
    blocks = [{"text": secret[a:b], "detail": None, "type": "text"} for a, b in pairwise(edges)]
    masked = json.loads(Mask([secret]).json(wire.value_json({"blocks": blocks, "metadata": None})))
    texts = [block["text"] for block in masked["blocks"]]
    assert all(text in ("", STARS) for text in texts) and STARS in texts


@FEW
@given(
    secret=WORDS,
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.floats(allow_nan=False)
        | st.integers()
        | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        ),
    ),
)
def test_other_json_stays_as_it_is(secret: str, value: object) -> None:
    text = wire.value_json(value)
    assume(secret not in text)
    assert Mask([secret]).json(text) == text


@FEW
@given(secret=SECRETS, key=st.text(max_size=5), value=st.text(max_size=5))
def test_masked_json_is_json(secret: str, key: str, value: str) -> None:
    masked = Mask([secret]).json(
        wire.value_json({key + secret: [value, secret + value, {"text": value + secret}]})
    )
    assert not _is_left(secret, str(list(json.loads(masked).values())[-1][-1]["text"]))


@FEW
@given(secret=st.text(ascii_letters + digits, min_size=300, max_size=3000), data=st.data())
def test_it_masks_a_part_of_a_long_secret(secret: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(secret) - 3 * WINDOW_CHARACTERS))
    part = secret[start : start + 3 * WINDOW_CHARACTERS]
    masked = Mask([secret]).text(f"<{part}>")
    assert STARS in masked and len(masked) < 2.5 * WINDOW_CHARACTERS


def test_it_masks_a_key_in_base64_of_many_lines() -> None:
    key = (
        "-----BEGIN KEY-----\n"
        + base64.encodebytes(bytes(range(256)) * 6).decode()
        + "-----END KEY-----\n"
    )
    masked = Mask([key]).text(base64.encodebytes(key.encode()).decode())
    assert len(masked.replace("*", "").replace("\n", "")) < 16


def test_it_masks_each_line_of_a_key_by_itself() -> None:
    data = base64.b64encode(bytes(range(256)) * 6).decode()
    lines = [
        "-----BEGIN KEY-----",
        *(data[start : start + 64] for start in range(0, len(data), 64)),
    ]
    mask = mask_of(("\r\n".join([*lines, "-----END KEY-----"]),))
    assert [mask.text(f"key: {line}") for line in lines] == [f"key: {STARS}"] * len(lines)
    assert mask.text("-----END") == "-----END"


@each("secret", ["token-123456\n", "\ntoken-123456", "token-123456\r\n", "ab\ncd\ntoken-123456"])
def test_it_masks_what_was_read_from_a_file(secret: str) -> None:
    assert mask_of((secret,)).text(f"<{secret.strip()}>") == f"<{STARS}>"


def test_a_secret_of_any_length_is_searched_for_in_few_parts() -> None:
    assert len(windows_of("x" * 65_536)) <= MAX_WINDOWS + 1
    assert len(lines_of(("x" * 20 + "\n") * 3_000)) <= MAX_WINDOWS + 1


def test_backslashes_without_end_take_no_time() -> None:
    mask = Mask(['\\"\\"\\"\\"\\"end'])
    assert STARS not in mask.text('"' + "\\" * 200_000)
