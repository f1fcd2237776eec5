"""What operations.md and metrics.md say, tried: settings, the restore drill, the container, the
unit, metrics."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.core.management import get_commands
from prometheus_client.parser import text_string_to_metric_families

from tests import programs
from tests.conformance.agent import Agent
from tests.server import ROOT, LiveServer

HANDBOOK = "\n".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("operations.md", "metrics.md")
)
CONTAINER = (ROOT / "docs/Containerfile").read_text(encoding="utf-8")
DASHBOARD = json.loads((ROOT / "docs/grafana.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """A server on SQLite with an episode in which a call has failed."""
    with LiveServer("tests.envs_faulty:Raises", env={"DATABASE_URL": ""}) as running:
        with Agent(running).open({"id": 1}, "raises") as agent:
            agent.call("echo", {"text": "hi"})
            agent.call("fault")
        yield running


def section(heading: str) -> str:
    """Return the text under a heading, up to the next one."""
    return re.split(r"(?m)^#+ ", HANDBOOK.split(f"# {heading}\n")[1])[0]


# --- settings -------------------------------------------------------------------------------------

ELSEWHERE = {"ORSWEB_DATA_DIR", "PYTHONHASHSEED"}
"""Settings that are read before `orsweb/settings.py`."""


def readers() -> dict[str, ast.Call]:
    """Return the calls of `orsweb/settings.py` that read a setting, by its name."""
    tree = ast.parse((ROOT / "orsweb/settings.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    return {
        call.args[0].value: call
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id.startswith("env_")
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }


def default_of(call: ast.Call) -> str:
    """Return the default as the handbook writes it; empty if the call doesn't show it."""
    if isinstance(call.func, ast.Name) and call.func.id == "env_bool":
        return "off"
    if len(call.args) < 2:
        return ""
    value = eval(compile(ast.Expression(call.args[1]), "settings.py", "eval"))  # such as 64 * 1024
    return {None: "none"}.get(value, f"{value:.15g}" if isinstance(value, int | float) else value)


def test_the_handbook_has_every_setting_and_no_other_with_its_default() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)`( \*)? \| (.*?) \|", section("Settings"))
    described = {
        name.replace("_KEY_NAME", "_KEY_"): default.strip("`") for name, _, default in rows
    }
    assert set(described) == set(readers()) | ELSEWHERE
    defaults = {name: default_of(call) for name, call in readers().items()}
    assert not {name: text for name, text in defaults.items() if text and text != described[name]}


# --- the restore drill ----------------------------------------------------------------------------


def test_the_restore_drill_works_as_it_is_written(server: LiveServer, tmp_path: Path) -> None:
    lines = [
        line.strip() for line in section("Restore drill").splitlines() if line.startswith("    ")
    ]
    # test_restore_drill.py serves what was restored
    played = [line for line in lines if " serve " not in line]
    script = "\n".join(["set -e", *played]).replace("/backups/", f"{tmp_path}/")
    script = script.replace(".venv/bin/python", f"{sys.executable} {programs.__file__}")
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=server.env, capture_output=True, text=True
    )
    assert (len(played), done.returncode) == (len(lines) - 1, 0), done.stdout + done.stderr
    assert list(tmp_path.glob("orsweb-*.sqlite3"))


# --- the container and the unit -------------------------------------------------------------------


def instructions(word: str) -> list[str]:
    return re.findall(rf"(?m)^{word} (.+)$", CONTAINER)


def test_the_container_has_the_programs_of_the_sandbox() -> None:
    installed = next(line for line in instructions("RUN") if "apt-get install" in line).split()
    assert {"bubblewrap", "python3"} <= {*installed}, (
        "python3 is that of Debian; the image has another one"
    )


def test_the_container_has_every_file_that_the_server_needs(tmp_path: Path) -> None:
    for *sources, target in (line.split() for line in instructions("COPY")):
        for source in sources:
            copy = tmp_path / target / (source if target == "./" else "")
            path = ROOT / source
            shutil.copytree(path, copy, symlinks=True) if path.is_dir() else shutil.copy(path, copy)
    environment = {"ORSWEB_DATA_DIR": str(tmp_path / "data"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "manage.py", "check"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)


def test_the_container_runs_commands_that_exist() -> None:
    targets = set(re.findall(r"(?m)^([\w./]+):", (ROOT / "Makefile").read_text()))
    made = [
        target
        for line in instructions("RUN")
        for target in re.findall(
            r"(?:^|&& )make "
            r"([\w./]+)",
            line,
        )
    ]
    [*_, program, command] = json.loads(instructions("CMD")[0])
    assert made and set(made) <= targets
    assert program == "manage.py" and command in get_commands()


def test_the_container_sets_settings_that_exist() -> None:
    names = [pair.partition("=")[0] for line in instructions("ENV") for pair in shlex.split(line)]
    source = "".join(
        (ROOT / "orsweb" / name).read_text() for name in ("settings.py", "private_files.py")
    )
    assert names and all(f'"{name}"' in source for name in names)


def test_the_unit_starts_a_command_and_waits_for_its_stop() -> None:
    unit = dict(re.findall(r"(?m)^(\w+)=(.*)$", section("As a service")))
    interpreter, program, command = unit["ExecStart"].split()
    assert (interpreter, program) == (f"{unit['WorkingDirectory']}/.venv/bin/python", "manage.py")
    assert command in get_commands()
    assert float(unit["TimeoutStopSec"]) > settings.ORSWEB_SHUTDOWN_TIMEOUT


# --- metrics --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def metrics(server: LiveServer) -> dict[str, set[str]]:
    """Return the labels of every sample and of every metric by its name."""
    families = list(text_string_to_metric_families(httpx.get(f"{server.url}/metrics").text))
    found: dict[str, set[str]] = {family.name: set() for family in families}
    for one in (sample for family in families for sample in family.samples):
        found.setdefault(one.name, set()).update(one.labels)
    return found


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:orsweb|process)_[a-z_]+[a-z]\b(?!\.|/)", text))


def expressions() -> list[str]:
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    queries = [
        one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"
    ]
    return [*found, *queries, *(one["expr"] for one in DASHBOARD["annotations"]["list"])]


def test_the_dashboard_asks_for_metrics_that_exist(metrics: dict[str, set[str]]) -> None:
    asked = {name for expression in expressions() for name in metrics_in(expression)}
    assert len(asked) > 20 and not asked - set(metrics)


def test_the_dashboard_asks_for_labels_that_exist(metrics: dict[str, set[str]]) -> None:
    of_prometheus = {"job", "instance"}
    wrong = []
    for expression in expressions():
        for name, selector in re.findall(r"(\w+)\{([^}]*)\}", expression):
            wrong += [
                (name, one)
                for one in re.findall(r"(\w+)=", selector)
                if one not in metrics[name] | of_prometheus
            ]
    assert not wrong


def test_every_panel_of_the_dashboard_has_a_place_and_an_expression() -> None:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert all(panel["targets"] for panel in panels)
    assert len(set(places)) == len(places) == len({panel["id"] for panel in panels})


def test_the_handbook_describes_every_metric_and_no_other(metrics: dict[str, set[str]]) -> None:
    parts = re.compile(r"_(bucket|sum|count|created|total)$")
    described = {parts.sub("", name) for name in metrics_in(section("Metrics"))}
    served = {parts.sub("", name) for name in metrics if name.startswith("orsweb_")}
    assert served == {name for name in described if name.startswith("orsweb_")}
    assert not metrics_in(section("Alerts")) - set(metrics)
