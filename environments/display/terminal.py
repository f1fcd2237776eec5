"""The base of the project's commands: what they print cannot control the terminal of the reader.

Names, paths and recorded texts come from agents, environments and files of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, OutputWrapper

from environments.display.visible import visible


class TerminalOutput(OutputWrapper):
    """Output whose control characters are shown as marks. Only `style_func` adds sequences of its
    own."""

    def write(  # type: ignore[override]  # as Django has it
        self,
        msg: str = "",
        style_func: Callable[[str], str] | None = None,
        ending: str | None = None,
    ) -> None:
        super().write(visible(msg), style_func, ending)


class TerminalCommand(BaseCommand):
    def execute(self, *args: Any, **options: Any) -> str | None:
        for name in ("stdout", "stderr"):
            plain = getattr(self, name)
            output = TerminalOutput(options.pop(name, None) or plain._out)
            output.style_func = plain.style_func
            setattr(self, name, output)
        return super().execute(*args, **options)
