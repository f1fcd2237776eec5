"""`manage.py check_environment` checks that a class, or an environment of a server in any language,
keeps the contract.

Exit status 0: nothing failed; 1: a check failed (with --strict, or warned); 2: nothing could be
checked.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Mapping
from functools import partial
from typing import IO, Any, NoReturn

from django.core.management.base import BaseCommand, CommandParser
from rich.console import Console

from environments import conf
from environments.checking.check_state import CheckOptions
from environments.checking.checker import check_class, check_server
from environments.checking.checks.protocol import Unreachable
from environments.checking.report import CheckReport, print_report
from environments.command_line import above_zero, finite
from environments.display.visible import visible
from environments.errors import Unhostable, author_traceback
from environments.hosts import masked_output, worker_process
from environments.hosts.remote_url import is_remote, parse
from environments.hosts.repositories import repository_in, specifications_in
from environments.local_sandboxes.service import local_secrets, sandboxes

_DEFAULTS = CheckOptions()
NOTHING_CHECKED = 2
WIDTH = 120
"""Width of the table if the output is not a terminal."""


class Command(BaseCommand):
    help = (
        "Check an environment: schemas, tasks, prompts, rewards, trials, teardown, sessions at "
        "once, generated play."
    )
    # those checks are for developers (`manage.py check`) and take a second
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "environment",
            nargs="?",
            metavar="[alias=]module:Class",
            help="a class to check, a directory with classes, or an environment of a server as "
            "http://host:port/environment",
        )
        parser.add_argument(
            "--url", help="check a server instead, such as http://127.0.0.1:8080, in any language"
        )
        parser.add_argument(
            "--env", metavar="NAME", help="environment of the server; by default its first"
        )
        parser.add_argument("--api-key", default="", help="key for the server")
        parser.add_argument(
            "--secret", action="append", default=[], type=_secret, metavar="NAME=VALUE"
        )
        parser.add_argument(
            "--episodes",
            type=above_zero(int),
            default=_DEFAULTS.episodes,
            help="default: %(default)s",
        )
        parser.add_argument(
            "--steps",
            type=above_zero(int),
            default=_DEFAULTS.steps,
            help="maximum of tool calls in an episode; default: %(default)s",
        )
        parser.add_argument(
            "--seed",
            type=finite(int),
            default=_DEFAULTS.seed,
            help="seed for the choice of tasks and inputs",
        )
        parser.add_argument(
            "--timeout",
            type=above_zero(float),
            default=_DEFAULTS.timeout_seconds,
            metavar="SECONDS",
        )
        parser.add_argument(
            "--strict",
            action="store_true",
            help="treat warnings, and what could not be told, as failures",
        )
        parser.add_argument("--json", action="store_true", help="print the report as JSON")

    def handle(self, *, environment: str | None, url: str | None, **options: Any) -> None:
        masked_output.start_for(self)
        classes: list[str | None] = [environment]
        if environment and (repository := repository_in(environment)):
            try:
                classes = [*specifications_in(environment, repository)]
            except Unhostable as error:
                _refuse(str(error))
        if len(classes) > 1 and options["json"]:
            names = ", ".join(map(str, classes))
            _refuse(f"{environment} has {len(classes)} classes; with --json, name one of {names}.")
        statuses = [self._status(hosted_class, url, options) for hosted_class in classes]
        if any(statuses):
            raise SystemExit(max(map(abs, statuses)))  # that of a signal is negative

    def _status(self, environment: str | None, url: str | None, options: dict[str, Any]) -> int:
        """Check one environment in a process of its own, and return the exit status."""
        # another program, whose threads would be missing in a fork
        if sys.argv[1:2] != ["check_environment"]:
            self._check(environment, url, options)
            return 0
        with tempfile.TemporaryFile() as step:
            if not (child := os.fork()):
                self._check(environment, url, options | {"note_step": partial(_write, step)})
                raise SystemExit
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            step.seek(0)
            if last := step.read().decode("utf-8", "replace"):
                end = f"exited with status {status}"
                if status < 0:
                    end = f"was ended by {signal.Signals(-status).name}"
                sentence = f"The process of the check {end} in the environment's code: {last}."
                print(visible(sentence), file=sys.stderr)
                status = 1
        return status

    def _check(self, environment: str | None, url: str | None, options: dict[str, Any]) -> None:
        if bool(environment) == bool(url):
            _refuse(
                "Give either a class as module:Class, an environment as "
                "http://host:port/environment, or a server as --url http://host:port."
            )
        root, prints = logging.getLogger(), logging.getLogger(worker_process.__name__)
        level = root.level
        root.setLevel(max(level, logging.WARNING))  # libraries tell of each request
        prints.setLevel(level)  # it tells what the processes of sessions print
        try:
            if environment and is_remote(environment):
                remote = parse(environment, conf.remote_keys())
                environment, url, options["env"] = None, remote.server, remote.environment
                options["headers"] = dict(remote.headers)
            if self.stderr.isatty():
                self.stderr.write(visible(f"Checking {environment or url} …"), str)  # not in red
            with sandboxes(conf.sandboxes() if environment else None):
                report = _report(environment, url, options)
        except (Unhostable, Unreachable, ValueError, OSError) as error:
            if isinstance(error, Unhostable) and (trace := author_traceback(error.__cause__)):
                print(visible(trace), file=sys.stderr)
            _refuse(str(error))
        finally:
            root.setLevel(level)
            prints.setLevel(logging.NOTSET)
        if note_step := options.get("note_step"):
            note_step("")  # all steps have ended
        if options["json"]:
            self.stdout.write(json.dumps(report.as_json(strict=options["strict"]), indent=2))
        else:
            width = None if self.stdout.isatty() else WIDTH
            print_report(report, Console(file=self.stdout, width=width))  # type: ignore[arg-type]
        status = 0 if report.passes(strict=options["strict"]) else 1
        if report.is_hung:  # Python would wait for the environment's own threads
            self.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        if status:
            raise SystemExit(status)


def _report(environment: str | None, url: str | None, options: Mapping[str, Any]) -> CheckReport:
    settings = CheckOptions(
        episodes=options["episodes"],
        steps=options["steps"],
        seed=options["seed"],
        timeout_seconds=options["timeout"],
        secrets=local_secrets() | dict(options["secret"]),
        note_step=options.get("note_step"),
        exits_when_stuck=sys.argv[1:2] == ["check_environment"],
    )
    if environment:
        return check_class(environment, settings)
    assert url is not None
    headers = dict(options.get("headers") or {})
    if options["api_key"]:
        headers["X-API-Key"] = options["api_key"]
    return check_server(url, options["env"], headers, settings)


def _write(file: IO[bytes], step: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(step.encode("utf-8", "replace"))
    file.flush()


def _secret(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ArgumentTypeError("write NAME=VALUE")  # without the text, which may be the secret
    return name, value


def _refuse(sentence: str) -> NoReturn:
    print(visible(sentence), file=sys.stderr)
    raise SystemExit(NOTHING_CHECKED)
