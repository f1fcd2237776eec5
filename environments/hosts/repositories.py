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
from dataclasses import dataclass, field
from pathlib import Path

from environments.errors import Unhostable

MAX_FILES = 500
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
        listed = ", ".join(map(str, classes))
        raise Unhostable(
            f"{specification!r} names {len(classes)} classes; write {alias}{renames}… with one of "
            f"{listed}."
        )
    return [f"{alias}{renames}{hosted_class}{asks}{arguments}" for hosted_class in classes]


def classes_in(directory: Path) -> list[FoundClass]:
    """Return the environment classes of a repository, those of servers in the order in which they
    are given.

    Raises: Unhostable if there is none.
    """
    files = [
        _SourceFile(path, tree) for path in _sources(directory) if (tree := _tree(path)) is not None
    ]
    served = [
        found
        for file in files
        for name in file.served
        for found in [_resolved(file, name, directory)]
        if found
    ]
    if not served:
        served = [
            FoundClass(directory, _module(file.path, directory), name)
            for file in files
            for name in file.derived
        ]
        based_on = {base for file in files for base in file.bases}
        served = [
            found
            for found in served
            if found.name not in based_on and not found.name.startswith("_")
        ]
    if not served:
        raise Unhostable(
            f"{directory} has no Server([...]) and no class that derives from Environment; name "
            "one as "
            f"{directory}:module:Class."
        )
    return list(dict.fromkeys(served))


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
            and not _is_venv(entry)
        ]


def _is_venv(directory: Path) -> bool:
    return (directory / "pyvenv.cfg").exists()


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (
        OSError,
        SyntaxError,
        ValueError,
    ):  # it is not what is served, or says so when it is imported
        return None


@dataclass(slots=True)
class _SourceFile:
    """What is read of a file: its imports, its classes, and what it gives to servers."""

    path: Path
    tree: ast.Module
    imports: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """Name -> level and module of the import, and the name there; an empty name is the module
    itself."""
    classes: set[str] = field(default_factory=set)
    bases: set[str] = field(default_factory=set)
    derived: list[str] = field(default_factory=list)
    """Classes that derive from an Environment, directly or from another class of the file that
    does."""
    served: list[str] = field(default_factory=list)
    """What is given to `Server([...])`: names, also with dots."""

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (
                        node.level,
                        node.module or "",
                        alias.name,
                    )
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (0, alias.name, "")
            elif isinstance(node, ast.Call) and _dotted(node.func).rpartition(".")[2] == "Server":
                given = [
                    *node.args[:1],
                    *(
                        keyword.value
                        for keyword in node.keywords
                        if keyword.arg in ("environments", "envs")
                    ),
                ]
                lists = [one.elts for one in given if isinstance(one, ast.List | ast.Tuple)]
                self.served += [
                    name for elements in lists for element in elements if (name := _dotted(element))
                ]
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                bases = [_dotted(base).rpartition(".")[2] for base in node.bases]
                self.classes.add(node.name)
                self.bases.update(bases)
                if "Environment" in bases or any(base in self.derived for base in bases):
                    self.derived.append(node.name)


def _dotted(node: ast.expr) -> str:
    """Return a name such as `env.Chess`; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def _resolved(file: _SourceFile, name: str, root: Path) -> FoundClass | None:
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
        parts = (
            [*package.relative_to(root).parts, *filter(None, module.split("."))] if level else []
        )
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
