"""What is named of the processes that a server leaves."""

from __future__ import annotations

import os
import subprocess

from orsweb.server import orphans


def test_what_ends_by_itself_is_not_named() -> None:
    """Such as a worker process of the server, which the kernel ends with it."""
    with subprocess.Popen(["true"]) as ending:
        os.waitid(os.P_PID, ending.pid, os.WEXITED | os.WNOWAIT)
        assert orphans._name_of(ending.pid) == ""
