"""Checks the rules of docs/architecture.md: the contracts of import-linter, and what these cannot
say.

A room is an entry in the root of an application: a package such as `episodes.search` or a module
such as `environments.wire`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LAYERS = {
    contract["containers"][0]: [set(layer.split(" | ")) for layer in reversed(contract["layers"])]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    if "containers" in contract
}
"""The rooms of each application by floor, lowest first."""

UNDRAWN = {
    *("errors", "features", "invisible", "wire", "limits", "quotas", "command_line"),
    *("fair_turns", "processes", "templatetags"),
}
"""Rooms that the picture of docs/architecture.md leaves out."""

FACES = {"agents", "admin", "management"}
"""Rooms of `environments` through which users and clients enter."""

PACKAGES = ("orsweb", "environments", "episodes")


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module by its name, migrations aside."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "migrations" not in parts:
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def ours(name: str) -> list[str]:
    return [other for other in imports_of(name) if other in modules()]


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


@cache
def imports_of(name: str) -> frozenset[str]:
    """Return what a module imports, also inside functions: our modules by name, others by their
    top-level package."""
    return frozenset(map(_module_of, imported(name))) - {name}


@cache
def imported(name: str) -> list[str]:
    """Return the full names that a module imports."""
    return list(_imported(tree_of(name)))


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the names that the statements of a tree import, without a look at its expressions,
    which are most of it."""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in getattr(tree, part, ()):
            yield node
            yield from _statements(node)


def _module_of(full: str) -> str:
    if full.partition(".")[0] not in PACKAGES:
        return full.partition(".")[0]
    while full not in modules():
        full = full.rpartition(".")[0]
    return full


def room_of(name: str) -> str:
    return ".".join(name.split(".")[:2])


def has_floor(name: str) -> bool:
    package, _, rest = name.partition(".")
    return package in LAYERS and rest.partition(".")[0] in set[str]().union(*LAYERS[package])


def test_the_contracts_of_pyproject_hold() -> None:
    # in a process of its own, as in `make lint`: it fails in some that have run other tests
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_documented_floors_are_these() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ")
    ]
    for column, package in ((0, "episodes"), (2, "environments")):
        floors = {
            int(row[column]): set(row[column + 1].split(", "))
            for row in rows
            if len(row) == 4 and row[column].isdigit()
        }
        assert floors == dict(enumerate(LAYERS[package], 1))


def test_the_picture_shows_the_imports_between_rooms() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    drawn = {
        (_drawn(a), _drawn(b))
        for a, b in re.findall(r"^  (\w+) --> (\w+)$", page, re.M)
        if a != "server"
    }
    used = _without_what_follows(_drawn_rooms())
    assert (sorted(used - drawn), sorted(drawn - used)) == ([], [])


def _drawn(node: str) -> str:
    """Return the room that a node of the picture stands for. A prefix marks rooms that both
    applications have."""
    prefix, _, rest = node.partition("_")
    packages = {"p": "episodes", "e": "environments"}
    if prefix in packages:
        return f"{packages[prefix]}.{'management' if rest == 'commands' else rest}"
    return next(
        f"{package}.{node}"
        for package, floors in LAYERS.items()
        if node in set[str]().union(*floors)
    )


def _drawn_rooms() -> dict[str, set[str]]:
    """Return which rooms each room uses. Who imports from `environments` itself uses the rooms
    behind its names."""
    rooms = defaultdict[str, set[str]](set)
    for name in filter(has_floor, modules()):
        used = {
            behind
            for other in ours(name)
            for behind in (ours(other) if other in LAYERS else [other])
        }
        rooms[room_of(name)] |= {room_of(other) for other in used if has_floor(other)} - {
            room_of(name)
        }
    undrawn = {f"{package}.{room}" for package in LAYERS for room in UNDRAWN}
    return {room: used - undrawn for room, used in rooms.items() if room not in undrawn}


def _without_what_follows(rooms: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """Return the pairs of rooms of which the first uses the second, without those that follow from
    others."""

    def reach(room: str) -> set[str]:
        return {room}.union(*(reach(other) for other in rooms.get(room, ())))

    return {
        (room, other)
        for room, used in rooms.items()
        for other in used
        if not any(other in reach(between) for between in used - {other})
    }


def test_what_authors_install_imports_nothing_else() -> None:
    project = tomllib.loads((ROOT / "author/pyproject.toml").read_text(encoding="utf-8"))
    listed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values()
    places = tuple(ROOT / entry for entry in listed)
    installed = {name for name, path in modules().items() if any(map(path.is_relative_to, places))}
    needed = {
        re.split(r"[^\w-]", requirement)[0] for requirement in project["project"]["dependencies"]
    }
    used = set[str]().union(*map(imports_of, installed)) - installed - set(sys.stdlib_module_names)
    assert not used - needed - {"pydantic_core"}  # which pydantic needs


def test_only_faces_conf_features_and_service_of_environments_read_settings() -> None:
    readers = {name for name in modules() if "django.conf.settings" in imported(name)}
    inner = {
        name
        for name in readers
        if name.startswith("environments.")
        and name.split(".")[1] not in FACES
        and not name.startswith("environments.curation.admin.")
    }
    assert inner <= {"environments.conf", "environments.features", "environments.service"}
