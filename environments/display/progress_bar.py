"""The progress bar of commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress import MofNCompleteColumn as CountColumn


@contextmanager
def progress_bar(title: str, *, is_bytes: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error if that is a terminal. Yields a function that takes the amounts
    of work done and in total."""
    amounts = DownloadColumn() if is_bytes else CountColumn()
    columns = (TextColumn(title), BarColumn(), amounts, TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(title, total=None)
        yield lambda count, total: bar.update(task, completed=count, total=total)
