"""Starts the server of the SDK that a class is written for, as its documentation says.

`python -m benchmarks.reference PORT MODULE:CLASS`
"""

from __future__ import annotations

import sys
from importlib import import_module

import ors

if __name__ == "__main__":
    module, _, name = sys.argv[2].partition(":")
    environment = getattr(import_module(module), name)
    environment.__name__ = "Echo"  # both servers name environments after their classes
    if issubclass(environment, ors.Environment):
        ors.Server([environment]).run(host="127.0.0.1", port=int(sys.argv[1]))
    else:
        from openreward.environments import Server

        Server([environment]).run(host="127.0.0.1", port=int(sys.argv[1]))
