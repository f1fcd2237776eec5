"""Other interpreters for tests: virtual environments that have the dependencies of `orsweb-author`
and nothing else."""

from __future__ import annotations

import re
import venv
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("pydantic", "structlog", "uvloop")


def make(directory: Path) -> Path:
    """Make a virtual environment that shares files of needed packages with this one; return its
    interpreter."""
    venv.create(directory, symlinks=True)
    for name in with_requirements(*NEEDED):
        for top in {Path(str(file)).parts[0] for file in distribution(name).files or ()} - {
            "..",
            "__pycache__",
        }:
            source, target = (
                Path(str(distribution(name).locate_file(top))),
                packages_of(directory) / top,
            )
            if not target.exists():
                target.symlink_to(source)
    return directory / "bin" / "python"


def packages_of(directory: Path) -> Path:
    """Return where a virtual environment has its packages."""
    return next((directory / "lib").glob("python*/site-packages"))


def with_requirements(*names: str) -> set[str]:
    """Return distributions with everything that they require without extras."""
    found, todo = set[str](), list(names)
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            lines = [line for line in distribution(name).requires or () if "extra ==" not in line]
            todo += [
                match[0]
                for line in lines
                if (match := re.match(r"[\w.-]+", line)) and "python_version" not in line
            ]
    return found
