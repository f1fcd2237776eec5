"""Secrets are masked in text and in JSON, and the rest of the JSON stays the same."""

from __future__ import annotations

import json
import time
import timeit
from functools import partial
from typing import Any

from environments import wire
from environments.runtime.secrets_mask import (
    MAX_RECENT_SECRETS,
    SLICE_CHARACTERS,
    STARS,
    Mask,
    RecentSecrets,
)
from tests.rows import each

SECRETS = [
    "plain-secret",
    'quote"d\\slash',
    "new\nline\ttab",
    "n-escape",
    "pässwörter",
    "emoji 😀 secret",
    "\x7f delete \x1f",
    "u00e9-like",
    "\u2028separator\u0085",
    "half \ud800 character",
    "</script>&",
]


@each("secret", SECRETS)
def test_it_masks_a_text(secret: str) -> None:
    assert Mask([secret]).text(f"a{secret}b{secret}") == f"a{STARS}b{STARS}"


@each("secret", SECRETS)
@each("place", [lambda s: s, lambda s: [{"k": s}], lambda s: {s: 1}, lambda s: f"before {s} after"])
def test_it_masks_json_wherever_the_secret_is(secret: str, place: Any) -> None:
    masked = Mask([secret]).json(wire.value_json(place(secret)))
    assert json.loads(masked) == json.loads(json.dumps(place(STARS)))


@each("secret", SECRETS)
@each("ensure_ascii", [True, False])
def test_it_masks_json_text_inside_a_json_string(secret: str, ensure_ascii: bool) -> None:
    inner = json.dumps({"token": secret}, ensure_ascii=ensure_ascii)
    masked = json.loads(Mask([secret]).json(wire.value_json({"body": inner})))
    assert json.loads(masked["body"]) == {"token": STARS}


@each("secret", SECRETS)
def test_it_masks_what_a_model_writes(secret: str) -> None:
    text = wire.model_json(wire.TextBlock(text=f"x{secret}", detail={secret: [secret]}))
    assert json.loads(Mask([secret]).json(text)) == {
        "text": f"x{STARS}",
        "detail": {STARS: [STARS]},
        "type": "text",
    }


@each("body", ['["{}', '{{"content": {}', "{}", '"{}'])
def test_a_body_whose_strings_have_no_end_is_masked_in_linear_time(body: str) -> None:
    """A body is masked before it is parsed. Each escaped quotation mark was taken for the start of
    another string."""
    mask = Mask(["plain-secret"])
    times = []
    for count in (10_000, 40_000):
        text = body.format('\\"' * count + "plain-secret")
        began = time.thread_time()
        assert "plain-secret" not in mask.json(text)
        times.append(time.thread_time() - began)
    assert times[1] < 10 * times[0] + 0.05


def test_it_never_cuts_an_escape() -> None:
    text = wire.value_json("\n-escape and n-escape!")
    assert json.loads(Mask(["n-escape"]).json(text)) == f"\n-escape and {STARS}!"


def test_a_secret_within_another_leaves_nothing_of_either() -> None:
    mask = Mask(["12345678", "0123456789"])
    assert mask.text("0123456789 12345678") == f"{STARS} {STARS}"


def test_a_short_secret_is_taken_for_honest_text() -> None:
    assert Mask(["1234567", ""]).text("1234567") == "1234567"


def test_numbers_keep_their_digits() -> None:
    text = (
        '{"a":1e400,"b":100000000000000000000.0,"c":-0.0,"d":"plain-secret","e":' + "9" * 5000 + "}"
    )
    assert Mask(["plain-secret"]).json(text) == text.replace("plain-secret", STARS)


def test_depth_is_no_matter() -> None:
    text = "[" * 50_000 + '"plain-secret"' + "]" * 50_000
    assert Mask(["plain-secret"]).json(text) == text.replace("plain-secret", STARS)


def test_without_a_match_the_text_is_the_same_object() -> None:
    text = '{"a":1}'
    assert Mask(["plain-secret"]).json(text) is text


def test_it_masks_a_number_that_is_a_secret() -> None:
    assert Mask(["1234567890"]).json('{"pin":1234567890,"n":12}') == f'{{"pin":"{STARS}","n":12}}'


