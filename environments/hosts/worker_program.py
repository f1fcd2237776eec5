"""The program of a worker process: it plays sessions of one environment class and answers the
server's messages.

    python -m environments.hosts.worker_program 5
    python -m environments.hosts.worker_program describe module:Class 60

The number is the descriptor of a socket to the server. The first message names the class and the
limits. `describe` prints what the server needs to know about a class that it cannot import itself;
its import may take so many seconds of CPU time. The program needs neither Django nor a
database, and ends with the server, however that ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import json
import math
import os
import resource
import signal
import socket
import sys
import threading
import time
from base64 import b64decode
from queue import SimpleQueue
from typing import Any

import uvloop

from environments import __version__
from environments.authoring.other_interpreter_class import describe
from environments.authoring.registry import Registry, limited_import, load_class, refusing_servers
from environments.authoring.revision import note_revisions
from environments.authoring.task_source import ClassTasks
from environments.errors import (
    EnvironmentFault,
    InvalidIndex,
    InvalidIndexRange,
    InvalidRequest,
    Unhostable,
    author_traceback,
)
from environments.fair_turns import KEY
from environments.hosts.worker_messages import Message, MessagePipe, packed
from environments.limits import Limits
from environments.runtime.author_errors import fault_of
from environments.runtime.instance import Instance
from environments.runtime.local_host import LocalHost
from environments.runtime.session_thread import MainThread
from environments.runtime.threads import ThreadPool
from environments.wire import GroupCandidate

SWITCH_SECONDS = 0.0001
"""Interval at which Python switches threads. A call waits for so long when another session's tool
computes, each time it needs the interpreter; Python's own interval is fifty times as long."""
ADVICE = "set ORSWEB_IMPORT_SECONDS to more, or move slow work to setup()"
_PR_SET_PDEATHSIG = 1


class WorkerProgram:
    """The instances of this process and the requests that are being answered. Used on one event
    loop."""

    host: type[LocalHost] = LocalHost

    def __init__(self) -> None:
        self.pipe = MessagePipe(self._take)
        self._pool = ThreadPool()
        self.main_thread: MainThread = SimpleQueue()
        self.gives_main_thread = asyncio.Event()
        """Set when a session gets the main thread, so that this loop has to run in another one."""
        self._limits = Limits()
        self._cpu_seconds = 0
        self._host: LocalHost | None = None
        self._name = ""
        self._instances: dict[int, Instance] = {}
        # by request: the instance, and what answers it
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}

    def _take(self, message: Message) -> None:
        if "cancel" in message:
            _, task = self._tasks.get(message["cancel"], (0, None))
            if task is not None:
                task.cancel()
            return
        if self._cpu_seconds and message["do"] != "ping":
            limit_cpu_time(self._cpu_seconds)
        task = asyncio.get_running_loop().create_task(self._answer(message))
        self._tasks[message["id"]] = (message["of"], task)

    async def _answer(self, message: Message) -> None:
        KEY.set(message["key"])
        answer: Message = {"id": message["id"]}
        try:
            answer["value"] = await self._do(message["do"], message["of"], message["with"])
        except EnvironmentFault as fault:
            answer["fault"] = [fault.kind, fault.text, fault.trace]
        except InvalidRequest as refusal:
            answer["refused"] = str(refusal)
        except asyncio.CancelledError:
            answer["cancelled"] = True
        except Exception as error:
            unforeseen = fault_of(error)
            answer["fault"] = [unforeseen.kind, unforeseen.text, unforeseen.trace]
        finally:
            del self._tasks[message["id"]]
        answer["held"] = self._pool.is_held(self._limits.close_wait_seconds)
        self.pipe.send(answer)

    async def _do(self, what: str, number: int, arguments: list[Any]) -> Any:
        match what:
            case "load":
                return self._load(*arguments)
            case "ping":
                return None
            case "construct":
                assert self._host is not None
                instance = self._instances[number] = self._host.instance(self._name)
                return await instance.construct(*arguments)
            case "tasks":
                assert self._host is not None
                return await _tasks(self._host.tasks(self._name), *arguments)
            case "close":
                return await self._close(number)
            case "run":
                return packed(await self._instances[number].run(*arguments))
            case "restore":
                return await self._instances[number].restore(b64decode(arguments[0]))
            case "score":
                return await self._instances[number].score(
                    [GroupCandidate.model_validate(candidate) for candidate in arguments[0]]
                )
        return await getattr(self._instances[number], what)(*arguments)

    def _load(
        self,
        specification: str,
        limits: dict[str, Any],
        memory_bytes: int,
        cpu_seconds: int,
        import_seconds: float,
    ) -> None:
        self._cpu_seconds = cpu_seconds
        if memory_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        self._limits = Limits(**limits)
        with limited_import(import_seconds, ADVICE):
            hosted_class = load_class(specification)
        self._host = self.host(Registry([hosted_class]), self._pool, self._limits)
        self._name = hosted_class.name
        if hosted_class.isolation == "session" and hosted_class.own_thread:
            self._pool.main = self.main_thread
            self.gives_main_thread.set()

    async def _close(self, number: int) -> None:
        """Close an instance after the requests about it, which the server has cancelled, have
        ended."""
        ours = asyncio.current_task()
        running = [task for of, task in self._tasks.values() if of == number and task is not ours]
        if running:
            await asyncio.wait(running, timeout=self._limits.close_wait_seconds)
        if (instance := self._instances.pop(number, None)) is not None:
            await instance.close()


