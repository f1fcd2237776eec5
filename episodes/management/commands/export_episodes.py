"""`manage.py export_episodes [--environment NAME …]` writes recorded episodes to a file or to
standard output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from environments import security_log
from environments.command_line import finite
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError
from environments.files.output import write_whole
from environments.filtering.options import add_filter, filter_in
from environments.models import UNRESTRICTED
from episodes.attempts.conventions import coverage_among
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.transfer.episode_export import EpisodeExport
from episodes.transfer.exporting import (
    ENDINGS,
    FORMATS,
    IMPORTABLE,
    Format,
    exported,
    running_among,
    why_nothing,
)
from episodes.transfer.prompt_sources import HostedPrompts, PromptSources
from episodes.transfer.training import TrainingFile
from episodes.transfer.training_options import CHOICES, TrainingOptions
from episodes.transfer.training_options import HELP as OPTIONS_HELP

HELP = """
Export episodes as jsonl (everything that was recorded; import_episodes can import it), csv (a row per episode), parquet
(a row per step), messages (conversations for fine-tuning), pairs (best and worst attempt at each task), atif
(trajectories in Harbor's format, one per line) or harbor (a zip with a Harbor job). import_episodes can import atif and
harbor too. The server may be running.
"""


class Command(TerminalCommand):
    help = HELP

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--format", choices=FORMATS, help="by default the extension of the output, or jsonl"
        )
        parser.add_argument(
            "-o", "--output", default="-", metavar="FILE", help="- for standard output, the default"
        )
        parser.add_argument(
            "--min-return",
            type=finite(float),
            metavar="NUMBER",
            help="only episodes with at least this return",
        )
        parser.add_argument(
            "--success-only", action="store_true", help="only attempts that count as success"
        )
        parser.add_argument(
            "--margin",
            type=finite(float),
            default=0.0,
            help="minimum difference of the returns of a pair",
        )
        training = parser.add_argument_group("training", "how messages and pairs are written")
        for name, choices in CHOICES.items():
            text = f"{OPTIONS_HELP[name]} (default: {choices[0]})"
            training.add_argument(
                f"--{name.replace('_', '-')}", choices=choices, default=choices[0], help=text
            )
        add_filter(parser, EpisodeFilter.parameters().values(), "environment=math&since=7d")

    def handle(self, *args: Any, output: str, **options: Any) -> None:
        try:
            filter_ = EpisodeFilter.parse(
                filter_in(options, EpisodeFilter.parameters()), UNRESTRICTED
            )
            definition, margin = filter_.asked, options["margin"]
            export = EpisodeExport(
                filter_,
                format=options["format"] or _format_of(output),
                least_return=options["min_return"],
                only_successes=options["success_only"],
                options=TrainingOptions.parse(options, definition=definition, margin=margin),
            )
            episodes, format = export.episodes(), export.format
            if not (total := episodes.count()):
                unknown = NamedRows.of(filter_).unknown
                raise CommandError(unknown or why_nothing(format, is_any=False))
            running = running_among(episodes, format)
            with closing(HostedPrompts()) as ask, _progress(total) as progress:
                training = TrainingFile(export.options, PromptSources(ask=ask))
                pieces = exported(episodes, format, training=training, progress=progress)
                if (first := next(pieces, None)) is None:
                    raise CommandError(why_nothing(format, is_any=True))
                security_log.note(
                    "exported", f"episodes as {format}: {filter_.to_query() or 'all'}"
                )
                write_whole(chain([first], pieces), output)
            if training.lines:
                self.stderr.write(_written(training.lines, format))
            if running:
                self.stderr.write(_still_running(running, format))
            if training.left_out:
                self.stderr.write(_left_out(training.left_out, format))
            self.stderr.write(f"{coverage_among(episodes, definition)}.")
        except OrsError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}.") from error


def _still_running(count: int, format: Format) -> str:
    are, them = ("1 episode is", "it") if count == 1 else (f"{count:,} episodes are", "them")
    refused = (
        f", and import_episodes will refuse {them}: export {them} again later"
        if format in IMPORTABLE
        else ""
    )
    return f"{are} still running. The file contains {them} without an end{refused}."


def _written(count: int, format: Format) -> str:
    what = "pair" if format == "pairs" else "conversation"
    return f"{count:,} {what}{'' if count == 1 else 's'} written."


def _left_out(count: int, format: Format) -> str:
    what = "pair" if format == "pairs" else "episode"
    are, have = ("is", "has") if count == 1 else ("are", "have")
    whats = what if count == 1 else f"{what}s"
    return (
        f"{count:,} {whats} {are} left out, because {'it' if count == 1 else 'they'} {have} a tool "
        "call whose input "
        "isn't a JSON object that every reader decodes alike. --arguments string includes such "
        "calls."
    )


def _format_of(output: str) -> Format:
    """Return the format that the file's extension stands for. Raises: CommandError."""
    # pairs.jsonl before jsonl
    by_length: list[Format] = sorted(FORMATS, key=lambda format: -len(ENDINGS[format]))
    if found := next(
        (format for format in by_length if output.endswith(f".{ENDINGS[format]}")), None
    ):
        return found
    if output == "-":
        return "jsonl"
    raise CommandError(
        f"{output}: the extension does not name a format; add --format {'|'.join(FORMATS)}."
    )


@contextmanager
def _progress(total: int) -> Iterator[Any]:
    """Show a progress bar on standard error if that is a terminal."""
    columns = (TextColumn("Exporting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("Exporting", total=total)
        yield lambda done: bar.update(task, completed=done)
