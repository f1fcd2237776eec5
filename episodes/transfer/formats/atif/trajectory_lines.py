"""Writes episodes as trajectories in ATIF, one per line. `job_archive.py` writes the same
trajectories into a zip.

`extra.orsweb` of a trajectory is the line of the format `jsonl` without its steps, so that an
import loses nothing. The rollout that a client uploaded, if there is one, is in
`extra.orsweb_rollout`. Rewards have no place in ATIF: that of a tool call is in
`extra.orsweb.reward` of its result, and the return of the episode in `final_metrics.extra.reward`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any

from environments.database.storable import storable
from episodes.attempts.conventions import coverage_among
from episodes.transfer.chat_messages import tools_of
from episodes.transfer.conversations import messages_of
from episodes.transfer.embedded_json import is_embeddable
from episodes.transfer.export_file import ExportFile
from episodes.transfer.export_rows import EpisodeFacts, Recorded
from episodes.transfer.formats.atif.conversation_steps import (
    SOURCES,
    conversation_steps,
    totals_of,
)
from episodes.transfer.formats.atif.schema import WRITTEN_VERSION, AtifTrajectoryFields, own_fields
from episodes.transfer.formats.atif.steps import (
    EXTRA,
    PlaceImage,
    StepDraft,
    exact,
    prompt_steps,
    recorded_steps,
)
from episodes.transfer.formats.jsonl import LineHeads, rollout_values
from episodes.transfer.prompt_sources import Sourced
from episodes.transfer.training_options import TrainingOptions

ROLLOUT = "orsweb_rollout"
"""Key of a trajectory's `extra` with the rollout that a client uploaded."""
EXPORT = "orsweb_export"
"""Key of a trajectory's `extra` with facts of the file: sources of texts, definition in force,
coverage."""
NO_STEP = "The agent received no prompt and called no tool."


def trajectory_lines(file: ExportFile) -> Iterator[str]:
    """Yield a line with a trajectory for each episode. Images are data URIs, because a line has no
    other files."""
    trajectories = Trajectories(file)
    for episode in file.recorded():
        yield from trajectories.pieces(episode, lambda uri: uri)
        yield "\n"


class Trajectories:
    """Writes episodes of one file as the text of trajectories."""

    def __init__(self, file: ExportFile) -> None:
        self._file = file
        self._heads = LineHeads(has_additions=file.has_additions)
        self._coverage = coverage_among(file.episodes, file.options.definition).text

    def pieces(self, episode: Recorded, place_image: PlaceImage) -> Iterator[str]:
        """Yield a trajectory in pieces of at most one step, because an episode may be larger than
        memory."""
        facts, sources = episode.facts, self._file.sources
        rollout = self._file.rollout_of(facts.id)
        # of the trajectory from which the rollout was imported
        own = own_fields(AtifTrajectoryFields, rollout and rollout.event_object.get("metadata"))
        prompt, tools = sources.prompt_of(episode), sources.tools_of(episode)
        head = {"schema_version": WRITTEN_VERSION, "session_id": storable(facts.session_id)}
        yield f'{json.dumps(head)[:-1]}, "agent": {_agent(facts, tools, own)}, "steps": ['
        drafts = iter(prompt_steps(prompt.text))
        if rollout is None:
            drafts = chain(drafts, recorded_steps(episode.steps))
        else:
            messages = list(messages_of(rollout))
            has_prompt = any(message.kind in SOURCES for message in messages)
            conversation = conversation_steps(messages, episode.steps)
            drafts = conversation if has_prompt else chain(drafts, conversation)
        count = 0
        for count, draft in enumerate(drafts, 1):
            yield ("" if count == 1 else ", ") + draft.text(count, place_image)
        if not count:  # ATIF demands a step
            count = 1
            draft = StepDraft("system", NO_STEP, extra={EXTRA: {"is_prompt": True}})
            yield draft.text(count, place_image)
        totals = totals_of(rollout) if rollout else {}
        totals |= own.final_metrics.model_dump(exclude_none=True) if own.final_metrics else {}
        metrics = self._final_metrics(facts, totals | {"total_steps": count})
        yield f'], "final_metrics": {json.dumps(metrics)}'
        if own.notes:
            yield f', "notes": {json.dumps(own.notes)}'
        if own.continued_trajectory_ref:
            yield f', "continued_trajectory_ref": {json.dumps(own.continued_trajectory_ref)}'
        export = {
            "prompt_source": prompt.source,
            "tools_source": tools.source,
            **self._counted(facts),
            "coverage": self._coverage,
        }
        extra = json.dumps(own.extra | {EXPORT: export})[:-1]
        yield f', "extra": {extra}, "{EXTRA}": {self._heads.head(episode, exact)}}}'
        if rollout is not None:
            texts = {"event": rollout.event_json, "info": rollout.info}
            yield f', "{ROLLOUT}": {json.dumps(rollout_values(rollout) | texts)}'
        yield "}}"

    def _final_metrics(self, facts: EpisodeFacts, totals: dict[str, Any]) -> dict[str, Any]:
        definition = self._file.options.definition
        reward = facts.return_by(definition)
        extra = {
            "reward": None if reward is None else reward + 0.0,
            "return": definition.return_ or facts.default_return,
            "cause": facts.cause,
        }
        return totals | {"extra": dict(totals.get("extra") or {}) | extra}

    def _counted(self, facts: EpisodeFacts) -> dict[str, Any]:
        """Return the definition in force for an episode, how the episode counts by it, None while
        it is running, and whether it is a success."""
        overrides = self._file.options.definition
        definition = facts.definition_by(overrides)
        convention = definition.convention
        parts = {
            "return": definition.return_,
            "threshold": definition.threshold,
            **asdict(convention),
        }
        counts = convention.treatments[facts.ending_kind] if facts.status == "ended" else None
        return {
            "definition": parts,
            "counts": counts,
            "success": facts.success_by(overrides),
        }


def _agent(facts: EpisodeFacts, tools: Sourced, own: AtifTrajectoryFields) -> str:
    name, version = facts.agent
    values: dict[str, Any] = {"name": name, "version": version}
    if model := facts.model or facts.run_model:
        values["model_name"] = model
    values |= own.agent.model_dump(exclude_none=True) if own.agent else {}
    text = json.dumps(
        {key: storable(value) if isinstance(value, str) else value for key, value in values.items()}
    )
    definitions = tools_of(tools.text, TrainingOptions())
    if "tool_definitions" in values or definitions == "[]" or not is_embeddable(definitions):
        return text
    return f'{text[:-1]}, "tool_definitions": {definitions}}}'
