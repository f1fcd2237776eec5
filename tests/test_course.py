"""The chapters of the course run as they are printed, in their order, against one real server.

A block of Python or JSON is saved under the name that the paragraph before it ends with. A block of
commands is run, and one without a language after it is what it prints: `…` stands for anything, and
white space does not matter. A command that serves starts the server again. Every address of the
server is opened where it stands.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import programs
from tests.server import LiveServer

ROOT = Path(__file__).resolve().parent.parent
COURSE = ROOT / "docs/course"
PAGES = [*sorted(COURSE.glob("[0-9]-*.md")), COURSE / "gsm8k.md"]
PRINTED_SERVER = "http://127.0.0.1:8080"
MANAGE = "../.venv/bin/python ../manage.py "
PART = re.compile(
    r"^```(?P<kind>\w*)\n(?P<block>.*?)^```$|<(?P<link>http[^>]+)>", re.MULTILINE | re.DOTALL
)
NAME = re.compile(r"`([\w.]+)`:\n\n$")


class Part(NamedTuple):
    """A block or an address of a page."""

    kind: str
    text: str
    name: str
    """File that a block of Python or JSON is saved as."""


def parts_of(page: str) -> Iterator[Part]:
    for found in PART.finditer(page):
        named = NAME.search(page[: found.start()])
        kind = "link" if found["link"] else found["kind"] or "printed"
        yield Part(kind, found["link"] or found["block"], named[1] if named else "")


class Reader:
    """Someone who follows the course to the letter, in a directory of a checkout."""

    def __init__(self, checkout: Path) -> None:
        (checkout / ".venv").symlink_to(ROOT / ".venv")
        (checkout / "manage.py").symlink_to(ROOT / "manage.py")
        self.directory = checkout / "course"
        self.directory.mkdir()
        self.server = LiveServer(cwd=self.directory)
        self.printed = ""

    def follow(self, part: Part) -> None:
        text = part.text.replace(PRINTED_SERVER, self.server.url)
        match part.kind:
            case "link":
                assert urllib.request.urlopen(text, timeout=30).status == 200
            case "sh" if text.startswith(f"{MANAGE}serve"):
                self.serve(shlex.split(text.removeprefix(f"{MANAGE}serve")))
            case "sh":
                self.printed = self.run(text)
            case "printed":
                if not is_printed(text, self.printed):
                    raise AssertionError(f"printed instead:\n{self.printed}")
            case _:
                assert part.name, f"no file name before {text}"
                (self.directory / part.name).write_text(text, encoding="utf-8")

    def serve(self, classes: list[str]) -> None:
        if self.server.args:
            self.server.stop()
        self.server.args = tuple(classes)
        self.server.start()

    def run(self, text: str) -> str:
        # from a warm interpreter, which saves a second
        if text.startswith(MANAGE) and text.count("\n") == 1:
            words = shlex.split(text.removeprefix(MANAGE))
            return programs.run(*words, env=self.server.env, cwd=self.directory).stdout
        warm = text.replace(MANAGE, f"{sys.executable} {programs.__file__} manage.py ")
        done = subprocess.run(
            ["bash", "-c", warm],
            cwd=self.directory,
            env=self.server.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.stderr, done.stderr
        return done.stdout


def is_printed(block: str, printed: str) -> bool:
    parts = ("".join(part.split()) for part in block.split("…"))
    return bool(re.fullmatch(".*".join(map(re.escape, parts)), "".join(printed.split())))


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.server.discard()


def test_the_course_runs_as_it_is_printed(reader: Reader) -> None:
    for page in PAGES:
        for part in parts_of(page.read_text(encoding="utf-8")):
            try:
                reader.follow(part)
            except Exception as error:
                raise AssertionError(f"{page.name}: {part.text}\n{error}") from error
