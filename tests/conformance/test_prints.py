"""What hosted code prints is masked and marked, whether it runs in the server's process or in one
of its own."""

from __future__ import annotations

import uuid

from environments.runtime.secrets_mask import MAX_RECENT_SECRETS, STARS
from tests.conformance.agent import Agent, eventually
from tests.server import LiveServer

HOSTS = ("tests.conformance.envs:Printing", "apart=tests.conformance.envs:PrintingApart")
WHOLE = (
    *(
        "stdout",
        "stderr",
        "UserWarning: warnings",
        "ValueError: print_exc",
        "os.write(1)",
        "os.write(2)",
        "program",
    ),
    "ValueError: invalid literal for int() with base 10: 'thread",
)
IN_PARTS = ("part", "progress", "binary \N{REPLACEMENT CHARACTER}")


def test_no_session_loses_its_secret_to_others_of_its_key() -> None:
    secrets = [f"token/{uuid.uuid4().hex}" for _ in range(2 * MAX_RECENT_SECRETS)]
    with LiveServer(*HOSTS) as server:
        for host in ("printing", "apart"):
            with Agent(server).open({"id": 1}, host) as agent:
                agent.call("print_line")
        eventually(lambda: server.log.count("␛[2Jline ") == 2)
        agents = [
            Agent(server).open({"id": 1}, "printing", secrets={"token": secret})
            for secret in secrets
        ]
        for agent in agents:
            agent.call("print_line")
        eventually(lambda: server.log.count(f"␛[2Jline {STARS}") == len(agents))
        assert not any(secret in server.log for secret in [*secrets, "\x1b"])


def test_no_way_of_printing_shows_a_secret() -> None:
    secret = f"token/{uuid.uuid4().hex}"
    with LiveServer(*HOSTS) as server:
        for host in ("printing", "apart"):
            with Agent(server).open({"id": 1}, host, secrets={"token": secret}) as agent:
                agent.call("print_whole")
                agent.call("print_in_parts")
        eventually(lambda: all(server.log.count(f"{output} is done") == 2 for output in (1, 2)))
        Agent(server).open({"id": 1}, "printing", secrets={"token": secret}).begin("crash")
        eventually(lambda: f"last words {STARS}\n" in server.log)
        log = server.log
    assert {way: log.count(f"{way} {STARS}") for way in WHOLE} == dict.fromkeys(WHOLE, 2)
    assert {way: log.count(f"{way} {STARS}") for way in IN_PARTS} == dict.fromkeys(IN_PARTS, 4)
    assert log.count("(a line of more than 65536 bytes)") == 4
    assert secret not in log and secret[-16:] not in log
