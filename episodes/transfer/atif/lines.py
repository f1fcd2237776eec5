"""Writes episodes as trajectories in ATIF, one per line. `job_archive.py` writes the same
trajectories into a zip.

`extra.orsweb` of a trajectory is the line of the format `jsonl` without its steps, so that an
import loses nothing. The rollout that a client uploaded, if there is one, is in
`extra.orsweb_rollout`. Rewards have no place in ATIF: that of a tool call is in
`extra.orsweb.reward` of its result, and the return of the episode in `final_metrics.extra.reward`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any

from environments.database.storable import storable
from environments.scoring.convention import Convention
from environments.scoring.definition import DefinitionAsked
from episodes.models import Rollout, RolloutMessage
from episodes.transfer.atif.conversation_steps import SOURCES, conversation_steps
from episodes.transfer.atif.metrics import totals_of
from episodes.transfer.atif.schema import WRITTEN_VERSION, AtifTrajectoryFields, own_fields
from episodes.transfer.atif.steps import (
    EXTRA,
    PlaceImage,
    StepDraft,
    exact,
    prompt_steps,
    recorded_steps,
)
from episodes.transfer.chat_messages import tools_of
from episodes.transfer.embedded_json import is_embeddable
from episodes.transfer.episode_lines import EpisodeLines
from episodes.transfer.episode_rollouts import rollout_values
from episodes.transfer.export_source import EpisodeFacts, Recorded
from episodes.transfer.prompt_sources import Sourced
from episodes.transfer.training import TrainingFile
from episodes.transfer.training_options import TrainingOptions

ROLLOUT = "orsweb_rollout"
"""Key of a trajectory's `extra` with the rollout that a client uploaded."""
EXPORT = "orsweb_export"
"""Key of a trajectory's `extra` with facts of the file: sources of texts, definition in force,
coverage."""
NOTHING_DONE = "The agent received no prompt and called no tool."
_Conversation = tuple[Rollout, list[RolloutMessage]]


def as_it_is(uri: str) -> str:
    """Return the path of an image in a line: its data URI, because a line has no other files."""
    return uri


class TrajectoryLines:
    """Writes one file; see `exporting.EpisodeFileWriter`."""

    needs_steps = True

    def __init__(self, file: TrainingFile, *, has_additions: bool = True) -> None:
        """Create the lines of `file`, which has the definition of the return and the sources of
        prompts and tools."""
        self._trajectories = Trajectories(file, has_additions=has_additions)

    def start(self) -> str:
        return ""

    def write(self, episode: Recorded) -> Iterator[str]:
        yield from self._trajectories.pieces(episode, as_it_is)
        yield "\n"

    def end(self) -> str:
        return ""


