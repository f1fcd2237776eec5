"""Plays an environment of any ORS server in verl: a tool, and an agent loop that opens a session
for each rollout.

python ors_verl.py ENVIRONMENT --run NAME writes the files that verl's configuration names.
"""

import argparse
import base64
import io
import os
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
import pandas
from omegaconf import OmegaConf
from ors.client import ORS, AsyncORS, AsyncSession, ToolCallError
from PIL import Image
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.experimental.agent_loop.tool_agent_loop import AgentState, ToolAgentLoop
from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse


@dataclass
class Episode:
    session: AsyncSession
    rewards: list[float] = field(default_factory=list)
    is_over: bool = False


EPISODE: ContextVar[Episode] = ContextVar("episode")
"""The episode of the rollout that is running. A tool can't hold it: verl makes an instance of a
tool for each call."""


def parts_of(blocks) -> tuple[str, list[Image.Image]]:
    texts = [block.text for block in blocks if block.type == "text"]
    images = [
        Image.open(io.BytesIO(base64.b64decode(block.data)))
        for block in blocks
        if block.type == "image"
    ]
    return "\n".join(texts), images


class OrsTool(BaseTool):
    """A tool of the server. tools.yaml has one entry for each."""

    async def execute(self, instance_id, parameters, **kwargs) -> tuple[ToolResponse, float, dict]:
        episode = EPISODE.get()
        try:
            output = await episode.session.call_tool(self.name, parameters)
        except (
            ToolCallError,
            RuntimeError,
        ) as error:  # refused, or crashed: the model can try again
            return ToolResponse(text=f"Error: {error}"), 0.0, {}
        episode.rewards.append(output.reward or 0.0)
        episode.is_over = output.finished
        text, images = parts_of(output.blocks)
        return (
            ToolResponse(text=text, **({"image": images} if images else {})),
            episode.rewards[-1],
            {},
        )


class OrsAgentLoop(ToolAgentLoop):
    """verl's loop of tool calls within a session, which has the prompt, the rewards and the end."""

    async def run(self, sampling_params, **kwargs) -> AgentLoopOutput:
        task = kwargs["extra_info"]
        ors = AsyncORS(base_url=task["server"])  # its connections close with it
        environment = ors.environment(task["environment"])
        secrets = {"orsweb_run": task["run"]}
        async with environment.session(
            split=task["split"], index=int(task["index"]), secrets=secrets
        ) as session:
            episode = Episode(session)
            EPISODE.set(episode)
            text, images = parts_of(await session.get_prompt())
            content = [
                *({"type": "image", "image": image} for image in images),
                {"type": "text", "text": text},
            ]
            kwargs["raw_prompt"] = [{"role": "user", "content": content if images else text}]
            output = await super().run(sampling_params, **kwargs)
        output.reward_score = sum(episode.rewards)  # 0 for a rollout without a call
        return output

    async def _handle_processing_tools_state(self, agent_data) -> AgentState:
        state = await super()._handle_processing_tools_state(agent_data)
        return AgentState.TERMINATED if EPISODE.get().is_over else state


def property_of(schema: dict) -> dict:
    """Return what verl's schema can say of a parameter: types, description, choices."""
    types = [choice.get("type", "object") for choice in schema.get("anyOf", [schema])]
    said = {name: schema[name] for name in ("description", "enum") if name in schema}
    return {"type": types if len(types) > 1 else types[0], **said}


def tool_config(tool) -> dict:
    schema = tool.input_schema or {}
    properties = {name: property_of(value) for name, value in schema.get("properties", {}).items()}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
    }
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {
        "class_name": "ors_verl.OrsTool",
        "config": {"type": "native"},
        "tool_schema": {"type": "function", "function": function},
    }


def begin_run(server: str, run: str, **config) -> None:
    """Begin the run, or go on with one that these options began, and print how many episodes it
    has."""
    url, key = f"{server}/api/runs/by-name/{quote(run, safe='')}", os.environ.get("ORS_API_KEY", "")
    members = {"state": "running", "config": config}
    begun = httpx.put(url, json=members, headers={"X-API-Key": key}).raise_for_status().json()
    print("run {name} has {episodes} episodes: {html_url}".format(**begun))


def write_files(server: str, environment: str, split: str, run: str, output: Path) -> None:
    """Write tools.yaml, agent.yaml and train.parquet. The tools are those of the first task."""
    output.mkdir(parents=True, exist_ok=True)
    with ORS(base_url=server) as ors:
        played = ors.environment(environment)
        count = played.num_tasks(split)
        with played.session(split=split, index=0) as session:
            tools = [tool_config(tool) for tool in session.list_tools()]
    OmegaConf.save({"tools": tools}, output / "tools.yaml")
    OmegaConf.save(
        [{"name": "ors_agent", "_target_": "ors_verl.OrsAgentLoop"}], output / "agent.yaml"
    )
    task = {"server": server, "environment": environment, "split": split, "run": run}
    rows = [
        {
            "data_source": environment,
            # the session has the real one
            "prompt": [{"role": "user", "content": f"{split}/{index}"}],
            "reward_model": {"style": "rule", "ground_truth": ""},
            "agent_name": "ors_agent",
            "extra_info": {"index": index, **task},
        }
        for index in range(count)
    ]
    pandas.DataFrame(rows).to_parquet(output / "train.parquet")
    begin_run(server, run, environment=environment, split=split)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("environment", help="such as guess")
    parser.add_argument("--run", required=True, help="name of the run on the server")
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--split", default="train")
    parser.add_argument("--output", type=Path, default=Path("ors"))
    options = parser.parse_args()
    write_files(**vars(options))
