"""An import whose process is killed: agents saw nothing of it, and it can be done again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from environments.models import Split, SplitEntry, Task
from tests.environments.curation.transfer.files import Shelf, counts, served
from tests.server import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

IMPORT = """
import django, os, pathlib, signal, sys
django.setup()
from environments.curation.transfer import importing
from environments.curation.transfer.source import FileSource
from environments.curation.transfer.target import ImportTarget, environment_named

def die(done, total):
    if done > total / 2:
        os.kill(os.getpid(), signal.SIGKILL)

target = ImportTarget.of(environment_named("shop"), "train", "train")
importing.apply(FileSource.of(pathlib.Path(sys.argv[1])), target, author="ada", progress=die)
"""


def database_url() -> str:
    """Return the URL of this test's database, for another process."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


def killed_import(path: Path) -> int:
    variables = {**os.environ, "DATABASE_URL": database_url()}
    return subprocess.run(
        [sys.executable, "-c", IMPORT, str(path)], cwd=ROOT, env=variables
    ).returncode


def test_a_killed_import_is_invisible_and_can_be_repeated(shelf: Shelf) -> None:
    path = shelf.lines(*[{"n": n} for n in range(3000)])
    assert killed_import(path) == -signal.SIGKILL
    split = Split.objects.get()
    assert (split.is_served, split.version, split.size) == (False, 0, 0)
    assert 0 < SplitEntry.objects.count() <= Task.objects.count() < 3000
    Split.objects.update(changing_until=datetime(2026, 1, 1, tzinfo=UTC))  # as half a minute later
    assert counts(shelf.apply(path)) == (3000, 0, 0, 0)
    assert len(served()) == 3000
