"""The printer masks the secrets of sessions in what is printed in the server's process, and marks
what would control the terminal. Commands that run hosted code have one, too.

Standard output and standard error of the process become pipes, so it makes no difference who writes
and how: `print`, `warnings`, a traceback, C code, or a program that hosted code has started. The
printer reads them and prints whole lines, as is done for worker processes. While the server has
been given no secret, it prints everything as it comes. The log has a way of its own to standard
error and masks itself (`orsweb/logs.py`): in the pipe, its lines would be joined to what hosted
code has printed without a line break, be cut where they are long, and end with the printer.

The printer is a process. A thread would not read while code fills a pipe and holds the
interpreter's lock, which would last for ever, and would not print the last words of a crash. It is
forked before the server has any thread, learns of each secret before the session does, and ends
when nobody is left who could write to the pipes.
"""

from __future__ import annotations

import atexit
import codecs
import contextlib
import ctypes
import gc
import json
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import structlog
from django.core.management.base import BaseCommand, OutputWrapper

from environments.display.visible import visible
from environments.hosts.printed_lines import MAX_LINE_BYTES, PrintedLines
from environments.runtime.secrets_mask import RecentSecrets, SecretSet

LAST_WORDS_SECONDS = 1.0
"""How long the server waits at its end until everything is printed."""
NAME = "printer"
"""Name of its process in lists of processes."""

_PR_SET_NAME = 15

log = structlog.get_logger(__name__)

_printer: PrinterProcess | None = None


def start() -> None:
    """Let a printer print what this process writes from now on. It must not have another thread
    yet."""
    global _printer
    _printer = PrinterProcess()


def start_for(command: BaseCommand) -> None:
    """Let a printer print on standard error what is printed in this process from now on, if it is
    that of the command. The command's own output goes where it went.

    It must not have another thread yet.
    """
    if sys.argv[1:2] == [type(command).__module__.rpartition(".")[2]]:
        printer = PrinterProcess(is_of_command=True)
        for output, wrapper in ((1, command.stdout), (2, command.stderr)):
            if isinstance(wrapper, OutputWrapper) and output in printer.own:
                wrapper._out = printer.own[output]  # type: ignore[attr-defined]  # not in the stubs


def mask_secrets(secrets: RecentSecrets) -> None:
    """Let the printer, if there is one, mask these secrets, also those that are added later."""
    if _printer is not None:
        secrets.listen(_printer.send_secret)


# --- the printer, as the server sees it -----------------------------------------------------------


class PrinterProcess:
    """Starts the printer, and lets this process write to it."""

    def __init__(self, *, is_of_command: bool = False) -> None:
        streams = {1: sys.__stdout__, 2: sys.__stderr__}  # None if it was closed at the start
        self._streams = {output: stream for output, stream in streams.items() if stream is not None}
        for stream in self._streams.values():
            stream.reconfigure(line_buffering=True)
        self.own = {
            output: os.fdopen(os.dup(output), "w", 1, encoding="utf-8", errors="backslashreplace")
            for output in self._streams
        }
        """Ways past the printer, by the number of the output."""
        # One pipe of a command keeps the order of all lines.
        has_one = is_of_command and 2 in self._streams
        pipes = {output: os.pipe() for output in self._streams if output == 2 or not has_one}
        secrets, self._secrets = os.pipe()
        self._is_ending = False
        self._owner, pid = os.getpid(), os.fork()
        if pid == 0:
            try:
                sources = {output: source for output, (source, _) in pipes.items()}
                _become_printer({0, *sources, *sources.values(), secrets})
                Printer(secrets).run(sources)
            finally:
                os._exit(0)
        if 2 in self._streams:
            _move_log(self.own[2])
        for output in self._streams:
            os.dup2((pipes.get(output) or pipes[2])[1], output)
        for pipe in pipes.values():
            for end in pipe:
                os.close(end)
        os.close(secrets)
        self._end_of_printer = os.pidfd_open(pid)
        if not is_of_command:  # which may fork
            threading.Thread(target=self._wait, args=(pid,), name="printer", daemon=True).start()
        atexit.register(self._end)

    def send_secret(self, secret: str, is_known: bool) -> None:
        """Make the printer mask a secret, or forget it."""
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._secrets, json.dumps([secret, is_known]).encode() + b"\n")

    def _wait(self, pid: int) -> None:
        """Discard what is printed once the printer has ended; that would fail the code that
        prints."""
        _, status = os.waitpid(pid, 0)
        if not self._is_ending:
            self._discard_output()
            log.error("nothing more is printed, because the printer has ended", status=status)

    def _end(self) -> None:
        """Have printed what was written until now, at the end of the process."""
        if os.getpid() != self._owner:  # a fork, which others outlive
            return
        self._is_ending = True
        for stream in self._streams.values():
            stream.flush()
        self._discard_output()
        select.select([self._end_of_printer], [], [], LAST_WORDS_SECONDS)

    def _discard_output(self) -> None:
        nothing = os.open(os.devnull, os.O_WRONLY)
        for output in self._streams:
            os.dup2(nothing, output)


