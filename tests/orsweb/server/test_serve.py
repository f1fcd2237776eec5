"""`manage.py serve` from the operator's side: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import html
import os
import re
import signal
import socket
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import httpx
from django.conf import settings

from environments import command_line
from tests import programs
from tests.conformance.agent import eventually
from tests.envs_unavailable import REASON
from tests.rows import each
from tests.server import ROOT, LiveServer

KEYS = {"ORSWEB_API_KEYS": "alice:secret-of-alice"}


def refusal(
    *args: str,
    env: Mapping[str, str] | None = None,
    beside: LiveServer | None = None,
    cwd: Path = ROOT,
) -> str:
    """Return what a server that does not start prints, after checking that it is one sentence and
    the status 1."""
    refused = LiveServer(*args, env=env, beside=beside, cwd=cwd).launch()
    try:
        assert refused.process.wait(60) == 1
        assert refused.log.count("\n") == 1, refused.log
        return refused.log.strip()
    finally:
        refused.discard()


def test_it_says_where_it_is(server: LiveServer) -> None:
    eventually(lambda: f"orsweb is ready: {server.url}" in server.log)
    assert f"admin         {server.url}/admin/" in server.log


def test_it_hosts_the_class_it_was_given(server: LiveServer) -> None:
    assert httpx.get(f"{server.url}/list_environments").json() == ["echo"]


def test_the_class_in_the_readme_can_be_served(tmp_path: Path) -> None:
    [code] = re.findall(
        r"(?ms)^```python\n(from pydantic .*?)^```",
        (ROOT / "README.md").read_text(encoding="utf-8"),
    )
    (tmp_path / "my_env.py").write_text(code)
    programs.run("serve", "my_env:MyEnv", "--check", cwd=tmp_path, check=True)


def test_it_says_which_environments_the_machine_cannot_run_and_why() -> None:
    with LiveServer("tests.envs:Echo", "tests.envs_unavailable:Native") as server:
        unavailable = (
            f"  environments  echo, native\n                native is unavailable: {REASON}\n"
        )
        eventually(lambda: unavailable in server.log)


def test_it_hosts_the_bundled_environments_when_none_is_named() -> None:
    bundled = [path.rpartition(":")[2].lower() for path in settings.ORSWEB_BUNDLED_ENVIRONMENTS]
    with LiveServer() as server:
        assert httpx.get(f"{server.url}/list_environments").json() == bundled


def test_it_finds_a_module_in_the_current_directory_and_hosts_it_under_an_alias_too(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(
        "from tests.envs import Echo as Base\nclass Mine(Base): pass\n"
    )
    with LiveServer("parrot=mine:Mine", "mine:Mine", cwd=tmp_path) as server:
        assert httpx.get(f"{server.url}/list_environments").json() == ["parrot", "mine"]


def test_a_check_refuses_what_a_server_refuses(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        'from tests.envs import Echo\nclass Odd(Echo):\n    convention = {"nocall": "out"}\n'
    )
    done = programs.run("serve", "odd:Odd", "--check", cwd=tmp_path)
    assert (
        done.returncode == 1
        and "odd: convention has the part 'nocall'" in done.stdout + done.stderr
    )


def test_a_check_warns_of_tools_that_models_cannot_call() -> None:
    # which only sessions list
    classes = ("agents.mcp.odd_tools:OddTools", "checking.flawed:OddTaskTool")
    done = programs.run("serve", *(f"tests.environments.{name}" for name in classes), "--check")
    assert done.returncode == 0
    for name in ("oddtools", "oddtasktool"):
        assert f"{name}: Tool name 'größe' is not accepted by the APIs of models" in done.stderr
        assert (
            f"{name}: Input schema of tool 'größe' is a union or a reference at its root; write"
            in done.stderr
        )


def write_failing(here: Path, *methods: str) -> None:
    """Write a module `failing` into `here`, with a class that has these class methods: a signature
    and a body each."""
    bodies = "".join(f"    @classmethod\n    def {method}\n" for method in methods)
    (here / "failing.py").write_text(f"from tests.envs import Echo\nclass Failing(Echo):\n{bodies}")


UNLISTED = "list_tasks(cls, split): raise NotImplementedError"
COUNTED = "num_tasks(cls, split): return 2"


@each(
    "methods, call, error, line",
    [
        (
            ["list_tasks(cls, split): 1 / 0"],
            "list_tasks('train')",
            "ZeroDivisionError: division by zero",
            4,
        ),
        (
            ["list_tasks(cls, split): yield from map(int, 'x')"],
            "list_tasks('train')",
            "ValueError: invalid",
            4,
        ),
        (
            [UNLISTED, "num_tasks(cls, split): return {}['n']"],
            "num_tasks('train')",
            "KeyError: 'n'",
            6,
        ),
        (
            [UNLISTED, COUNTED, "get_task(cls, split, n): 1 / n"],
            "get_task('train', 0)",
            "ZeroDivisionError",
            8,
        ),
    ],
)
def test_a_check_reads_tasks(
    tmp_path: Path, methods: list[str], call: str, error: str, line: int
) -> None:
    write_failing(tmp_path, *methods)
    done = programs.run("serve", "tests.envs:Echo", "failing:Failing", "--check", cwd=tmp_path)
    assert done.returncode == 1
    *trace, sentence = done.stderr.splitlines()
    assert sentence.startswith(f"failing: {call} of failing:Failing cannot be served: {error}")
    assert sentence.endswith(f" ({tmp_path}/failing.py, line {line}).")
    assert any(text.startswith(f'  File "{tmp_path}/failing.py"') for text in trace)


HOLDING = "re.match(r'(a|aa)+$', 'a' * 99 + 'b')"


@each(
    "line, problem",
    [
        (HOLDING, "did not end within 3 s, ORSWEB_RELOAD_LIMIT"),  # it keeps the interpreter's lock
        ("os.kill(os.getpid(), 11)", "ended the process by signal 11 (SIGSEGV)"),
    ],
)
def test_a_check_ends_whatever_code_does(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "odd.py").write_text(f"import os, re\n{line}\n")
    done = programs.run(
        "serve", "odd:Odd", "--check", cwd=tmp_path, env={**os.environ, "ORSWEB_RELOAD_LIMIT": "3"}
    )
    assert (done.returncode, done.stderr) == (
        1,
        f"The import of odd:Odd {problem} ({tmp_path}/odd.py, line 2).\n",
    )


def test_a_check_reads_one_task_of_a_class_that_lists_none(tmp_path: Path) -> None:
    get = "get_task(cls, split, n): print(split, n); return {}"
    write_failing(tmp_path, UNLISTED, "num_tasks(cls, split): return 10 ** 12", get)
    done = programs.run("serve", "failing:Failing", "--check", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "train 0\ntest 0\n")


def test_a_class_that_lists_no_tasks_is_unavailable_and_the_others_start(tmp_path: Path) -> None:
    write_failing(tmp_path, "list_tasks(cls, split): 1 / 0")
    with LiveServer("tests.envs:Echo", "failing:Failing", cwd=tmp_path) as server:
        reason = (
            "list_tasks('train') of failing:Failing cannot be served: ZeroDivisionError: division "
            "by zero "
            f"({tmp_path}/failing.py, line 4). Correct that."
        )
        eventually(lambda: f"\n                failing is unavailable: {reason}\n" in server.log)
        assert reason in html.unescape(
            httpx.get(f"{server.url}/environments/failing/", timeout=60).text
        )
        body, headers = {"env_name": "failing", "split": "train", "index": 0}, {"X-Session-ID": "a"}
        refused = httpx.post(f"{server.url}/create", json=body, headers=headers)
        assert refused.json() == {"detail": f"Environment 'failing' is unavailable. {reason}"}
        played = httpx.post(
            f"{server.url}/create", json=body | {"env_name": "echo"}, headers=headers
        )
        assert played.status_code == 200


def test_it_starts_also_when_its_only_class_lists_no_tasks(tmp_path: Path) -> None:
    write_failing(tmp_path, "list_tasks(cls, split): 1 / 0")
    with LiveServer("failing:Failing", cwd=tmp_path) as server:
        eventually(
            lambda: (
                "failing is unavailable: list_tasks('train') of failing:Failing cannot "
                "be" in server.log
            )
        )
        assert (
            "ZeroDivisionError" in httpx.get(f"{server.url}/environments/failing/", timeout=60).text
        )


# --- refusals -------------------------------------------------------------------------------------


def test_it_refuses_a_class_that_cannot_be_imported() -> None:
    assert refusal("no_such_module:Env").startswith(
        "'no_such_module:Env' cannot be imported: ModuleNotFoundError"
    )


def test_it_refuses_other_machines_without_a_key() -> None:
    assert refusal("--host", "0.0.0.0").startswith(
        "Listening on 0.0.0.0 gives other machines access without a key; set "
        "ORSWEB_API_KEYS=label:key"
    )


def test_it_refuses_other_hosts_without_a_key() -> None:
    assert refusal(env={"ORSWEB_ALLOWED_HOSTS": "play.example.org"}).startswith(
        "ORSWEB_ALLOWED_HOSTS=play.example.org gives other machines access without a key; set "
        "ORSWEB_API_KEYS=label:key"
    )


def test_it_listens_beyond_loopback_with_a_key() -> None:
    with LiveServer("tests.envs:Echo", "--host", "0.0.0.0", env=KEYS) as server:
        eventually(lambda: f"orsweb is ready: http://127.0.0.1:{server.port}" in server.log)
        assert f'ORS(base_url="http://127.0.0.1:{server.port}", api_key="YOUR-KEY")' in server.log


def test_it_refuses_a_wrong_setting() -> None:
    assert (
        refusal(env={"ORSWEB_MAX_SESSIONS": "many"})
        == "ORSWEB_MAX_SESSIONS='many' is not a whole number."
    )


def test_it_refuses_a_port_in_use() -> None:
    refused = LiveServer("tests.envs:Echo")
    with socket.create_server(("127.0.0.1", refused.port)):
        refused.launch().process.wait(60)
    sentence = (
        f"Port {refused.port} of 127.0.0.1 is in use; stop what uses it, or choose another port "
        "with --port.\n"
    )
    message = (refused.returncode, refused.log)
    refused.discard()
    assert message == (1, sentence)


def test_it_refuses_a_second_server_on_the_database_and_names_the_first(server: LiveServer) -> None:
    sentence = refusal("tests.envs:Echo", beside=server)
    assert sentence.startswith("This database already has a server (")
    assert f"pid {server.pid}" in sentence
    assert f"127.0.0.1:{server.port}" in sentence


if "DATABASE_URL" in os.environ:

    def test_it_leaves_migrating_postgresql_to_its_operator(
        server_environment: dict[str, str],
    ) -> None:
        sentence = refusal(env={"DATABASE_URL": server_environment["DATABASE_URL"]})
        assert (
            sentence
            == f"The database has pending migrations; run first: {command_line.command('migrate', ROOT)}"
        )

else:

    def test_it_refuses_several_processes_on_sqlite() -> None:
        assert refusal("tests.envs:Echo", env={"ORSWEB_PROCESSES": "2"}) == (
            "ORSWEB_PROCESSES=2 asks for 2 servers, but several servers can share a database only "
            "on PostgreSQL; "
            "set DATABASE_URL to one."
        )

    def test_the_first_page_and_its_stream_do_not_wait_for_another_writer() -> None:
        with (
            LiveServer("tests.envs:Echo") as server,
            closing(
                sqlite3.connect(server.data_dir / "orsweb.sqlite3", isolation_level=None)
            ) as database,
            httpx.Client(base_url=server.url, timeout=10) as client,
        ):
            database.execute("BEGIN IMMEDIATE")
            with client.stream("GET", "/events/?channel=episodes") as stream:
                assert stream.status_code == 200
            assert client.get("/runs/").status_code == 200


# --- stopping -------------------------------------------------------------------------------------


def test_ctrl_c_ends_it_quietly_with_status_0() -> None:
    with LiveServer("tests.envs:Echo") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
        assert "Traceback" not in server.log
