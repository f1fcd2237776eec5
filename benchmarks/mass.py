"""Figures of how much code there is to read, and how it hangs together:
`python -m benchmarks.mass [DIRECTORY …]`.

Without directories it measures the three applications and prints the table of docs/architecture.md.
Directories of another project may be given for comparison. Migrations and tests are left out.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

APPLICATIONS = ("orsweb", "environments", "episodes")
LEFT_OUT = {"migrations", "tests"}
MAX_COLUMNS = 100
MAX_SUBJECT_CHARACTERS = 72
SUBJECTS = 200
"""Commits whose subjects are looked at, the newest ones."""

NO_PARTICIPLES = {"seed", "feed", "need", "speed", "embed", "red", "id"}
IRREGULAR = (
    "found given shown told made held kept seen taken written known left done gone sent said begun "
    "chosen drawn hidden lost meant met paid built bound brought heard laid understood broken "
    "forgotten"
)
UNITS = {
    f"{application}.{package}": f"{application}.{unit}"
    for application, unit, packages in (
        ("environments", "shared", "errors wire conf features command_line invisible apps quotas"),
        ("environments", "shared", "limits fair_turns processes"),
        ("environments", "shared", "database display files filtering schemas templatetags"),
        ("environments", "authoring", "__init__"),
        ("environments", "hosts", "service operator_secrets"),
        ("environments", "sandbox", "local_sandboxes"),
        ("environments", "builtin", "starter"),
        ("environments", "catalog", "tasks scoring models"),
        ("environments", "access", "keys security_log"),
        ("environments", "curation", "admin management"),
        ("episodes", "record", "models recording uploads removal redaction"),
        ("episodes", "figures", "attempts rollups figures runs"),
        ("episodes", "browsing", "filtering search transcript rendering dashboard api"),
        ("episodes", "browsing", "visibility admin management templatetags apps urls"),
        ("episodes", "exports", "transfer"),
    )
    for package in packages.split()
}
"""The unit that a package belongs to; one that is not named here is a unit of its own, and `orsweb`
is one unit.

A unit is a thing that somebody changes for one reason: what is played, where it runs, what is
recorded, a feature. Words that all of `environments` share (errors, wire types, settings) and tools
without a subject of their own (database, files, filters, display) are one unit, because an import
of them says nothing about what hangs on what. The admin, the commands and the template tags show
what their unit is about, so they belong to it."""


@dataclass
class Mass:
    """What is counted over all modules."""

    modules: int = 0
    lines: int = 0
    long_lines: int = 0
    comments: int = 0
    nodes: int = 0
    """Nodes of the syntax trees, without annotations, imports and contexts of names."""
    function_lines: list[int] = field(default_factory=list)
    private_used_once: int = 0
    names: Counter[str] = field(default_factory=Counter)
    """Variables and parameters, each once in a function."""
    arrows: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Imports between our modules, by the units of both."""

    @property
    def participles(self) -> int:
        return sum(count for name, count in self.names.items() if _is_participle(name))


def main(directories: Sequence[str]) -> None:
    mass = Mass()
    for root in map(Path, directories or APPLICATIONS):
        for path in sorted(root.rglob("*.py")):
            if not LEFT_OUT & set(path.relative_to(root).parts):
                _add(mass, path)
    functions = sorted(mass.function_lines)
    p50, p95 = functions[len(functions) // 2], functions[int(len(functions) * 0.95)]
    rows = {
        "modules / lines": f"{mass.modules:,} / {mass.lines:,}",
        "syntax nodes without annotations and imports (per line)": f"{mass.nodes:,} "
        f"({mass.nodes / mass.lines:.1f})",
        "functions, lines: p50 / p95 / longest": f"{p50} / {p95} / {functions[-1]}",
        "private functions used once, of all functions": f"{mass.private_used_once / len(functions):.0%}",
        f"lines over {MAX_COLUMNS} columns": f"{mass.long_lines / mass.lines:.1%}",
        "comments in 100 lines": f"{100 * mass.comments / mass.lines:.1f}",
        "variables and parameters that are a bare participle; `one`": f"{mass.participles:,}; "
        f"{mass.names['one']:,}",
    }
    if arrows := mass.arrows:
        inside = sum(count for (unit, other), count in arrows.items() if unit == other)
        between = sum(1 for unit, other in arrows if unit != other)
        units = len({unit for pair in arrows for unit in pair})
        rows[f"imports inside a unit; arrows between the {units} units"] = (
            f"{inside / arrows.total():.0%}; {between}"
        )
    if not directories:
        rows[f"subjects over {MAX_SUBJECT_CHARACTERS} characters, newest {SUBJECTS} commits"] = str(
            _long_subjects()
        )
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"| {name:<{width}} | {value} |")


