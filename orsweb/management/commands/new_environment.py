"""`manage.py new_environment name` writes a small environment to start from, with a test and a
card."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments import command_line, starter
from environments.display.terminal import TerminalCommand
from environments.errors import Unhostable

_NEXT = """
Play it, check it, and test it with pytest{where}:

  {serve}
  {check}
  {pytest} {test}
"""


class Command(TerminalCommand):
    help = "Write a runnable environment, its test and its card, to start from."
    # those checks are for developers (`manage.py check`) and take a second
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "name", help="name of the module and the environment, such as word_order"
        )
        parser.add_argument(
            "--directory", type=Path, default=Path(), help="where to write (default: here)"
        )

    def handle(self, *, name: str, directory: Path, **options: Any) -> None:
        try:
            paths = starter.write(name, directory)
        except (Unhostable, OSError) as error:
            raise CommandError(str(error)) from error
        for path in paths:
            self.stdout.write(f"wrote {path}")
        self.stdout.write(_next_steps(name, directory.resolve(), paths[1].name))


def _next_steps(name: str, directory: Path, test: str) -> str:
    """Return the next three commands, with full paths if the environment is not in the directory of
    manage.py."""
    target = f"{name}:{starter.class_name(name)}"
    where = "" if command_line.is_installed() else ", which `make venv` installs"
    where += "" if directory == Path.cwd() else f" (first: cd {quote(str(directory))})"
    is_found = command_line.is_installed() or directory == command_line.ROOT
    pythonpath = "" if is_found else f"PYTHONPATH={quote(str(command_line.ROOT))} "
    return _NEXT.format(
        where=where,
        serve=command_line.command(f"serve {target}", directory),
        check=command_line.command(f"check_environment {target}", directory),
        pytest=f"{pythonpath}{command_line.python(directory)} -m pytest",
        test=test,
    )
