"""The processes that a server leaves end, and which of them are named."""

from __future__ import annotations

import os
import subprocess
import sys

from orsweb.server import orphans


def test_what_ends_by_itself_is_not_named() -> None:
    """Such as a worker process of the server, which the kernel ends with it."""
    with subprocess.Popen(["true"]) as ending:
        os.waitid(os.P_PID, ending.pid, os.WEXITED | os.WNOWAIT)
        assert orphans._name_of(ending.pid) == ""


def test_the_child_of_one_that_ends_between_two_looks_is_ended_too() -> None:
    """The first look finds only the parent, which hands its child over when it ends."""
    program = [sys.executable, "-c", PARENT_ENDS_AFTER_EACH_LOOK]
    assert subprocess.run(program, check=True, capture_output=True, text=True).stdout == "[]\n"


PARENT_ENDS_AFTER_EACH_LOOK = """
import os, signal
import django
django.setup()
from orsweb.server import orphans

def look_and_let_them_end():
    pids = look()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pids

this = orphans.Orphans()
reader, writer = os.pipe()
if not os.fork():
    os.fork()
    os.write(writer, b".")
    signal.pause()
for _ in "parent", "child":
    os.read(reader, 1)
look, orphans._children = orphans._children, look_and_let_them_end
this.end((), with_daemons=True)
left = look()
for pid in left:
    os.kill(pid, signal.SIGKILL)
print(left)
"""
