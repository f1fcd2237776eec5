"""Starts the reference server as its documentation says: `python -m benchmarks.reference PORT`."""

from __future__ import annotations

import sys

from ors import Server

from benchmarks.echo_ors import Echo

if __name__ == "__main__":
    Server([Echo]).run(host="127.0.0.1", port=int(sys.argv[1]))
