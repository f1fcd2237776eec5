"""Starts the program that has the sandboxes, and tells hosted code where it is."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator

from environments.errors import Unhostable
from environments.limits import SandboxSettings
from environments.sandbox.bubblewrap import unavailable

END_SECONDS = 5.0
USER = "sandboxes"
"""Name before the token in the address that hosted code gets."""
KEY_SECRETS = ("api_key", "OPENREWARD_API_KEY")
"""Secrets in which environments look for a key of openreward.ai; without one they open no
session."""

_token = ""  # nosec B105 # none yet


def local_secrets() -> dict[str, str]:
    """Return secrets for sessions that have no key of openreward.ai, while there are sandboxes
    here."""
    return dict.fromkeys(KEY_SECRETS, _token) if _token else {}


@contextlib.contextmanager
def sandboxes(settings: SandboxSettings | None) -> Iterator[None]:
    """Run sandboxes for hosted code until the end of the block; None: run none.

    Code finds them by an environment variable, so import classes and start processes in the block.
    Raises: Unhostable.
    """
    global _token
    if settings is None:
        yield
        return
    if reason := unavailable({"bash": "bash"}):
        raise Unhostable(
            f"ORSWEB_SANDBOXES={str(settings.directory)!r} asks for sandboxes. {reason}"
        )
    if not settings.directory.is_dir():
        raise Unhostable(f"ORSWEB_SANDBOXES={str(settings.directory)!r} is no directory.")
    token = secrets.token_urlsafe(24)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        process = subprocess.Popen(  # nosec B603 # a program of this server
            [sys.executable, "-P", "-m", "environments.local_sandboxes.program"],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        values = {
            "listener": listener.fileno(),
            "directory": str(settings.directory.resolve()),
            "max_gb": settings.max_gb,
            "most": settings.most,
            "token": token,
        }
        assert process.stdin is not None
        process.stdin.write(json.dumps(values).encode() + b"\n")
        process.stdin.flush()
        _token = token
        others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
        # the client asks proxies, too
        os.environ["no_proxy"] = ",".join(filter(None, (others, "127.0.0.1")))
        os.environ["OPENREWARD_SESSION_URL"] = (
            f"http://{USER}:{token}@127.0.0.1:{listener.getsockname()[1]}"
        )
    try:
        yield
    finally:
        _token = ""  # nosec B105 # none any more
        del os.environ["OPENREWARD_SESSION_URL"]
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        process.kill()
        process.wait()
