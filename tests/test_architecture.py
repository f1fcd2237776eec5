"""Checks the rules of docs/architecture.md: what each root holds, which room may use which, and the size of files.

A room is an entry in the root of an application: a package such as `episodes.search` or a module such as
`environments.wire`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

DJANGO = {"__init__", "apps", "admin", "models", "migrations", "management", "templatetags"}
"""Names that Django looks for in the root of an application."""

SHARED_WORDS = {
    "environments": {"errors", "invisible", "wire", "conf", "service", "command_line"},
    "episodes": {"visibility"},
}
"""Modules that a root may hold although Django does not look for them: words that rooms of several floors use."""

ROOMS = {
    "environments": [
        {"invisible"},
        {"errors", "command_line", "models"},
        {"access", "wire", "database", "scoring"},
        {"display", "security_log"},
        {"authoring"},
        {"sandbox"},
        {"runtime", "builtin", "starter"},
        {"conf", "hosts"},
        {"checking", "tasks", "keys", "cluster"},
        {"operator_secrets"},
        {"service", "curation"},
        {"transfer", "agent_http"},
        {"templatetags", "protocol", "mcp_protocol", "admin", "management"},
    ],
    "episodes": [
        {"attempts"},
        {"models"},
        {"rendering"},
        {"search"},
        {"filtering", "uploads"},
        {"rollups", "runs"},
        {"removal", "analytics"},
        {"recording", "doctor", "suites"},
        {"visibility", "transcript", "redaction", "studies"},
        {"transfer"},
        {"templatetags"},
        {"admin", "dashboard", "playtest", "api", "platform_api", "management"},
    ],
}
"""The rooms of each application by floor, lowest first. A room may use those on lower floors."""

UNDRAWN = {"errors", "invisible", "wire", "command_line", "templatetags"}
"""Rooms that the picture of docs/architecture.md leaves out."""

FACES = {"protocol", "mcp_protocol", "admin", "dashboard", "playtest", "api", "platform_api", "management"}
"""Rooms through which users and clients enter. They never use each other; the admins of both applications are one."""

ROOTS = {
    "orsweb": {
        "__init__",
        "__main__",
        "agent_urls",
        "asgi",
        "env",
        "hash_seed",
        "logs",
        "private_files",
        "settings",
        "urls",
        "accounts",
        "demo",
        "operations",
        "pages",
        "server",
    },
    "environments": {"__init__", "apps", "migrations"},
    "episodes": {"__init__", "apps", "migrations"},
}
"""Entries of a root that have no floor."""

FOREIGN_TO_PLAY = {
    "django",
    "rest_framework",
    "django_eventstream",
    "channels",
    "httptools",
    "httpx",
    "psycopg",
    "sqlite3",
    "uvicorn",
    "mcp",
    "mcp_types",
}
"""Packages that live play and the contract of authors must not need."""


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module by its name, migrations aside."""
    found = {}
    for package in ROOTS:
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
    """Return what a module imports, also inside functions: our modules by name, others by their top-level package."""
    return frozenset(map(_module_of, imported(name))) - {name}


@cache
def imported(name: str) -> list[str]:
    """Return the full names that a module imports."""
    return list(_imported(tree_of(name)))


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the names that the statements of a tree import, without a look at its expressions, which are most of it."""
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
    if full.partition(".")[0] not in ROOTS:
        return full.partition(".")[0]
    while full not in modules():
        full = full.rpartition(".")[0]
    return full


def room_of(name: str) -> str:
    return ".".join(name.split(".")[:2])


def floor_of(name: str) -> int:
    package, room = name.split(".")[:2]
    return next(number for number, rooms in enumerate(ROOMS[package]) if room in rooms)


def has_floor(name: str) -> bool:
    package, _, rest = name.partition(".")
    return package in ROOMS and rest.partition(".")[0] in set[str]().union(*ROOMS[package])


def cycle_in(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a cycle as names in order, with the first one repeated at the end; empty if there is none."""
    done, path = set[str](), list[str]()

    def visit(name: str) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        path.append(name)
        found = next((cycle for other in sorted(graph.get(name, ())) if (cycle := visit(other))), [])
        done.add(path.pop())
        return found

    return next((cycle for name in graph if (cycle := visit(name))), [])


def test_roots_hold_rooms_that_are_listed_and_nothing_else() -> None:
    strange = []
    for package, allowed in ROOTS.items():
        rooms = set[str]().union(*ROOMS.get(package, []))
        entries = {
            path.stem for path in (ROOT / package).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
        }
        strange += [f"{package}.{entry}" for entry in entries - rooms - allowed - DJANGO]
        strange += [f"{package}.{entry} is missing" for entry in (rooms | allowed) - entries]
    assert not strange


def test_the_root_of_an_application_holds_only_djangos_modules_and_shared_words() -> None:
    strange = [
        path.relative_to(ROOT).as_posix()
        for package, words in SHARED_WORDS.items()
        for path in (ROOT / package).glob("*.py")
        if path.stem not in DJANGO | words
    ]
    assert not strange


