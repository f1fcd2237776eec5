"""The revision of a hosted class: which code plays its episodes. Computed once per start, for all hosted classes.

Two episodes were played by the same code if source files, SDK and named packages were the same. The commit of git is
recorded too, but does not decide: most commits leave a class as it is, and code may run before it is committed.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import resolve_name
from pathlib import Path

from environments.authoring.hosted_class import HostedClass
from environments.authoring.hosted_environment import ClassRevision, HostedEnvironment, digest_of

MAX_FILES = 500
"""Source files of one class that are read; further ones are left out."""
MAX_GIT_SECONDS = 5.0
SDK_PACKAGES = {"environments": "orsweb", "ors": "ors-sdk", "openreward": "openreward"}
"""Names of the distributions by the names of the SDKs."""
_FRAMEWORK = ("environments", "episodes", "orsweb")
_AUTHORS_OWN = "environments.builtin"
_INSTALLED = frozenset(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
_PACKAGES = ("site-packages", "dist-packages")
"""Names of directories with installed packages, also of those of another Python."""


def note_revisions(registry: Iterable[HostedEnvironment], own_version: str) -> None:
    """Set `revision` of each hosted class. Blocks for some 10 ms a class. `own_version`: that of this server.

    Environments on other servers are left out; their revision depends on what these say.
    """
    repositories: dict[Path, Repository] = {}
    for hosted in registry:
        if not isinstance(hosted, HostedClass):
            continue
        try:
            hosted.revision = revision_of(hosted, own_version, repositories)
        except Exception as error:  # whatever the author's files cause must not stop the server
            import structlog  # late, because it is a third of what worker processes would take to start

            structlog.get_logger(__name__).warning(
                "revision_unknown", environment=hosted.name, error=type(error).__name__
            )


def revision_of(hosted: HostedClass, own_version: str, repositories: dict[Path, Repository]) -> ClassRevision:
    """Return the revision of a class. `repositories`: those that were read already, by directory; it may be filled."""
    files = source_files([hosted.cls, *hosted.toolsets])
    git_commit, is_dirty = "", False
    if root := _root_of(files.get(hosted.cls.__module__)):
        repository = repositories.setdefault(root, Repository(root))
        git_commit, is_dirty = repository.commit, bool(repository.changed.intersection(files.values()))
    versions = tuple(_versions(hosted, own_version).items())
    source_hash = _hash_of_files(files) if files else ""
    identity = f"{hosted.cls.__module__}:{hosted.cls.__qualname__}"
    code = digest_of(identity, source_hash, repr(versions))
    whole = digest_of(code, git_commit, str(is_dirty))
    return ClassRevision(source_hash, git_commit, is_dirty, versions, code, whole)


def sources_of(registry: Iterable[HostedEnvironment]) -> dict[str, list[str]]:
    """Return the files in which the classes of this process and their bases are written, by environment."""
    return {hosted.name: _files_of(hosted) for hosted in registry if isinstance(hosted, HostedClass)}


def _files_of(hosted: HostedClass) -> list[str]:
    bases = {base.__module__ for cls in (hosted.cls, *hosted.toolsets) for base in cls.__mro__}
    files = {str(file) for name in bases if (file := _file_of(name)) and _is_authors(name, file)}
    return sorted(files or {str(_file_of(hosted.cls.__module__))})


# --- source files ----------------------------------------------------------------------------------------------------


def source_files(classes: Sequence[type]) -> dict[str, Path]:
    """Return the source files of classes by module: theirs, those of their bases, and whatever these files import.

    Installed packages and this server's own code are left out, because they have versions.
    """
    todo = [base.__module__ for cls in classes for base in cls.__mro__]
    found: dict[str, Path] = {}
    seen = set[str]()
    while todo and len(found) < MAX_FILES:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        file = _file_of(name)
        if file is not None and _is_authors(name, file):
            found[name] = file.resolve()
            todo += _imports_of(name, file)
    return found


def _file_of(name: str) -> Path | None:
    """Return the source file of a module, imported or not; None for a module without one."""
    module = sys.modules.get(name)
    if file := getattr(module, "__file__", None):
        return Path(file) if file.endswith(".py") else None
    parent, _, last = name.rpartition(".")
    places = getattr(sys.modules.get(parent), "__path__", ()) if parent else sys.path
    options = (Path(place) / option for place in places for option in (f"{last}.py", f"{last}/__init__.py"))
    return next((option for option in options if option.is_file()), None)


def _is_authors(name: str, file: Path) -> bool:
    if name.partition(".")[0] in _FRAMEWORK:
        return name.startswith(f"{_AUTHORS_OWN}.")
    resolved = file.resolve()
    return not (set(_PACKAGES).intersection(resolved.parts) or _INSTALLED.intersection(resolved.parents))


def _imports_of(name: str, file: Path) -> Iterator[str]:
    """Yield the modules that a file may import, with the packages around them; some may not exist."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    with contextlib.suppress(SyntaxError, ValueError, OSError, RecursionError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from _with_parents(alias.name)
            elif isinstance(node, ast.ImportFrom):
                with contextlib.suppress(ImportError):
                    base = resolve_name("." * node.level + (node.module or ""), package or None)
                    yield from _with_parents(base)
                    yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


# --- git and versions ------------------------------------------------------------------------------------------------


class Repository:
    """What is checked out in a directory that git knows; read when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def commit(self) -> str:
        """The commit that is checked out; empty before the first one, and without git."""
        return _git(self._root, "rev-parse", "HEAD").strip()

    @cached_property
    def changed(self) -> frozenset[Path]:
        """The Python files that differ from the commit or are not in it."""
        lines = _git(self._root, "status", "--porcelain", "-z", "--untracked-files=all", "--", "*.py").split("\0")
        return frozenset(self._root / line[3:] for line in lines if line)


def _root_of(file: Path | None) -> Path | None:
    """Return the directory of the repository that a file is in; None outside of one."""
    parents = file.resolve().parents if file else ()
    return next((parent for parent in parents if (parent / ".git").exists()), None)


def _git(directory: Path, *arguments: str) -> str:
    """Return the output of git; empty if it fails, for example outside of a repository or without git."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # do not write the index of the author's repository
    try:
        done = subprocess.run(  # nosec B603, B607 # a fixed command
            ["git", "-C", str(directory), *arguments],
            capture_output=True,
            timeout=MAX_GIT_SECONDS,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def _versions(hosted: HostedClass, own_version: str) -> Mapping[str, str]:
    sdk = SDK_PACKAGES[hosted.sdk.name]
    named = getattr(hosted.cls, "revision_packages", ())
    packages = [named] if isinstance(named, str) else [str(package) for package in named]
    found = {sdk: own_version if sdk == "orsweb" else _version_of(sdk)}
    return found | {package: _version_of(package) for package in packages}


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return "not installed"


def _hash_of_files(files: Mapping[str, Path]) -> str:
    found = hashlib.sha256()
    for name, file in sorted(files.items()):
        found.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\0".encode())
    return found.hexdigest()
