"""Loading classes from `module:Class`, and finding them by name."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from environments.authoring.registry import Registry
from environments.errors import Unhostable, UnknownEnvironment, author_traceback
from environments.hosts.loading import load
from tests.rows import each

ECHO, SLOW = "tests.envs:Echo", "tests.envs:Slow"
MODULE = """
from environments import Environment, TextBlock, ToolOutput, tool

class Mine(Environment):
    @classmethod
    def list_splits(cls):
        return ["train"]

    def get_prompt(self):
        return [TextBlock(text="hello")]

    @classmethod
    def list_tasks(cls, split):
        return [{}]

    @tool
    def go(self) -> ToolOutput:
        return ToolOutput(blocks=[TextBlock(text="gone")])
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Writes modules into an empty current directory and forgets them afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield lambda name, text: (tmp_path / name).write_text(text) and None
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_it_keeps_the_order_and_makes_the_first_the_default() -> None:
    registry = load([SLOW, ECHO])
    assert (registry.names, registry.default.name, len(registry)) == (["slow", "echo"], "slow", 2)
    assert [hosted.cls.__name__ for hosted in registry] == ["Slow", "Echo"]


@pytest.mark.parametrize("name", ["echo", "Echo", "ECHO"])
def test_it_finds_a_name_in_any_case(name: str) -> None:
    assert load([ECHO]).get(name).name == "echo"


def test_it_serves_a_class_under_an_alias_in_lower_case() -> None:
    assert load([f"Other-1={ECHO}"]).names == ["other-1"]


def test_it_serves_one_class_twice_under_two_names() -> None:
    assert load([ECHO, f"echo2={ECHO}"]).names == ["echo", "echo2"]


def test_it_finds_modules_in_the_current_directory(write: Callable[[str, str], None]) -> None:
    write("orsweb_test_mine.py", MODULE)
    assert load(["orsweb_test_mine:Mine"]).names == ["mine"]


def test_it_names_the_nearest_of_an_unknown_name() -> None:
    with pytest.raises(
        UnknownEnvironment,
        match=r"'ecco'; this server hosts 'echo', 'slow'; did "
        r"you mean 'echo'\?",
    ):
        load([ECHO, SLOW]).get("ecco")


def test_it_answers_none_where_a_name_may_be_missing() -> None:
    assert load([ECHO]).find("ecco") is None


@each(
    ("specifications", "sentence"),
    [
        ([], "No environment to serve; name at least one as module:Class."),
        ([ECHO, ECHO], "Two environments are named 'echo'; serve one as other_name=module:Class."),
        ([ECHO, f"ECHO={SLOW}"], "Two environments are named 'echo'"),
        (["tests.envs"], "'tests.envs' names no class; write module:Class"),
        (["tests.envs:"], "'tests.envs:' names no class"),
        ([":Echo"], "':Echo' names no class"),
        ([""], "'' names no class"),
        (["tests.envs:Ecco"], "Module 'tests.envs' has no class 'Ecco'"),
        (["no_such_module:Echo"], "'no_such_module:Echo' cannot be imported: ModuleNotFoundError"),
        (["tests.envs:Toolsetted.own"], "has no class 'Toolsetted.own'"),
        (
            ["tests.envs:GATES"],
            "is not an Environment class; derive it from environments.Environment.",
        ),
        (["tests.envs:Adder"], "is not an Environment class"),
        (
            [f"admin={ECHO}"],
            "Environment name 'admin' is reserved by the server; serve it as "
            "other_name=module:Class.",
        ),
        (
            [f"mcp={ECHO}"],
            "Environment name 'mcp' is reserved by the server; serve it as "
            "other_name=module:Class.",
        ),
        ([f"openapi.json={ECHO}"], "Environment name 'openapi.json' is reserved by the server"),
        (
            [f"v1={ECHO}"],
            "Environment name 'v1' is reserved by the server; serve it as other_name=module:Class.",
        ),
        ([f"Task_Tools={ECHO}"], "Environment name 'task_tools' is reserved"),
        ([f"a/b={ECHO}"], "Environment name 'a/b' cannot be part of a URL"),
        ([f"..={ECHO}"], "Environment name '..' cannot be part of a URL"),
        (
            [f"={ECHO}"],
            f"'={ECHO}' has no name before '='; write module:Class or alias=module:Class.",
        ),
        (
            [f"{'x' * 201}={ECHO}"],
            "has 201 characters, but at most 200 are allowed; serve it as other_name=",
        ),
    ],
)
def test_it_stops_with_one_sentence(specifications: list[str], sentence: str) -> None:
    with pytest.raises(Unhostable) as caught:
        load(specifications)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@each("text", ["1 / 0", "import no_such_module", "def broken(:", "raise RuntimeError('stop')"])