def test_a_room_uses_only_the_floors_below_its_own() -> None:
    upward = [
        f"{name} -> {other}"
        for name in modules()
        if has_floor(name)
        for other in ours(name)
        if has_floor(other) and name.split(".")[0] == other.split(".")[0] and room_of(name) != room_of(other)
        if floor_of(other) >= floor_of(name)
    ]
    assert not upward


def test_applications_use_each_other_one_way() -> None:
    """`orsweb` may use both applications, and `episodes` may use `environments`. All may use `orsweb.env`."""
    allowed = {"orsweb": {"orsweb", "environments", "episodes"}, "episodes": {"episodes", "environments"}}
    wrong = [
        f"{name} -> {other}"
        for name in modules()
        for other in ours(name)
        if other.partition(".")[0] not in allowed.get(name.partition(".")[0], {"environments"})
        and other != "orsweb.env"
    ]
    assert not wrong


def test_the_documented_floors_are_these() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")
    ]
    for column, package in ((0, "episodes"), (2, "environments")):
        floors = {int(row[column]): set(row[column + 1].split(", ")) for row in rows if row[column].isdigit()}
        assert floors == dict(enumerate(ROOMS[package], 1))


def test_the_picture_shows_the_imports_between_rooms() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    drawn = {(_drawn(a), _drawn(b)) for a, b in re.findall(r"^  (\w+) --> (\w+)$", page, re.M) if a != "server"}
    used = _without_what_follows(_drawn_rooms())
    assert (sorted(used - drawn), sorted(drawn - used)) == ([], [])


def _drawn(node: str) -> str:
    """Return the room that a node of the picture stands for. A prefix marks rooms that both applications have."""
    prefix, _, rest = node.partition("_")
    packages = {"p": "episodes", "e": "environments"}
    if prefix in packages:
        return f"{packages[prefix]}.{'management' if rest == 'commands' else rest}"
    return next(f"{package}.{node}" for package, floors in ROOMS.items() if node in set[str]().union(*floors))


def _drawn_rooms() -> dict[str, set[str]]:
    """Return which rooms each room uses. Who imports from `environments` itself uses the rooms behind its names."""
    rooms = defaultdict[str, set[str]](set)
    for name in filter(has_floor, modules()):
        used = {behind for other in ours(name) for behind in (ours(other) if other in ROOMS else [other])}
        rooms[room_of(name)] |= {room_of(other) for other in used if has_floor(other)} - {room_of(name)}
    undrawn = {f"{package}.{room}" for package in ROOMS for room in UNDRAWN}
    return {room: used - undrawn for room, used in rooms.items() if room not in undrawn}


def _without_what_follows(rooms: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """Return the pairs of rooms of which the first uses the second, without those that follow from others."""

    def reach(room: str) -> set[str]:
        return {room}.union(*(reach(other) for other in rooms.get(room, ())))

    return {
        (room, other)
        for room, used in rooms.items()
        for other in used
        if not any(other in reach(between) for between in used - {other})
    }


def test_faces_do_not_use_each_other() -> None:
    def face(name: str) -> str | None:
        return room_of(name).rpartition(".")[2] if room_of(name).rpartition(".")[2] in FACES else None

    mixed = [
        f"{name} -> {other}"
        for name in modules()
        if face(name) and not name.startswith("orsweb")
        for other in ours(name)
        if face(other) not in (None, face(name))
    ]
    assert not mixed


def test_no_module_imports_itself_by_detours() -> None:
    assert not cycle_in({name: ours(name) for name in modules()})


def test_no_room_uses_itself_by_detours() -> None:
    rooms = defaultdict[str, set[str]](set)
    for name in modules():
        rooms[room_of(name)] |= {room_of(other) for other in ours(name)} - {room_of(name)}
    assert not cycle_in(rooms)


def test_play_and_authors_code_reach_no_django_and_no_http() -> None:
    reached = {}
    for start in [name for name in modules() if room_of(name) in ("environments.runtime", "environments.authoring")]:
        seen, todo = set[str](), [start]
        while todo:
            found = imports_of(todo.pop()) - seen
            seen |= found
            todo += [other for other in found if other in modules()]
        if foreign := seen & FOREIGN_TO_PLAY:
            reached[start] = foreign
    assert not reached


def test_what_authors_install_imports_nothing_else() -> None:
    project = tomllib.loads((ROOT / "author/pyproject.toml").read_text(encoding="utf-8"))
    listed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values()
    places = tuple(ROOT / entry for entry in listed)
    installed = {name for name, path in modules().items() if any(map(path.is_relative_to, places))}
    needed = {re.split(r"[^\w-]", requirement)[0] for requirement in project["project"]["dependencies"]}
    used = set[str]().union(*map(imports_of, installed)) - installed - set(sys.stdlib_module_names)
    assert not used - needed - {"pydantic_core"}  # which pydantic needs


def test_only_faces_conf_and_service_of_environments_read_settings() -> None:
    readers = {name for name in modules() if "django.conf.settings" in imported(name)}
    inner = {name for name in readers if name.startswith("environments.") and name.split(".")[1] not in FACES}
    assert inner <= {"environments.conf", "environments.service"}