def _add(mass: Mass, path: Path) -> None:
    source = path.read_text()
    tree, lines = ast.parse(source), source.splitlines()
    mass.modules += 1
    mass.lines += len(lines)
    mass.long_lines += sum(len(line) > MAX_COLUMNS for line in lines)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    mass.comments += sum(token.type == tokenize.COMMENT for token in tokens)
    mass.nodes += sum(1 for _ in _nodes(tree))
    uses = Counter[str]()
    functions = list[ast.FunctionDef | ast.AsyncFunctionDef]()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions.append(node)
            case ast.Name(name) | ast.Attribute(attr=name):
                uses[name] += 1
            case ast.ImportFrom(module=str(module)):
                if module.split(".")[0] in APPLICATIONS and path.parts[0] in APPLICATIONS:
                    unit = unit_of(path.with_suffix("").parts)
                    mass.arrows.update((unit, unit_of(name.split("."))) for name in _modules(node))
    for scope in (tree, *functions):
        mass.names.update(name.strip("_") for name in _names(scope))
    for function in functions:
        mass.function_lines.append((function.end_lineno or function.lineno) - function.lineno + 1)
        is_private = function.name.startswith("_") and not function.name.startswith("__")
        mass.private_used_once += is_private and uses[function.name] == 1


def _modules(node: ast.ImportFrom) -> set[str]:
    """Return the modules that a statement imports from, for an application those behind its names."""
    if node.module not in APPLICATIONS:
        return {str(node.module)}
    modules = {f"{node.module}.{alias.name}" for alias in node.names}
    return {name if name in UNITS else f"{node.module}.__init__" for name in modules}


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(
                child, ast.Import | ast.ImportFrom | ast.expr_context
            ):
                yield from _nodes(child)


def _names(scope: ast.AST) -> set[str]:
    """Return the parameters and variables of a function, or the variables of a module and its
    classes, without the columns of models."""
    names, nodes = set[str](), list(ast.iter_child_nodes(scope))
    while nodes:
        match node := nodes.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                continue
            case ast.Assign(value=ast.Call(ast.Attribute(ast.Name("models")))):
                continue
            case ast.Name(name, ast.Store()) | ast.arg(name):
                names.add(name)
        nodes += ast.iter_child_nodes(node)
    return names


def unit_of(parts: Sequence[str]) -> str:
    """Return the unit of a module, given by the parts of its name or of its path without suffix."""
    if parts[0] == "orsweb" or len(parts) == 1:
        return parts[0]
    package = f"{parts[0]}.{parts[1]}"
    return UNITS.get(package, package)


def _is_participle(name: str) -> bool:
    is_word = "_" not in name and name not in NO_PARTICIPLES
    return is_word and (name in IRREGULAR.split() or name.endswith("ed"))


def _long_subjects() -> int:
    command = ["git", "log", "--format=%s", f"-{SUBJECTS}"]
    subjects = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return sum(len(subject) > MAX_SUBJECT_CHARACTERS for subject in subjects)


if __name__ == "__main__":
    main(sys.argv[1:])
