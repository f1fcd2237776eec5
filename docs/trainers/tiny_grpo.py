"""Trains a tiny model by the steps of trl_grpo.md, on a CPU and in minutes, so that its curve grows
on the server.

python tiny_grpo.py SERVER [--environment NAME] [--tasks INDEX …] [--calls NUMBER] [--run NAME]
[--seed SEED]
                    [--steps STEPS] [--output DIRECTORY]

The environment is the bundled `guess`, with eight tasks of the split `train`: find one of ten
numbers in four attempts. It can be another one whose first tool takes one choice or one whole
number, as the corridor of the course.

1. A scripted player plays 30 episodes of each task. It chooses at random, a number in the range
   that the prompt names, whatever it is told.
2. The server exports them as messages.
3. `sft.py` trains a model of random weights, with 0.8 million parameters, on the file.
4. `grpo.py` continues with that model.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import requests
from openreward import OpenReward

HERE = Path(__file__).parent
SPLIT = "train"
TASKS = (92, 100, 131, 168, 212, 215, 224, 284)
ATTEMPTS, EPISODES_PER_TASK = 4, 30
GROUPS, GROUP_SIZE, MAX_STEPS = 4, 8, 60
SIZES = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "head_dim": 32}
MAX_WAIT_SECONDS = 60.0


def play(server: str, name: str, tasks: Sequence[int], run: str, seed: int) -> None:
    """Play the episodes of the scripted player under the name of a run."""
    os.environ["OPENREWARD_API_URL"] = os.environ["OPENREWARD_SESSION_URL"] = server
    random, environment = Random(seed), OpenReward(api_key="").environments.get(name)
    secrets = {"orsweb_run": (run, []), "orsweb_model": ("scripted player", [])}
    for index in [*tasks] * EPISODES_PER_TASK:
        with environment.session(split=SPLIT, index=index, secrets=secrets) as session:
            tool = session.list_tools()[0]  # also so that the export knows them
            [(member, schema)] = tool.input_schema["properties"].items()
            prompt = session.get_prompt()[0].text
            while not session.call_tool(
                tool.name, {member: at_random(schema, prompt, random)}
            ).finished:
                pass


def at_random(schema: dict[str, Any], prompt: str, random: Random) -> Any:
    """Return one of the values that a schema lists, or a number between the first two of the
    prompt."""
    if "enum" in schema:
        return random.choice(schema["enum"])
    low, high = map(int, re.findall(r"\d+", prompt)[:2])
    return random.randint(low, high)


def export(server: str, run: str, file: Path, episodes: int) -> list[dict[str, Any]]:
    """Save the run's episodes as messages and return the rows, once the server has finished
    recording."""
    until = time.monotonic() + MAX_WAIT_SECONDS
    while True:
        response = requests.get(
            f"{server}/api/episodes/export", {"run": run, "format": "messages"}, timeout=60
        )
        rows = [json.loads(line) for line in response.text.splitlines()] if response.ok else []
        if len(rows) == episodes:
            file.write_text(response.text, encoding="utf-8")
            return rows
        if time.monotonic() > until:
            raise TimeoutError(f"{response.url} has {len(rows)} episodes: {response.text[:200]}")
        time.sleep(0.2)


def make_model(directory: Path, rows: Sequence[dict[str, Any]], seed: int) -> None:
    """Save a model of random weights, with the template of Qwen3 and tokens that are learned from
    the rows."""
    from tiny_model import TEMPLATES, make  # imports torch, which the other steps don't need here
    from transformers.utils.chat_template_utils import render_jinja_template

    template = (TEMPLATES / "qwen3.jinja").read_text(encoding="utf-8")
    texts = [
        render_jinja_template(
            conversations=[row["messages"]], tools=row["tools"], chat_template=template
        )[0][0]
        for row in rows
    ]
    print(f"{make(directory, texts, 'qwen3.jinja', seed=seed, **SIZES):,} parameters")


def run_script(name: str, *words: object, **options: object) -> None:
    """Run a script of this directory. Raises: CalledProcessError."""
    named = [
        word
        for option, value in options.items()
        for word in (f"--{option.replace('_', '-')}", str(value))
    ]
    started = time.monotonic()
    # a second thread makes so small a model slower
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    subprocess.run(
        [sys.executable, str(HERE / name), *map(str, words), *named], check=True, env=environment
    )
    print(f"{name} took {time.monotonic() - started:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", help="address of orsweb, such as http://127.0.0.1:8080")
    parser.add_argument("--environment", default="guess")
    parser.add_argument(
        "--tasks", type=int, nargs="*", default=TASKS, help="indices in the split train"
    )
    parser.add_argument(
        "--calls", type=int, default=ATTEMPTS, help="maximum number of tool calls of a rollout"
    )
    parser.add_argument(
        "--max-length", type=int, default=192, help="tokens of a rollout after its prompt"
    )
    parser.add_argument("--run", default="tiny-grpo", help="name of the run on the server")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=MAX_STEPS)
    parser.add_argument("--output", type=Path, default=Path("tiny-grpo"))
    options = parser.parse_args()
    player, file = f"{options.run}-player", options.output / "player.messages.jsonl"
    model, warm, trained = (options.output / name for name in ("model", "sft", "grpo"))
    options.output.mkdir(parents=True, exist_ok=True)

    play(options.server, options.environment, options.tasks, player, options.seed)
    rows = export(options.server, player, file, len(options.tasks) * EPISODES_PER_TASK)
    make_model(model, rows, options.seed)
    run_script("sft.py", file, model, output=warm, learning_rate=3e-3, epochs=8)
    grpo = {
        "groups": GROUPS,
        "group_size": GROUP_SIZE,
        "calls": options.calls,
        "max_length": options.max_length,
    }
    words = (options.server, options.environment, warm, "--tasks", *options.tasks)
    about = {
        "run": options.run,
        "max_steps": options.steps,
        "seed": options.seed,
        "output": trained,
    }
    run_script("grpo.py", *words, learning_rate=3e-4, **about, **grpo)


if __name__ == "__main__":
    main()
