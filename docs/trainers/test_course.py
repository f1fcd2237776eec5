"""Tests chapter 4 of the course: the trainers' script trains a tiny language model on the
environment of chapter 1."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import HERE, ROOT, Server, run, serving

COURSE = ROOT / "docs/course"
STEPS, ROLLOUTS = 2, 32
"""Training steps here: they show that it runs as printed. Those of the page take some minutes
more."""


@pytest.fixture
def corridor(tmp_path: Path) -> Iterator[Server]:
    """Serve the environment of chapter 1."""
    [code] = re.findall(
        r"^```python\n(.*?)^```$",
        (COURSE / "1-environment.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    (tmp_path / "corridor.py").write_text(code, encoding="utf-8")
    with serving(tmp_path, "corridor:Corridor") as started:
        yield started


def test_the_tiny_language_model_plays_the_corridor(corridor: Server, tmp_path: Path) -> None:
    [printed] = re.findall(
        r"^    (\S+/python .*tiny_grpo\.py .*)$",
        (COURSE / "4-players.md").read_text(),
        re.MULTILINE,
    )
    words = shlex.split(printed.replace("http://127.0.0.1:8080", corridor.url))
    options = [*words[2:], "--steps", str(STEPS), "--output", str(tmp_path / "output")]
    run(sys.executable, HERE / "tiny_grpo.py", *options)
    played = corridor.curve(180, run="language-model-player", x="episode")
    trained = corridor.curve(STEPS * ROLLOUTS, run="language-model", x="step")
    assert 0.5 < played["total"]["mean"] < 1
    assert [point["n"] for point in trained["points"]] == [ROLLOUTS] * STEPS
