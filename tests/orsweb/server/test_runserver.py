"""`manage.py runserver`, for authors of environments, which follows the rules of `serve` for host
and port."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from tests import programs
from tests.server import LiveServer


class Runserver(LiveServer):
    """A LiveServer that runs daphne, which gets its port from the setting; `args` are those of the
    command."""

    def __init__(self, *args: str, env: Mapping[str, str] | None = None) -> None:
        super().__init__(*args, env=env)
        self.env = {
            "ORSWEB_PORT": str(self.port),
            "ORSWEB_ENVIRONMENTS": "tests.envs:Echo",
        } | self.env

    def launch(self) -> LiveServer:
        with self._log_path.open("ab") as log:
            self._process = programs.start(
                "runserver", "--noreload", *self.args, env=self.env, cwd=self.cwd, out=log
            )
        return self


def test_it_listens_where_the_settings_say() -> None:
    with Runserver() as server:  # asked at the port that the setting names
        assert server.is_healthy()


def test_it_takes_an_address_of_ipv6_and_a_port_of_the_command_wins() -> None:
    server = Runserver(env={"ORSWEB_HOST": "::1", "ORSWEB_PORT": "1"})
    server.args, server.url = (str(server.port),), f"http://[::1]:{server.port}"
    with server:
        assert server.is_healthy()


def test_it_refuses_whom_serve_refuses() -> None:
    sentence = "Listening on no-such-host.invalid gives other machines access without a key"
    refused(Runserver(env={"ORSWEB_HOST": "no-such-host.invalid"}), sentence)


def test_it_refuses_a_port_that_is_in_use() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        refused(
            Runserver(env={"ORSWEB_PORT": port}),
            f"Port {port} of 127.0.0.1 is in use; stop what uses it",
        )


def refused(server: LiveServer, sentence: str) -> None:
    """Check that it ends with status 1 and this sentence."""
    try:
        assert server.launch().process.wait(60) == 1
        assert server.log.startswith(sentence) and "Traceback" not in server.log
    finally:
        server.discard()
