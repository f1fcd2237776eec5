"""Trains a model with GRPO on an environment that orsweb hosts, and reports the run to it.

python grpo.py SERVER ENVIRONMENT MODEL --run NAME [--tasks 0 1 2] [--output DIRECTORY]
"""

import argparse
import os
from urllib.parse import quote

import requests
import torch
from requests.adapters import HTTPAdapter, Retry
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.openreward import OpenRewardSpec

parser = argparse.ArgumentParser()
parser.add_argument("server", help="address of orsweb, such as http://127.0.0.1:8080")
parser.add_argument("environment")
parser.add_argument("model", help="name or directory of a model whose chat template takes tools")
parser.add_argument("--run", required=True, help="name of the run on the server")
parser.add_argument("--key", default="", help="one of the server's API keys, if it has any")
parser.add_argument(
    "--tasks", type=int, nargs="*", help="indices in the split train; default: all of it"
)
parser.add_argument("--output", default="grpo")
parser.add_argument("--max-steps", type=int, default=100)
parser.add_argument("--groups", type=int, default=4, help="tasks in each step")
parser.add_argument("--group-size", type=int, default=8, help="rollouts of each task")
parser.add_argument(
    "--calls", type=int, default=8, help="maximum number of tool calls of a rollout"
)
parser.add_argument(
    "--max-length", type=int, default=1024, help="tokens of a rollout after its prompt"
)
parser.add_argument("--learning-rate", type=float, default=1e-6)
parser.add_argument("--seed", type=int, default=42)
options = parser.parse_args()


class OrswebRun(TrainerCallback):
    """Reports the run to orsweb: its step before each rollout, what is logged, and its end."""

    def __init__(self, server, name, key="", **description):
        self.scalars, self.name = f"{server}/api/scalars", name
        self.url = f"{server}/api/runs/by-name/{quote(name, safe='')}"
        self.http = requests.Session()  # tries again for two minutes while the server is away
        again = Retry(8, backoff_factor=0.5, allowed_methods=None, status_forcelist=[502, 503, 504])
        self.http.mount(server, HTTPAdapter(max_retries=again))
        self.http.headers["X-API-Key"] = key
        self.description = description  # model, git_commit, notes, tags

    def on_train_begin(self, args, state, control, **kwargs):
        # without NaN
        config = {name: value for name, value in args.to_sanitized_dict().items() if value == value}
        about = {
            "state": "running",
            "step": state.global_step,
            "config": config,
            **self.description,
        }
        # goes on from a checkpoint, and else begins the next run of the name
        about["resume"] = state.global_step > 0
        answer = self.http.put(self.url, json=about)
        answer.raise_for_status()
        print("run {name} has {episodes} episodes: {html_url}".format(**answer.json()))

    def on_step_begin(self, args, state, control, **kwargs):
        step = {"step": state.global_step + 1}  # the number that the trainer logs it under
        self.http.put(self.url, json=step).raise_for_status()

    def on_log(self, args, state, control, logs, **kwargs):
        # JSON has no NaN and no infinity, so they are texts
        scalars = {
            name: value if abs(value) < float("inf") else str(value)
            for name, value in logs.items()
            if isinstance(value, int | float)
        }
        body = {"run": self.name, "points": [{"step": state.global_step, "scalars": scalars}]}
        self.http.post(self.scalars, json=body).raise_for_status()

    def on_train_end(self, args, state, control, **kwargs):
        self.http.put(self.url, json={"state": "ended"})


def episode_return(environments, **kwargs):
    """Return the sum of each rollout's rewards; 0 without a tool call, as the server counts it by
    default."""
    return [sum(reward or 0.0 for reward in environment.rewards) for environment in environments]


os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = options.server.rstrip("/")
secrets = {}
spec = OpenRewardSpec(
    options.server,
    env_name=options.environment,
    split="train",
    indices=options.tasks,
    api_key=options.key,
    secrets=secrets,
    include_metadata=False,  # the trainer needs no answers
)
dataset, environment_factory = spec.train_dataset, spec.environment_factory
# only now, because reading the tools opens sessions that are no rollouts
secrets["orsweb_run"] = (options.run, [])

trainer = GRPOTrainer(
    model=options.model,
    args=GRPOConfig(
        output_dir=options.output,
        max_steps=options.max_steps,
        per_device_train_batch_size=options.groups * options.group_size,
        num_generations=options.group_size,
        max_tool_calling_iterations=options.calls,
        max_completion_length=options.max_length,
        learning_rate=options.learning_rate,
        seed=options.seed,
        logging_steps=1,
        save_strategy="no",
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),  # TRL's default, which is ten times slower on most CPUs
        report_to="none",
    ),
    train_dataset=dataset,
    environment_factory=environment_factory,
    reward_funcs=episode_return,
    callbacks=[
        OrswebRun(options.server, options.run, options.key, model=options.model, tags=["grpo"])
    ],
)
trainer.train()
trainer.save_model()
trainer.save_state()
