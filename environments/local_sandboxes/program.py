"""The program that has the sandboxes: `python -m environments.local_sandboxes.program`, started by
`service.py`.

It ends, with every sandbox, when its standard input does, or the server, however that ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from environments.local_sandboxes.door import Door

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent = os.getppid()
    # Ctrl-C is for the server, whose code may still need its sandboxes
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)  # uvicorn takes SIGTERM for itself
    settings = sys.stdin.readline()
    if settings and os.getppid() == parent:
        asyncio.run(_serve(json.loads(settings)))


async def _serve(settings: dict[str, Any]) -> None:
    door = Door(
        Path(settings["directory"]), settings["max_gb"], settings["most"], settings["token"]
    )
    config = uvicorn.Config(door, lifespan="off", log_level="warning", access_log=False)
    server, loop, end = uvicorn.Server(config), asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, end.set)
    loop.add_reader(sys.stdin, end.set)  # nothing else comes there
    serving = loop.create_task(server.serve([socket.socket(fileno=settings["listener"])]))
    cleaning, ending = loop.create_task(door.end_silent()), loop.create_task(end.wait())
    await asyncio.wait([ending, serving], return_when=asyncio.FIRST_COMPLETED)
    door.close()
    server.should_exit = server.force_exit = True
    for task in (cleaning, ending):
        task.cancel()
    await serving


if __name__ == "__main__":
    main()
