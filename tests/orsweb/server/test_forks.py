"""A process that hosted code forks gets each signal that is sent to it, from its first moment
on."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import os, signal
began, go_on = os.pipe(), os.pipe()
def begin():
    os.write(began[1], b".")
    os.read(go_on[0], 1)
os.register_at_fork(after_in_child=begin)  # before the server has let go of the process
from orsweb.server import forks
forks.keep_all([])
signal.signal(signal.SIGTERM, lambda *_: None)  # as the server has one
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    while True:
        signal.pause()
os.read(began[0], 1)
os.kill(pid, signal.SIGTERM)
os.write(go_on[1], b".")
print(os.WTERMSIG(os.waitpid(pid, 0)[1]), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
"""


def test_a_signal_that_comes_at_once_ends_it_and_the_server_takes_its_own_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(int(signal.SIGTERM)), "[]"]
