"""The stacks that a server writes for its supervisor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import faulthandler, os, sys
from pathlib import Path
from orsweb.server import thread_stacks
thread_stacks.write_stacks_into(Path(sys.argv[1]))
for number in (thread_stacks.STACKS_SIGNAL, thread_stacks.LOOP_STACK_SIGNAL):
    faulthandler.unregister(number)  # as the interpreter does when it ends
    os.kill(os.getpid(), number)
"""


def test_a_server_that_ends_is_not_killed_by_the_question_for_its_stacks(tmp_path: Path) -> None:
    assert (
        subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], check=False).returncode == 0
    )
