"""How long actions on 100,000 tasks and their undo take in a server in which agents play, on SQLite
and PostgreSQL.

A person does both on pages of the admin, from the press of the button to the end of the job.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import httpx

from benchmarks.load import Load
from benchmarks.scenarios import drive
from benchmarks.servers import Workshop

TASKS = 100_000
MAX_SECONDS = 20.0
AGENTS, INTERVAL_SECONDS = 32, 0.25
"""Agents, and the time from one request of each to its next: 128 requests a second together."""
PLAYING_SECONDS = 50.0
"""Agents play for longer than an action and its undo take on a busy machine."""
ENVIRONMENTS = ["echo=benchmarks.echo:Echo", "many=benchmarks.echo:HundredThousand"]
TIMEOUT_SECONDS = 300.0

_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')
_INPUTS = re.compile(r'name="inputs" value="([^"]*)"')
_LINK = re.compile(r'href="/admin/environments/(\w+)/(\d+)/change/[^"]*"[^>]*>\s*([^<]*?)\s*<')


def measure(workshop: Workshop, seconds: float) -> bool:
    """Print the figures; return whether each undo met its target and no request of an agent
    failed."""
    print(
        f"\nundo: {TASKS:,} tasks, {AGENTS} agents with {AGENTS / INTERVAL_SECONDS:.0f} requests a "
        "second",
        flush=True,
    )
    on_sqlite = _measure(workshop, "SQLite", {})
    return (
        _measure(workshop, "PostgreSQL", {"DATABASE_URL": workshop.postgres().fresh()})
        and on_sqlite
    )


def _measure(workshop: Workshop, database: str, settings: Mapping[str, str]) -> bool:
    with (
        workshop.serving(ENVIRONMENTS, settings=settings) as (port, _, pid),
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}/admin/environments", timeout=TIMEOUT_SECONDS
        ) as browser,
        ThreadPoolExecutor(1) as agents,
    ):
        load = Load(
            seconds=PLAYING_SECONDS,
            agents=AGENTS,
            interval_seconds=INTERVAL_SECONDS,
            port=port,
            processes={"server": pid},
        )
        kept = True
        for name, address, values in _actions(browser):
            playing = agents.submit(drive, load)
            time.sleep(2 * load.warmup_seconds)
            done = _do(browser, address, values)
            undone = _do(
                browser,
                f"/curationaction/{max(_ids(browser, '/curationaction/', 'curationaction').values())}/undo/",
                {},
            )
            sample = playing.result()
            is_met = undone <= MAX_SECONDS and not sample.errors
            verdict = "PASS" if is_met else "FAIL"
            took = f"{done:.1f} s, undo {undone:.1f} s (target: at most {MAX_SECONDS:g})"
            calls = f"calls p50 {sample.p50_ms:.0f} ms, p99 {sample.p99_ms:.0f} ms"
            calls += f"; others' CPU {sample.others_share:.0%} {sample.first_error}"
            print(f"  {verdict}  {database}, {name}: {took}; {calls}", flush=True)
            kept &= is_met
    return kept


def _actions(browser: httpx.Client) -> list[tuple[str, str, dict[str, str]]]:
    """Return (name, address, form) of actions on all tasks of the environment `many`."""
    environment = str(_ids(browser, "/environment/", "environment")["many"])
    splits = _ids(browser, f"/split/?environment={environment}", "split")
    train, spare = str(splits["train"]), str(splits["spare"])
    every = {"environment": environment, "scope": "all", "ask": "1"}
    return [
        ("quarantine", "/task/act/quarantine/", every | {"reason": "measured"}),
        ("move", "/task/act/move/", every | {"split": train, "out_of": train, "into": spare}),
    ]


def _ids(browser: httpx.Client, address: str, kind: str) -> dict[str, int]:
    """Return the ids of what a list of the admin links to, by their names."""
    links = _LINK.findall(browser.get(address).text)
    return {name: int(number) for model, number, name in links if model == kind and name}


def _do(browser: httpx.Client, address: str, values: Mapping[str, str]) -> float:
    """Confirm an action on its page; return the seconds until its job has ended."""
    page = browser.get(address, params=values).text
    token, inputs = _TOKEN.search(page), _INPUTS.search(page)
    if token is None:
        raise RuntimeError(f"no form at {address}: {page[:500]}")
    form = {
        **values,
        "csrfmiddlewaretoken": token[1],
        "confirm": "1",
        "inputs": inputs[1] if inputs else "",
    }
    began = time.perf_counter()
    job = str(browser.post(address, data=form, follow_redirects=True).url)
    while (state := browser.get(job, params={"state": ""}).json())["state"] == "running":
        time.sleep(0.1)
    if state["state"] != "done":
        raise RuntimeError(f"{address}: {state}")
    return time.perf_counter() - began