def _move_log(stream: TextIO) -> None:
    """Let the log go to a stream instead of standard error."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            handler.setStream(stream)


# --- the program ----------------------------------------------------------------------------------


def _become_printer(descriptors: set[int]) -> None:
    """Keep only these descriptors: a listening socket would stay open as long as the printer
    lives."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, NAME.encode())
    # sent to the whole service at times
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.disable()  # what it frees could close a descriptor of the same number
    for path in [*Path("/proc/self/fd").iterdir()]:
        if int(path.name) not in descriptors:
            with contextlib.suppress(OSError):  # the directory's own
                os.close(int(path.name))
    threading.excepthook = _end_printer


def _end_printer(failure: threading.ExceptHookArgs) -> None:
    """End it all, so that nobody waits for a thread of the printer that has failed."""
    sys.__excepthook__(
        failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback
    )
    os._exit(1)


class Printer:
    """Prints what it reads, with marks for what cannot be seen, and with the secrets masked that it
    is told about on the pipe `secrets`."""

    def __init__(self, secrets: int) -> None:
        os.set_blocking(secrets, False)
        self._secrets, self._unread = secrets, b""
        self._known, self._has_known = SecretSet(), False
        self._lock = threading.Lock()
        """Invariant: who has it has added every secret that it has read."""

    def run(self, sources: Mapping[int, int]) -> None:
        """Copy to each output what is written to its source, until all of them have ended."""
        threading.Thread(target=self._listen, daemon=True).start()
        copying = [threading.Thread(target=self._copy, args=pair) for pair in sources.items()]
        for thread in copying:
            thread.start()
        for thread in copying:
            thread.join()

    def _listen(self) -> None:
        """Take secrets also while outputs are blocked, so that the server never waits for that."""
        while select.select([self._secrets], [], []) and self._catch_up():
            pass

    def _catch_up(self) -> bool:
        """Take all secrets that the server has told. Return False if it has ended."""
        with self._lock, contextlib.suppress(BlockingIOError):
            while data := os.read(self._secrets, MAX_LINE_BYTES):
                *messages, self._unread = (self._unread + data).split(b"\n")
                for message in messages:
                    self._has_known = True
                    secret, is_known = json.loads(message)
                    (self._known.add if is_known else self._known.discard)(secret)
            return False
        return True

    def _copy(self, output: int, source: int) -> None:
        lines, decoder = PrintedLines(), codecs.getincrementaldecoder("utf-8")("replace")
        while data := os.read(source, MAX_LINE_BYTES):
            self._catch_up()  # what was written in a session follows its secrets
            text = decoder.decode(lines.add(data) if self._has_known else data)
            _write(output, self._printable(text))
        _write(output, self._printable(decoder.decode(lines.end(), final=True)))

    def _printable(self, text: str) -> bytes:
        # a progress bar would paint over what was printed before
        text = self._known.text(text).replace("\r\n", "\n").replace("\r", "\n")
        return visible(text).encode()


def _write(output: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads it any more
        while data:
            data = data[os.write(output, data) :]
