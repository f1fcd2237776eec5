"""Which source files the code of hosted classes is in. Modules are found as imports find them, but
none is imported."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import resolve_name
from pathlib import Path

from environments.authoring.hosted_class import HostedClass
from environments.authoring.hosted_environment import HostedEnvironment

MAX_FILES = 500
"""Files of one class that are read; further ones are left out."""
_FRAMEWORK = ("environments", "episodes", "orsweb")
_AUTHORS_OWN = "environments.builtin"
_INSTALLED = frozenset(
    Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")
)
_PACKAGES = ("site-packages", "dist-packages")
"""Names of directories with installed packages, also of those of another Python."""


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files that the code of a class is in, and whether these are all."""

    files: dict[str, Path]
    """Files by module: Python, but for modules that have only a compiled file."""
    unread: str
    """The first part of the code that is in none of these files, or that could not be read; empty
    if all was read."""


def source_files(classes: Sequence[type], modules: Modules | None = None) -> SourceFiles:
    """Return the files of classes, of their bases, and of whatever these import, nearest first.

    Installed packages and this server's own code are left out, because they have versions.
    """
    modules = modules or Modules()
    queue = deque(
        name for cls in classes for base in cls.__mro__ for name in _with_parents(base.__module__)
    )
    files: dict[str, Path] = {}
    unread: list[str] = []
    names = set[str]()
    while queue:
        name = queue.popleft()
        if name in names or modules.have_version(name):
            continue
        names.add(name)
        module = modules.find(name)
        if module is not None and module.is_namespace:
            continue
        if module is None or module.file is None or not module.file.is_file():
            unread.append(f"module {name}, which was not found")
            continue
        if len(files) == MAX_FILES:
            unread.append(f"module {name}, after {MAX_FILES} others")
            break
        files[name] = module.file.resolve()
        imports = modules.imports_of(name, module.file)
        queue += imports.names
        if imports.unread:
            unread.append(imports.unread)
    return SourceFiles(files, unread[0] if unread else "")


def sources_of(registry: Iterable[HostedEnvironment]) -> dict[str, list[str]]:
    """Return the files in which the classes of this process and their bases are written, by
    environment."""
    modules = Modules()
    sources = {}
    for environment in registry:
        if not isinstance(environment, HostedClass):
            continue
        classes = (environment.cls, *environment.toolsets)
        names = {base.__module__ for cls in classes for base in cls.__mro__}
        files = {
            str(file)
            for name in names
            if not modules.have_version(name) and (file := modules.python_file(name))
        }
        own_file = str(modules.python_file(environment.cls.__module__))
        sources[environment.name] = sorted(files or {own_file})
    return sources


@dataclass(frozen=True, slots=True)
class Module:
    """Where the code of a module is."""

    file: Path | None
    places: tuple[str, ...]
    """Directories of the modules in it, if it is a package."""

    @property
    def is_namespace(self) -> bool:
        """Return whether it is a package without code of its own."""
        return self.file is None and bool(self.places)


@dataclass(frozen=True, slots=True)
class Imports:
    """The modules that a file may import, with the packages around them."""

    names: tuple[str, ...]
    unread: str
    """Why there may be more; empty if there are no more."""


class Modules:
    """Finds modules and what they import. Each answer is kept."""

    def __init__(self) -> None:
        self.find = cache(self._find)
        self.have_version = cache(self._have_version)
        self.imports_of = cache(self._imports_of)

    def _find(self, name: str) -> Module | None:
        """Return a module, imported or not; None if there is no such module."""
        if (module := sys.modules.get(name)) is not None:
            return _module(getattr(module, "__file__", None), getattr(module, "__path__", ()))
        parent, _, last = name.rpartition(".")
        package = self.find(parent) if parent else None
        if parent and package is None:
            return None
        # Without its parents: of a namespace package, the finder looks for them among the modules
        # that are imported.
        spec = PathFinder.find_spec(last, list(package.places) if package else sys.path)
        return _module(spec.origin, spec.submodule_search_locations) if spec else None

    def _have_version(self, name: str) -> bool:
        """Return whether a module is part of Python, of this server or of an installed package."""
        parent, _, last = name.rpartition(".")
        if name.partition(".")[0] in _FRAMEWORK:
            return not name.startswith(f"{_AUTHORS_OWN}.")
        module = self.find(name)
        if module is not None and module.file is not None:
            path = module.file.resolve()
            return bool(
                set(_PACKAGES).intersection(path.parts) or _INSTALLED.intersection(path.parents)
            )
        if module is not None and module.is_namespace:
            return False
        return self.have_version(parent) if parent else last in sys.stdlib_module_names

    def python_file(self, name: str) -> Path | None:
        """Return the file of a module if it is written in Python."""
        module = self.find(name)
        return module.file if module and module.file and module.file.suffix == ".py" else None

    def _imports_of(self, name: str, file: Path) -> Imports:
        """Return what a module may import."""
        if file.suffix != ".py":
            return Imports((), f"module {name}, which is compiled")
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        try:
            statements = _statements(ast.parse(file.read_bytes()).body)
        except (SyntaxError, ValueError, OSError, RecursionError) as error:
            return Imports((), f"the imports of {name} ({type(error).__name__})")
        names: dict[str, None] = {}
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                names |= dict.fromkeys(self._names_in(statement, package))
        return Imports(tuple(names), "")

    def _names_in(self, statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
        """Yield the modules that a statement in `package` may import, with the packages around
        them."""
        names = [alias.name for alias in statement.names]
        if isinstance(statement, ast.Import):
            for name in names:
                yield from _with_parents(name)
            return
        with suppress(ImportError):  # relative to no package, which fails when it runs, too
            base = resolve_name("." * statement.level + (statement.module or ""), package or None)
            yield from _with_parents(base)
            yield from (f"{base}.{name}" for name in names if self._may_import(base, name))

    def _may_import(self, package: str, name: str) -> bool:
        """Return whether `name` (or, for *, some name) in the package may be a module."""
        if self.have_version(package):
            return False
        module = self.find(package)
        return self.find(f"{package}.{name}") is not None or (
            name == "*" and module is not None and bool(module.places)
        )


def _module(file: object, places: object) -> Module:
    """Return a module by its attributes for file and path, which may be anything."""
    directories = tuple(map(str, places)) if isinstance(places, Iterable) else ()
    return Module(Path(file) if isinstance(file, str) else None, directories)


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of a block and of the blocks in it. Imports are not in expressions."""
    for node in body:
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, block, ()))


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]
