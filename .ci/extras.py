"""Prints the entries of requirements.lock, with hashes, that extras of pyproject.toml ask for:
`extras.py otel sso`.

`make extras` installs them. What they need in turn is pinned by the same file, which is given as
constraints.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def entries(extras: Iterable[str], project: str, lock: str) -> str:
    """Return the entries. Raises: SystemExit with a sentence for an extra that there is not."""
    known = tomllib.loads(project)["project"]["optional-dependencies"]
    names = set()
    for extra in extras:
        if extra not in known:
            raise SystemExit(f"There is no extra {extra!r}; use any of {', '.join(known)}.")
        names |= {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in known[extra]}
    packages = re.findall(r"^[\w.-]+==.*\n(?:    .*\n)*", lock, re.MULTILINE)
    return "".join(package for package in packages if package.partition("==")[0].lower() in names)


if __name__ == "__main__":
    files = [(ROOT / name).read_text() for name in ("pyproject.toml", "requirements.lock")]
    print(entries(sys.argv[1:], *files), end="")
