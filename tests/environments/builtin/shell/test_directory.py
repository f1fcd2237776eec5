"""Tests of archives: they are unpacked as they were packed, and other data is refused."""

from __future__ import annotations

import io
import random
import tarfile

import pytest

from environments.builtin.shell.directory import BadArchive, File, read, write
from tests.rows import each


def archive_of(*entries: tarfile.TarInfo, kind: int = tarfile.USTAR_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for entry in entries:
            archive.addfile(entry, io.BytesIO(b"x" * entry.size))
    return buffer.getvalue()


def entry(path: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(path)
    made.type = kind
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_files_come_out_as_they_went_in() -> None:
    files = {"a.txt": "é\n", "deep/er/b": "", "c": "x" * 5000}
    assert {path: file.content.decode() for path, file in read(write(files)).files.items()} == files


def test_the_same_files_make_the_same_archive() -> None:
    assert write({"a": "1", "b": "2"}) == write({"b": "2", "a": "1"})


def test_it_knows_modes_folders_and_links() -> None:
    found = read(
        archive_of(
            entry("./run", size=3, mode=0o755),
            entry("./sub", tarfile.DIRTYPE),
            entry("./soft", tarfile.SYMTYPE, linkname="/etc/passwd"),
            entry("./hard", tarfile.LNKTYPE, linkname="./run"),
            entry("./pipe", tarfile.FIFOTYPE),
        )
    )
    assert found.files == {
        "run": File(b"xxx", is_executable=True),
        "hard": File(b"xxx", is_executable=True),
    }
    assert (found.folders, found.links) == ({"sub"}, {"soft": "/etc/passwd"})


def test_it_joins_long_paths() -> None:
    path = "/".join(["folder"] * 20) + "/file"
    assert list(read(archive_of(entry(path))).files) == [path]


def test_nothing_is_an_empty_directory() -> None:
    assert read(b"").files == {} == read(bytes(10240)).files


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_other_kinds_of_archives_are_refused(kind: int) -> None:
    with pytest.raises(BadArchive):
        read(archive_of(entry("x" * 150), kind=kind))


@each("size", [b"7777777777\0", b"-1\0", b"\x80" + b"\xff" * 11, b"9\0", b"0_1\0"])
def test_a_size_that_is_none_is_refused(size: bytes) -> None:
    archive = bytearray(archive_of(entry("a", size=10)))
    archive[124 : 124 + len(size)] = size
    with pytest.raises(BadArchive):
        read(bytes(archive[:700]))


@each("seed", range(20))
def test_noise_is_refused_or_read_but_never_more_than_is_there(seed: int) -> None:
    noise = random.Random(seed)
    archive = bytearray(write({f"f{n}": "text" * n for n in range(10)}))
    for _ in range(noise.randint(1, 40)):
        archive[noise.randrange(len(archive))] = noise.randrange(256)
    try:
        found = read(bytes(archive))
    except BadArchive:
        return
    assert sum(len(file.content) for file in found.files.values()) <= len(archive)
