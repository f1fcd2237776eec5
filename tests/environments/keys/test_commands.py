"""The commands that make, list and revoke API keys."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from environments.keys.stored_keys import hash_key
from environments.models import ApiKey, Environment, SecurityEvent
from tests.rows import each

pytestmark = pytest.mark.django_db


def run(*arguments: str, **options: Any) -> str:
    out, err = io.StringIO(), io.StringIO()
    call_command(*arguments, stdout=out, stderr=err, **options)
    return out.getvalue() + err.getvalue()


def test_create_key_prints_the_key_and_what_is_still_to_be_set() -> None:
    User.objects.create_user("ada")
    text, note = run(
        "create_key", "lab", "--owner", "ada", "--scope", "play", "--split", "test"
    ).splitlines()
    row = ApiKey.objects.get()
    assert (row.digest, row.scopes, row.splits) == (hash_key(text).hex(), ["play"], ["test"])
    assert "ORSWEB_REQUIRE_KEYS=1" in note


def test_create_key_warns_of_an_environment_that_is_not_hosted_yet() -> None:
    Environment.objects.create(name="zebrafish")
    said = run("create_key", "lab", "--environment", "Zebrafish", "--environment", "zebrafisch")
    assert (
        "No environment 'zebrafisch' is hosted yet. Did you mean 'zebrafish'?" in said
        and said.count("hosted") == 1
    )


def test_list_keys_shows_everything_but_the_key() -> None:
    text = run("create_key", "lab", "--run", "grpo-7", "--days", "3").splitlines()[0]
    listed = run("list_keys")
    assert "lab" in listed and "grpo-7" in listed and "active" in listed and text not in listed


def test_revoke_key_revokes_once() -> None:
    run("create_key", "lab")
    assert run("revoke_key", "lab") == "Revoked the API key 'lab'.\n"
    with pytest.raises(CommandError, match="was revoked on "):
        run("revoke_key", "lab")


def test_set_quotas_changes_those_that_are_named() -> None:
    run("create_key", "lab", "--quota", "sessions=4", "--quota", "bytes=0")
    assert run("set_quotas", "lab", "requests=600", "bytes=default") == (
        "Quotas of 'lab': requests 600, sessions 4.\n"
    )
    row = ApiKey.objects.get()
    assert (row.quotas, row.version) == ({"sessions": 4, "requests": 600}, 2)
    entry = SecurityEvent.objects.get(kind="key_changed")
    changed = "quotas: requests 600, sessions 4 (was sessions 4, bytes 0)"
    assert (entry.what, entry.detail) == ("key lab", changed) and entry.who.endswith("(shell)")


def test_rotate_key_replaces_the_text_and_nothing_else() -> None:
    old = run("create_key", "lab", "--run", "grpo-7").splitlines()[0]
    new = run("rotate_key", "lab").strip()
    row = ApiKey.objects.get()
    assert new != old and (row.digest, row.run, row.version) == (hash_key(new).hex(), "grpo-7", 2)


@each(
    ("arguments", "problem"),
    [
        (("create_key", "@lab"), "reserved for people"),
        (("create_key", "lab", "--owner", "nobody"), "no account named 'nobody'"),
        (("create_key", "lab", "--days", "-1"), "would have expired already"),
        (("create_key", "lab", "--run", ""), "argument --run: '' is blank"),
        (("create_key", "lab", "--split", " "), "argument --split: ' ' is blank"),
        (("revoke_key", "gone"), "no API key named 'gone'"),
        (("rotate_key", "gone"), "no API key named 'gone'"),
        (
            ("create_key", "lab", "--quota", "calls=many"),
            "'calls=many' is no quota; write it like requests=600",
        ),
        (
            ("create_key", "lab", "--quota", "wishes=3"),
            "no quota 'wishes'; use one of requests, sessions",
        ),
    ],
)
def test_wrong_arguments_get_a_sentence(arguments: tuple[str, ...], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run(*arguments)
