"""The layers of docs/architecture.md hold: imports go down, faces stay apart, there is no cycle, files stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("orsweb", "environments", "episodes")
MAX_LINES = 400

LAYERS = {
    "orsweb.env": 0,
    "environments.errors": 0,
    "environments.wire": 0,
    "environments.reserved": 0,
    "environments.invocation": 0,
    "environments.conversation": 1,
    "environments.direct": 1,
    "environments.tools": 1,
    "environments.environment": 1,
    "environments.declarations": 1,
    "environments.hosting": 1,
    "environments.registry": 1,
    "environments.builtin": 1,
    "environments.sandbox": 1,
    "environments.pipes": 1,
    "environments": 1,
    "environments.runtime": 2,
    "environments.protocol": 4,
    "environments.admin": 4,
    "environments.management": 4,
    "environments.*": 3,
    "episodes.dashboard": 6,
    "episodes.playtest": 6,
    "episodes.api": 6,
    "episodes.admin": 6,
    "episodes.management": 6,
    "episodes.*": 5,
    "orsweb": 7,
    "orsweb.*": 7,
}
"""Layer of a module, by its longest prefix here; `.*` stands for what is not named."""

FACES = [
    "environments.protocol",
    "environments.admin",
    "environments.management",
    "episodes.dashboard",
    "episodes.playtest",
    "episodes.api",
    "episodes.admin",
    "episodes.management",
]


@cache
def modules() -> dict[str, Path]:
    """Name -> file of every module, migrations aside."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "migrations" not in parts:
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports_of(name: str, *, at_start: bool = False) -> frozenset[str]:
    """What `name` imports: ours as modules, others by their first part. `at_start`: not within functions."""
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    return frozenset(_resolve(full) for full in _imported(tree, at_start=at_start)) - {name}


def _imported(node: ast.AST, *, at_start: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif not (at_start and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)):
            yield from _imported(child, at_start=at_start)


def _resolve(full: str) -> str:
    """The module of ours that an imported name belongs to."""
    if full.partition(".")[0] not in PACKAGES:
        return full.partition(".")[0]
    while full not in modules():
        full = full.rpartition(".")[0]
    return full


def layer_of(name: str) -> int:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        if length == len(parts) and prefix in LAYERS:
            return LAYERS[prefix]
        if length < len(parts) and (prefix in FACES or prefix in ("environments.runtime", "environments.builtin")):
            return LAYERS[prefix]
    return LAYERS[f"{parts[0]}.*"]


def face_of(name: str) -> str | None:
    """Its last word: the admins of both applications are one face."""
    found = next((face for face in FACES if name == face or name.startswith(f"{face}.")), None)
    return found and found.rpartition(".")[2]


def ours(name: str) -> Iterator[str]:
    return (other for other in imports_of(name) if other in modules())


NAMES = sorted(modules())
RUNTIME = [name for name in NAMES if name.startswith("environments.runtime")]


@pytest.mark.parametrize("name", NAMES)
def test_imports_go_down(name: str) -> None:
    upward = [other for other in ours(name) if layer_of(other) > layer_of(name)]
    assert not upward, f"{name} (layer {layer_of(name)}) imports {upward}"


@pytest.mark.parametrize("name", [name for name in NAMES if face_of(name)])
def test_faces_do_not_import_each_other(name: str) -> None:
    assert not [other for other in ours(name) if face_of(other) not in (None, face_of(name))]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("orsweb")])
def test_nothing_imports_the_composition_root(name: str) -> None:
    assert not [other for other in ours(name) if other.startswith("orsweb") and other != "orsweb.env"]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("environments")])
def test_environments_never_import_episodes(name: str) -> None:
    assert not [other for other in ours(name) if other.startswith("episodes")]


@pytest.mark.parametrize("name", RUNTIME)
def test_the_runtime_knows_no_django_no_database_and_no_http(name: str) -> None:
    foreign = {"django", "rest_framework", "django_eventstream", "channels", "httpx", "psycopg", "sqlite3", "uvicorn"}
    assert not imports_of(name) & foreign


@pytest.mark.parametrize("name", RUNTIME)
def test_the_runtime_reaches_no_django_by_detours(name: str) -> None:
    reached, todo = set[str](), [name]
    while todo:
        found = imports_of(todo.pop()) - reached
        reached |= found
        todo += [other for other in found if other in modules()]
    assert "django" not in reached


def test_only_conf_and_wiring_of_the_environments_layer_three_read_settings() -> None:
    readers = {name for name in NAMES if "django.conf.settings" in set(_imported(_tree(name), at_start=False))}
    below = {name for name in readers if name.startswith("environments") and layer_of(name) < 4}
    assert below <= {"environments.conf", "environments.wiring"}


def _tree(name: str) -> ast.AST:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


def test_there_is_no_import_cycle() -> None:
    done, path = set[str](), list[str]()

    def visit(name: str) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for other in imports_of(name, at_start=True):
            if other in modules():
                visit(other)
        done.add(path.pop())

    for name in NAMES:
        visit(name)


@pytest.mark.parametrize("name", NAMES)
def test_files_stay_small(name: str) -> None:
    assert len(modules()[name].read_text(encoding="utf-8").splitlines()) <= MAX_LINES
