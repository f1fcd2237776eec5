"""What commands print cannot control the terminal."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from rich.console import Console

from environments.checking.report import CheckReport, print_report
from environments.display.terminal import TerminalCommand
from tests.rows import each

OURS = ("environments", "episodes", "orsweb")
OTHERS = {"check_environment", "migrate"}
"""Commands with another base: the first prints a table in colours; Django's prints nothing of
others."""


def test_every_command_prints_through_the_same_door() -> None:
    ours = {name: app for name, app in get_commands().items() if app in OURS}
    # daphne's prints nothing of others; it imports zope, which adds to abc.ABC what SDKs trip over
    del ours["runserver"]
    commands = {name: load_command_class(str(app), name) for name, app in ours.items()}
    assert {
        name for name, command in commands.items() if not isinstance(command, TerminalCommand)
    } == OTHERS


@pytest.mark.django_db
def test_names_in_files_and_arguments_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "\x1b]0;owned\x07\u202e.jsonl"
    file.write_text('{"episode": {}}\n')
    printed = StringIO()
    with pytest.raises(CommandError, match="1 line was refused"):
        call_command("import_episodes", file, stdout=printed, stderr=printed)
    assert (
        "␛]0;owned␇⟦RLO⟧.jsonl, line 1" in printed.getvalue() and "\x1b" not in printed.getvalue()
    )


def test_errors_of_a_command_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    file = "\x1b[2J/environment.py"
    with pytest.raises(SystemExit):
        load_command_class("orsweb", "restore").run_from_argv(["manage.py", "restore", file])
    printed = capsys.readouterr().err
    assert "␛[2J" in printed and "\x1b" not in printed


@each("colours", [True, False])
def test_the_report_of_a_check_has_only_its_own_colours(colours: bool) -> None:
    report = CheckReport("a\x1b[2J:B", "tools\x1b]0;x\x07")
    report.fail("names\x9b1m", "Tool '\x1b[31m[red]' failed.")
    out = StringIO()
    print_report(
        report, Console(file=out, width=200, force_terminal=colours, color_system="standard")
    )
    assert "␛[2J" in out.getvalue() and "␛[31m[red]" in out.getvalue()
    assert (
        "\x1b[2J" not in out.getvalue()
        and "\x1b]" not in out.getvalue()
        and "\x9b" not in out.getvalue()
    )
