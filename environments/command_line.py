"""Command lines: what messages and pages tell people to run, and types of the commands' arguments.

The lines name the interpreter of this process, because the reader may not have activated the
virtual environment.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TypeVar

Number = TypeVar("Number", int, float)

ROOT = Path(__file__).resolve().parent.parent


def command(arguments: str, directory: Path | None = None) -> str:
    """Return `.venv/bin/python manage.py <arguments>`, or `.venv/bin/orsweb <arguments>` where it
    is installed.

    For a shell in `directory` (default: the working directory).
    """
    if is_installed():
        return f"{_quoted(Path(sys.executable).with_name('orsweb'), directory)} {arguments}"
    return f"{python(directory)} {_quoted(ROOT / 'manage.py', directory)} {arguments}"


def is_installed() -> bool:
    """Return whether this is an installed distribution, not a checkout."""
    return not (ROOT / "manage.py").is_file()


def python(directory: Path | None = None) -> str:
    """Return the path of the running interpreter, for a shell in `directory`."""
    return _quoted(Path(sys.executable), directory)


def _quoted(path: Path, directory: Path | None) -> str:
    """Return `path` quoted for a shell, relative if it lies below `directory`. Links stay:
    .venv/bin/python is one."""
    try:
        start = directory or Path.cwd()
    except FileNotFoundError:  # the working directory was deleted
        return quote(str(path))
    return quote(str(path.relative_to(start) if path.is_relative_to(start) else path))


def filled(text: str) -> str:
    """Return a text that is not blank. A blank filter, as of an unset shell variable, would take
    everything."""
    if not text.strip():
        raise ArgumentTypeError(f"{text!r} is blank; give it a value or leave the option out")
    return text


def above_zero(kind: type[Number]) -> Callable[[str], Number]:
    """Return a parser of finite numbers above 0."""

    def parse(text: str) -> Number:
        if (number := _number(kind, text)) is None or number <= 0:
            raise ArgumentTypeError(f"{text!r} is not {_KINDS[kind]} above 0")
        return number

    return parse


def finite(kind: type[Number]) -> Callable[[str], Number]:
    """Return a parser of finite numbers."""

    def parse(text: str) -> Number:
        if (number := _number(kind, text)) is None:
            raise ArgumentTypeError(f"{text!r} is not {_KINDS[kind]}")
        return number

    return parse


_KINDS: dict[type, str] = {int: "a whole number", float: "a number"}


def _number(kind: type[Number], text: str) -> Number | None:
    """Return the number as it is written, in digits from 0 to 9; None if it is none. `int` also
    reads `1_0`."""
    spelling = r"-?[0-9]{1,18}" if kind is int else r"[0-9.e+-]{1,40}"
    try:
        number = kind(text) if re.fullmatch(spelling, text) else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < float("inf") else None
