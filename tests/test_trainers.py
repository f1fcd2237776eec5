"""Checks what can be checked of docs/trainers without the trainers, whose tests
`make test-trainers` runs."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from tests.rows import each

TRAINERS = Path(__file__).resolve().parent.parent / "docs" / "trainers"
OWN = "uploaded_conversations.py"
"""The script that the project's own environment runs, to prepare the trainers' tests."""
SCRIPTS = sorted(path for path in TRAINERS.glob("*.py") if path.name != OWN)
PAGES = sorted(TRAINERS.glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PINNED = re.compile(r"^([\w.-]+)==", re.MULTILINE)
NAMES = {"PIL": "pillow", "hydra": "hydra-core", "ors": "ors-sdk"}
"""Packages whose import has another name, apart from hyphens."""


def imports_of(script: Path) -> set[str]:
    """Return the names of the top-level packages that a script imports. Raises: SyntaxError."""
    found = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def pinned() -> set[str]:
    """Return the names of all packages in the trainers' environments."""
    files = [*TRAINERS.glob("*.in"), *TRAINERS.glob("*.lock")]
    return {name for file in files for name in PINNED.findall(file.read_text())}


@each("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_imports_only_what_is_pinned(script: Path) -> None:
    own = {neighbour.stem for neighbour in SCRIPTS}
    foreign = imports_of(script) - sys.stdlib_module_names - own
    assert not {NAMES.get(name, name.replace("_", "-")) for name in foreign} - pinned()


@each("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_is_the_beginning_of_a_script(page: Path) -> None:
    sources = [script.read_text(encoding="utf-8") for script in SCRIPTS]
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert all(any(source.startswith(block) for source in sources) for block in blocks)


def test_what_is_installed_is_what_is_asked_for() -> None:
    for source in TRAINERS.glob("*.in"):
        asked = re.findall(r"^[\w.-]+==[\w.]+", source.read_text(), re.MULTILINE)
        lock = source.with_suffix(".lock").read_text()
        assert all(f"{one} " in lock or one.startswith("torch==") for one in asked)
