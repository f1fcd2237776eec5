"""Typed reading of environment variables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from orsweb.env import (
    env_addresses,
    env_bool,
    env_choice,
    env_environment_secrets,
    env_int,
    env_keys,
    env_list,
    env_path_prefix,
    env_seconds,
    env_secret,
    env_secrets,
    env_share,
    env_str,
)

NAME = "ORSWEB_TEST_VALUE"


@pytest.fixture
def set_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda text: monkeypatch.setenv(NAME, text)


def test_it_strips_text(set_to: Callable[[str], None]) -> None:
    set_to("  a b ")
    assert env_str(NAME) == "a b"


READERS: list[tuple[Callable[[], Any], Any]] = [
    (lambda: env_str(NAME, "x"), "x"),
    (lambda: env_bool(NAME), False),
    (lambda: env_bool(NAME, default=True), True),
    (lambda: env_int(NAME, 5), 5),
    (lambda: env_seconds(NAME, 1.5), 1.5),
    (lambda: env_seconds(NAME, None), None),
    (lambda: env_share(NAME, 0.5), 0.5),
    (lambda: env_choice(NAME, "a", ["a", "b"]), "a"),
    (lambda: env_list(NAME), []),
    (lambda: env_addresses(NAME, "::1"), ["::1"]),
    (lambda: env_path_prefix(NAME), ""),
    (lambda: env_secret(NAME), ""),
    (lambda: env_keys(NAME), {}),
]


@pytest.mark.parametrize("text", ["", "  "])
@pytest.mark.parametrize(("read", "default"), READERS)
def test_it_takes_empty_for_unset(
    set_to: Callable[[str], None], text: str, read: Any, default: Any
) -> None:
    assert read() == default
    set_to(text)
    assert read() == default


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", True),
        ("TRUE", True),
        ("yes", True),
        ("on", True),
        ("0", False),
        ("off", False),
        ("No", False),
    ],
)
def test_it_reads_booleans_over_any_default(
    set_to: Callable[[str], None], text: str, value: bool
) -> None:
    set_to(text)
    assert env_bool(NAME, default=not value) is value


@pytest.mark.parametrize(("text", "value"), [("7", 7), (" 7 ", 7), ("0", 0)])
def test_it_reads_whole_numbers(set_to: Callable[[str], None], text: str, value: int) -> None:
    set_to(text)
    assert env_int(NAME, 5) == value


@pytest.mark.parametrize(
    ("text", "value"), [("2.5", 2.5), ("1e3", 1000.0), ("none", None), ("None", None)]
)
def test_it_reads_seconds(set_to: Callable[[str], None], text: str, value: float | None) -> None:
    set_to(text)
    assert env_seconds(NAME, None) == value


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("0.25", 0.25), ("1", 1.0)])
def test_it_reads_shares(set_to: Callable[[str], None], text: str, value: float) -> None:
    set_to(text)
    assert env_share(NAME, 0.5) == value


def test_it_drops_empty_entries_of_a_list(set_to: Callable[[str], None]) -> None:
    set_to(" a, ,b ,,c:d=e ")
    assert env_list(NAME) == ["a", "b", "c:d=e"]


@pytest.mark.parametrize("text", ["*", "10.0.0.7", "10.0.0.0/8,::1"])
def test_it_reads_addresses_and_networks(set_to: Callable[[str], None], text: str) -> None:
    set_to(text)
    assert env_addresses(NAME, "127.0.0.1") == text.split(",")


REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    (
        "maybe",
        lambda: env_bool(NAME),
        "'maybe' is neither true nor false; use one of 1, 0, true, false.",
    ),
    ("1.5", lambda: env_int(NAME, 1), "'1.5' is not a whole number."),
    ("1_0", lambda: env_int(NAME, 1), "'1_0' is not a whole number."),
    ("-1", lambda: env_int(NAME, 1), "-1 is too small; the minimum is 0."),
    ("9", lambda: env_int(NAME, 1, maximum=8), "9 is too large; the maximum is 8."),
    (
        "foo",
        lambda: env_addresses(NAME, "::1"),
        "'foo' is not an IP address or a network such as 10.0.0.0/8; use * for all addresses.",
    ),
    ("::1,10.0.0.1/8", lambda: env_addresses(NAME, "::1"), "10.0.0.0/8; use * for all addresses."),
    (
        "::1,*",
        lambda: env_addresses(NAME, "::1"),
        "'*' is not an IP address or a network such as 10.0.0.0/8; use * for all addresses.",
    ),
    ("0", lambda: env_int(NAME, 1, minimum=1), "0 is too small; the minimum is 1."),
    ("soon", lambda: env_seconds(NAME, 1.0), "'soon' is not a number of seconds."),
    ("none", lambda: env_seconds(NAME, 1.0), "'none' is not a number of seconds."),
    ("0", lambda: env_seconds(NAME, 1.0), "0 must be more than 0 seconds."),
    ("-3", lambda: env_seconds(NAME, None), "-3 must be more than 0 seconds."),
    ("inf", lambda: env_seconds(NAME, None), "inf must be more than 0 seconds."),
    ("nan", lambda: env_seconds(NAME, None), "nan must be more than 0 seconds."),
    ("most", lambda: env_share(NAME, 1.0), "'most' is not a number; use one from 0 to 1."),
    ("1.01", lambda: env_share(NAME, 1.0), "1.01 is not in the range from 0 to 1."),
    ("nan", lambda: env_share(NAME, 1.0), "nan is not in the range from 0 to 1."),
    ("c", lambda: env_choice(NAME, "a", ["a", "b"]), "'c' is unknown; use one of a, b."),
]


@pytest.mark.parametrize(("text", "read", "sentence"), REFUSED)
def test_it_refuses_a_wrong_value_by_name(
    set_to: Callable[[str], None], text: str, read: Any, sentence: str
) -> None:
    set_to(text)
    with pytest.raises(ImproperlyConfigured) as caught:
        read()
    assert str(caught.value).startswith(NAME)
    assert str(caught.value).endswith(sentence)


# --- secrets and keys -----------------------------------------------------------------------------


def test_it_reads_a_secret_from_a_file_before_the_variable(
    set_to: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("from file\n")
    set_to("from variable")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "secret"))
    assert env_secret(NAME) == "from file"


def test_it_names_a_secret_file_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "missing"))
    with pytest.raises(
        ImproperlyConfigured, match=f"{NAME}_FILE=.*missing' cannot be read: No such file"
    ):
        env_secret(NAME)


def test_it_names_a_secret_file_that_is_no_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "binary"))
    with pytest.raises(ImproperlyConfigured, match=r"binary' is not UTF-8 text\."):
        env_secret(NAME)


def test_it_reads_secrets_by_prefix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    monkeypatch.setenv("KEY_FOR_ONE", "first")
    monkeypatch.setenv("KEY_FOR_TWO_FILE", str(tmp_path / "key"))
    assert env_secrets("KEY_FOR_") == {"ONE": "first", "TWO": "from-a-file"}


def test_it_reads_keys_by_label(set_to: Callable[[str], None]) -> None:
    set_to("ci: 12345678 , lab:abcdefgh:with:colons,")
    assert env_keys(NAME) == {"ci": "12345678", "lab": "abcdefgh:with:colons"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ci:12345678,hunter2hunter2", "entry 2 does not have the form label:key."),
        (":hunter2hunter2", "entry 1 does not have the form label:key."),
        ("ci:", "entry 1 does not have the form label:key."),
        ("ci:hunter2", "the key of 'ci' is shorter than 8 characters."),
        (
            "ci:12345678,@ada:hunter2hunter2",
            "the label '@ada' starts with @, which is reserved for people.",
        ),
        ("ci:hunter2hunter2,ci:12345678", "entry 2 repeats a label or a key."),
        ("ci:hunter2hunter2,lab:hunter2hunter2", "entry 2 repeats a label or a key."),
    ],
)
def test_it_refuses_keys_without_showing_one(
    set_to: Callable[[str], None], text: str, sentence: str
) -> None:
    set_to(text)
    with pytest.raises(ImproperlyConfigured) as caught:
        env_keys(NAME)
    assert str(caught.value) == f"{NAME}: {sentence}"


@pytest.mark.parametrize(
    ("text", "prefix"),
    [("/ors", "/ors"), ("/ors/", "/ors"), ("/Lab/a.b_c~d-1", "/Lab/a.b_c~d-1"), ("/", "")],
)
def test_it_reads_a_path(set_to: Callable[[str], None], text: str, prefix: str) -> None:
    set_to(text)
    assert env_path_prefix(NAME) == prefix


@pytest.mark.parametrize(
    "text",
    [
        *(
            "ors",
            "https://lab.example/ors",
            "//",
            "/ors//",
            "//ors",
            "/ors//lab",
            "/.",
            "/../ors",
            "/a b",
            "/é",
        ),
        *("/a%20b", "/ors?a=b", "/ors#a", "/a;b", "/a\\b", "/<int:a>"),
    ],
)
def test_it_refuses_what_is_no_path(set_to: Callable[[str], None], text: str) -> None:
    set_to(text)
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}=.* is not a path such as /ors"):
        env_path_prefix(NAME)


@pytest.mark.parametrize("text", ["/play", "/API/ors", "/health", "/mcp", "/v1/"])
def test_it_refuses_a_path_that_begins_like_an_address_of_the_server(
    set_to: Callable[[str], None], text: str
) -> None:
    set_to(text)
    with pytest.raises(ImproperlyConfigured, match="begins like an address of this server"):
        env_path_prefix(NAME)


FILES = [
    ("[lab]\nopenai_api_key = 'sk-0123456789'\n", 0o600, None),
    (
        "[lab]\nopenai_api_key = 'sk-0123456789'\n",
        0o604,
        "can be read by other users; run: chmod o= ",
    ),
    (
        "openai_api_key = 'sk-0123456789'\n",
        0o600,
        "'openai_api_key' is outside of a table; write [ENVIRONMENT] above",
    ),
    (
        "[lab]\nopenai_api_key = 12345678\n",
        0o600,
        "'openai_api_key' of 'lab' is no text; write it in quotes.",
    ),
    ("[lab]\nopenai_api_key = 'sk-0'\n", 0o600, "The secret 'openai_api_key' has 4 characters."),
    ("[lab]\nopenai_api_key = sk-0123456789\n", 0o600, "is not TOML: see line 2."),
]


@pytest.mark.parametrize(("text", "mode", "problem"), FILES)
def test_it_reads_secrets_of_environments_from_a_file(
    set_to: Callable[[str], None], tmp_path: Path, text: str, mode: int, problem: str | None
) -> None:
    path = tmp_path / "secrets.toml"
    path.write_text(text)
    path.chmod(mode)
    set_to(str(path))
    if problem is None:
        assert env_environment_secrets(NAME) == {"lab": {"openai_api_key": "sk-0123456789"}}
        return
    with pytest.raises(ImproperlyConfigured) as refusal:
        env_environment_secrets(NAME)
    assert problem in str(refusal.value) and "sk-0" not in str(refusal.value)
