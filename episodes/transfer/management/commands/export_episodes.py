"""`manage.py export_episodes [--environment NAME …]` writes recorded episodes to a file or to
standard output."""

from __future__ import annotations

from contextlib import closing
from itertools import chain
from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments import security_log
from environments.command_line import finite
from environments.display.progress_bar import progress_bar
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError
from environments.files.output import write_whole
from environments.files.rows import many
from environments.files.streaming import in_large_pieces
from environments.filtering.command_options import add_filter, filter_in
from environments.models import UNRESTRICTED
from episodes.attempts.conventions import coverage_among
from episodes.filtering.filters import EpisodeFilter
from episodes.transcript.hosted_prompts import HostedPrompts
from episodes.transfer.export_file import ExportFile
from episodes.transfer.exporting import NO_EPISODES, EpisodeExport, running_among
from episodes.transfer.formats import EXPORT_FORMATS
from episodes.transfer.training_options import CHOICES, TrainingOptions
from episodes.transfer.training_options import HELP as OPTIONS_HELP

_HINTS = [f"{format.name} ({format.links[0].hint})" for format in EXPORT_FORMATS.values()]


class Command(TerminalCommand):
    help = f"Export episodes as {', '.join(_HINTS)}. The server may be running."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--format",
            choices=list(EXPORT_FORMATS),
            help="by default the extension of the output, or jsonl",
        )
        parser.add_argument(
            "--min-return",
            type=finite(float),
            metavar="NUMBER",
            help="only episodes with at least this return",
        )
        parser.add_argument(
            "--margin",
            type=finite(float),
            default=0.0,
            help="minimum difference of the returns of a pair",
        )
        add_output(parser, "messages and pairs")
        add_filter(parser, EpisodeFilter.parameters().values(), "environment=math&since=7d")

    def handle(self, *args: Any, output: str, **options: Any) -> None:
        try:
            values = filter_in(options, EpisodeFilter.parameters())
            filters = EpisodeFilter.parse(values, UNRESTRICTED)
            definition, margin = filters.overrides, options["margin"]
            format = EXPORT_FORMATS[options["format"] or _format_of(output)]
            export = EpisodeExport(
                filters,
                format,
                least_return=options["min_return"],
                options=TrainingOptions.parse(options, definition=definition, margin=margin),
            )
            episodes = export.episodes()
            if not (total := episodes.count()):
                raise CommandError(export.names.unknown or NO_EPISODES)
            running = running_among(episodes, format)
            with closing(HostedPrompts()) as ask, progress_bar("Exporting") as progress:
                file = ExportFile(
                    episodes,
                    export.options,
                    ask=ask,
                    progress=lambda count: progress(count, total),
                )
                pieces = in_large_pieces(format.pieces(file))
                if (first := next(pieces, None)) is None:
                    raise CommandError(format.why_empty or NO_EPISODES)
                what = f"episodes as {format.name}: {filters.to_query() or 'all'}"
                security_log.note("exported", what)
                write_whole(chain([first], pieces), output)
            if file.count:
                self.stderr.write(f"{many(file.count, format.noun)} written.")
            if running:
                is_one = running == 1
                are, them = (
                    ("1 episode is", "it") if is_one else (f"{running:,} episodes are", "them")
                )
                advice = ""
                if format.is_importable:
                    advice = f", and import_episodes will refuse {them}: export {them} again later"
                self.stderr.write(
                    f"{are} still running. The file contains {them} without an end{advice}."
                )
            if file.left_out:
                have = "is left out, because it has"
                if file.left_out > 1:
                    have = "are left out, because they have"
                self.stderr.write(
                    f"{many(file.left_out, format.noun)} {have} a tool call whose input isn't a "
                    "JSON object that every reader decodes alike. --arguments string includes such "
                    "calls."
                )
            self.stderr.write(f"{coverage_among(episodes, definition)}.")
        except OrsError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}.") from error


def add_output(parser: CommandParser, what: str) -> None:
    """Add the option of the file, and those of training data."""
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="- for standard output, the default"
    )
    training = parser.add_argument_group("training", f"how {what} are written")
    for name, choices in CHOICES.items():
        text = f"{OPTIONS_HELP[name]} (default: {choices[0]})"
        training.add_argument(
            f"--{name.replace('_', '-')}", choices=choices, default=choices[0], help=text
        )


def _format_of(output: str) -> str:
    """Return the format that the file's extension stands for. Raises: CommandError."""
    if output == "-":
        return "jsonl"
    # pairs.jsonl before jsonl
    formats = sorted(EXPORT_FORMATS.values(), key=lambda format: -len(format.extension))
    for format in formats:
        if output.endswith(f".{format.extension}"):
            return format.name
    raise CommandError(
        f"{output}: the extension does not name a format; add --format {'|'.join(EXPORT_FORMATS)}."
    )
