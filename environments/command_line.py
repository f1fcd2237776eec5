"""Invocation: how somebody who stands at this server runs its commands. Said by whatever tells people to run one.

Nobody is assumed to have activated the virtual environment, so the interpreter is the one that runs this process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote

ROOT = Path(__file__).resolve().parent.parent


def command(arguments: str, directory: Path | None = None) -> str:
    """`.venv/bin/python manage.py <arguments>`, for a shell in `directory` (default: where this process works)."""
    return f"{python(directory)} {_shown(ROOT / 'manage.py', directory)} {arguments}"


def python(directory: Path | None = None) -> str:
    """The interpreter, for a shell in `directory`."""
    return _shown(Path(sys.executable), directory)


def _shown(path: Path, directory: Path | None) -> str:
    """Relative where `path` lies below the directory, else whole. Links stay: .venv/bin/python is one."""
    try:
        start = directory or Path.cwd()
    except FileNotFoundError:  # somebody has deleted it
        return quote(str(path))
    return quote(str(path.relative_to(start) if path.is_relative_to(start) else path))
