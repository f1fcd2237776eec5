"""What `manage.py reload` says when it finds no server that could reload."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from environments import conf
from orsweb.server.succession import note_start, note_state, read_state


@pytest.fixture(autouse=True)
def _own_directory(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_DIR, settings.ORSWEB_CLUSTER = tmp_path, ""


def answer() -> str:
    with pytest.raises(CommandError) as refused:
        call_command("reload")
    return str(refused.value)


def test_without_any_server_it_says_so() -> None:
    assert answer() == "No server of this database runs on this machine. Start it with `serve`."


def test_it_names_the_setting_of_the_server_that_runs(settings: Settings) -> None:
    settings.ORSWEB_CLUSTER = "/run/one.sock"
    note_state(conf.process_directory())
    settings.ORSWEB_CLUSTER = ""
    assert answer() == (
        "No server of this database runs without ORSWEB_CLUSTER on this machine, but there is one "
        "with "
        "ORSWEB_CLUSTER=/run/one.sock. Start this command with the same setting."
    )


def test_it_says_that_the_server_has_no_such_setting(settings: Settings) -> None:
    note_state(conf.process_directory())
    settings.ORSWEB_CLUSTER = "/run/one.sock"
    assert (
        "runs with ORSWEB_CLUSTER=/run/one.sock on this machine, but there is one without "
        "ORSWEB_CLUSTER." in answer()
    )


def test_a_server_of_another_database_is_not_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_state(conf.process_directory())
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", "another")
    assert answer() == "No server of this database runs on this machine. Start it with `serve`."


def test_a_server_that_starts_is_waited_for() -> None:
    note_start(conf.process_directory())
    assert answer() == "The server is still starting. Try again when it is ready."


def test_a_second_server_that_starts_hides_no_running_one() -> None:
    note_state(conf.process_directory())
    note_start(conf.process_directory())
    state = read_state(conf.process_directory())
    assert state is not None and state.at > 0
