"""`manage.py verify_suite NAME/vN` checks that a version's rows are what its hash identifies, and
prints how."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments.display.terminal import TerminalCommand
from environments.filtering.parameters import BadFilter
from environments.models import UNRESTRICTED
from episodes.suites.filters import SuitePart, suite_part
from episodes.suites.versions import members_of, problems_of, version_named


class Command(TerminalCommand):
    help = (
        "Check the hash of a version of a suite: that of its document, the members in it, and the "
        "digest of each "
        "member's tasks. Prints the document and the salt, with which the digests can be computed "
        "elsewhere."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("version", type=_version, metavar="NAME/vN", help="such as core/v2")

    def handle(self, *, version: SuitePart, **options: Any) -> None:
        found = version_named(version.suite, version.version, UNRESTRICTED)
        if isinstance(found, str):
            raise CommandError(found)
        if problems := problems_of(found):
            raise CommandError(" ".join(problems))
        self.stdout.write(f"sha256:{found.hash}  {found}\nsalt {found.salt}\n{found.document}")
        for member in members_of(found):
            now = "has changed since" if member.has_changed else "has the same tasks now"
            self.stdout.write(
                f"{member.label}: {member.tasks_count} tasks, {member.tasks_hash}; the split {now}"
            )


def _version(text: str) -> SuitePart:
    try:
        return suite_part("version", text)
    except BadFilter as error:
        raise argparse.ArgumentTypeError(str(error)) from error
