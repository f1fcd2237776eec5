"""A small file system that holds a server's database, and can be filled and emptied. Needs root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from tests.server import LiveServer

BALLAST = "ballast"
PIECE_BYTES = 64 * 1024


class SmallDisk:
    """A mounted file system."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Write a file until nothing more fits."""
        with (self.path / BALLAST).open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\1" * PIECE_BYTES)

    def empty(self) -> None:
        (self.path / BALLAST).unlink()

    @property
    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk]:
    """Mount a tmpfs. Skips the test where that is not permitted."""
    path = Path(tempfile.mkdtemp(prefix="orsweb-small-"))
    options = f"size={megabytes}m,mode=755"
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True
        )
        if mounted.returncode:
            pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.decode().strip()}")
        try:
            yield SmallDisk(path)
        finally:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
    finally:
        path.rmdir()


@contextlib.contextmanager
def on_disk(server: LiveServer, disk: SmallDisk) -> Iterator[None]:
    """Move the database of a server that does not run yet to the disk."""
    if server.database_url:
        with _tablespace(server.database_url, disk):
            yield
        return
    file, moved = server.data_dir / "orsweb.sqlite3", disk.path / "orsweb.sqlite3"
    shutil.move(file, moved)
    file.symlink_to(moved)  # SQLite writes its journal beside the file that is meant
    yield


@contextlib.contextmanager
def _tablespace(url: str, disk: SmallDisk) -> Iterator[None]:
    """Move a database of PostgreSQL; not its journal, without which the whole server would stop."""
    parts = urlsplit(url)
    name, space = parts.path.lstrip("/"), f"small_{os.getpid()}"
    with psycopg.connect(parts._replace(path="/postgres").geturl(), autocommit=True) as connection:
        [(owned,)] = connection.execute("SHOW data_directory").fetchall()
        folder = disk.path / "tablespace"
        folder.mkdir()
        shutil.chown(folder, Path(owned).stat().st_uid)
        connection.execute(
            sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(sql.Identifier(space), str(folder))
        )
        move = sql.SQL("ALTER DATABASE {} SET TABLESPACE {}")
        connection.execute(move.format(sql.Identifier(name), sql.Identifier(space)))
        try:
            yield
        finally:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )
            connection.execute(sql.SQL("DROP TABLESPACE {}").format(sql.Identifier(space)))