def limit_cpu_time(seconds: int) -> None:
    """Let the kernel end this process once it has taken `seconds` more of CPU time, all threads
    together."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(time.process_time()) + seconds
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


async def _tasks(tasks: ClassTasks, what: str, *arguments: Any) -> Any:
    """Return the answer to a request about tasks; None if the class has no such tasks."""
    try:
        match what:
            case "listing":
                return await tasks.listing(*arguments)
            case "count":
                return await tasks.count(*arguments)
            case "get":
                return await tasks.get(*arguments)
        return [text async for chunk in tasks.range(*arguments) for text in chunk]
    except (NotImplementedError, InvalidIndex, InvalidIndexRange):
        return None


def _print_description(specification: str, import_seconds: float) -> None:
    """Print, as JSON, the description of a class, or why it cannot be served, for
    `interpreter.py`."""
    answer: dict[str, Any] = {"version": __version__}
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as output:
        # the author's module may print while it is imported
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            with limited_import(import_seconds, ADVICE), refusing_servers():
                hosted_class = load_class(specification)
            note_revisions([hosted_class], __version__)
            answer["description"] = describe(hosted_class).model_dump(mode="json")
        except Unhostable as problem:
            answer["unhostable"] = str(problem)
            print(author_traceback(problem.__cause__), file=sys.stderr)
        output.write(json.dumps(answer, default=str))


async def _serve(connection: socket.socket, kind: type[WorkerProgram]) -> WorkerProgram:
    """Answer the server until its end of the socket is closed, or the main thread is needed."""
    program = kind()
    loop = asyncio.get_running_loop()
    is_local = connection.family == socket.AF_UNIX
    connect = loop.create_unix_connection if is_local else loop.create_connection
    await connect(lambda: program.pipe, sock=connection)
    events = (program.pipe.ended, program.gives_main_thread)
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    return program


def _serve_elsewhere(loop: asyncio.AbstractEventLoop, program: WorkerProgram) -> None:
    """Run the loop in this thread from now on, and end the process with it, whatever its main
    thread does."""
    loop.run_until_complete(program.pipe.ended.wait())
    os._exit(0)


def main(kind: type[WorkerProgram] = WorkerProgram) -> None:
    """Answer the server until its end of the socket is closed, or describe a class."""
    if sys.argv[1] == "describe":
        _print_description(sys.argv[2], float(sys.argv[3]))
        return
    # while code holds the interpreter, nothing else ends it with the server
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C stops the server, which ends its workers
    faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # or it is lost when this is killed
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        program = runner.run(_serve(socket.socket(fileno=int(sys.argv[1])), kind))
        if program.gives_main_thread.is_set():
            threading.Thread(
                target=_serve_elsewhere, args=(runner.get_loop(), program), daemon=True
            ).start()
            while True:
                program.main_thread.get()()


if __name__ == "__main__":
    main()
