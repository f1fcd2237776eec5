"""shell: do a chore in a directory of files with bash.

Actions: `bash` with `command`, `read_file` with `path`, `submit`.
Observations: the chore as text; after a command its output, its exit status and how many sub-goals
are reached. Rewards: the sub-goals share 0.7, paid when one is reached and taken back when it is
undone; the end pays 0.3 when all are reached and nothing is broken that had to stay. A wasteful
command costs 0.02: it ends with status 127, as one that does not exist does, or is the same again
though nothing has changed. A blocked step costs 0.05: a command line with one of `FORBIDDEN`, one
that was stopped and undone, or `read_file` of a path outside of the directory; what a command reads
elsewhere costs nothing, for the sandbox holds no more than programs. Penalties end at 0.2 in all,
so an episode returns at least 0.8 when the chore was done, and at most 0.7 otherwise.
End: `submit`, or no step is left; `bash` and `read_file` take one each.
Splits: train (300), validation (30), test (60), made by a seeded generator from 15 kinds of chores,
of which 3 are only in test; no chore is in two splits.
Safety: each command runs under bubblewrap (`environments/sandbox/bubblewrap.py`) on a copy of the
directory, which is passed in and out as an archive. The server keeps what the sub-goals expect.
Origin: written for this server. `chores/bank.py` says how to add a kind.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from environments import (
    Blocks,
    Calls,
    Environment,
    JSONObject,
    Split,
    TextBlock,
    ToolError,
    ToolOutput,
    tool,
)
from environments.builtin.shell import directory
from environments.builtin.shell.chores import bank
from environments.sandbox.bubblewrap import Sandbox, SandboxLimits, unavailable

PROGRESS, FINISH = 0.7, 0.3
WASTE, BLOCKED, MAX_PENALTY = 0.02, 0.05, 0.2
MAX_SHOWN = 6000
"""Characters of a command's output, or of a file, that the agent sees."""
LIMITS = SandboxLimits(
    cpu_seconds=5,
    wall_seconds=15,
    processes=32,
    disk_bytes=8 * 1024 * 1024,
    stdout_bytes=2 * 1024 * 1024,
)
_SCRIPT = """
exec 3>&1 1>&2
tar -xpf - || exit 125
bash -c "$1" </dev/null 3>&-
status=$?
kill -9 -1 2>/dev/null
cd /work && chmod -R u+rwX .
tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner -cf - . >&3
exit $status
"""
"""Unpacks stdin, runs the command, kills its remaining processes and packs the directory to stdout;
output goes to stderr."""
_NOT_FOUND = 127
FORBIDDEN = (
    "sudo su doas ssh scp curl wget nc telnet ftp ping apt apt-get dpkg pip pip3 npm docker mount "
    "systemctl reboot"
)
_FORBIDDEN_COMMAND = re.compile(
    r"(?:^|[;&|({`\n]|\b(?:then|do|else|exec|xargs|env|time|command)\s)\s*("
    + FORBIDDEN.replace(" ", "|")
    + r")(?![\w.-])"
)
"""Matches a forbidden program where a command may start. The agent gets a message at once, because
these could not work; the sandbox, not this list, is what confines commands."""

RelativePath = Annotated[str, StringConstraints(pattern=r"^[\w.-][\w. /-]*$", max_length=99)]
"""A relative path that is short enough for ustar, which has room for 100 characters."""


class Goal(BaseModel):
    """A file as it should be in the end."""

    path: RelativePath
    text: str = Field(
        description="Its content; white space at line ends and at the end of the "
        "file does not matter"
    )
    is_executable: bool | None = Field(default=None, description="null: either will do")


class Task(BaseModel):
    """A chore in a directory."""

    model_config = ConfigDict(extra="allow", strict=True)

    instruction: str = Field(min_length=1)
    files: dict[RelativePath, str] = Field(description="Path -> content at the start")
    goals: list[Goal] = Field(min_length=1, description="Sub-goals; each is worth the same")
    keep: list[RelativePath] = Field(
        default=[], description="Files that have to be as at the start in the end"
    )
    gone: list[RelativePath] = Field(
        default=[], description="Files that have to be missing in the end"
    )
    max_steps: int = Field(default=20, ge=1, le=200)


class Command(BaseModel):
    command: str = Field(
        min_length=1, max_length=10_000, description="A command line for bash, run in /work"
    )


class FilePath(BaseModel):
    path: str = Field(max_length=400, description="Path of a file, relative to /work")


