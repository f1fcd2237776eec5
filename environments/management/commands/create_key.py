"""`manage.py create_key NAME` makes an API key and prints it, once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from environments import conf
from environments.command_line import filled, finite
from environments.errors import nearest
from environments.keys.agent_key import SCOPES, USUAL_SCOPES
from environments.keys.key_command import QUOTAS_HELP, KeyCommand
from environments.keys.stored_keys import make_key, quotas_in
from environments.models import Environment


class Command(KeyCommand):
    help = "Make an API key and print it. Only its hash is stored, so it cannot be shown again."
    name_help = "what the key is called in everything that is recorded with it"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        scopes = "; ".join(f"{scope}: {text.lower()}" for scope, text in SCOPES.items())
        parser.add_argument(
            "--scope",
            action="append",
            choices=list(SCOPES),
            help=f"what the key may do, repeatable ({scopes}); by default {', '.join(USUAL_SCOPES)}",
        )
        parser.add_argument(
            "--environment",
            type=filled,
            action="append",
            default=[],
            help="one that it may use, repeatable",
        )
        parser.add_argument(
            "--split",
            type=filled,
            action="append",
            default=[],
            help="a split that it may use, repeatable",
        )
        parser.add_argument("--run", type=filled, help="the only run that it may record")
        parser.add_argument(
            "--quota",
            action="append",
            default=[],
            metavar="QUOTA=NUMBER",
            help=f"most that it may use, repeatable, 0: no limit ({QUOTAS_HELP}); by default as "
            "the settings say",
        )
        parser.add_argument(
            "--owner", type=filled, help="user name of the account that answers for it"
        )
        parser.add_argument(
            "--days", type=finite(float), help="days after which it expires; by default it doesn't"
        )

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        quotas = quotas_in(options["quota"])
        _, text = make_key(
            name,
            owner=_account(options["owner"] or ""),
            scopes=options["scope"] or list(USUAL_SCOPES),
            environments=options["environment"],
            splits=options["split"],
            run=options["run"] or "",
            quotas={one: value for one, value in quotas.items() if value is not None},
            expires=_expiry(options["days"]),
        )
        self.stdout.write(text)
        self._warn_of_unknown(options["environment"])
        if not conf.has_keys():
            self.stderr.write(
                "This server needs no keys yet: set ORSWEB_REQUIRE_KEYS=1 and restart it."
            )

    def _warn_of_unknown(self, names: list[str]) -> None:
        hosted = list(Environment.objects.filter(is_hosted=True).values_list("name", flat=True))
        for name in names:
            if name.lower() not in map(str.lower, hosted):
                self.stderr.write(f"No environment {name!r} is hosted yet.{nearest(name, hosted)}")


def _expiry(days: float | None) -> datetime | None:
    try:
        return timezone.now() + timedelta(days=days) if days is not None else None
    except OverflowError:
        raise CommandError(f"--days is {days}; that is too far away.") from None


def _account(name: str) -> User | None:
    if not name:
        return None
    account = User.objects.filter(username=name).first()
    if account is None:
        raise CommandError(f"There is no account named {name!r}.")
    return account
