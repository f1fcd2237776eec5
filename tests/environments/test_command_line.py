"""Command lines for people, valid in a shell in the directory where the server was started."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError
from pathlib import Path

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from environments import command_line
from tests.rows import each

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter that `make` installs."""
    monkeypatch.setattr(sys, "executable", f"{ROOT}/.venv/bin/python")


def test_paths_below_the_current_directory_are_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert command_line.command("demo") == ".venv/bin/python manage.py demo"


def test_paths_elsewhere_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.command("demo") == f"{ROOT}/.venv/bin/python {ROOT}/manage.py demo"


def test_a_directory_may_be_named(tmp_path: Path) -> None:
    assert command_line.command("demo", ROOT) == ".venv/bin/python manage.py demo"
    assert (
        command_line.command("demo", tmp_path) == f"{ROOT}/.venv/bin/python {ROOT}/manage.py demo"
    )


def test_a_shell_reads_a_path_with_blanks_as_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/my python/bin/python")
    assert command_line.command("demo", ROOT) == "'/opt/my python/bin/python' manage.py demo"


def test_a_directory_that_was_deleted_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert command_line.command("demo") == f"{ROOT}/.venv/bin/python {ROOT}/manage.py demo"


def test_an_installed_server_has_a_command_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_line, "ROOT", tmp_path / "site-packages")
    assert command_line.command("demo", ROOT) == ".venv/bin/orsweb demo"


@pytest.mark.django_db
def test_strangers_do_not_see_the_directory_of_the_server(settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"lab": "a-key-of-the-lab"}
    page = Client().get("/login/", follow=True).content.decode()
    assert "<code>manage.py createsuperuser</code>" in page


@each("text", ["1_0", "\uff11", " 1", "nan", "inf", "1e400", "", "0x1", "1.5.0"])
def test_numbers_of_commands_are_read_as_they_are_written(text: str) -> None:
    for kind in (int, float):
        with pytest.raises(ArgumentTypeError, match=re.escape(repr(text))):
            command_line.finite(kind)(text)


@each(
    ("kind", "text", "number"),
    [(int, "-7", -7), (int, "007", 7), (float, "-0.5", -0.5), (float, "1e3", 1000.0)],
)
def test_finite_numbers_are_read(kind: type[int | float], text: str, number: float) -> None:
    assert command_line.finite(kind)(text) == number