class Shell(Environment):
    """Do a chore in a directory of files: find, count, rename, sum, fix, sort out.

    Tools: `bash` runs a command, `read_file` shows a file, `submit` ends the episode. Every sub-goal reached is paid at
    once; wasteful and blocked commands cost a little; steps are limited. Commands run in a sandbox without network.
    Task: `instruction`, `files`, `goals`, `keep`, `gone`, `max_steps`, `topic`, `difficulty` (1 to 3), `seed`.
    """

    reward_range: ClassVar[tuple[float, float]] = (-MAX_PENALTY, 1.0)
    success_threshold: ClassVar[float] = 0.75
    task_schema: ClassVar[Any] = Task
    replayable: ClassVar[bool] = True
    fixed_tasks: ClassVar[bool] = True
    hidden_fields: ClassVar[Sequence[str]] = ("goals", "keep", "gone")

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.task = Task.model_validate(task_spec)
        self.archive = directory.write(self.task.files)
        self.directory = directory.read(self.archive)
        self.sandbox = Sandbox(LIMITS)
        self.steps_left, self.penalties = self.task.max_steps, 0.0
        self.progress = self._share_reached()
        # sub-goals that are reached at the start earn nothing
        self.earned = PROGRESS * self.progress
        self.last_command = ""

    def save(self) -> bytes:
        """Return the directory and what was counted, so that no command has to be run again."""
        counts = json.dumps([self.steps_left, self.penalties, self.earned, self.last_command])
        return counts.encode() + b"\n" + zlib.compress(self.archive, 1)

    def load(self, state: bytes) -> None:
        """Go on where `save` was called."""
        counts, _, archive = state.partition(b"\n")
        self.steps_left, self.penalties, self.earned, self.last_command = json.loads(counts)
        self.archive = zlib.decompress(archive)
        self.directory = directory.read(self.archive)
        self.progress = self._share_reached()

    def teardown(self) -> None:
        self.sandbox.close()

    @classmethod
    def name(cls) -> str:
        return "shell"

    @classmethod
    def unavailable(cls) -> str:
        return unavailable({"bash": "bash", "tar": "tar"})

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(bank.COUNTS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return bank.tasks(split)

    def get_prompt(self) -> Blocks:
        text = (
            f"{self.task.instruction}\n\nYou are in the directory /work. Use the tools `bash` and "
            f"`read_file`; together you may call them {self.task.max_steps} times. When you are "
            "done, call `submit`. Every command starts in /work with a new shell: files stay, "
            "variables, the current directory and background processes do not. There is no "
            "network and no /proc. A command that takes over 15 s, or leaves over 2 MB of files, "
            "is stopped and undone."
        )
        return [TextBlock(text=text)]

    # Plain, not async: a command blocks only its own thread. Exclusive: each call sees the result
    # of the previous one.

    @tool(exclusive=True)
    def bash(self, params: Command) -> ToolOutput:
        """Run a command line with bash in /work. Takes a step."""
        command = params.command.strip()
        if not command:
            raise ToolError("The command is empty; write a command line for bash, such as ls -R.")
        if "\0" in command:
            raise ToolError(
                "The command contains a NUL character, which bash cannot take; write \\0 for "
                "printf instead."
            )
        if match := _FORBIDDEN_COMMAND.search(command):
            return self._step(
                f"{match[1]} is blocked: there is no network, and no other rights.", BLOCKED
            )
        before = self.archive
        text, penalty = self._run(command)
        if not penalty and command == self.last_command and self.archive == before:
            text, penalty = f"{text}\n(You have just run this, and nothing has changed.)", WASTE
        self.last_command = command
        return self._step(text, penalty)

    @tool(exclusive=True)
    def read_file(self, params: FilePath) -> ToolOutput:
        """Read a text file. Takes a step."""
        path = posixpath.relpath(posixpath.join("/work", params.path), "/work")
        if path == ".." or path.startswith("../"):
            return self._step(f"{params.path} is blocked: it is outside of /work.", BLOCKED)
        if path in self.directory.files:
            return self._step(
                _cut(self.directory.files[path].content.decode(errors="replace")) or "(empty)"
            )
        if path in self.directory.links:
            raise ToolError(f"{path} is a link to {self.directory.links[path]}; read that.")
        raise ToolError(f"There is no file {path!r} in /work; look with the command ls -R.")

    @tool(exclusive=True)
    def submit(self) -> ToolOutput:
        """Say that the chore is done. Ends the episode."""
        faults = self._faults()
        text = "Done, all of it."
        if faults:
            sentence = "; ".join(f"{what}: {_listing(paths)}" for what, paths in faults.items())
            text = f"Not done. {sentence[:1].upper()}{sentence[1:]}."
        goals = len(self.task.goals)
        return ToolOutput(
            blocks=[TextBlock(text=text)],
            metadata={"goals": goals, "reached": round(self._share_reached() * goals)},
            reward=0.0 if faults else FINISH,
            finished=True,
        )

    def oracle(self) -> Calls:
        return [("bash", {"command": bank.solution_of(self.task_spec)}), ("submit", {})]

    def exploits(self) -> Mapping[str, Calls]:
        paths = [shlex.quote(goal.path) for goal in self.task.goals]
        empty = "; ".join(f"mkdir -p $(dirname {path}) && printf x > {path}" for path in paths)
        solution = bank.solution_of(self.task_spec)
        return {
            "files without the right content": [("bash", {"command": empty}), ("submit", {})],
            "done and undone": [
                ("bash", {"command": solution}),
                ("bash", {"command": "rm -r ./*"}),
                ("submit", {}),
            ],
        }

    def _run(self, command: str) -> tuple[str, float]:
        """Return the output and the penalty; afterwards the directory is as the command left it, unless it was stopped.

        Raises: SandboxError, a fault of the machine.
        """
        ran = self.sandbox.run(["sh", "-c", _SCRIPT, "sh", command], self.archive)
        output = _cut(ran.stderr.decode(errors="replace"), is_cut=ran.is_cut)
        try:
            files = directory.read(ran.stdout)
            reason = ran.stop_reason or ("" if ran.stdout else "it ended the shell around it")
        except directory.BadArchive as error:
            reason = ran.stop_reason or f"its directory cannot be read: {error}"
        if reason:
            return f"{output}\n(Stopped and undone: {reason}.)".lstrip("\n"), BLOCKED
        self.archive, self.directory = ran.stdout, files
        status = f"(exit status {ran.status})" if ran.status else ""
        text = "\n".join(filter(None, (output, status))) or "(no output)"
        return text, WASTE if ran.status == _NOT_FOUND else 0.0

    def _faults(self) -> dict[str, list[str]]:
        """Return the paths that are not as they have to be in the end, by what is wrong with them."""
        start, files = directory.read(directory.write(self.task.files)).files, self.directory.files
        faults = {
            "not right": [goal.path for goal in self.task.goals if not self._is_reached(goal)],
            "changed, but had to stay": [
                path for path in self.task.keep if files.get(path) != start.get(path)
            ],
            "still there": [path for path in self.task.gone if path in files],
        }
        return {what: paths for what, paths in faults.items() if paths}

    def _step(self, text: str, penalty: float = 0.0) -> ToolOutput:
        """Return the output of a step, with the reward for its changes; the last one pays what `submit` would."""
        self.steps_left -= 1
        self.penalties = min(self.penalties + penalty, MAX_PENALTY)
        self.progress = self._share_reached()
        reward = round(PROGRESS * self.progress - self.penalties - self.earned, 6) + 0.0  # no -0.0
        self.earned += reward
        goals = len(self.task.goals)
        goals_reached = round(self.progress * goals)
        end = (
            f"Steps left: {self.steps_left}."
            if self.steps_left
            else "No step is left; the episode is over."
        )
        if not self.steps_left and not self._faults():
            reward, end = round(reward + FINISH, 6), f"{end} Done, all of it."
        return ToolOutput(
            blocks=[
                TextBlock(text=f"{text}\n\n[Sub-goals reached: {goals_reached} of {goals}. {end}]")
            ],
            metadata={"goals": goals, "reached": goals_reached, "steps_left": self.steps_left},
            reward=reward,
            finished=not self.steps_left,
        )

    def _share_reached(self) -> float:
        return sum(map(self._is_reached, self.task.goals)) / len(self.task.goals)

    def _is_reached(self, goal: Goal) -> bool:
        if self._text(goal.path) != _normalized(goal.text):
            return False
        return goal.is_executable in (None, self.directory.files[goal.path].is_executable)

    def _text(self, path: str) -> str | None:
        """Return the normalized content of a file, or None if there is no such file."""
        file = self.directory.files.get(path)
        return None if file is None else _normalized(file.content.decode(errors="replace"))


def _normalized(text: str) -> str:
    """Return `text` without trailing white space in each line and at its end."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def _cut(text: str, *, is_cut: bool = False) -> str:
    if len(text) > MAX_SHOWN or is_cut:
        return f"{text[:MAX_SHOWN]}\n… (cut after {min(MAX_SHOWN, len(text))} characters)"
    return text.rstrip("\n")


def _listing(paths: list[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
