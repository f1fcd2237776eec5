"""`manage.py prune_episodes`: removes episodes by age, size or filter.

It is in `orsweb`, like `serve`, because it takes the database's lock to delete blobs: a server
keeps in memory which blobs there are. If one is running, it deletes them itself.
"""

from __future__ import annotations

import contextlib
import getpass
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from environments.display.progress_bar import progress_bar
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError
from environments.filtering.command_options import add_filter, filter_in
from environments.filtering.parameters import span
from environments.models import UNRESTRICTED
from episodes.filtering.conditions import NamedRows, refuse_all
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode
from episodes.removal.batch import ids_of, new_removal, remove_all
from episodes.removal.loose_blobs import delete_loose_blobs
from episodes.removal.plan import count_of, oldest_beyond, plan_of
from episodes.rollups.recount import rebuild, stale
from orsweb.management.database import database_errors
from orsweb.server import database_lock

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
NO_FILTER = (
    "Say which episodes to remove: --older-than 90d, --keep-size 50GB, or a filter such as "
    "--environment NAME. --all removes every ended episode."
)


class Command(TerminalCommand):
    help = (
        "Remove ended episodes with everything that belongs to them, and take them out of all "
        "figures. The server may be running. --dry-run shows what would be removed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--older-than", metavar="SPAN", help="started before this span, such as 90d, 12w or 24h"
        )
        parser.add_argument(
            "--keep-size",
            metavar="SIZE",
            help="remove the oldest until the steps of all episodes take so much, such as 500MB or "
            "50GB",
        )
        parser.add_argument(
            "--all",
            action="store_true",
            help="remove every ended episode, if nothing else is given",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be removed, and remove nothing"
        )
        parser.add_argument("--no-input", action="store_true", help="do not ask for confirmation")
        parser.add_argument("--reason", default="", help="noted with the removal")
        add_filter(
            parser, EpisodeFilter.parameters().values(), "environment=math&ending=interrupted"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            filters = EpisodeFilter.parse(_query(options), UNRESTRICTED)
            filters.refuse_future()
            if options["keep_size"] is None and not options["all"]:
                refuse_all(filters, NO_FILTER)
            with database_errors():
                self._prune(filters, options)
        except OrsError as error:
            raise CommandError(str(error)) from error

    def _prune(self, filters: EpisodeFilter, options: dict[str, Any]) -> None:
        rows = NamedRows.of(filters)
        if rows.unknown:
            raise CommandError(rows.unknown)
        episodes: QuerySet[Episode] = rows.episodes()
        ids: Iterable[int] = ids_of(episodes)
        if options["keep_size"] is not None:
            ids = oldest_beyond(episodes, _size(options["keep_size"]))
            episodes = episodes.filter(pk__lte=ids[-1] if ids else 0)
        plan = plan_of(episodes)
        for sentence in plan.sentences:
            self.stdout.write(sentence)
        if options["dry_run"] or not plan.episodes or not (options["no_input"] or _is_confirmed()):
            self.stdout.write("Nothing was removed.")
            return
        author = "command line"
        with contextlib.suppress(KeyError, OSError):  # the account has no name
            author = f"{getpass.getuser()} (command line)"
        removal = new_removal(author, options["reason"], filters.to_query())
        try:
            with progress_bar("Removing") as progress:
                counts = remove_all(removal, ids, lambda count: progress(count, plan.episodes))
        except KeyboardInterrupt:
            removal.refresh_from_db()
            sentence = (
                f"Interrupted. {count_of(removal.episodes)} removed; run the same command again to "
                "continue."
            )
            raise CommandError(sentence, returncode=130) from None
        self.stdout.write(f"{count_of(counts.episodes)} with {counts.steps:,} steps removed.")
        for environment in stale():
            rebuild(environment)
        try:
            with database_lock.acquire():
                count = delete_loose_blobs()
                self.stdout.write(f"{count:,} blob{'' if count == 1 else 's'} deleted.")
        except database_lock.DatabaseInUse:
            self.stdout.write("The running server deletes the blobs that nothing needs any more.")


def _query(options: dict[str, Any]) -> dict[str, str]:
    query = filter_in(options, EpisodeFilter.parameters())
    if options["older_than"] is not None:
        if query.get("until"):
            raise CommandError(
                f"--older-than and {urlencode({'until': query['until']})} both set an end; use one."
            )
        query["until"] = span("--older-than", options["older_than"])
    return query


def _size(text: str) -> int:
    """Return the number of bytes that `text` names. Raises: CommandError."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?b)?", text.strip().lower())
    size = int(float(match[1]) * UNITS[match[2] or "b"]) if match else 0
    if not size:
        rule = "use a number of bytes above 0, or 500MB, 50GB, 1.5TB"
        raise CommandError(f"--keep-size {text!r} is not a size; {rule}.")
    return size


def _is_confirmed() -> bool:
    try:
        return input("Remove them? Type yes to continue: ").strip() == "yes"
    except EOFError:
        raise CommandError(
            "Nobody can confirm; add --no-input to remove without a question."
        ) from None
