"""`manage.py check_environment module:Class` or `--url http://…`: does an environment keep the contract?

Exit status 0: nothing failed; 1: something did (with --strict also a warning); 2: there was nothing to check.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandParser
from rich.console import Console

from environments.checking.bench import CheckOptions
from environments.checking.checker import check_class, check_server
from environments.checking.checks.protocol import Unreachable
from environments.checking.report import CheckReport, print_report
from environments.errors import Unhostable

_DEFAULTS = CheckOptions()
NOTHING_CHECKED = 2
WIDTH = 120
"""Of the table where nobody says how wide the output is."""


class Command(BaseCommand):
    help = "Check an environment: schemas, tasks, prompts, rewards, teardown, sessions side by side, generated play."
    requires_system_checks = []  # they are for developers (`manage.py check`) and take a second

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("environment", nargs="?", metavar="[alias=]module:Class", help="a class to check")
        parser.add_argument("--url", help="check a server instead, such as http://127.0.0.1:8080, in any language")
        parser.add_argument("--env", metavar="NAME", help="the server's environment; by default its first")
        parser.add_argument("--api-key", default="", help="key for the server")
        parser.add_argument("--secret", action="append", default=[], type=_secret, metavar="NAME=VALUE")
        parser.add_argument("--episodes", type=_positive(int), default=_DEFAULTS.episodes, help="default: %(default)s")
        parser.add_argument("--steps", type=_positive(int), default=_DEFAULTS.steps, help="most calls of an episode")
        parser.add_argument("--seed", type=int, default=_DEFAULTS.seed, help="for the choice of tasks and inputs")
        parser.add_argument("--timeout", type=_positive(float), default=_DEFAULTS.timeout_seconds, metavar="SECONDS")
        parser.add_argument("--strict", action="store_true", help="a warning fails too")
        parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")

    def handle(self, *, environment: str | None, url: str | None, **options: Any) -> None:
        if bool(environment) == bool(url):
            _refuse("Name a class as module:Class or a server with --url http://host:port, one of the two.")
        try:
            with Console(stderr=True).status(f"Checking {environment or url} …"):  # seen in a terminal only
                report = _checked(environment, url, options)
        except (Unhostable, Unreachable, ValueError) as error:
            _refuse(str(error))
        self._print(report, as_json=options["json"], strict=options["strict"])
        status = 0 if report.passes(strict=options["strict"]) else 1
        if report.is_hung:  # threads of the environment's own would be waited for
            self.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        if status:
            raise SystemExit(status)

    def _print(self, report: CheckReport, *, as_json: bool, strict: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(report.as_json(strict=strict), indent=2))
            return
        width = None if self.stdout.isatty() else WIDTH
        print_report(report, Console(file=self.stdout, width=width))  # type: ignore[arg-type]


def _checked(environment: str | None, url: str | None, options: Mapping[str, Any]) -> CheckReport:
    settings = CheckOptions(
        episodes=options["episodes"],
        steps=options["steps"],
        seed=options["seed"],
        timeout_seconds=options["timeout"],
        secrets=dict(options["secret"]),
        exits_when_stuck=sys.argv[1:2] == ["check_environment"],
    )
    if environment:
        return check_class(environment, settings)
    assert url is not None
    return check_server(url, options["env"], options["api_key"], settings)


def _positive(kind: type[int] | type[float]) -> Any:
    def convert(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            value = kind(0)
        if not 0 < value < float("inf"):
            raise ArgumentTypeError(f"{text!r} is no number above 0")
        return value

    return convert


def _secret(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ArgumentTypeError("write NAME=VALUE")  # and not the text, which may be the secret
    return name, value


def _refuse(sentence: str) -> NoReturn:
    print(sentence, file=sys.stderr)
    raise SystemExit(NOTHING_CHECKED)
