"""Command lines for this installation, for messages and pages that tell people which command to run.

They name the interpreter of this process, because the reader may not have activated the virtual environment.
"""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote

ROOT = Path(__file__).resolve().parent.parent


def command(arguments: str, directory: Path | None = None) -> str:
    """Return `.venv/bin/python manage.py <arguments>`, or `.venv/bin/orsweb <arguments>` where it is installed.

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
    """Return `path` quoted for a shell, relative if it lies below `directory`. Links stay: .venv/bin/python is one."""
    try:
        start = directory or Path.cwd()
    except FileNotFoundError:  # the working directory was deleted
        return quote(str(path))
    return quote(str(path.relative_to(start) if path.is_relative_to(start) else path))
