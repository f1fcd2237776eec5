"""The revision of a hosted class: which code plays its episodes. Computed once per start, for all
hosted classes.

Two episodes were played by the same code if source files, SDK and named packages were the same. The
commit of git is recorded too, but does not decide: most commits leave a class as it is, and code
may run before it is committed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from environments.authoring.hosted_class import HostedClass
from environments.authoring.hosted_environment import ClassRevision, HostedEnvironment, digest_of
from environments.authoring.source_files import Modules, source_files

MAX_GIT_SECONDS = 5.0
SDK_PACKAGES = {"environments": "orsweb", "ors": "ors-sdk", "openreward": "openreward"}
"""Names of the distributions by the names of the SDKs."""


def note_revisions(registry: Iterable[HostedEnvironment], own_version: str) -> None:
    """Set `revision` of each hosted class. Blocks for some 10 ms a class. `own_version`: that of
    this server.

    Environments on other servers are left out; their revision depends on what these say.
    """
    modules, repositories = Modules(), dict[Path, Repository]()
    for hosted in registry:
        if not isinstance(hosted, HostedClass):
            continue
        try:
            hosted.revision = revision_of(hosted, own_version, modules, repositories)
        except Exception as error:  # whatever the author's files cause must not stop the server
            # late, because it is a third of what worker processes would take to start
            import structlog

            structlog.get_logger(__name__).warning(
                "revision_unknown", environment=hosted.name, error=type(error).__name__
            )


def revision_of(
    hosted: HostedClass, own_version: str, modules: Modules, repositories: dict[Path, Repository]
) -> ClassRevision:
    """Return the revision of a class. `repositories`: those that were read already, by directory;
    it may be filled."""
    found = source_files([hosted.cls, *hosted.toolsets], modules)
    files, unread = found.files, found.unread
    git_commit, is_dirty = "", False
    if root := _root_of(files.get(hosted.cls.__module__)):
        repository = repositories.setdefault(root, Repository(root))
        git_commit, is_dirty = (
            repository.commit,
            bool(repository.changed.intersection(files.values())),
        )
    versions = tuple(_versions(hosted, own_version).items())
    source_hash = _hash_of_files(files) if files else ""
    identity = hosted.identity
    if not _is_named(hosted.named_class):
        identity += f" {_names_of(hosted.named_class)}"
        unread = unread or f"which of the classes {hosted.cls.__qualname__} it is"
    code = digest_of(identity, source_hash, repr(versions))
    whole = digest_of(code, git_commit, str(is_dirty))
    return ClassRevision(source_hash, git_commit, is_dirty, versions, code, whole, unread)


def _is_named(cls: type) -> bool:
    """Return whether the name of a class leads to it: of those that a function makes, several have
    one name."""
    found: object = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls


def _names_of(cls: type) -> list[str]:
    """Return the names that the module of a class has for it."""
    return sorted(
        name
        for name, value in vars(sys.modules.get(cls.__module__, object)).items()
        if value is cls
    )


# --- git and versions -----------------------------------------------------------------------------


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
        lines = _git(
            self._root, "status", "--porcelain", "-z", "--untracked-files=all", "--", "*.py"
        ).split("\0")
        return frozenset(self._root / line[3:] for line in lines if line)


def _root_of(file: Path | None) -> Path | None:
    """Return the directory of the repository that a file is in; None outside of one."""
    parents = file.resolve().parents if file else ()
    return next((parent for parent in parents if (parent / ".git").exists()), None)


def _git(directory: Path, *arguments: str) -> str:
    """Return the output of git; empty if it fails, for example outside of a repository or without
    git."""
    # do not write the index of the author's repository
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
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
