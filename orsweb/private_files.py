"""Creates files and directories that only the server's user may read, for `settings.py`."""

from __future__ import annotations

import contextlib
import os
import stat
from functools import partial
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (BASE_DIR / "manage.py").is_file()
"""Whether this runs from a checkout. An installed orsweb has its templates and static files in its
package, where Django finds them."""
SQLITE_SIDE_FILES = ("-wal", "-shm", "-journal", ".lock")
"""Endings of the files that belong to a SQLite database."""
_new_paths: list[Path] = []
"""What this process has created, in this order."""


def data_directory() -> Path:
    """Return the directory of the server's data, created if it does not exist. Raises:
    ImproperlyConfigured.

    Others lose their rights to it if it belongs to the server's user and is not shared as /tmp is.
    """
    if name := os.environ.get("ORSWEB_DATA_DIR", "").strip():
        path = Path(name)
    elif IS_CHECKOUT:
        path = BASE_DIR / "var"
    else:
        home = os.environ.get("XDG_DATA_HOME", "").strip() or "~/.local/share"
        path = Path(home).expanduser() / "orsweb"
    path = path.resolve()
    absent = [place for place in (path, *path.parents) if not place.exists()]
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _new_paths.extend(reversed(absent))
        status = path.stat()
        if (
            status.st_mode & 0o077
            and status.st_uid == os.geteuid()
            and not status.st_mode & stat.S_ISVTX
        ):
            path.chmod(status.st_mode & 0o700)
    except OSError as error:
        raise ImproperlyConfigured(
            f"ORSWEB_DATA_DIR={str(path)!r} cannot be created: {error.strerror}."
        ) from error
    return path


def private_file(path: Path, text: str = "") -> Path:
    """Create the file `path` with `text` if it does not exist, readable by its owner only. Return
    the path.

    Raises: ImproperlyConfigured.
    """
    try:
        with (
            contextlib.suppress(FileExistsError),
            open(path, "x", opener=partial(os.open, mode=0o600)) as file,
        ):
            file.write(text)
            _new_paths.append(path)
        with path.open("rb"):
            return path
    except OSError as error:
        raise ImproperlyConfigured(
            f"ORSWEB_DATA_DIR: {str(path)!r} cannot be used: {error.strerror}."
        ) from error


def private_directory(path: Path) -> Path:
    """Create the directory `path` if it does not exist, for its owner only. Return the path.

    Raises: ImproperlyConfigured.
    """
    is_new = not path.exists()
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(
            f"ORSWEB_DATA_DIR: {str(path)!r} cannot be created: {error.strerror}."
        ) from error
    if is_new:
        _new_paths.append(path)
    return path


def make_private(name: str) -> None:
    """Create the file of a SQLite database if it does not exist, and take others' rights to it
    away.

    SQLite creates the files beside it, which hold parts of the data, with the rights of the
    database.
    """
    if not name or name == ":memory:" or name.startswith("file:"):
        return
    # Django says what is wrong with the path when it is used
    with contextlib.suppress(ImproperlyConfigured):
        private_file(Path(name).resolve())
    for path in (name, *(f"{name}{ending}" for ending in SQLITE_SIDE_FILES)):
        with contextlib.suppress(OSError):  # it is missing, or another user's
            if (mode := Path(path).stat().st_mode) & 0o077:
                Path(path).chmod(mode & 0o700)


def remove_created() -> None:
    """Remove the files that this process has created, and its directories unless they hold
    something else."""
    for path in reversed(_new_paths):
        with contextlib.suppress(OSError):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
