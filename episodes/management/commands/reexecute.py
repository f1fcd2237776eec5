"""`manage.py reexecute --run NAME` plays recorded episodes with today's code and lists what
differs."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from environments import conf
from environments.command_line import above_zero
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError, shorten
from environments.files.rows import many
from environments.filtering.command_options import add_filter, filter_in
from environments.hosts import masked_output
from environments.hosts.every_host import EveryHost
from environments.hosts.loading import load
from environments.models import UNRESTRICTED
from environments.operator_secrets.source import secrets_of_operator
from environments.runtime.threads import ThreadPool
from episodes.attempts.components import components_in
from episodes.filtering.conditions import NamedRows, refuse_all
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode, Step
from episodes.transcript.reexecution import DifferingStep, Reexecution, recorded_steps, reexecute

HELP = """
Play the recorded calls of a run's episodes again with today's code of their environments, and list the outputs,
rewards, their components and errors that differ. Nothing is recorded; a server may be running. The exit status is 0 if
nothing differs, 1 if something does, and 2 if nothing could be played. Calls have the effects that the environment
gives them.
"""
NOT_PLAYED = 2
MAX_SHOWN_CHARACTERS = 120
SHOWN_BEFORE_CHARACTERS = 30


class Command(TerminalCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "environments",
            nargs="*",
            metavar="[alias=]module:Class",
            help="classes or remote environments to play with; by default ORSWEB_ENVIRONMENTS, or "
            "the bundled ones",
        )
        add_filter(parser, EpisodeFilter.parameters().values(), "environment=math&since=7d")
        parser.add_argument(
            "--limit", type=above_zero(int), metavar="NUMBER", help="only the newest episodes"
        )
        parser.add_argument(
            "--secret",
            action="append",
            default=[],
            metavar="NAME",
            help="pass the environment variable NAME to the environment as a secret; may be "
            "repeated",
        )

    def handle(self, *args: Any, environments: list[str], **options: Any) -> None:
        try:
            filters = EpisodeFilter.parse(
                filter_in(options, EpisodeFilter.parameters()), UNRESTRICTED
            )
            ids = _episodes(filters).order_by("-pk").values_list("pk", flat=True)
            newest = list(ids[: options["limit"]])
            if not newest:
                raise OrsError("No ended episodes match the filter, so there is nothing to play.")
            secrets = _secrets(options["secret"])
            results = list(self._play(environments, newest[::-1], secrets))
        except OrsError as error:
            raise CommandError(str(error), returncode=NOT_PLAYED) from error
        self._summarize(results)

    def _play(
        self, environments: list[str], ids: Sequence[int], secrets: dict[str, str]
    ) -> Iterator[Reexecution]:
        """Play the episodes, print what differs in each, and yield them. Raises: OrsError."""
        masked_output.start_for(self)
        registry = load(environments or conf.specifications(), conf.loading())
        episodes = Episode.objects.select_related("environment", "task", "prompt")
        with asyncio.Runner() as runner:
            pool, own_secrets = runner.run(_pool()), secrets_of_operator()
            host = EveryHost(registry, pool, conf.limits())
            try:
                for pk in ids:
                    episode = episodes.get(pk=pk)
                    all_secrets = own_secrets.get(episode.environment.name, {}) | secrets
                    steps = list(recorded_steps(episode))
                    result = runner.run(reexecute(host, episode, steps, all_secrets))
                    self._print(result)
                    yield result
            finally:
                runner.run(host.close())
                pool.close()

    def _print(self, result: Reexecution) -> None:
        name = f"episode {result.episode.pk} ({result.episode.environment.name})"
        if result.fault:
            fault = shorten(result.fault, MAX_SHOWN_CHARACTERS)
            self.stdout.write(f"{name}: cannot be played: {fault}")
        if result.has_other_prompt:
            self.stdout.write(f"{name}: the prompt differs")
        for step in result.steps:
            if not step.is_aside:
                call = f"step {step.step.index}, {step.step.tool}"
                self.stdout.write(f"{name}, {call}: {_difference(step)}")

    def _summarize(self, results: Sequence[Reexecution]) -> None:
        faults = sum(bool(result.fault) for result in results)
        others = sum(result.differs for result in results) - faults
        asides = sum(not result.differs and bool(result.steps) for result in results)
        sentence = (
            f"{many(len(results), 'episode')} with {many(sum(r.count for r in results), 'call')} "
            f"played; {others:,} differ."
        )
        if faults:
            sentence += f" {faults:,} cannot be played."
        if asides:
            sentence += f" In {asides:,} more, only metadata differs."
        self.stdout.write(sentence)
        if all(result.fault and not result.count for result in results):
            raise CommandError("No episode could be played.", returncode=NOT_PLAYED)
        if others or faults:
            raise SystemExit(1)


async def _pool() -> ThreadPool:
    """Return a pool of the running loop."""
    return ThreadPool()


def _episodes(filters: EpisodeFilter) -> QuerySet[Episode]:
    """Return the ended episodes to play. Raises: OrsError."""
    refuse_all(filters, "Name the episodes to play, with --run NAME or --query FILTER.")
    filters.refuse_future()
    rows = NamedRows.of(filters)
    if rows.unknown:
        raise OrsError(rows.unknown)
    return rows.episodes(most_texts=None).ended()


def _secrets(names: Sequence[str]) -> dict[str, str]:
    if missing := [name for name in names if name not in os.environ]:
        raise OrsError(f"--secret {missing[0]}: there is no environment variable of this name.")
    return {name: os.environ[name] for name in names}


def _difference(step: DifferingStep) -> str:
    """Return the aspects that differ, the short ones with what they were and are."""
    then, now = _values(step.step), _values(step.again)
    then["output"], now["output"] = _around_difference(then["output"], now["output"])
    parts = []
    for name in step.aspects:
        if name in then:
            before, after = (shorten(values[name], MAX_SHOWN_CHARACTERS) for values in (then, now))
            parts.append(f"{name} was {before}, is {after}")
    return "; ".join(parts)


def _values(step: Step) -> dict[str, str]:
    """Return the aspects of a result that are shown, each as text."""
    output = step.output_json
    try:
        blocks = json.loads(output)["blocks"]
        text = "\n".join(
            block["text"] if block["type"] == "text" else json.dumps(block) for block in blocks
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        text = output or "none"
    return {
        "outcome": f"{step.status} {step.reason}".strip(),
        "error": step.error or "none",
        "reward": str(step.reward),
        "finished": str(step.finished),
        "components": json.dumps(components_in(output)),
        "output": text,
    }


def _around_difference(then: str, now: str) -> tuple[str, str]:
    """Return both texts as JSON strings, from shortly before the first difference on."""
    pairs = enumerate(zip(then, now, strict=False))
    place = next((place for place, (before, after) in pairs if before != after), 0)
    if place > SHOWN_BEFORE_CHARACTERS:
        start = place - SHOWN_BEFORE_CHARACTERS
        then, now = f"…{then[start:]}", f"…{now[start:]}"
    return json.dumps(then, ensure_ascii=False), json.dumps(now, ensure_ascii=False)
