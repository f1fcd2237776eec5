"""The environment classes of a repository that somebody wrote for its own server:
`serve PATH/TO/REPOSITORY`.

The classes are found without importing anything: those that some file gives to `Server([...])`,
otherwise those that derive from Environment. They are played in processes of their own, whose
search path and working directory are the repository, so that repositories with modules of the same
name do not meet. What a `requirements.txt` or `pyproject.toml` asks for is installed once into an
interpreter of the repository's own (`repository_python.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from environments.errors import Unhostable

MAX_FILES = 500
_SERVER_KEYWORDS = ("environments", "envs")
_SKIPPED = frozenset({"tests", "test", "node_modules", "site-packages", "build", "dist"})


@dataclass(frozen=True, slots=True)
class FoundClass:
    """A class of a repository: `module` is imported with `directory` as the first place of the
    search path."""

    directory: Path
    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.directory}:{self.module}:{self.name}"


def repository_in(specification: str) -> Path | None:
    """Return the repository of `[name=]directory` or `[name=]directory:module:Class`; None if it
    names none."""
    target = specification.partition("?")[0].rpartition("=")[2]
    directory, colons = target.partition(":")[0], target.count(":")
    path = Path(directory).expanduser()
    return path.absolute() if directory and colons in (0, 2) and path.is_dir() else None


def specifications_in(specification: str, repository: Path) -> list[str]:
    """Return `[name=]directory:module:Class` for each class that the specification of a repository
    names.

    Raises: Unhostable.
    """
    head, asks, arguments = specification.partition("?")
    alias, renames, target = head.rpartition("=")
    if ":" in target:
        return [f"{alias}{renames}{repository}{target[target.index(':') :]}{asks}{arguments}"]
    classes = classes_in(repository)
    if len(classes) > 1 and (renames or asks):
        raise Unhostable(
            f"{specification!r} names {len(classes)} classes; write {alias}{renames}… with one of "
            f"{', '.join(map(str, classes))}."
        )
    return [f"{alias}{renames}{hosted_class}{asks}{arguments}" for hosted_class in classes]


def classes_in(directory: Path) -> list[FoundClass]:
    """Return the environment classes of a repository, those of servers in the order in which they
    are given.

    Raises: Unhostable if there is none.
    """
    files = []
    for path in _sources(directory):
        # else it is not what is served, or says so when it is imported
        with suppress(OSError, SyntaxError, ValueError):
            files.append(_SourceFile(path, ast.parse(path.read_bytes())))
    names = [(file, name) for file in files for name in file.server_arguments]
    classes = [cls for file, name in names if (cls := _resolve(file, name, directory))]
    if not classes:
        bases = {base for file in files for base in file.bases}
        classes = [
            FoundClass(directory, _module(file.path, directory), name)
            for file in files
            for name in file.environments
            if name not in bases and not name.startswith("_")
        ]
    if not classes:
        raise Unhostable(
            f"{directory} has no Server([...]) and no class that derives from Environment; name "
            f"one as {directory}:module:Class."
        )
    return list(dict.fromkeys(classes))


def _sources(directory: Path) -> Iterator[Path]:
    """Yield the Python files, those nearest to the directory first."""
    waiting, count = [directory], 0
    while waiting and count < MAX_FILES:
        entries = sorted(waiting.pop(0).iterdir())
        for entry in entries:
            if entry.suffix == ".py" and entry.is_file() and count < MAX_FILES:
                count += 1
                yield entry
        waiting += [
            entry
            for entry in entries
            if entry.is_dir()
            and entry.name.isidentifier()
            and entry.name not in _SKIPPED
            and not (entry / "pyvenv.cfg").exists()
        ]


@dataclass(slots=True)
class _SourceFile:
    """The imports and classes of a file, and what it gives to servers."""

    path: Path
    tree: ast.Module
    imports: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """Name -> level and module of the import, and the name there; an empty name is the module
    itself."""
    classes: set[str] = field(default_factory=set)
    bases: set[str] = field(default_factory=set)
    environments: list[str] = field(default_factory=list)
    """Classes that derive from an Environment, directly or by another class of the file."""
    server_arguments: list[str] = field(default_factory=list)
    """The names, also with dots, in `Server([...])`."""

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    source = (node.level, node.module or "", alias.name)
                    self.imports[alias.asname or alias.name] = source
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (0, alias.name, "")
            elif isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] == "Server":
                values = node.args[:1]
                values += [each.value for each in node.keywords if each.arg in _SERVER_KEYWORDS]
                for value in values:
                    if isinstance(value, ast.List | ast.Tuple):
                        self.server_arguments += filter(None, map(_dotted, value.elts))
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                bases = [_dotted(base).rpartition(".")[2] for base in node.bases]
                self.classes.add(node.name)
                self.bases.update(bases)
                if not {"Environment", *self.environments}.isdisjoint(bases):
                    self.environments.append(node.name)


def _dotted(node: ast.expr) -> str:
    """Return a name such as `env.Chess`; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def _resolve(file: _SourceFile, name: str, root: Path) -> FoundClass | None:
    """Return the class of the repository that a file calls `name`; None if it is of another
    package, or unknown."""
    if name in file.classes:
        return FoundClass(root, _module(file.path, root), name)
    before, _, last = name.rpartition(".")
    level, module, there = file.imports.get(before or name, (0, "", ""))
    if before:  # of a module
        module, there = ".".join(filter(None, (module, there))), last
    if not there:
        return None
    if level:
        package = file.path.parents[level - 1]
        parts = [*package.relative_to(root).parts, *filter(None, module.split("."))]
        return FoundClass(root, ".".join(parts), there) if _has_module(root, parts) else None
    # as for `python server.py`, or `python -m src.server`
    for directory in dict.fromkeys((file.path.parent, root)):
        if module and _has_module(directory, module.split(".")):
            return FoundClass(directory, module, there)
    return None


def _has_module(directory: Path, parts: list[str]) -> bool:
    path = directory.joinpath(*parts)
    return bool(parts) and (
        path.with_suffix(".py").is_file() or (path / "__init__.py").is_file() or path.is_dir()
    )


def _module(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
