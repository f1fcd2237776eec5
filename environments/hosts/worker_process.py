"""A worker process as the server sees it: it is started, asked, watched and ended."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from environments.authoring.hosted_class import HostedClass
from environments.authoring.other_interpreter_class import DescribedClass
from environments.errors import WORKER_LOST, EnvironmentFault, InvalidRequest
from environments.fair_turns import KEY
from environments.hosts.interpreter import WALL_TIMES
from environments.hosts.printed_lines import MAX_LINE_BYTES, PrintedLines
from environments.hosts.process_launcher import Launcher, RunningProcess
from environments.hosts.worker_messages import Message, MessagePipe
from environments.limits import Limits, WorkerSettings
from environments.runtime.crash_notes import CURRENT, CallNote, NotedCall

log = structlog.get_logger(__name__)

SILENCE_SECONDS = 2.0
"""Time beyond the limit of a tool call for which a worker may leave pings unanswered."""
LAST_WORDS_SECONDS = 0.5
"""How long the rest of a worker's output is read after its end."""

WorkerClass = HostedClass | DescribedClass
"""What worker processes can play."""


@dataclass(slots=True)
class _Request:
    future: asyncio.Future[Any]
    do: str
    what: str
    note: CallNote | None
    """The note of the call or other code for which it is asked."""


