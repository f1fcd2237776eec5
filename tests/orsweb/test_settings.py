"""The errors about wrong settings, and the files that a start creates."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.core.checks import run_checks

from tests import programs
from tests.rows import each

ROOT = Path(__file__).resolve().parent.parent.parent


def check(data_dir: Path | str, **variables: str) -> tuple[int, str]:
    """Return the status of a command that does nothing but read the settings, and its error
    message."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ORSWEB_", "DATABASE_URL"))
    }
    done = programs.run(
        "diffsettings", env={**inherited, "ORSWEB_DATA_DIR": str(data_dir), **variables}
    )
    return done.returncode, done.stderr.strip()


@each(
    "url",
    [
        "foo",
        "x://lab:hunter2@db/ors",
        "postgres://lab:hunter2@db:port/ors",
        "postgres://lab:hunter2#@db/ors",
    ],
)
def test_it_refuses_a_database_url_without_showing_it(tmp_path: Path, url: str) -> None:
    status, said = check(tmp_path, DATABASE_URL=url)
    assert (status, said.count("\n")) == (1, 0)
    assert said.startswith("DATABASE_URL is not the URL of a database") and "hunter2" not in said


def test_it_refuses_a_database_that_it_cannot_use(tmp_path: Path) -> None:
    status, said = check(tmp_path, DATABASE_URL="mysql://lab:hunter2@db/ors")
    assert (status, said) == (1, "DATABASE_URL names a mysql database; use postgresql or sqlite.")


def test_it_refuses_a_data_directory_that_cannot_be_made() -> None:
    status, said = check("/proc/x")
    assert (status, said) == (
        1,
        "ORSWEB_DATA_DIR='/proc/x' cannot be created: No such file or directory.",
    )


def test_it_refuses_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "secret_key").mkdir()
    status, said = check(tmp_path)
    assert (status, said) == (
        1,
        f"ORSWEB_DATA_DIR: {str(tmp_path / 'secret_key')!r} cannot be used: Is a directory.",
    )


def test_it_makes_its_files_readable_by_their_owner_only(tmp_path: Path) -> None:
    assert check(tmp_path)[0] == 0
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == {"secret_key": 0o600, "orsweb.sqlite3": 0o600, "uploads": 0o700}


@pytest.mark.parametrize(("before", "after"), [(0o755, 0o700), (0o1777, 0o1777)])
def test_it_makes_its_directory_private_unless_it_is_shared(
    tmp_path: Path, before: int, after: int
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(before)
    assert check(tmp_path / "data")[0] == 0
    assert (tmp_path / "data").stat().st_mode & 0o7777 == after


@pytest.mark.parametrize("is_new", [True, False])
def test_it_makes_a_database_elsewhere_readable_by_its_owner_only(
    tmp_path: Path, is_new: bool
) -> None:
    files = [tmp_path / f"other.sqlite3{ending}" for ending in ("", "-wal", "-shm")]
    for file in () if is_new else files:
        file.touch(0o664)
    (tmp_path / "data").mkdir()
    assert check(tmp_path / "data", DATABASE_URL=f"sqlite:///{files[0]}")[0] == 0
    assert {file.stat().st_mode & 0o777 for file in files if file.exists()} == {0o600}
    assert not (tmp_path / "data" / "orsweb.sqlite3").exists()


def test_it_refuses_buckets_that_overlap(tmp_path: Path) -> None:
    status, said = check(tmp_path, ORSWEB_BUCKET_HOPELESS="0.5", ORSWEB_BUCKET_SATURATED="0.5")
    assert (status, said) == (
        1,
        "ORSWEB_BUCKET_HOPELESS=0.5 must be less than ORSWEB_BUCKET_SATURATED=0.5.",
    )


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("ORSWEB_PORT", "99999", "ORSWEB_PORT=99999 is too large; the maximum is 65535."),
        (
            "FORWARDED_ALLOW_IPS",
            "foo",
            "FORWARDED_ALLOW_IPS: 'foo' is not an IP address or a network such as 10.0.0.0/8; use "
            "* for all addresses.",
        ),
    ],
)
def test_it_refuses_an_address_that_there_cannot_be(
    tmp_path: Path, name: str, value: str, sentence: str
) -> None:
    assert check(tmp_path, **{name: value}) == (1, sentence)


def test_the_documented_setting_has_no_warning_of_a_deployment_check() -> None:
    """TLS, its redirects and HSTS are those of the proxy; cookies are `Secure` where it is used."""
    assert [
        found for found in run_checks(include_deployment_checks=True) if not found.is_silenced()
    ] == []


@pytest.mark.parametrize("command", ["reexecute --run x", "export_episodes"])
def test_a_command_says_which_database_has_no_tables(tmp_path: Path, command: str) -> None:
    done = programs.run(
        *command.split(), env={**os.environ, "ORSWEB_DATA_DIR": str(tmp_path), "DATABASE_URL": ""}
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"The database {tmp_path}/orsweb.sqlite3 has not been migrated" in done.stderr
