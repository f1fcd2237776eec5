"""The program of a process in which the checks play one session: a worker process whose instance
answers more.

`session_processes.py` starts it as `python -m environments.checking.session_program 5`. It imports
neither that module nor structlog, which would take as long as the rest.
"""

from __future__ import annotations

from environments.checking.local import CheckedHost
from environments.hosts.worker_program import WorkerProgram
from environments.hosts.worker_program import main as run


class CheckedProgram(WorkerProgram):
    host = CheckedHost


def main() -> None:
    """Answer the check until its end of the socket is closed."""
    run(CheckedProgram)


if __name__ == "__main__":
    main()