def test_it_tells_why_a_module_cannot_be_imported(
    write: Callable[[str, str], None], text: str
) -> None:
    write("orsweb_test_broken.py", text)
    place = (
        r"'orsweb_test_broken:Mine' cannot be imported: [A-Z][A-Za-z]+Error: "
        r".*/orsweb_test_broken.py, line 1\)"
    )
    with pytest.raises(Unhostable, match=place):
        load(["orsweb_test_broken:Mine"])


def test_it_names_the_line_of_the_author_in_which_a_library_fails(
    write: Callable[[str, str], None],
) -> None:
    write("orsweb_test_outer.py", "import orsweb_test_inner")
    write("orsweb_test_inner.py", "import json\n\njson.loads('{')")
    with pytest.raises(Unhostable, match=r"/orsweb_test_inner.py, line 3\)\.$") as caught:
        load(["orsweb_test_outer:Mine"])
    trace = author_traceback(caught.value.__cause__)
    assert re.findall(r"(\w+)\.py", trace)[:3] == [
        "orsweb_test_outer",
        "orsweb_test_inner",
        "__init__",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit('bye')", "cannot be imported: SystemExit: bye ("),
        ("raise SystemExit", "cannot be imported: SystemExit ("),
        ("raise ValueError('one\\ntwo.')", "cannot be imported: ValueError: one two ("),
        (
            "def __getattr__(name): raise RuntimeError('no disk')",
            "cannot be hosted: RuntimeError: no disk (",
        ),
        (
            "from environments import Server\nServer([])",
            "RuntimeError: orsweb serves environments with",
        ),
    ],
)
def test_it_survives_whatever_a_module_raises(
    write: Callable[[str, str], None], text: str, message: str
) -> None:
    write("orsweb_test_hostile.py", text)
    with pytest.raises(Unhostable) as caught:
        load(["orsweb_test_hostile:Mine"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sdk", "envs", "cls"),
    [("ors", "envs_ors", "OrsEcho"), ("openreward.environments", "envs_openreward", "OrwEcho")],
)
def test_it_refuses_a_module_that_starts_a_server(
    write: Callable[[str, str], None], sdk: str, envs: str, cls: str
) -> None:
    write(
        "orsweb_test_starting.py",
        f"from {sdk} import Server\nfrom tests.{envs} import {cls}\nServer([{cls}]).run(port=0)",
    )
    with pytest.raises(
        Unhostable, match="it starts a server when it is imported; put that below `if __name__"
    ):
        load(["orsweb_test_starting:Mine"])


def test_it_says_which_file_lacks_the_class(
    write: Callable[[str, str], None], tmp_path: Path
) -> None:
    write("orsweb_test_mine.py", MODULE)
    with pytest.raises(Unhostable, match="'Nine'; check the name after the colon") as caught:
        load(["orsweb_test_mine:Nine"])
    assert str(tmp_path / "orsweb_test_mine.py") in str(caught.value)


def test_it_refuses_an_empty_registry() -> None:
    with pytest.raises(Unhostable, match="No environment to serve"):
        Registry([])


@each(
    ("specification", "better"),
    [
        ("bad.py:Good", "bad:Good"),
        ("./bad.py:Good", "bad:Good"),
        ("./bad:Good", "bad:Good"),
        ("mine=envs/bad.py:Good", "mine=envs.bad:Good"),
        ("/srv/bad.py:Good", "bad:Good, in the directory /srv"),
        ("../bad.py:Good", "bad:Good, in the directory .."),
    ],
)
def test_it_says_how_to_name_what_is_in_a_file(specification: str, better: str) -> None:
    with pytest.raises(Unhostable) as caught:
        load([specification])
    assert str(caught.value) == f"{specification!r} names a file, not a module; write {better}."


def test_a_missing_sdk_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orsweb_test_sdk.py").write_text("import openreward\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "openreward", None)
    with pytest.raises(Unhostable, match="It is in the package openreward: run `make venv`"):
        load(["orsweb_test_sdk:Mine"])
