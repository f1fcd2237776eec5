"""The files of a new environment: a small working example with a test and a card, which authors
change.

`manage.py new_environment` writes them. The templates are the text files in this directory, with
`$name` and `$title` as placeholders.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from pathlib import Path
from string import Template

from environments.authoring.reserved_names import RESERVED_NAMES
from environments.errors import Unhostable

_HERE = Path(__file__).parent
_FILES = {"{name}.py": "environment.txt", "test_{name}.py": "test.txt", "{name}.md": "card.txt"}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


def class_name(name: str) -> str:
    """Return the class name for a module name: `MyGame` for `my_game`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def write(name: str, directory: Path) -> list[Path]:
    """Write the files into `directory` and return their paths, the environment's module first.

    Raises: Unhostable when the name cannot be used or a file exists already; nothing is written
    then.
    """
    paths = {
        directory / pattern.format(name=name): _HERE / file for pattern, file in _FILES.items()
    }
    if not directory.is_dir():
        raise Unhostable(
            f"{directory} isn't a directory; create it first, or name another with --directory."
        )
    _check_name(name)
    if existing := next((path for path in paths if path.exists()), None):
        raise Unhostable(
            f"{existing} exists and is not overwritten; choose another name or another --directory."
        )
    if name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None:
        raise Unhostable(
            f"A Python module named {name!r} exists already and would be imported; "
            "choose another name."
        )
    for path, template in paths.items():
        text = Template(template.read_text(encoding="utf-8")).substitute(
            name=name, title=class_name(name)
        )
        # fails if the file was created in the meantime
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    return list(paths)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise Unhostable(
            f"{name!r} cannot name a module and an environment; use up to 60 lower-case letters, "
            "digits and '_', a letter first and no word of Python's own."
        )
    if name in RESERVED_NAMES:
        raise Unhostable(
            f"{name!r} is reserved: a page or a path of the protocol has that "
            "address; choose another."
        )
