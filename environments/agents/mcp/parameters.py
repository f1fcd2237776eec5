"""The parameters of a request that opens a session, in the address or in headers: which episode to
play.

`/mcp/math?split=test&index=3&run=eval-7`, or `/mcp/math` with the headers `X-Split: test`,
`X-Index: 3` and so on. The address wins. Secrets only come in X-Secrets, because addresses are
logged on their way.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from environments.agents.http.secrets_and_run import (
    NO,
    YES,
    header_of,
    run_info,
    secrets_in,
    take_run_fields,
)
from environments.agents.http.view import utf8
from environments.database.storable import whole_in
from environments.errors import InvalidIndex, InvalidRequest, nearest, shorten
from environments.keys.agent_key import CURATE, AgentKey, sent_key
from environments.runtime.records import RUN_FIELDS, TaskSource
from environments.runtime.session_request import SessionRequest

NAMES = ("split", "index", *RUN_FIELDS, "rewards", "toolset")
"""The parameters of the address. Each is also a header: X-Split, X-Index, …"""
DEFAULT_SPLIT = "train"
"""Used if the environment has a split of this name; otherwise its first split is used."""
RANDOM = "random"
MAX_USER_AGENT_CHARACTERS = 300
MAX_QUOTED_CHARACTERS = 40


@dataclass(frozen=True)
class Parameters:
    """The parameters of a request by name. Parameters that were not sent are missing."""

    values: Mapping[str, str]

    @property
    def shows_rewards(self) -> bool:
        """Return whether results show the agent its rewards. Raises: InvalidRequest."""
        text = self.values.get("rewards", "").strip().lower()
        if text in YES or text in NO:
            return text in YES
        raise InvalidRequest(
            f"rewards is {shorten(text, MAX_QUOTED_CHARACTERS)!r}; it must be 1 or 0"
        )


def read_parameters(query: str, meta: Mapping[str, str]) -> Parameters:
    """Return the parameters in the address and the headers. Raises: InvalidRequest."""
    values = {}
    for name in NAMES:
        if text := utf8(meta.get(f"HTTP_X_{name.upper()}", ""), header_of(name)):
            values[name] = text
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise InvalidRequest(
            "The address has parameters that are not UTF-8, or more than 100 of them"
        ) from None
    names = set()
    for name, value in pairs:
        if name not in NAMES:
            quotation = shorten(name, MAX_QUOTED_CHARACTERS)
            raise InvalidRequest(
                f"Unknown parameter {quotation!r} in the address; allowed are "
                f"{', '.join(NAMES)}.{nearest(name, NAMES)}"
            )
        if name in names:
            raise InvalidRequest(f"The address has the parameter {name!r} more than once")
        names.add(name)
        values[name] = value
    return Parameters(values)


async def choose_split(
    parameters: Parameters, environment: str, tasks: TaskSource, key: AgentKey
) -> str:
    """Return the split to play. A name that does not exist is refused when the session is
    opened."""
    if name := parameters.values.get("split"):
        return name
    names = [split.name for split in await tasks.splits(environment) if key.has_split(split.name)]
    return DEFAULT_SPLIT if DEFAULT_SPLIT in names or not names else names[0]


async def choose_index(
    parameters: Parameters, environment: str, split: str, tasks: TaskSource
) -> int:
    """Return the position of the task in the split; 0 by default.

    Raises: InvalidRequest, InvalidSplit, InvalidIndex. A number beyond the split is refused when
    the session is opened.
    """
    text = parameters.values.get("index", "").strip()
    if text.lower() == RANDOM:
        count = await tasks.count(environment, split)
        if not count:
            raise InvalidIndex(0, split, 0)
        return random.randrange(count)  # nosec B311 # spreads tasks, and hides nothing
    index = whole_in(text or "0")
    if index is None:
        quotation = shorten(text, MAX_QUOTED_CHARACTERS)
        raise InvalidRequest(f"index is {quotation!r}; it must be a whole number or {RANDOM!r}")
    return index


async def new_session(
    parameters: Parameters,
    environment: str,
    meta: Mapping[str, str],
    tasks: TaskSource,
    *,
    sid: str,
    key: AgentKey,
) -> SessionRequest:
    """Return the request to open the session that `parameters` and headers describe.

    Raises: InvalidRequest, InvalidSplit, InvalidIndex, Forbidden.
    """
    values = parameters.values
    secrets = secrets_in(meta.get("HTTP_X_SECRETS", ""))
    fields = take_run_fields(secrets) | {
        name: values[name] for name in RUN_FIELDS if name in values
    }
    split = await choose_split(parameters, environment, tasks, key)
    key.check_split(split)
    return SessionRequest(
        sid=sid,
        owner=key.label,
        usage=key.usage,
        reads_tasks=key.may(CURATE),
        environment=environment,
        split=split,
        index=await choose_index(parameters, environment, split, tasks),
        secrets=secrets,
        masked_texts=(*secrets.values(), sent_key(meta)),
        toolset=values.get("toolset") or None,
        user_agent=meta.get("HTTP_USER_AGENT", "")[:MAX_USER_AGENT_CHARACTERS],
        run=run_info(fields, key),
    )
