"""The shell environment: what commands do, what they earn and cost, and what a hostile one cannot
do."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from environments import ToolError, ToolOutput
from environments.authoring.declarations import card_of
from environments.authoring.hosted_class import HostedClass
from environments.builtin.shell.shell import FORBIDDEN, Command, FilePath, Shell
from tests.conformance.agent import eventually
from tests.rows import each
from tests.sandboxed import needs_bubblewrap, processes_with

CHORE = {
    "instruction": "Copy a.txt to b.txt and to sub/c.txt, and delete old.txt.",
    "files": {"a.txt": "hello\n", "old.txt": "old\n", "data/keep.txt": "kept\n"},
    "goals": [{"path": "b.txt", "text": "hello"}, {"path": "sub/c.txt", "text": "hello"}],
    "keep": ["a.txt", "data/keep.txt"],
    "gone": ["old.txt"],
    "max_steps": 8,
}


def chore(**changes: Any) -> Shell:
    return Shell({**CHORE, **changes})


def bash(episode: Shell, *commands: str) -> list[ToolOutput]:
    return [episode.bash(Command(command=command)) for command in commands]


def said(output: ToolOutput) -> str:
    [block] = output.blocks
    return str(getattr(block, "text", ""))


def told(command: str, episode: Shell | None = None) -> str:
    """Return the output of a command, without the line about sub-goals."""
    return said(bash(episode or chore(), command)[0]).rpartition("\n\n[")[0]


def test_it_can_be_hosted() -> None:
    hosted = HostedClass(Shell)
    assert hosted.name == "shell"
    assert [spec.name for spec in hosted.class_tools.tools] == ["bash", "read_file", "submit"]


def test_the_prompt_tells_the_chore_and_the_steps_but_no_goal() -> None:
    [block] = chore(goals=[{"path": "x.txt", "text": "4711"}]).get_prompt()  # type: ignore[misc]
    assert (
        block.text.startswith("Copy a.txt") and "8 times" in block.text and "4711" not in block.text
    )


@each(
    "change",
    [
        {"goals": []},
        {"files": {"/etc/passwd": "x"}},
        {"goals": [{"path": "/x", "text": ""}]},
        {"max_steps": 0},
    ],
)
def test_it_refuses_a_task_that_makes_no_sense(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        chore(**change)


# --- commands -------------------------------------------------------------------------------------


@needs_bubblewrap
def test_it_shows_outputs_in_order_and_the_status() -> None:
    assert told("echo one; echo two >&2; echo three; exit 4") == "one\ntwo\nthree\n(exit status 4)"


@needs_bubblewrap
def test_it_says_when_there_is_no_output() -> None:
    assert told("true") == "(no output)"


@needs_bubblewrap
def test_files_stay_from_one_command_to_the_next() -> None:
    episode = chore()
    bash(
        episode,
        "mkdir -p new/deep; echo hi > 'new/deep/a b.txt'; chmod +x new/deep/*; ln -s a.txt link",
        "rm old.txt",
    )
    assert told(
        "find . | sort; cat new/*/*; test -x new/deep/a* && echo can run; readlink link", episode
    ) == (
        ".\n./a.txt\n./data\n./data/keep.txt\n./link\n./new\n./new/deep\n./new/deep/a "
        "b.txt\nhi\ncan run\na.txt"
    )


@needs_bubblewrap
def test_long_output_is_cut() -> None:
    text = told("seq 100000")
    assert text.endswith("(cut after 6000 characters)") and len(text) < 6100


@needs_bubblewrap
def test_unreadable_files_survive() -> None:
    episode = chore()
    bash(episode, "chmod 000 a.txt data")
    assert told("cat a.txt data/keep.txt", episode) == "hello\nkept"


def test_bash_says_that_it_takes_no_nul() -> None:
    with pytest.raises(ToolError, match="contains a NUL character"):
        bash(chore(), "echo a\0b")


def test_rewards_are_round_and_add_up() -> None:
    episode = chore(max_steps=20)
    outputs = bash(episode, *["sudo ls"] * 6)
    assert [str(output.reward) for output in outputs] == ["-0.05"] * 4 + ["0.0"] * 2


def test_read_file_shows_a_file() -> None:
    episode = chore()
    for path in ("a.txt", "/work/a.txt", "./data/../a.txt"):
        assert said(episode.read_file(FilePath(path=path))).startswith(
            "hello\n\n[Sub-goals reached: 0 of 2."
        )


@each("path", ["nope", "data", "", "\x00", "a.txt/b"])
def test_read_file_says_what_is_no_file(path: str) -> None:
    with pytest.raises(ToolError, match="There is no file"):
        chore().read_file(FilePath(path=path))


@needs_bubblewrap
def test_read_file_follows_no_link() -> None:
    episode = chore()
    bash(episode, "ln -s /etc/passwd evil; ln -s . loop")
    with pytest.raises(ToolError, match="evil is a link to /etc/passwd"):
        episode.read_file(FilePath(path="evil"))


# --- rewards --------------------------------------------------------------------------------------


@needs_bubblewrap
def test_sub_goals_are_paid_when_reached_and_taken_back_when_undone() -> None:
    outputs = bash(
        chore(), "cp a.txt b.txt", "rm b.txt", "mkdir sub; cp a.txt b.txt; cp a.txt sub/c.txt"
    )
    assert [output.reward for output in outputs] == pytest.approx([0.35, -0.35, 0.7])
    assert said(outputs[0]).endswith("[Sub-goals reached: 1 of 2. Steps left: 7.]")


@needs_bubblewrap
def test_a_chore_that_is_done_returns_one() -> None:
    episode = chore()
    outputs = [
        *bash(episode, "mkdir sub; cp a.txt b.txt; cp a.txt sub/c.txt; rm old.txt"),
        episode.submit(),
    ]
    assert sum(output.reward or 0 for output in outputs) == pytest.approx(1.0)
    assert (said(outputs[-1]), outputs[-1].finished) == ("Done, all of it.", True)


@needs_bubblewrap
def test_submit_pays_nothing_for_a_chore_that_is_not_done() -> None:
    episode = chore()
    bash(episode, "cp a.txt b.txt; echo changed > data/keep.txt")
    output = episode.submit()
    assert (output.reward, output.finished) == (0.0, True)
    assert said(output) == (
        "Not done. Not right: sub/c.txt; changed, but had to stay: data/keep.txt; still there: "
        "old.txt."
    )


@needs_bubblewrap
def test_the_last_step_ends_the_episode_below_success_if_something_is_left_to_do() -> None:
    [output] = bash(chore(max_steps=1), "mkdir sub; cp a.txt b.txt; cp a.txt sub/c.txt")
    assert output.finished and said(output).endswith("No step is left; the episode is over.]")
    assert output.reward == 0.7 < Shell.success_threshold


@needs_bubblewrap
def test_a_chore_that_is_done_with_the_last_step_earns_the_full_reward() -> None:
    [first, last] = bash(
        chore(max_steps=2), "ls", "mkdir sub; cp a.txt b.txt; cp a.txt sub/c.txt; rm old.txt"
    )
    assert (first.reward, last.reward, last.finished) == (0.0, 1.0, True)
    assert said(last).endswith("No step is left; the episode is over. Done, all of it.]")


@needs_bubblewrap
def test_a_command_that_does_not_exist_is_wasteful() -> None:
    assert bash(chore(), "frobnicate")[0].reward == -0.02


@needs_bubblewrap
def test_the_same_again_is_wasteful_unless_something_changed() -> None:
    outputs = bash(chore(), "ls", "ls", "date +%N >> log", "date +%N >> log", "false", "false")
    assert [output.reward for output in outputs] == [0.0, -0.02, 0.0, 0.0, 0.0, -0.02]


@each("command", ["curl example.org", "cd data && sudo ls", "x=$(wget -q a.b)", "true | nc h 1"])
def test_what_needs_the_network_or_more_rights_is_blocked(command: str) -> None:
    [output] = bash(chore(), command)
    assert output.reward == -0.05 and "is blocked" in said(output)


def test_the_card_names_the_commands_that_are_blocked() -> None:
    assert f"`{FORBIDDEN}`" in card_of(Shell).replace("\n", " ")
    outputs = [bash(chore(), f"true; {name} x")[0] for name in FORBIDDEN.split()]
    assert {output.reward for output in outputs} == {-0.05}


@needs_bubblewrap
def test_reading_outside_with_bash_costs_nothing_and_shows_programs_alone() -> None:
    read, absent = bash(chore(), "head -c 4 /usr/bin/bash | tail -c 3; ls /", "cat /etc/passwd")
    assert (read.reward, absent.reward) == (0.0, 0.0)
    assert "ELF" in said(read)


@needs_bubblewrap
@each("command", ["echo curl", "grep -r sudo .", "ls curl-notes", "./wget.sh"])
def test_words_alone_are_not_blocked(command: str) -> None:
    assert "is blocked" not in told(command)


@each("path", ["/etc/passwd", "../etc/passwd", "data/../../x", "/workshop"])
def test_reading_outside_is_blocked(path: str) -> None:
    output = chore().read_file(FilePath(path=path))
    assert output.reward == -0.05 and "outside of /work" in said(output)


def test_penalties_end() -> None:
    outputs = bash(chore(), *["sudo ls"] * 6)
    assert sum(output.reward or 0 for output in outputs) == pytest.approx(-0.2)


def test_an_empty_command_takes_no_step() -> None:
    episode = chore()
    with pytest.raises(ToolError, match="command is empty"):
        episode.bash(Command(command=" \n"))
    assert episode.steps_left == 8


# --- hostile commands -----------------------------------------------------------------------------

UNDONE = {
    "an endless loop of output": "rm a.txt; yes",
    "too many files": "rm a.txt; for n in 1 2 3; do head -c 1000000 /dev/urandom > $n; done",
    "too much memory": (
        "rm a.txt; for n in 1 2 3 4 5; do (x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 20) "
        "& done; wait"
    ),
    "killing the shell": "rm a.txt; kill -9 $PPID; sleep 20",
    "killing everything": "rm a.txt; kill -9 -1; sleep 20",
}


@needs_bubblewrap
@each("command", UNDONE.values(), ids=UNDONE.keys())
def test_it_stops_and_undoes(command: str) -> None:
    episode = chore()
    [output] = bash(episode, command)
    assert "Stopped and undone" in said(output) and output.reward == -0.05
    assert told("cat a.txt", episode) == "hello"


@needs_bubblewrap
def test_what_runs_in_the_background_ends_with_the_command() -> None:
    assert told("setsid nohup sleep 54321.5 >/dev/null 2>&1 & echo started") == "started"
    eventually(lambda: not processes_with("54321.5"))


@needs_bubblewrap
@each("path", ["/etc/passwd", "/root", "/home", "/proc/self", "/usr/local"])
def test_it_sees_nothing_of_the_machine(path: str) -> None:
    assert f"cannot access '{path}': No such file or directory" in told(f"ls {path}")


@needs_bubblewrap
def test_it_cannot_write_the_archive_itself() -> None:
    assert "Bad file descriptor" in told("echo forged >&3")


@needs_bubblewrap
def test_the_next_command_is_safe_from_odd_files() -> None:
    episode = chore()
    bash(
        episode,
        "touch -- -rf $'new\\nline' $'\\xff'; mkfifo pipe; ln a.txt hard; ln -s / root; "
        "mkdir empty",
    )
    assert told("cat hard; ls | wc -l", episode) == "hello\n11"  # one name has two lines


@needs_bubblewrap
def test_a_session_goes_on_in_a_new_instance_without_its_commands() -> None:
    episode = chore()
    before = bash(episode, "cp a.txt b.txt; chmod +x b.txt; ln -s b.txt link", "nonsense", "ls")
    loaded = chore()
    loaded.load(episode.save())
    after = bash(
        loaded, "ls", "ls -l b.txt link | cut -c1-10; rm old.txt; mkdir sub; cp a.txt sub/c.txt"
    )
    assert "You have just run this" in said(after[0])
    assert said(after[1]).startswith("-rwxr-xr-x\nlrwxrwxrwx\n")
    assert after[1].metadata == {"goals": 2, "reached": 2, "steps_left": 3}
    assert sum(output.reward or 0.0 for output in [*before, *after]) == pytest.approx(
        0.7 - 0.02 - 0.02
    )
    assert loaded.submit().reward == 0.3
