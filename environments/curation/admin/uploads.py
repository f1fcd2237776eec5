"""Uploaded files, which wait in the data directory between the preview of an import and the import.

Each has a directory of its own that only the server's user can read. It is deleted after the
import, or an hour after the upload.
"""

from __future__ import annotations

import re
import secrets
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile

MAX_AGE_SECONDS = 3600.0
_TOKEN = re.compile(r"\d+-[0-9a-f]{32}")
_ODD = re.compile(r"[^\w.() -]")


@dataclass(frozen=True, slots=True)
class Upload:
    token: str
    """Part of the address of its pages; it starts with the owner's id."""
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def discard(self) -> None:
        shutil.rmtree(self.path.parent, ignore_errors=True)


def store(file: UploadedFile[Any], owner: int) -> Upload:
    """Move the file to where it waits for its owner. Returns the upload."""
    _delete_old()
    directory = _root() / f"{owner}-{secrets.token_hex(16)}"
    directory.mkdir(mode=0o700)
    path = directory / (_ODD.sub("_", Path(file.name or "").name)[-120:].lstrip(".") or "upload")
    if isinstance(file, TemporaryUploadedFile):
        Path(file.temporary_file_path()).rename(path)  # the same file system: FILE_UPLOAD_TEMP_DIR
        path.touch()
    else:
        path.write_bytes(file.read())
    timer = threading.Timer(MAX_AGE_SECONDS, _delete_old)
    timer.daemon = True
    timer.start()
    return Upload(directory.name, path)


def find(token: str, owner: int) -> Upload | None:
    """Return the owner's upload with that token; None if it was imported, is too old or belongs to
    another person."""
    if not _TOKEN.fullmatch(token) or not token.startswith(f"{owner}-"):
        return None
    try:
        return Upload(token, next((_root() / token).iterdir()))
    except (OSError, StopIteration):
        return None


def _root() -> Path:
    return Path(settings.FILE_UPLOAD_TEMP_DIR)


def _delete_old() -> None:
    """Delete what is too old: uploads, and files of requests that were cut off when the server was
    killed."""
    oldest = time.time() - MAX_AGE_SECONDS + 1
    for path in _root().iterdir():
        try:
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError:  # another thread was faster
            continue
