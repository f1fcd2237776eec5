"""`manage.py export_tasks --environment NAME [--split NAME]` writes tasks to a file or to standard
output."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments import security_log
from environments.command_line import filled
from environments.curation.filter_parameters import ANY_STATE, SERVED, SOURCES, STATES_ASKED
from environments.curation.selection import Selection
from environments.curation.splits import existing_splits
from environments.curation.transfer.exporting import exported
from environments.curation.transfer.source import FORMATS, format_of
from environments.curation.transfer.target import environment_named
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError, nearest
from environments.files.output import write_whole
from environments.files.rows import TransferError
from environments.models import UNRESTRICTED, Environment
from environments.scoring.task_buckets import BUCKETS


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
        parser.add_argument("--tag", type=filled, help="only tasks with this tag")
        parser.add_argument(
            "--state",
            default=SERVED,
            choices=STATES_ASKED,
            help="tasks in this state; by default what is served now",
        )
        parser.add_argument(
            "--source", default="", choices=SOURCES, help="only tasks from this source"
        )
        parser.add_argument(
            "--bucket",
            default="",
            choices=list(BUCKETS),
            help="only tasks in this bucket of difficulty",
        )
        parser.add_argument(
            "--search", type=filled, help="only tasks with these words or fields, such as size:3"
        )
        parser.add_argument(
            "--plain", action="store_true", help="only the specs, without the reserved columns"
        )

    def handle(self, *args: Any, output: str, plain: bool, **options: Any) -> None:
        try:
            format = options["format"] or ("jsonl" if output == "-" else format_of(output))
            pieces = exported(_selection(options), format, has_labels=not plain)
            asked = " ".join(
                f"{name}={options[name]}" for name in ("environment", "split") if options[name]
            )
            security_log.note("exported", f"tasks as {format}: {asked}")
            write_whole(pieces, output)
        except OrsError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}.") from error


def _selection(options: dict[str, Any]) -> Selection:
    """Return the selection that the options describe. Raises: TransferError, InvalidFilter."""
    environment = environment_named(options["environment"])
    split = options["split"] and _split(environment, options["split"])
    names = ("tag", "state", "source", "bucket", "search")
    filters: dict[str, Any] = {name: options[name] or "" for name in names}
    filters["state"] = "" if filters["state"] == ANY_STATE else filters["state"]
    selection = Selection(environment=environment.pk, split=split, **filters, viewer=UNRESTRICTED)
    selection.check_search()
    return selection


def _split(environment: Environment, name: str) -> int:
    splits = dict(existing_splits().filter(environment=environment).values_list("name", "pk"))
    if name not in splits:
        raise TransferError(
            f"{environment.name!r} has no split {name[:60]!r}, but "
            f"{', '.join(map(repr, splits)) or 'none'}."
            f"{nearest(name, splits)}"
        )
    return splits[name]
