"""Specifications of remote environments: which are understood, what refusals say, and what is never
shown."""

from __future__ import annotations

import pytest

from environments.errors import Unhostable
from environments.hosts.loading import load
from environments.hosts.remote_url import is_remote, parse
from tests.rows import each


@each(
    ("specification", "name", "shown"),
    [
        ("http://127.0.0.1:9000/gsm8k", "gsm8k", "http://127.0.0.1:9000/gsm8k"),
        ("go=http://127.0.0.1:9000/GSM8K/", "go", "http://127.0.0.1:9000/GSM8K"),
        ("go=https://example.org/ors/math", "go", "https://example.org/ors/math"),
        ("HTTP://[::1]:9000/Math", "math", "http://[::1]:9000/Math"),
        ("go=http://user:pass@host:80/x", "go", "http://host/x"),
    ],
)
def test_it_names_an_environment(specification: str, name: str, shown: str) -> None:
    assert is_remote(specification)
    url = parse(specification, {})
    assert (url.name, str(url)) == (name, shown)


@each(
    ("specification", "words"),
    [
        ("http://127.0.0.1:9000", "names no environment; write http://127.0.0.1:9000/NAME"),
        ("go=http://127.0.0.1:9000/", "/list_environments"),
        ("=http://h/x", "has no name before '='; write name=http://host:port/environment"),
        (
            "tools=http://h/x",
            "'tools' is reserved by the server; serve it as other_name=http://h/x",
        ),
        ("http://h/mcp", "'mcp' is reserved by the server; serve it as other_name=http://h/mcp"),
        ("a b=http://h/x", "cannot be part of a URL"),
        ("http://h:99999/x", "is not a URL"),
        ("http:///x", "is not the URL of an environment"),
        ("http://h/x?token=secret", "http://h/x is not the URL"),
        ("http://h/x y", "is not the URL"),
        ("http://me:secret@h:port/x", "http://…@h:port/x is not a URL"),
        ("http://h/" + "x" * 400, "is longer than 400 characters"),
    ],
)
def test_a_refusal_says_what_to_write_and_shows_no_secret(specification: str, words: str) -> None:
    with pytest.raises(Unhostable) as raised:
        parse(specification, {})
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)


@each(
    ("specification", "keys", "headers"),
    [
        ("my-env.2=http://h/x", {"MY_ENV_2": "k"}, {"X-API-Key": "k"}),
        ("go=http://h/x", {"GO": "Bearer abc"}, {"Authorization": "Bearer abc"}),
        ("go=http://u:p%40@h/x", {}, {"Authorization": "Basic dTpwQA=="}),
        ("go=http://h/x", {"OTHER": "k"}, {}),
    ],
)
def test_credentials_become_headers(
    specification: str, keys: dict[str, str], headers: dict[str, str]
) -> None:
    assert parse(specification, keys).headers == headers


def test_a_key_that_no_header_may_contain_is_refused_without_showing_it() -> None:
    with pytest.raises(Unhostable, match="no header may contain") as raised:
        parse("go=http://h/x", {"GO": "secret\r\nX-Evil: 1"})
    assert "secret" not in str(raised.value)


def test_a_registry_has_classes_and_remote_environments() -> None:
    registry = load(["tests.envs:Echo", "far=http://h/x"])
    assert registry.names == ["echo", "far"]
    with pytest.raises(Unhostable, match="Two environments are named 'echo'"):
        load(["tests.envs:Echo", "http://h/Echo"])
