"""`manage.py create_key NAME` creates an API key and prints it, once."""

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
    help = "Create an API key and print it. Only its hash is stored, so it cannot be shown again."
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
            help=f"limit on its use, repeatable, 0: no limit ({QUOTAS_HELP}); by default as "
            "the settings say",
        )
        parser.add_argument("--owner", type=filled, help="user name of the owner's account")
        parser.add_argument(
            "--days", type=finite(float), help="days after which it expires; by default it doesn't"
        )

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        quotas = quotas_in(options["quota"])
        _, text = make_key(
            name,
            owner=_account(options["owner"]) if options["owner"] else None,
            scopes=options["scope"] or list(USUAL_SCOPES),
            environments=options["environment"],
            splits=options["split"],
            run=options["run"] or "",
            quotas={quota: value for quota, value in quotas.items() if value is not None},
            expires=_expiry(options["days"]),
        )
        self.stdout.write(text)
        hosted_names = list(
            Environment.objects.filter(is_hosted=True).values_list("name", flat=True)
        )
        for environment in options["environment"]:
            if environment.lower() not in map(str.lower, hosted_names):
                hint = nearest(environment, hosted_names)
                self.stderr.write(f"No environment {environment!r} is hosted yet.{hint}")
        if not conf.has_keys():
            self.stderr.write(
                "This server needs no keys yet: set ORSWEB_REQUIRE_KEYS=1 and restart it."
            )


def _expiry(days: float | None) -> datetime | None:
    if days is None:
        return None
    try:
        return timezone.now() + timedelta(days=days)
    except OverflowError:
        raise CommandError(f"--days is {days}; that is too far away.") from None


def _account(name: str) -> User:
    account = User.objects.filter(username=name).first()
    if account is None:
        raise CommandError(f"There is no account named {name!r}.")
    return account