class WorkerProcess:
    """One process, which plays sessions of one class. Use it on one event loop only.

    `on_end` is called once, with the reason, when the process has ended by itself or by `kill`.
    """

    def __init__(
        self,
        environment: WorkerClass,
        limits: Limits,
        settings: WorkerSettings,
        launcher: Launcher,
        on_end: Callable[[str], None],
    ) -> None:
        self._hosted, self._limits, self._settings = environment, limits, settings
        self._launcher, self._on_end = launcher, on_end
        self.is_held = False
        """Whether code runs in it that was given up."""
        self.lost = ""
        """Why it has ended, as a sentence; empty while it runs."""
        self.how = ""
        """The part of that sentence that says how it ended, such as "was ended by signal 11
        (SIGSEGV)"."""
        self.running: tuple[NotedCall, ...] = ()
        """The code that it ran when it ended."""
        self.suspects: set[object] = set()
        """Sessions whose calls are made again in it, which nobody else may enter, until they are
        answered."""
        self.last_asked = self._made = time.monotonic()
        self.pid = 0
        self._why_killed = ""
        self._process: RunningProcess | None = None
        self._pipe = MessagePipe(self._take)
        self._requests: dict[int, _Request] = {}
        self._next = 0
        self._last_heard = time.monotonic()
        self._pinged: float | None = None
        self._lag = 0.0
        self._starting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._pinging: asyncio.Task[None] | None = None

    # --- life -------------------------------------------------------------------------------------

    @property
    def machine(self) -> str:
        """Address of the machine on which it runs; empty for this one, and before it has
        started."""
        return self._process.machine if self._process is not None else ""

    @property
    def is_open(self) -> bool:
        """Return whether a new session may be played in it."""
        return not (
            self.lost
            or self._why_killed
            or self.is_held
            or self.suspects
            or self._pipe.ended.is_set()
        )

    @property
    def has_started(self) -> bool:
        """Return whether it has imported its class."""
        return (
            self._starting is not None and self._starting.done() and not self._starting.exception()
        )

    def is_late(self, seconds: float) -> bool:
        """Return whether its start has taken longer than that, so far."""
        is_starting = self._starting is not None and not self._starting.done()
        return is_starting and time.monotonic() - self._made > seconds

    @property
    def lag_seconds(self) -> float:
        """Time that its answer to a ping took, or takes, while it has a call."""
        if self._pinged is None:
            return self._lag
        return max(self._lag, time.monotonic() - self._pinged)

    def is_idle_for(self, seconds: float) -> bool:
        """Return whether it has been asked nothing for `seconds`, and is asked nothing now."""
        return not self._requests and time.monotonic() - self.last_asked > seconds

    async def start(self) -> None:
        """Start the process, or wait until it has started. Raises: EnvironmentFault."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._starting)

    async def settle_end(self) -> None:
        """Wait until the end of the process is known, if it is being ended or disconnected."""
        if (self._why_killed or self._pipe.ended.is_set()) and self._watching is not None:
            await asyncio.shield(self._watching)

    async def _start(self) -> None:
        try:
            self._process = await self._launcher.launch(
                self._hosted.python, self._hosted.resources, self._pipe
            )
        except OSError as error:  # there are no more processes or descriptors
            self.lost = (
                f"A worker process of {self._hosted.name!r} could not be started: "
                f"{error.strerror or error}."
            )
            self._on_end(self.lost)
            raise EnvironmentFault(WORKER_LOST, self.lost) from None
        self.pid = self._process.pid
        self._watching = asyncio.get_running_loop().create_task(self._watch(self._process))
        environment = self._hosted
        settings = self._settings
        seconds = WALL_TIMES * settings.import_seconds
        arguments = [
            f"{environment.name}={environment.origin}",
            dataclasses.asdict(self._limits),
            settings.memory_bytes,
            settings.cpu_seconds,
            settings.import_seconds,
        ]
        try:
            async with asyncio.timeout(seconds):
                await self.ask("load", 0, arguments)
        except TimeoutError:
            self.kill(
                f"was ended, because it had not imported {environment.origin} after {seconds:g} s"
            )
            text = self._sentence(f"did not start within {seconds:g} s")
            raise EnvironmentFault(WORKER_LOST, text) from None
        except EnvironmentFault:  # the next session tries again in another one
            self.kill("was ended, because it could not import its class")
            raise

    async def _watch(self, process: RunningProcess) -> None:
        """Log what the process writes, note its end, and fail what it was asked."""
        logging = asyncio.get_running_loop().create_task(self._log(process.output))
        how_it_ended = await process.wait()
        # a child of it may have its output
        await asyncio.wait([logging], timeout=LAST_WORDS_SECONDS)
        logging.cancel()
        requests, self._requests = self._requests, {}
        running = sorted({request.what for request in requests.values() if request.do != "ping"})
        during = f" while it ran {', '.join(running)}" if running else ""
        self.how = self._why_killed or how_it_ended
        self.running = tuple(
            call for request in requests.values() if request.note and (call := request.note.read())
        )
        self.lost = self._sentence(f"{self.how}{during}")
        for request in requests.values():
            if not request.future.done():
                request.future.set_exception(EnvironmentFault(WORKER_LOST, self.lost))
        self._pipe.close()
        self._on_end(self.lost)

    async def _log(self, output: asyncio.StreamReader) -> None:
        """Log each line, as the server's own: without the secrets of sessions."""
        lines = PrintedLines()
        while data := await output.read(MAX_LINE_BYTES):
            self._log_lines(lines.add(data))
        self._log_lines(lines.end())

    def _log_lines(self, lines: bytes) -> None:
        for line in lines.decode("utf-8", "replace").splitlines():
            log.info(line.rstrip(), environment=self._hosted.name, worker=self.pid)

    def kill(self, why: str) -> None:
        """End the process with SIGKILL. `why` completes a sentence about it."""
        if self._process is not None and self._process.kill():
            self._why_killed = self._why_killed or why

    async def close(self) -> None:
        """End the process and wait for that."""
        self.kill("was ended with the server")
        if self._watching is not None:
            await self._watching

    def _sentence(self, what: str) -> str:
        machine = f" on {self.machine}" if self.machine else ""
        return f"The worker process of {self._hosted.name!r} (pid {self.pid}{machine}) {what}."

    # --- requests ---------------------------------------------------------------------------------

    async def ask(self, do: str, of: int, arguments: Sequence[Any] = (), what: str = "") -> Any:
        """Return the answer to a request about the instance `of`. `what`: its name in the reason of
        an end.

        Raises: EnvironmentFault, also when the process ends first; InvalidRequest.
        """
        if self.lost:
            raise EnvironmentFault(WORKER_LOST, self.lost)
        self._next = number = self._next + 1
        future = asyncio.get_running_loop().create_future()
        self._requests[number] = _Request(future, do, what or do, CURRENT.get())
        if do != "ping":
            self.last_asked = time.monotonic()
        self._pipe.send({"id": number, "do": do, "of": of, "with": arguments, "key": KEY.get()})
        try:
            return await future
        except asyncio.CancelledError:
            if self._requests.pop(number, None) is not None:
                self._pipe.send({"cancel": number})
            raise

    def _take(self, message: Message) -> None:
        self._last_heard = time.monotonic()
        self.is_held = bool(message.get("held"))
        request = self._requests.pop(message["id"], None)
        if request is None or request.future.done():  # cancelled
            return
        if "value" in message:
            request.future.set_result(message["value"])
        elif "fault" in message:
            request.future.set_exception(EnvironmentFault(*message["fault"]))
        elif "refused" in message:
            request.future.set_exception(InvalidRequest(message["refused"]))
        else:
            request.future.cancel()

    def check_heard(self) -> None:
        """Ping the process; end it if it has not answered for longer than a tool call may take."""
        methods = {request.do for request in self._requests.values()}
        if not methods & {"run", "close"}:
            # it is not watched, so that nothing has to be heard
            self._last_heard = time.monotonic()
            self._lag = 0.0
            return
        limit, silence = self._limits.tool_timeout_seconds, time.monotonic() - self._last_heard
        if limit is not None and silence > limit + SILENCE_SECONDS:
            self.kill(
                f"was ended, because it did not respond for {silence:.1f} s "
                f"(ORSWEB_TOOL_TIMEOUT={limit:g})"
            )
        elif "ping" not in methods:
            self._pinging = asyncio.get_running_loop().create_task(self._ping())

    async def _ping(self) -> None:
        began = self._pinged = time.monotonic()
        try:
            await self.ask("ping", 0)
        except EnvironmentFault:
            log.debug(
                "a worker process ended while it was asked for a sign of life", reason=self.lost
            )
        self._lag, self._pinged = time.monotonic() - began, None
