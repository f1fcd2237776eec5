"""The recipes of docs/changing.md work as they are printed, and touch as many files as it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests import programs, server

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/changing.md").read_text(encoding="utf-8")
COPIED = ("environments", "episodes", "orsweb", "static", "templates", "tests")
BLOCK = re.compile(
    r"^`(?P<path>[\w./]+)`:\n\n```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
PROMISE = re.compile(r"^\| \[.+\]\(#.+\) \| (\d+) \|$", re.MULTILINE)
"""A row of the page's table: a recipe and its number of files."""
UNCOUNTED = ("tests/", "templates/")


class Block(NamedTuple):
    path: str
    kind: str
    text: str


RECIPES = [
    [Block(*match.groups()) for match in BLOCK.finditer(section)]
    for section in PAGE.split("\n## ")[1:]
]


def write(block: Block, checkout: Path) -> None:
    """Make a new file, or the difference to one that is there."""
    file = checkout / block.path
    if block.kind != "diff":
        assert not file.exists(), f"{block.path} exists already"
        file.write_text(block.text, encoding="utf-8")
        return
    text = file.read_text(encoding="utf-8")
    for hunk in block.text.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if not line.startswith("+"))
        after = "".join(line[1:] for line in lines if not line.startswith("-"))
        assert text.count(before) == 1, f"{block.path} doesn't have this once:\n{before}"
        text = text.replace(before, after)
    file.write_text(text, encoding="utf-8")


def test_the_recipes_work_together_as_they_are_printed(tmp_path: Path) -> None:
    for folder in COPIED:
        # with what is compiled already, but nothing that other tests are compiling
        unfinished = shutil.ignore_patterns("*.pyc.*")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=unfinished)
    for file in ("manage.py", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / ".pytest_cache").mkdir()
    shutil.copy(server.template_file(), tmp_path / ".pytest_cache")  # or it would migrate one
    blocks = [block for recipe in RECIPES for block in recipe]
    for block in blocks:
        write(block, tmp_path)
    tests = [block.path for block in blocks if block.path.startswith("tests/")]
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    own.pop(programs.SHARED_DIR, None)  # its interpreters have imported this repository
    own.pop("DATABASE_URL", None)  # pytest-django reads the settings before conftest.py
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests],
        cwd=tmp_path,
        env=own | {"ORSWEB_TEST_DATABASE": "sqlite"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if f"{len(tests)} passed" not in done.stdout:
        raise AssertionError(done.stdout)


def test_a_recipe_touches_as_many_files_as_the_page_says() -> None:
    counts = [sum(not block.path.startswith(UNCOUNTED) for block in recipe) for recipe in RECIPES]
    assert counts == [int(count) for count in PROMISE.findall(PAGE)]
