"""The documentation names files, sections and commands that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from django.core.management import get_commands

from tests.browser.screenshots import MAX_BYTES, SCENES
from tests.rows import each

ROOT = Path(__file__).resolve().parent.parent
MAX_README_LINES = 199

DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

ELSEWHERE = {
    "my_env.py",
    "word_order.py",
    "ors/server.py",
    "openreward/environments/server.py",
    "requirements.txt",
    "env.py",
    "agent.yaml",
    "tools.yaml",
    "guess/tools.yaml",
    "guess/agent.yaml",
    "verifier/reward.txt",
}
"""Names that are not in this repository: files of readers, of scripts and of the reference
servers."""

PATH = re.compile(
    r"(?<![\w/.:-])[\w.-]+(?:/[\w.-]+)*\.(?:py|html|js|css|md|txt|toml|yaml)\b(?![\w/])"
)
PRINTED = re.compile(r"`([\w./]+)`:\n\n```(?!diff)")
"""A file that a page prints whole."""
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
COMMAND = re.compile(r"manage\.py ([a-z_]+)")


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


@cache
def files() -> frozenset[str]:
    """Return every file of the repository, and those that documents print, and each of their paths
    without leading directories.

    For example: "a/b/c.py", "b/c.py", "c.py".
    """
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [line for line in listed.stdout.splitlines() if (ROOT / line).exists()]
    for document in DOCUMENTS:
        names += PRINTED.findall(document.read_text(encoding="utf-8"))
    parts = [Path(name).parts for name in names]
    return frozenset("/".join(path[start:]) for path in parts for start in range(len(path)))


def headings(document: Path) -> Iterator[str]:
    """Yield the anchors that GitHub gives to the headings of `document`."""
    for line in document.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip().lower()
            yield re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


@each("document", DOCUMENTS, ids=name_of)
def test_every_file_that_is_named_exists(document: Path) -> None:
    named = set(PATH.findall(document.read_text(encoding="utf-8"))) - ELSEWHERE
    assert not {path for path in named if re.sub(r"^(\.\./)+", "", path) not in files()}


@each("document", DOCUMENTS, ids=name_of)
def test_every_link_leads_to_a_file_and_a_section(document: Path) -> None:
    wrong = []
    for path, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in set(headings(target))):
            wrong.append(f"{path}#{anchor}")
    assert not wrong


@each("document", DOCUMENTS, ids=name_of)
def test_every_command_that_is_quoted_exists(document: Path) -> None:
    quoted = set(COMMAND.findall(document.read_text(encoding="utf-8")))
    assert not quoted - set(get_commands())


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES


def test_documents_show_every_picture_and_none_is_large() -> None:
    pictures = list((ROOT / "docs/images").iterdir())
    links = [link for page in DOCUMENTS for link, _ in LINK.findall(page.read_text("utf-8"))]
    names = {Path(link).name for link in links if "images/" in link}
    assert names == {picture.name for picture in pictures}
    assert names >= {f"{scene.__name__}.webp" for scene in SCENES}
    assert not [picture.name for picture in pictures if picture.stat().st_size >= MAX_BYTES]


def test_every_test_that_a_promise_names_exists() -> None:
    promised = re.findall(
        r"`(tests/[\w./]+)(?:::(\w+))?`", (ROOT / "docs/security.md").read_text(encoding="utf-8")
    )
    assert len(promised) > 30
    missing = [f"{path}::{name}" for path, name in promised if not _has_test(ROOT / path, name)]
    assert not missing


def _has_test(path: Path, name: str) -> bool:
    if path.is_dir():
        return any(path.glob("test_*.py"))
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return bool(re.search(rf"^(async )?def {name or 'test_'}", text, re.M))
