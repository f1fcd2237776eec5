"""`ORSWEB_ENVIRONMENT_SECRETS_FILE`: sessions have the operator's secrets also after a kill, and at
other servers."""

from __future__ import annotations

from pathlib import Path

from environments.runtime.secrets_mask import STARS
from tests.conformance.agent import Agent
from tests.server import LiveServer

SECRET = "operators-own-token-4711"


def test_a_session_has_them_after_a_kill_and_a_remote_environment_gets_them(tmp_path: Path) -> None:
    file = tmp_path / "secrets.toml"
    file.write_text(f"[telling]\ntoken = '{SECRET}'\n[far]\ntoken = '{SECRET}'\n")
    file.chmod(0o600)
    with LiveServer("tests.envs:Secretive") as other:
        classes = ("tests.envs_returning:Telling", f"far={other.url}/secretive")
        with LiveServer(*classes, env={"ORSWEB_ENVIRONMENT_SECRETS_FILE": str(file)}) as server:
            agent, far = (
                Agent(server).open({"id": 1}, "telling"),
                Agent(server).open({"id": 1}, "far"),
            )
            assert far.call("reveal").text == f"token {STARS}"  # it is not missing
            assert agent.call("add", {"number": 1}).text == "1"
            server.kill()
            server.start()
            again = Agent(server)
            again.sid = agent.sid
            assert again.call("add", {"number": 2}).text == "3" and again.call("tell").text == STARS
            assert SECRET not in server.log
