"""The client of openreward has its sandboxes on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from openreward import OpenReward, SandboxBucketConfig, SandboxSettings
from openreward.api.errors import SessionTerminatedError
from openreward.api.sandboxes.client import SandboxesAPI
from openreward.api.sandboxes.types import FileTooLargeError, FileTransferError

from environments import limits
from environments.errors import Unhostable
from environments.local_sandboxes import service
from environments.local_sandboxes.service import sandboxes
from tests.conformance.agent import eventually
from tests.rows import each
from tests.sandboxed import needs_bubblewrap, processes_with

pytestmark = needs_bubblewrap

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """A directory of the operator's, which the sandboxes' user can read, as pytest's own are
    not."""
    with tempfile.TemporaryDirectory(prefix="orsweb-test-") as path:
        Path(path).chmod(0o755)
        (Path(path) / "images/default").mkdir(parents=True)
        (image := Path(path) / "images/lab/small/srv").mkdir(parents=True)
        (image / "notes").write_text("of the image")
        (files := Path(path) / "files/lab/env/one").mkdir(parents=True)
        (files / "a.txt").write_text("of the bucket")
        yield Path(path)


@pytest.fixture(scope="module")
def client(directory: Path) -> Iterator[OpenReward]:
    os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
    with sandboxes(limits.SandboxSettings(directory, 1, 3)):
        yield OpenReward(api_key="any")


def opened(client: OpenReward, **changes: Any) -> SandboxesAPI:
    asks = {"environment": "lab/env", "image": "lab/python", "machine_size": "0.5:0.5", **changes}
    sandbox = client.sandbox(SandboxSettings(**asks))
    try:
        sandbox.start()
    except BaseException:
        sandbox.close()
        raise
    return sandbox


@pytest.fixture(scope="module")
def sandbox(client: OpenReward) -> Iterator[SandboxesAPI]:
    bucket = SandboxBucketConfig(mount_path="/data", only_dir="one")
    with_bucket = opened(client, image="lab/small", env={"COLOUR": "blue"}, bucket_config=bucket)
    yield with_bucket
    with_bucket.close()


@each(
    "command, status, output",
    [
        ("echo out; echo err >&2; exit 3", 3, "out\nerr"),
        ("whoami; pwd; echo $COLOUR", 0, "root\n/root\nblue"),
        (
            "cat /data/a.txt; echo x > /data/a.txt",
            1,
            "of the bucket{error}/data/a.txt: Read-only file system",
        ),
        ("cat /srv/notes; echo more >> /srv/notes; wc -l < /srv/notes", 0, "of the image1"),
        ("cat <(echo from a descriptor)", 0, "from a descriptor"),
        ("nosuch", 127, "{error}nosuch: command not found"),
        ("kill -9 $$", 137, ""),
        ("echo >/usr/bin/x", 1, "{error}/usr/bin/x: Read-only file system"),
        (f"ls {ROOT} 2>&1 | grep -o 'No such.*'", 0, "No such file or directory"),
        (
            "python3 -c 'import socket; socket.socket()' 2>&1 | tail -1",
            0,
            "OSError: [Errno 97] {family}",
        ),
        (
            "python3 -c 'import os; os.memfd_create(\"a\")' 2>&1 | tail -1",
            0,
            "OSError: [Errno 38] {function}",
        ),
        # as for debuggers
        ("python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))'", 0, "0"),
    ],
)
def test_commands(sandbox: SandboxesAPI, command: str, status: int, output: str) -> None:
    result = sandbox.run(command)
    family, function = "Address family not supported by protocol", "Function not implemented"
    expected = output.format(error="/bin/bash: line 1: ", family=family, function=function)
    assert (result.output, result.return_code) == (expected, status)


def test_files_and_programs_last_and_are_nobody_elses(
    client: OpenReward, sandbox: SandboxesAPI
) -> None:
    sandbox.check_run("mkdir /workspace && echo kept > /workspace/a; sleep 4717 >/dev/null 2>&1 &")
    assert sandbox.check_run("cat /workspace/a; pgrep -f 'sleep 4717' | wc -l") == "kept\n1"
    other = opened(client)
    assert other.run("ls /workspace; pgrep -f 4717").return_code == 1
    other.close()


def test_a_command_that_takes_too_long_is_stopped(sandbox: SandboxesAPI) -> None:
    result = sandbox.run("echo begun; sleep 4718", timeout=0.5)
    assert (result.output, result.return_code, result.timed_out) == ("begun", 124, True)
    assert sandbox.run("pgrep -f 'sleep 4718'").output == ""


def test_long_output_is_cut_and_the_command_goes_on(sandbox: SandboxesAPI) -> None:
    result = sandbox.run("yes | head -c 3000000; touch /tmp/done", max_bytes=1000)
    assert (len(result.output), result.truncated) == (1000, True)
    assert sandbox.run("ls /tmp/done").return_code == 0


def test_a_program_in_the_background_holds_up_nobody(sandbox: SandboxesAPI) -> None:
    assert sandbox.run("yes & sleep 0.2", max_bytes=4).output == "y\ny\n"
    assert sandbox.check_run("pkill yes; echo done") == "done"


def test_memory_processes_and_disk_are_limited(sandbox: SandboxesAPI) -> None:
    assert sandbox.run("python3 -c 'bytearray(800 << 20)'").return_code == 137
    assert (
        "No space left on device"
        in sandbox.run("head -c 600M /dev/zero > /tmp/full; rm /tmp/full").output
    )
    assert (
        "Resource temporarily unavailable"
        in sandbox.run("for n in {1..200}; do sleep 20 & done; kill 0", 5).output
    )
    assert sandbox.check_run("echo still here") == "still here"


def test_files_go_in_and_out(sandbox: SandboxesAPI, tmp_path: Path) -> None:
    content = os.urandom(5_000_000)
    (here := tmp_path / "here").write_bytes(content)
    sandbox.upload(here, "/tmp/a b")
    assert sandbox.download("/tmp/a b") == content
    assert sandbox.upload_from(here, "/new/folder/file").size == len(content)
    assert sandbox.download_to("/new/folder/file", tmp_path / "back").size == len(content)
    assert (tmp_path / "back").read_bytes() == content
    assert sandbox.download("/proc/sys/kernel/ostype") == b"Linux\n"
    with pytest.raises(FileTooLargeError):
        sandbox.download("/tmp/a b", max_size=100)


@each(
    "path, why",
    [("/none", "no such file"), ("/tmp", "not a regular file"), ("none", "no such file")],
)
def test_what_is_no_file_is_said(sandbox: SandboxesAPI, path: str, why: str) -> None:
    with pytest.raises(FileTransferError, match=why):
        sandbox.download(path)


def test_a_sandbox_whose_first_process_is_killed_has_ended(client: OpenReward) -> None:
    sandbox = opened(client)
    # as it happens
    with pytest.raises((RuntimeError, SessionTerminatedError), match="its first process has ended"):
        sandbox.run("kill -9 $(pgrep -o bash); sleep 60")
    with pytest.raises(SessionTerminatedError, match="its first process has ended"):
        sandbox.run("true")
    sandbox.close()


def test_it_ends_with_its_session(client: OpenReward) -> None:
    sandbox = opened(client)
    sandbox.run("sleep 4719 >/dev/null 2>&1 &")
    assert processes_with("4719")
    sandbox.close()
    eventually(lambda: not processes_with("4719"))


def test_there_are_only_so_many(client: OpenReward, sandbox: SandboxesAPI) -> None:
    several = [opened(client) for _ in range(2)]  # beside `sandbox`
    with pytest.raises(
        Exception, match="3 sandboxes are open, which is what ORSWEB_SANDBOXES_AT_ONCE allows"
    ):
        opened(client)
    for sandbox in several:
        sandbox.close()


def test_nobody_else_is_answered(client: OpenReward) -> None:
    address = httpx.URL(client.session_base_url)
    other = f"http://127.0.0.1:{address.port}"
    assert (
        httpx.post(f"{other}/create_sandbox", json={}, headers={"X-API-Key": "any"}).status_code
        == 403
    )
    assert httpx.post(f"{other}/ping", auth=("sandboxes", "wrong")).status_code == 403


def test_they_end_with_a_server_that_is_killed(directory: Path) -> None:
    program = f"""
from pathlib import Path
from environments.limits import SandboxSettings
from environments.local_sandboxes.service import sandboxes
from tests.environments.local_sandboxes.test_sandboxes import OpenReward, opened
with sandboxes(SandboxSettings(Path({str(directory)!r}), 1, 1)):
    opened(OpenReward(api_key="any")).run("sleep 4720 >/dev/null 2>&1 &")
    print("ready", flush=True)
    input()
"""
    (temporary := directory / "tmp").mkdir()
    pipe, env = subprocess.PIPE, {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, env=env, stdin=pipe, stdout=pipe
    ) as server:
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        assert processes_with("4720") and list(temporary.iterdir())
        server.kill()
    eventually(lambda: not processes_with("4720") and not list(temporary.iterdir()))


def test_without_bubblewrap_the_server_says_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        service,
        "unavailable",
        lambda _: "It needs a sandbox, and bubblewrap is missing; install it.",
    )
    with (
        pytest.raises(
            Unhostable,
            match=r"ORSWEB_SANDBOXES='.*' asks for sandboxes\. .* bubblewrap "
            r"is missing",
        ),
        sandboxes(limits.SandboxSettings(directory, 1, 1)),
    ):
        pass
