"""Prompts and tools of episodes whose client did not ask for them, looked up elsewhere. Used by
`formats/`.

Clients may know the prompt without asking for it in each session, and many ask for the tools only
once, in a session of their own. What such an agent knew is not recorded, so anything found here is
a guess, and its source says so. In this order: the newest other episode of the same task; for a
prompt, the environment as it is hosted now, which plays the beginning of the task; for tools, the
newest episode of the environment. If nothing is found, the source is "none" and nothing is put in
its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import structlog
from django.db.models import QuerySet

from environments.display.parts import read_json
from environments.errors import OrsError
from environments.models import Task
from episodes.models import Episode
from episodes.transcript.hosted_prompts import prompt_of_service
from episodes.transfer.export_rows import BlobTexts, Recorded

Column = Literal["prompt", "tools"]
Ask = Callable[[str, str], str]
"""Takes the name of an environment and the JSON text of a task; returns the prompt as JSON, empty
if there is none."""

MAX_TRIALS = 2_000
"""Tasks of one file that are asked for their prompt, because each trial may take as long as an
agent's session."""
MAX_FAILURES = 3
"""Failed trials of an environment in one file, after which it is not asked again."""
MAX_CACHED = 10_000

log = structlog.get_logger(__name__)


class Sourced(NamedTuple):
    """A text and where it is from."""

    text: str
    source: str
    """"recorded", "episode 12", "episode 12, another task", "hosted environment" or "none"."""


NOTHING = Sourced("", "none")


class PromptSources:
    """Finds the prompts and tools of the episodes of one file."""

    def __init__(self, readable: QuerySet[Episode], ask: Ask | None) -> None:
        self._readable = readable
        self._ask = ask or prompt_of_service
        self._blobs = BlobTexts()
        self._by_task = dict[tuple[Column, int], Sourced]()
        self._by_environment = dict[str, Sourced]()
        self._trials = 0
        self._failures = dict[str, int]()

    def prompt_of(self, episode: Recorded) -> Sourced:
        """Return the prompt of an episode, or what its task's prompt is elsewhere."""
        if episode.facts.prompt:
            return Sourced(episode.prompt, "recorded")
        return self._of_task(episode, "prompt")

    def tools_of(self, episode: Recorded) -> Sourced:
        """Return the tools of an episode, or those of its task or environment in another
        episode."""
        if episode.facts.tools:
            return Sourced(episode.tools, "recorded")
        tools = self._of_task(episode, "tools")
        if tools is NOTHING:
            name = episode.facts.environment
            if name not in self._by_environment:
                tools = self._newest(self._readable.filter(environment__name=name), "tools")
                if tools is not NOTHING:
                    tools = tools._replace(source=f"{tools.source}, another task")
                self._by_environment[name] = tools
            tools = self._by_environment[name]
        return tools

    def _of_task(self, episode: Recorded, column: Column) -> Sourced:
        task = episode.facts.task_id
        if (column, task) not in self._by_task:
            if len(self._by_task) >= MAX_CACHED:
                self._by_task.clear()
            source = self._newest(self._readable.filter(task=task), column)
            if source is NOTHING and column == "prompt":
                # the file may hide it
                spec = Task.objects.values_list("spec", flat=True).get(pk=task)
                source = self._hosted(episode.facts.environment, spec)
            self._by_task[column, task] = source
        return self._by_task[column, task]

    def _newest(self, episodes: QuerySet[Episode], column: Column) -> Sourced:
        rows = (
            episodes.filter(**{f"{column}__isnull": False})
            .order_by("-pk")
            .values_list("pk", f"{column}_id")
        )
        if (row := rows.first()) is None:
            return NOTHING
        return Sourced(self._blobs.text(row[1]), f"episode {row[0]}")

    def _hosted(self, environment: str, spec: str) -> Sourced:
        """Ask the hosted environment for the prompt of a task, unless that has failed too often."""
        if self._trials >= MAX_TRIALS or self._failures.get(environment, 0) >= MAX_FAILURES:
            return NOTHING
        self._trials += 1
        try:
            prompt = self._ask(environment, spec)
        except (OrsError, ValueError) as error:
            log.debug(
                "a task was not asked for its prompt", environment=environment, reason=str(error)
            )
            prompt = ""
        if read_json(prompt):
            return Sourced(prompt, "hosted environment")
        self._failures[environment] = self._failures.get(environment, 0) + 1
        return NOTHING
