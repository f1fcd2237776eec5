"""Evaluates a model on an environment of orsweb with Inspect, as a run of orsweb.

inspect eval inspect_task.py -T environment=guess -T run=NAME --model openai/gpt-5-mini
"""

import os
from functools import partialmethod
from urllib.parse import quote

import httpx
from inspect_ai import Task, task
from inspect_ai.hooks import Hooks, TaskEnd, hooks
from inspect_ai.model import get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolError
from inspect_openreward import openreward_dataset, openreward_scorer, openreward_solver
from openreward import OpenReward
from openreward.api.environments.client import AsyncEnvironment, AsyncSession, ToolCallError

SERVER = "http://127.0.0.1:8080"
session, call_tool = AsyncEnvironment.session, AsyncSession.call_tool


async def call_tool_or_explain(self, name, input):
    """Turn a refused call into an error that the model reads. Inspect would end the sample with any
    other one."""
    try:
        return await call_tool(self, name, input)
    except ToolCallError as error:
        raise ToolError(str(error)) from error


def report(server: str, run: str, **members) -> dict:
    """Tell the server about the run, and return what it knows."""
    url, key = (
        f"{server}/api/runs/by-name/{quote(run, safe='')}",
        os.environ.get("OPENREWARD_API_KEY", ""),
    )
    return httpx.put(url, json=members, headers={"X-API-Key": key}).raise_for_status().json()


@hooks(name="orsweb", description="Tells the server when a task has ended")
class OrswebRun(Hooks):
    async def on_task_end(self, data: TaskEnd) -> None:
        arguments = data.log.eval.task_args
        state = "ended" if data.log.status == "success" else "failed"
        report(arguments.get("server", SERVER), arguments["run"], state=state)


@solver
def until_finished(max_turns: int) -> Solver:
    """Let the model call tools until the episode is over. Inspect's own loop goes on until it calls
    none."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for _ in range(max_turns):
            state = await generate(state, tool_calls="single")
            if state.metadata.get("openreward_finished") or not state.output.message.tool_calls:
                break
        return state

    return solve


@task
def orsweb(run, environment="guess", split="test", tasks=20, max_turns=20, server=SERVER) -> Task:
    os.environ["OPENREWARD_SESSION_URL"] = os.environ["OPENREWARD_API_URL"] = server
    secrets = {"orsweb_run": (run, []), "orsweb_model": (str(get_model()), [])}
    # the solver has no parameter for them
    AsyncEnvironment.session = partialmethod(session, secrets=secrets)
    AsyncSession.call_tool = call_tool_or_explain
    begun = report(server, run, state="running", model=str(get_model()))
    print("run {name} has {episodes} episodes: {html_url}".format(**begun))
    played = OpenReward().environments.get(environment)
    return Task(
        dataset=openreward_dataset(played, split, limit=tasks),
        solver=openreward_solver(played, until_finished(max_turns)),
        scorer=openreward_scorer(),
    )
