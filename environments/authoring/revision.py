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
    """Set `revision` of each hosted class. Blocks for some 10 ms a class.

    `own_version`: the version of this server. Environments on other servers are left out; their
    revision depends on what these say.
    """
    modules, repositories = Modules(), dict[Path, Repository]()
    for environment in registry:
        if not isinstance(environment, HostedClass):
            continue
        try:
            environment.revision = revision_of(environment, own_version, modules, repositories)
        except Exception as error:  # whatever the author's files cause must not stop the server
            # late, because it is a third of what worker processes would take to start
            import structlog

            structlog.get_logger(__name__).warning(
                "revision_unknown", environment=environment.name, error=type(error).__name__
            )


def revision_of(
    environment: HostedClass,
    own_version: str,
    modules: Modules,
    repositories: dict[Path, Repository],
) -> ClassRevision:
    """Return the revision of a class. `repositories`: those read so far, by directory; it may
    grow."""
    sources = source_files([environment.cls, *environment.toolsets], modules)
    files, unread = sources.files, sources.unread
    git_commit, is_dirty = "", False
    file = files.get(environment.cls.__module__)
    parents = file.resolve().parents if file else ()
    if root := next((parent for parent in parents if (parent / ".git").exists()), None):
        repository = repositories.setdefault(root, Repository(root))
        git_commit = repository.commit
        is_dirty = bool(repository.changed.intersection(files.values()))
    versions = tuple(_versions(environment, own_version).items())
    hashes = hashlib.sha256()
    for name, path in sorted(files.items()):
        hashes.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    source_hash = hashes.hexdigest() if files else ""
    identity = environment.identity
    cls = environment.named_class
    if not _is_named(cls):
        names = vars(sys.modules.get(cls.__module__, object)).items()
        identity += f" {sorted(name for name, value in names if value is cls)}"
        unread = unread or f"which of the classes {environment.cls.__qualname__} it is"
    code = digest_of(identity, source_hash, repr(versions))
    whole = digest_of(code, git_commit, str(is_dirty))
    return ClassRevision(source_hash, git_commit, is_dirty, versions, code, whole, unread)


def _is_named(cls: type) -> bool:
    """Return whether the name of a class leads to it; classes made by a function may share one."""
    value: object = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is cls


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


def _git(directory: Path, *arguments: str) -> str:
    """Return the output of git; empty if it fails, as it does without git."""
    # do not write the index of the author's repository
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        process = subprocess.run(  # nosec B603, B607 # a fixed command
            ["git", "-C", str(directory), *arguments],
            capture_output=True,
            timeout=MAX_GIT_SECONDS,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.decode("utf-8", "replace") if process.returncode == 0 else ""


def _versions(environment: HostedClass, own_version: str) -> Mapping[str, str]:
    sdk = SDK_PACKAGES[environment.sdk.name]
    packages = getattr(environment.cls, "revision_packages", ())
    names = [packages] if isinstance(packages, str) else map(str, packages)
    versions = {sdk: own_version if sdk == "orsweb" else _version_of(sdk)}
    return versions | {name: _version_of(name) for name in names}


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return "not installed"
