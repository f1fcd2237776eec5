"""`manage.py export_tasks --environment NAME [--split NAME]` writes tasks to a file or to standard
output."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments import security_log
from environments.command_line import filled
from environments.curation.selection import Selection
from environments.curation.transfer.exporting import exported
from environments.curation.transfer.source import FORMATS, format_of
from environments.curation.transfer.target import environment_named
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError, nearest
from environments.files.output import write_whole
from environments.files.rows import TransferError
from environments.filtering.command_options import add_filter, filter_in
from environments.models import UNRESTRICTED, Split

FILTERS = ("tag", "state", "source", "bucket", "search")


class Command(TerminalCommand):
    help = (
        "Export the tasks of an environment or split with their tags and states. import_tasks can "
        "import the file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--environment", required=True, metavar="NAME")
        parser.add_argument(
            "--split", type=filled, metavar="NAME", help="by default all tasks of the environment"
        )
        parser.add_argument(
            "--format", choices=FORMATS, help="by default the extension of the output, or jsonl"
        )
        parser.add_argument(
            "--output", default="-", metavar="FILE", help="- for standard output, the default"
        )
        parser.add_argument(
            "--plain", action="store_true", help="only the specs, without the reserved columns"
        )
        parameters = Selection.parameters()
        add_filter(parser, [parameters[name] for name in FILTERS], what="a task")

    def handle(self, *args: Any, output: str, plain: bool, **options: Any) -> None:
        try:
            format = options["format"] or ("jsonl" if output == "-" else format_of(output))
            pieces = exported(_selection(options), format, has_labels=not plain)
            names = ("environment", "split")
            place = " ".join(f"{name}={options[name]}" for name in names if options[name])
            security_log.note("exported", f"tasks as {format}: {place}")
            write_whole(pieces, output)
        except OrsError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}.") from error


def _selection(options: dict[str, Any]) -> Selection:
    """Return the selection that the options describe. Raises: TransferError, BadFilter."""
    environment = environment_named(options["environment"])
    values = {"environment": str(environment.pk), **filter_in(options, FILTERS)}
    if name := options["split"]:
        rows = Split.objects.existing().filter(environment=environment)
        splits = dict(rows.values_list("name", "pk"))
        if name not in splits:
            names = ", ".join(map(repr, splits)) or "none"
            raise TransferError(
                f"{environment.name!r} has no split {name[:60]!r}, but {names}."
                f"{nearest(name, splits)}"
            )
        values["split"] = str(splits[name])
    return Selection.parse(values, UNRESTRICTED)
