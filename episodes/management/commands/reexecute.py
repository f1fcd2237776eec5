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
from environments.filtering.options import add_filter, filter_in
from environments.hosts import printer
from environments.hosts.loading import EveryHost, load
from environments.models import UNRESTRICTED
from environments.operator_secrets.source import secrets_of_operator
from environments.runtime.threads import ThreadPool
from episodes.attempts.components import components_in
from episodes.filtering.conditions import NamedRows, episodes_of, refuse_all
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode
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
            episodes = _episodes(
                EpisodeFilter.parse(filter_in(options, EpisodeFilter.parameters()), UNRESTRICTED)
            )
            ids = list(episodes.order_by("-pk").values_list("pk", flat=True)[: options["limit"]])[
                ::-1
            ]
            if not ids:
                raise OrsError("No ended episodes match the filter, so there is nothing to play.")
            found = list(self._reported(environments, ids, _secrets(options["secret"])))
        except OrsError as error:
            raise CommandError(str(error), returncode=NOT_PLAYED) from error
        self._summarize(found)

    def _reported(
        self, environments: list[str], ids: Sequence[int], secrets: dict[str, str]
    ) -> Iterator[Reexecution]:
        """Play the episodes, print what differs in each, and yield them. Raises: OrsError."""
        printer.start_for(self)
        registry = load(environments or conf.specifications(), conf.loading())
        related = Episode.objects.select_related("environment", "task", "prompt")
        with asyncio.Runner() as runner:
            pool, given = runner.run(_pool()), secrets_of_operator()
            host = EveryHost(registry, pool, conf.limits())
            try:
                for pk in ids:
                    episode = related.get(pk=pk)
                    all_secrets = given.get(episode.environment.name, {}) | secrets
                    again = runner.run(
                        reexecute(host, episode, list(recorded_steps(episode)), all_secrets)
                    )
                    self._print(again)
                    yield again
            finally:
                runner.run(host.close())
                pool.close()

    def _print(self, again: Reexecution) -> None:
        name = f"episode {again.episode.pk} ({again.episode.environment.name})"
        if again.fault:
            self.stdout.write(
                f"{name}: cannot be played: {shorten(again.fault, MAX_SHOWN_CHARACTERS)}"
            )
        if again.has_other_prompt:
            self.stdout.write(f"{name}: the prompt differs")
        for step in again.steps:
            if not step.is_aside:
                self.stdout.write(
                    f"{name}, step {step.step.index}, {step.step.tool}: {_difference(step)}"
                )

    def _summarize(self, found: Sequence[Reexecution]) -> None:
        failed = sum(bool(again.fault) for again in found)
        others = sum(again.differs for again in found) - failed
        asides = sum(not again.differs and bool(again.steps) for again in found)
        steps = sum(again.played for again in found)
        noted = f" {failed:,} cannot be played." if failed else ""
        noted += f" In {asides:,} more, only metadata differs." if asides else ""
        calls = f"{steps:,} call{'s' * (steps != 1)}"
        episodes = f"{len(found):,} episode{'s' * (len(found) != 1)}"
        self.stdout.write(f"{episodes} with {calls} played; {others:,} differ.{noted}")
        if all(again.fault and not again.played for again in found):
            raise CommandError("No episode could be played.", returncode=NOT_PLAYED)
        if others or failed:
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
    return episodes_of(filters, rows, most_texts=None).ended()


def _secrets(names: Sequence[str]) -> dict[str, str]:
    if missing := [name for name in names if name not in os.environ]:
        raise OrsError(f"--secret {missing[0]}: there is no environment variable of this name.")
    return {name: os.environ[name] for name in names}


def _difference(one: DifferingStep) -> str:
    """Return the aspects that differ, the short ones with what they were and are."""
    then, now = one.step, one.again
    values: dict[str, tuple[str, str]] = {
        "outcome": (f"{then.status} {then.reason}".strip(), f"{now.status} {now.reason}".strip()),
        "error": (then.error or "none", now.error or "none"),
        "reward": (str(then.reward), str(now.reward)),
        "finished": (str(then.finished), str(now.finished)),
        "components": (
            json.dumps(components_in(then.output_json)),
            json.dumps(components_in(now.output_json)),
        ),
        "output": _around_difference(_said(then.output_json), _said(now.output_json)),
    }
    parts = []
    for name in one.aspects:
        if name in values:
            before, after = (shorten(text, MAX_SHOWN_CHARACTERS) for text in values[name])
            parts.append(f"{name} was {before}, is {after}")
    return "; ".join(parts)


def _said(output: str) -> str:
    """Return the blocks of an output as one text."""
    try:
        blocks = json.loads(output)["blocks"]
        return "\n".join(
            block["text"] if block["type"] == "text" else json.dumps(block) for block in blocks
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return output or "none"


def _around_difference(then: str, now: str) -> tuple[str, str]:
    """Return both texts as JSON strings, from shortly before the first difference on."""
    pairs = enumerate(zip(then, now, strict=False))
    start = (
        next((place for place, (one, other) in pairs if one != other), 0) - SHOWN_BEFORE_CHARACTERS
    )
    if start <= 0:
        return json.dumps(then, ensure_ascii=False), json.dumps(now, ensure_ascii=False)
    return tuple(json.dumps(f"…{text[start:]}", ensure_ascii=False) for text in (then, now))  # type: ignore[return-value]  # two
