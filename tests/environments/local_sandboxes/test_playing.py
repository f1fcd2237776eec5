"""The official template of an environment with a sandbox is hosted unmodified and played."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.conformance.agent import eventually
from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.sandboxed import needs_bubblewrap, processes_with
from tests.server import LiveServer

TEMPLATE = "template=openreward.templates.sandbox.sandbox_env:SandboxEnv"


@needs_bubblewrap
def test_the_template_of_the_sdk() -> None:
    with tempfile.TemporaryDirectory(prefix="orsweb-test-") as directory:
        Path(directory).chmod(0o755)
        for name in ("images/default", "files/YourUsername/SandboxEnv"):
            (Path(directory) / name).mkdir(parents=True)
        with LiveServer(
            TEMPLATE, env={"ORSWEB_SANDBOXES": directory, "ORSWEB_WORKERS": "1"}
        ) as server:
            for kind in (OrsClient, OpenRewardClient):  # the latter sends an empty key
                with kind(server, api_key="" if kind is OpenRewardClient else None) as client:
                    plays(client)
            eventually(lambda: not processes_with("4721"))


def plays(client: Client) -> None:
    with client.environment("template").session(split="test", index=0) as session:
        assert "explore the file system" in session.get_prompt()[0].text
        command = "sleep 4721 >/dev/null 2>&1 & echo $((6 * 7)) | tee answer"
        assert session.call_tool("bash", {"command": command}).metadata["output"] == "42"
        output = session.call_tool("bash", {"command": "cat answer; env; exit 3"})
        assert output.metadata["exit_code"] == 3
        assert output.metadata["output"].startswith("42\n")
        assert processes_with("4721")
