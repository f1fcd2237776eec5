"""`manage.py verify_suite NAME/vN` checks that a version's rows are what its hash identifies, and
prints how."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments.display.terminal import TerminalCommand
from environments.filtering.parameters import BadFilter
from environments.models import UNRESTRICTED
from episodes.suites.episode_filter import suite_part
from episodes.suites.versions import members_of, problems_of, version_named


class Command(TerminalCommand):
    help = (
        "Check the hash of a version of a suite: that of its document, the members in it, and the "
        "digest of each member's tasks. Prints the document and the salt, with which the digests "
        "can be computed elsewhere."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("version", metavar="NAME/vN", help="such as core/v2")

    def handle(self, *, version: str, **options: Any) -> None:
        try:
            part = suite_part("version", version)
        except BadFilter as error:
            raise CommandError(str(error)) from error
        row = version_named(part.suite, part.version, UNRESTRICTED)
        if isinstance(row, str):
            raise CommandError(row)
        if problems := problems_of(row):
            raise CommandError(" ".join(problems))
        self.stdout.write(f"sha256:{row.hash}  {row}\nsalt {row.salt}\n{row.document}")
        for member in members_of(row):
            now = "has changed since" if member.has_changed else "has the same tasks now"
            self.stdout.write(
                f"{member.label}: {member.tasks_count} tasks, {member.tasks_hash}; the split {now}"
            )