def test_the_secrets_of_a_key_are_remembered_while_its_sessions_live_and_then_the_latest() -> None:
    recent, told = RecentSecrets(), list[tuple[str, bool]]()
    recent.listen(lambda secret, is_known: told.append((secret, is_known)))
    secrets = [f"secret-{number:03}" for number in range(2 * MAX_RECENT_SECRETS)]
    for secret in (*secrets, secrets[0]):
        recent.hold("alice", [secret])
    assert recent.log_line(" ".join(secrets)) == " ".join([STARS] * len(secrets))
    for secret in secrets:
        recent.release("alice", [secret])  # another session has the first
    forgotten = secrets[1:MAX_RECENT_SECRETS]
    assert told == [(secret, True) for secret in secrets] + [
        (secret, False) for secret in forgotten
    ]
    recent.add("alice", [f"later-{number:03}" for number in range(2 * MAX_RECENT_SECRETS)])
    assert (
        recent.log_line(" ".join([*secrets[:3], "later-063"]))
        == f"{STARS} secret-001 secret-002 {STARS}"
    )
    assert json.loads(recent.json("alice", '"secret-000 secret-001"')) == f"{STARS} secret-001"
    assert recent.is_empty("bob")


def test_a_secret_of_two_keys_is_remembered_until_both_have_forgotten_it() -> None:
    recent = RecentSecrets()
    recent.hold("alice", ["secret-of-both"])
    recent.add(
        "bob",
        ["secret-of-both", *(f"later-{number:03}" for number in range(2 * MAX_RECENT_SECRETS))],
    )
    assert recent.log_line("secret-of-both") == STARS
    assert recent.json("bob", '"secret-of-both"') == '"secret-of-both"'


def test_a_line_of_the_log_costs_no_time_for_each_secret() -> None:
    few, many = RecentSecrets(), RecentSecrets()
    for recent, count in ((few, 4), (many, 512)):
        recent.hold("alice", [f"{number:03}-{'secret' * 4}" for number in range(count)])
    line = (
        "2026-01-01T00:00:00Z [info     ] a session came back            episode=12 seconds=0.013 steps=4 "
        * 2
    )
    cost_of_few, cost_of_many = (
        min(
            timeit.repeat(
                partial(recent.log_line, line), timer=time.thread_time, number=50, repeat=20
            )
        )
        for recent in (few, many)
    )
    assert cost_of_many < 16 * cost_of_few  # of 128 times as many secrets


def test_a_line_of_the_log_has_no_secret_of_any_key() -> None:
    recent = RecentSecrets()
    recent.add("alice", ["secret-of-alice"])
    recent.add("bob", ["secret-of-bob"])
    assert recent.log_line("secret-of-alice secret-of-bob") == f"{STARS} {STARS}"
    assert json.loads(recent.log_line('{"event": "secret-of-bob"}')) == {"event": STARS}


def test_what_is_not_quite_json_is_masked_too() -> None:
    text = r'{"text":"\x plain-secret","text":"\y plain-secret" plain-secret'
    assert "plain-secret" not in Mask(["plain-secret"]).json(text).replace(" plain-secret", "", 1)


@each("place", [0, SLICE_CHARACTERS - 5, 2 * SLICE_CHARACTERS, 3 * SLICE_CHARACTERS - 12])
def test_a_secret_is_found_anywhere_in_a_long_text(place: int) -> None:
    length = 3 * SLICE_CHARACTERS
    text = "x" * place + "plain-secret" + "x" * (length - place - 12)
    masked = "x" * place + STARS + "x" * (length - place - 12)
    assert Mask(["plain-secret"]).text(text) == masked
    assert json.loads(Mask(["plain-secret"]).json(json.dumps({"text": text}))) == {"text": masked}


def test_every_secret_is_found_that_is_split_over_messages() -> None:
    recent = RecentSecrets()
    recent.add("alice", ["first-secret", "second-secret", "third-secret"])
    events = [
        {"content": text} for text in ("a first-", "secret second-", "secret", "third-secret", "b")
    ]
    texts = [event["content"] for event in json.loads(recent.json("alice", json.dumps(events)))]
    assert texts == [f"a {STARS}", f"{STARS} {STARS}", STARS, STARS, "b"]
