"""A worker process of the server, as the warm interpreter runs it. Its connection to the server is
its stdin."""

import os
import sys
from importlib import import_module
from pathlib import Path

from tests.warm_workers import SERVER, name_of_workers

Path("/proc/self/comm").write_text(name_of_workers(os.environ.pop(SERVER)))
os.setsid()  # before anything that takes long, as the server waits for that
connection, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
program, sys.argv[1:] = sys.argv[1], [str(connection)]
import_module(program).main()