class Trajectories:
    """Writes episodes as the text of trajectories."""

    def __init__(self, file: TrainingFile, *, has_additions: bool = True) -> None:
        self._file = file
        self._heads = EpisodeLines(has_additions=has_additions)

    def pieces(self, episode: Recorded, place_image: PlaceImage) -> Iterator[str]:
        """Yield a trajectory in pieces of at most one step, because an episode may be larger than
        memory."""
        facts, sources = episode.facts, self._file.sources
        conversation = self._conversation(facts)
        own = _own(conversation)
        prompt, tools = sources.prompt_of(episode), sources.tools_of(episode)
        head = json.dumps(
            {"schema_version": WRITTEN_VERSION, "session_id": storable(facts.session_id)}
        )
        yield f'{head[:-1]}, "agent": {_agent(facts, tools, own)}, "steps": ['
        count = 0
        for count, draft in enumerate(_drafts(episode, prompt, conversation), 1):
            yield ("" if count == 1 else ", ") + draft.text(count, place_image)
        if not count:  # ATIF demands a step
            count = 1
            yield StepDraft("system", NOTHING_DONE, extra={EXTRA: {"is_prompt": True}}).text(
                count, place_image
            )
        totals = totals_of(conversation[0]) if conversation else {}
        totals |= own.final_metrics.model_dump(exclude_none=True) if own.final_metrics else {}
        yield f'], "final_metrics": {json.dumps(self._final_metrics(facts, totals | {"total_steps": count}))}'
        if own.notes:
            yield f', "notes": {json.dumps(own.notes)}'
        if own.continued_trajectory_ref:
            yield f', "continued_trajectory_ref": {json.dumps(own.continued_trajectory_ref)}'
        yield f', "extra": {self._extra(episode, prompt, tools, conversation)}}}'

    def _conversation(self, facts: EpisodeFacts) -> _Conversation | None:
        """Return the rollout that a client uploaded, with its messages; None if there is none to
        use."""
        if (rollout := self._file.rollout_of(facts.id)) is None:
            return None
        blobs = ("content_blob", "summary_blob", "extra_blob")
        return rollout, list(rollout.messages.order_by("index", "id").select_related(*blobs))

    def _extra(
        self, episode: Recorded, prompt: Sourced, tools: Sourced, conversation: _Conversation | None
    ) -> str:
        export: dict[str, Any] = {"prompt_source": prompt.source, "tools_source": tools.source}
        export |= _counted(episode.facts, self._file.options.definition) | {
            "coverage": self._file.coverage
        }
        text = json.dumps(_own(conversation).extra | {EXPORT: export})
        text = f'{text[:-1]}, "{EXTRA}": {self._heads.head(episode, exact)}}}'
        if conversation is not None:
            text += f', "{ROLLOUT}": {json.dumps(_rollout(conversation[0]))}'
        return f"{text}}}"

    def _final_metrics(self, facts: EpisodeFacts, totals: dict[str, Any]) -> dict[str, Any]:
        asked = self._file.options.definition
        reward = facts.return_by(asked)
        extra = {
            "reward": None if reward is None else reward + 0.0,
            "return": asked.return_ or facts.default_return,
            "cause": facts.cause,
        }
        return totals | {"extra": dict(totals.get("extra") or {}) | extra}


def _counted(facts: EpisodeFacts, asked: DefinitionAsked) -> dict[str, Any]:
    """Return the definition in force for an episode, and how the episode counts by it; None while
    it is running."""
    convention = asked.convention(Convention.from_code(facts.convention))
    threshold = facts.success_threshold if asked.threshold is None else asked.threshold
    definition = {
        "return": asked.return_ or facts.default_return,
        "threshold": threshold,
        **asdict(convention),
    }
    return {
        "definition": definition,
        "counts": facts.treatment_by(asked) if facts.status == "ended" else None,
    }


def _own(conversation: _Conversation | None) -> AtifTrajectoryFields:
    """Return the fields of the trajectory from which a conversation was imported; empty for all
    others."""
    return own_fields(
        AtifTrajectoryFields, conversation[0].event_object.get("metadata") if conversation else None
    )


def _agent(facts: EpisodeFacts, tools: Sourced, own: AtifTrajectoryFields) -> str:
    name, _, version = facts.user_agent.partition("/")
    values: dict[str, Any] = {
        "name": name.strip() or facts.player,
        "version": version.partition(" ")[0] or "unknown",
    }
    if model := facts.model or facts.run_model:
        values["model_name"] = model
    values |= own.agent.model_dump(exclude_none=True) if own.agent else {}
    definitions = tools_of(tools.text, TrainingOptions())
    is_listed = (
        "tool_definitions" in values or definitions == "[]" or not is_embeddable(definitions)
    )
    text = json.dumps(
        {key: storable(value) if isinstance(value, str) else value for key, value in values.items()}
    )
    return text if is_listed else f'{text[:-1]}, "tool_definitions": {definitions}}}'


def _drafts(
    episode: Recorded, prompt: Sourced, conversation: _Conversation | None
) -> Iterable[StepDraft]:
    if conversation is None:
        return chain(prompt_steps(prompt.text), recorded_steps(episode.steps))
    messages = conversation[1]
    has_prompt = any(message.kind in SOURCES for message in messages)
    before = [] if has_prompt else prompt_steps(prompt.text)
    return chain(before, conversation_steps(messages, episode.steps))


def _rollout(rollout: Rollout) -> dict[str, Any]:
    return rollout_values(rollout) | {"event": rollout.event_json, "info": rollout.info}
