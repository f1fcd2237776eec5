"""Plays an environment of any ORS server in SkyRL: a text environment, whose actions are the
model's words.

python ors_skyrl.py ENVIRONMENT --run NAME writes train.parquet, the tasks that SkyRL trains on.
"""

import argparse
import asyncio
import json
import os
import re
import threading
from pathlib import Path
from urllib.parse import quote

import httpx
import pandas
import skyrl_gym
from ors.client import ORS, AsyncORS, ToolCallError
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

TOOLS = """You have these tools:
<tools>
{}
</tools>
To call one, write: <tool_call>{{"name": "the tool", "arguments": {{"its": "parameters"}}}}</tool_call>"""
LOOP = asyncio.new_event_loop()  # keeps all sessions of the process alive while the model writes
threading.Thread(target=LOOP.run_forever, daemon=True).start()
CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)


def wait(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result()


class OrsEnv(BaseTextEnv):
    """One session of the server. SkyRL makes an instance for each rollout, from the columns of the
    task's row."""

    def __init__(self, env_config=None, extras: dict = {}):
        super().__init__()
        self.max_turns, self.task = extras.get("max_turns", 20), extras["ors"]
        self.total, self.session = 0.0, None

    def init(self, prompt):
        """Open the session, and return its prompt. That of the row is only a name."""
        return wait(self.open()), {}

    async def open(self) -> list[dict]:
        self.ors = AsyncORS(base_url=self.task["server"])  # its connections close with it
        environment, secrets = (
            self.ors.environment(self.task["environment"]),
            {"orsweb_run": self.task["run"]},
        )
        self.session = environment.session(
            split=self.task["split"], index=int(self.task["index"]), secrets=secrets
        )
        await self.session.__aenter__()
        tools = [json.dumps(vars(tool)) for tool in await self.session.list_tools()]
        task = text_of(await self.session.get_prompt())
        return [
            {"role": "system", "content": TOOLS.format("\n".join(tools))},
            {"role": "user", "content": task},
        ]

    def step(self, action: str) -> BaseTextEnvStepOutput:
        self.turns += 1
        texts, reward, done = [], 0.0, self.turns >= self.max_turns
        calls = CALL.findall(action)
        for call in calls:
            text, earned, is_over = self.call(call)
            texts, reward, done = [*texts, text], reward + earned, done or is_over
            if is_over:
                break
        self.total += reward
        answer = "\n".join(f"<tool_response>\n{text}\n</tool_response>" for text in texts)
        done = done or not calls
        observations = [] if done else [{"role": "user", "content": answer}]
        return BaseTextEnvStepOutput(
            observations=observations, reward=reward, done=done, metadata={}
        )

    def call(self, text: str) -> tuple[str, float, bool]:
        """Return a tool's answer, its reward, and whether the episode is over."""
        try:
            call = json.loads(text)
            output = wait(self.session.call_tool(call["name"], call.get("arguments", {})))
        except (
            ToolCallError,
            RuntimeError,
            ValueError,
            LookupError,
            AttributeError,
            TypeError,
        ) as error:
            return f"Error: {error}", 0.0, False  # refused, or not a call: the model can try again
        return text_of(output.blocks), output.reward or 0.0, output.finished

    def close(self):
        if self.session is not None:
            wait(self.session.__aexit__(None, None, None))
            self.session = None

    def get_metrics(self) -> dict:
        return {"return": self.total, "turns": self.turns}


def text_of(blocks) -> str:
    return "\n".join(block.text if block.type == "text" else "[image]" for block in blocks)


def begin_run(server: str, run: str, **config) -> None:
    """Begin the run, or go on with one that these options began, and print how many episodes it
    has."""
    url, key = f"{server}/api/runs/by-name/{quote(run, safe='')}", os.environ.get("ORS_API_KEY", "")
    members = {"state": "running", "config": config}
    begun = httpx.put(url, json=members, headers={"X-API-Key": key}).raise_for_status().json()
    print("run {name} has {episodes} episodes: {html_url}".format(**begun))


def write_tasks(server: str, environment: str, split: str, run: str, output: Path) -> None:
    with ORS(base_url=server) as ors:
        count = ors.environment(environment).num_tasks(split)
    task = {"server": server, "environment": environment, "split": split, "run": run}
    rows = [
        {
            "prompt": [{"role": "user", "content": f"{split}/{index}"}],
            "env_class": "ors",
            "ors": {"index": index, **task},
        }
        for index in range(count)
    ]
    pandas.DataFrame(rows).to_parquet(output)
    begin_run(server, run, environment=environment, split=split)


# do this in the script that starts the training, too
skyrl_gym.register(id="ors", entry_point="ors_skyrl:OrsEnv")

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("environment", help="such as guess")
    parser.add_argument("--run", required=True, help="name of the run on the server")
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--split", default="train")
    parser.add_argument("--output", type=Path, default=Path("train.parquet"))
    options = parser.parse_args()
    write_tasks(**vars(options))
