"""Verdict: what the server found of a spec in the editor: its problems, its prompt, what saving it would touch."""

from __future__ import annotations

from dataclasses import dataclass

from environments.curation.edit import Edit
from environments.curation.errors import InvalidSpec, Problem
from environments.curation.plan import Plan
from environments.curation.spec import checked_spec
from environments.errors import OrsError
from environments.models import Task
from environments.parts import Part, prompt
from environments.runtime.trial import Trial
from environments.trial import try_spec


@dataclass(frozen=True, slots=True)
class Verdict:
    problems: tuple[Problem, ...] = ()
    """Of the text; without any it is as the schema wants it."""
    plan: Plan | None = None
    """What saving would do; None: that was not asked."""
    trial: Trial | None = None
    """None: it was not tried."""
    refusal: str = ""
    """Why nothing could be found out, as a sentence; empty: it could."""

    @property
    def prompt(self) -> list[Part]:
        return prompt(self.trial.prompt_json) if self.trial else []


def checked(edit: Edit) -> Verdict:
    """Whether it could be saved, and what that would touch. Raises: Replaced."""
    try:
        return Verdict(plan=edit.plan())
    except InvalidSpec as refused:
        return Verdict(problems=refused.problems)


def tried(task: Task, text: str | None = None) -> Verdict:
    """How `text` in the place of the task's content begins to play. None: the content itself, whatever its schema."""
    try:
        return Verdict(trial=try_spec(task.environment.name, task.spec if text is None else _checked(task, text)))
    except InvalidSpec as refused:
        return Verdict(problems=refused.problems)
    except OrsError as refused:
        return Verdict(refusal=str(refused))


def _checked(task: Task, text: str) -> str:
    return checked_spec(task.environment, text)
