"""All processes of a data directory have one seed of Python's hashes, also after a restart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import programs
from tests.conformance.agent import Agent
from tests.rows import each
from tests.server import ROOT, LiveServer
from tests.warm_workers import COLD_WORKERS

PRINT_HASH = "from orsweb import hash_seed; hash_seed.ensure(); print(hash('question'))"


def hash_in(data_dir: Path, seed: str = "") -> str:
    """Return a hash as a program computes it that was started with PYTHONHASHSEED=`seed`."""
    variables = {**os.environ, "PYTHONHASHSEED": seed, "ORSWEB_DATA_DIR": str(data_dir)}
    return subprocess.check_output(
        [sys.executable, "-c", PRINT_HASH], cwd=ROOT, env=variables, text=True
    )


def test_it_is_kept_in_the_data_directory(tmp_path: Path) -> None:
    assert hash_in(tmp_path / "one") == hash_in(tmp_path / "one") != hash_in(tmp_path / "other")
    assert (tmp_path / "one" / "hash_seed").stat().st_mode & 0o777 == 0o600


def test_an_operator_sets_another_one(tmp_path: Path) -> None:
    assert hash_in(tmp_path / "one", "7") == hash_in(tmp_path / "other", "7")
    assert not (tmp_path / "one").exists()


@each("text", ["", "4294967296", "-1", "seed"])
def test_a_file_that_holds_none_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "hash_seed").write_text(text)
    done = programs.run(
        "serve", env={**os.environ, "PYTHONHASHSEED": "", "ORSWEB_DATA_DIR": str(tmp_path)}
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"hash_seed' holds {text!r}; write a whole number from 0 to 4294967295" in done.stderr


def test_tasks_made_of_hashes_pay_the_same_in_workers_and_after_a_restart() -> None:
    variables = {"PYTHONHASHSEED": "", "ORSWEB_WORKERS": "1", COLD_WORKERS: "1"}
    with LiveServer("tests.envs_hashed:Hashed", env=variables) as server:
        tasks = Agent(server).post("/hashed/tasks", {"split": "train"}).json()["tasks"]
        server.stop()
        server.start()
        agents = [(Agent(server).open(task), task["answer"]) for task in tasks]
        assert [
            agent.call("answer", {"number": number}).output["reward"] for agent, number in agents
        ] == [1.0] * 4
