"""Exports uploaded conversations as messages for fine-tuning, with an episode here or without."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core.management.base import CommandError, CommandParser

from environments import security_log
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError
from environments.files.output import write_whole
from environments.files.streaming import in_large_pieces
from environments.filtering.command_options import add_filter, filter_in
from environments.models import UNRESTRICTED
from episodes.filtering.rollouts import RolloutFilter
from episodes.models import Episode
from episodes.transfer.export_file import ExportFile
from episodes.transfer.formats.messages import rollout_lines
from episodes.transfer.management.commands.export_episodes import add_output
from episodes.transfer.training_options import TrainingOptions


class Command(TerminalCommand):
    help = (
        "Export conversations that clients uploaded, as messages for fine-tuning. The server may "
        "be running."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_output(parser, "messages")
        add_filter(
            parser, RolloutFilter.parameters().values(), "run=grpo-3&joined=no", "a conversation"
        )

    def handle(self, *args: Any, output: str, **options: Any) -> None:
        try:
            query = filter_in(options, RolloutFilter.parameters())
            file = ExportFile(Episode.objects.none(), TrainingOptions.parse(options))
            rollouts = RolloutFilter.parse(query, UNRESTRICTED).rollouts()
            if not rollouts.exists():
                raise CommandError(
                    "No conversations match the filter, so there is nothing to export."
                )
            security_log.note("exported", f"conversations as messages: {urlencode(query) or 'all'}")
            write_whole(in_large_pieces(rollout_lines(rollouts, file)), output)
        except OrsError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}.") from error
        if file.left_out:
            self.stderr.write(
                f"Conversations that are left out: {file.left_out:,}. They have no message of the "
                "model, a result without its call, or a call whose arguments aren't a JSON object "
                "(--arguments string includes those)."
            )
