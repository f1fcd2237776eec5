"""One seed of Python's hashes for every process of a data directory, also after a restart.

Code that calls `random.seed(hash(text))`, or depends on the order of a set, then makes the same
tasks in the server, its workers and in commands. Python reads the seed from PYTHONHASHSEED when it
starts, so a command without one starts itself again with that of the data directory; what it starts
inherits the variable.
"""

from __future__ import annotations

import os
import sys

from django.core.exceptions import ImproperlyConfigured

from orsweb.private_files import data_directory, private_file

VARIABLE = "PYTHONHASHSEED"
SEEDS = 2**32


def ensure() -> None:
    """Start this program again with the seed of its data directory, unless it has one. Raises:
    ImproperlyConfigured.

    Call this before anything large is imported: it takes as long as Python takes to start.
    """
    if not os.environ.get(VARIABLE):
        path = private_file(data_directory() / "hash_seed", f"{int.from_bytes(os.urandom(4))}\n")
        text = path.read_text(errors="replace").strip()
        if not (text.isascii() and text.isdecimal() and int(text) < SEEDS):
            raise ImproperlyConfigured(
                f"{str(path)!r} holds {text[:40]!r}; write a whole number from 0 to {SEEDS - 1} "
                "into it, or delete it and get another one, with which tasks may be others that "
                "depend on hashes."
            )
        os.environ[VARIABLE] = text
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # nosec B606 # our own command line
