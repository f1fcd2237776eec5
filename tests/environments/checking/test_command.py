"""The command: what it prints, its exit status, and that it ends whatever the environment does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests import programs
from tests.environments.checking.test_flaws import processes_for
from tests.rows import each

ONE_EPISODE = ("--episodes", "1")
FLAWED = "tests.environments.checking.flawed"


def _status(*args: str) -> int:
    """Exit status of the command in this process, which lists the tasks itself instead of in two
    others."""
    try:
        with processes_for("one process"):
            call_command("check_environment", "--timeout", "30", *args)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _run(*args: str) -> subprocess.CompletedProcess[str]:
    """Return the command in a process of its own, as a shell runs it."""
    return programs.run("check_environment", *args)


def _report(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def test_a_sound_environment_is_status_0_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(f"{FLAWED}:Sound", "--strict") == 0
    assert "Every prompt has text or an image." in capsys.readouterr().out


@each("name", ["Colourful", "ColourfulApart"])
def test_prints_of_the_environment_do_not_control_the_terminal(name: str) -> None:
    done = _run(f"{FLAWED}:{name}", "--json", *ONE_EPISODE)
    assert _report(done)["passed"]
    assert all(
        f"{way} ␛[2J⟦U+009B⟧31m⟦RLO⟧" in done.stderr for way in ("print", "output", "program")
    )
    assert not {"\x1b", "\x9b", "\u202e"} & set(done.stderr)


def test_a_failed_check_is_status_1() -> None:
    assert _status(f"{FLAWED}:Overpaid", *ONE_EPISODE) == 1


def test_a_warning_is_status_1_when_strict() -> None:
    assert _status(f"{FLAWED}:Repeating", "--strict", *ONE_EPISODE) == 1


@each(
    ("args", "words"),
    [
        ([], "Give either a class"),
        (["a:B", "--url", "http://127.0.0.1:1"], "Give either a class"),
        (["no_such_module:Env"], "cannot be imported"),
        ([f"{FLAWED}:Nowhere"], "has no class"),
        (["--url", "http://127.0.0.1:1"], "The server cannot be checked"),
        (["http://127.0.0.1:1/go"], "The server cannot be checked"),
        (["http://127.0.0.1:1"], "names no environment"),
        (["--url", "ftp://example.org"], "is not the address of a server"),
    ],
)
def test_nothing_to_check_is_status_2_and_a_sentence(
    capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    assert _status(*args) == 2
    assert words in capsys.readouterr().err


def test_a_module_that_fails_has_a_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orsweb_test_torn.py").write_text("def tear():\n    1 / 0\n\n\ntear()\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert _status("orsweb_test_torn:Mine") == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and "orsweb_test_torn.py" in lines[1]
    assert lines[-1].endswith(f"({tmp_path}/orsweb_test_torn.py, line 2).")


@each(
    ("text", "status", "words"),
    [
        ("import signal; signal.signal(signal.SIGUSR2, signal.SIG_DFL)", 0, ""),
        (
            "import threading; threading.Event().wait()",
            2,
            "its import took over 3 s; raise --timeout",
        ),
    ],
)
def test_a_module_is_imported_as_by_a_server(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    status: int,
    words: str,
) -> None:
    name = f"orsweb_test_imported_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(
        f"{text}\nfrom tests.environments.checking.flawed import Sound\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    timeout = "0.1" if status else "30"
    assert _status(f"{name}:Sound", "--episodes", "1", "--timeout", timeout) == status
    assert words in capsys.readouterr().err


def test_json_has_stdout_for_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(f"{FLAWED}:Repeating", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["passed"], report["counts"]["warning"]) == (True, 2)
    assert set(report["findings"][0]) == {"subject", "check", "result", "sentence"}


@each(
    ("name", "words"),
    [
        ("HangingTools", ["Tool 'wait' in", "Tool 'rest' in"]),
        ("HangingConstructor", ["Constructing HangingConstructor for train[0] took over 2 s"]),
        ("HoldingLoop", ["HoldingLoop.step (flawed.py, line"]),
    ],
)
def test_code_that_hangs_is_named_and_left_behind(name: str, words: list[str]) -> None:
    done = _run(f"{FLAWED}:{name}", "--timeout", "2", "--json")
    assert done.returncode == 1
    failed = [one["sentence"] for one in _report(done)["findings"] if one["result"] == "failed"]
    assert all(any(word in sentence for sentence in failed) for word in words), failed
    assert sum(one["check"] == "remaining checks" for one in _report(done)["findings"]) <= 1
    assert not [
        one
        for one in _report(done)["findings"]
        if one["result"] == "ok" and one["sentence"][:2] == "0 "
    ]


def test_code_that_lets_no_thread_run_ends_the_process_with_its_place() -> None:
    done = _run(f"{FLAWED}:HoldingPython", "--timeout", "1")
    assert done.returncode == 1
    assert "in hold" in done.stderr


def test_code_that_ends_the_process_is_named() -> None:
    done = _run(f"{FLAWED}:Exiting")
    assert (done.returncode, done.stdout) == (1, "")
    words = (
        "The process of the check exited with status 3 in the environment's code: Tool 'step' in "
        "train[0]."
    )
    assert done.stderr.strip().endswith(words)


def test_it_needs_no_database(server_environment: dict[str, str]) -> None:
    unreachable = {**server_environment, "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    assert programs.run("check_environment", f"{FLAWED}:Sound", env=unreachable).returncode == 0


REPOSITORY = """
from tests.environments.checking.flawed import Sound
class Chess(Sound): pass
class Go(Sound):
    reward_range = (0.0, 0.5)
Server([Chess, Go])
"""


def test_the_classes_of_a_directory_are_those_that_serve_finds(tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text(
        REPOSITORY.replace("Server(", "if __name__ == '__main__': Server(")
    )
    done = _run(str(tmp_path), *ONE_EPISODE)
    assert done.returncode == 1 and done.stdout.index("env:Chess") < done.stdout.index("env:Go"), (
        done.stdout
    )
    refused = _run(str(tmp_path), "--json")
    assert (
        refused.returncode == 2
        and f"with --json, name one of {tmp_path}:env:Chess" in refused.stderr
    )
