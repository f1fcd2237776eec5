"""EpisodeFilter: the filter of episodes that the addresses of pages, of the API and of exports have
in common.

It is parsed strictly: a value that is not understood is refused with a sentence that says what is.
A name that does not exist (of an environment, of a run) is no such error; the filter then finds
nothing, and `names.py` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from environments.display.numbers import digits_of
from environments.models import Viewer
from environments.scoring.convention import CONVENTION_PARTS, Treatment
from environments.scoring.definition import DefinitionAsked
from environments.scoring.returns import Return
from episodes.filtering.parameters import (
    DEFINITION_PARSERS,
    BadFilter,
    LabelValues,
    SuitePart,
    WholeRange,
    WholeRanges,
    chosen,
    count_in,
    flag,
    label_values,
    moment,
    person,
    real,
    stretch,
    stretches,
    suite_part,
    trimmed,
    unknown_name,
    words,
)
from episodes.models import Episode

ENDINGS = (
    *(
        "running",
        "finished",
        "abandoned",
        "expired",
        "no_call",
        "setup_failed",
        "env_error",
        "interrupted",
    ),
    *("failure", "probe", "continued", "attempt"),
)
"""Values of `ending`. Each cause finds the endings that figures count under it: without probes and,
unless the infrastructure failed, without plays of people that no figure counts. `failure` finds all
infrastructure failures, `continued` finds people's plays that no figure counts (continuations,
repeats, and what was left in a study that does not count it), and `attempt` finds what statistics
count."""
PLAYERS = {"agent": "agents", "human": "people", "script": "scripted players"}
"""Labels of the kinds of players, as pages show them."""
PLAYER_CHOICES = {**PLAYERS, "others": "agents and scripted players"}
"""Labels of the values of `player`. `others` finds everyone except people."""

_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "environment": words,
    "split": words,
    "task": count_in,
    "suite": suite_part,
    "run": words,
    "step": stretch,
    "model": words,
    "revision": words,
    "label": label_values,
    "ending": chosen(ENDINGS),
    "player": chosen(tuple(PLAYER_CHOICES)),
    "who": person,
    "study": words,
    **DEFINITION_PARSERS,
    "return_from": real,
    "return_to": real,
    "steps_from": count_in,
    "steps_to": count_in,
    "error": flag,
    "since": moment,
    "until": moment,
    "text": words,
    "ends_from": count_in,
    "ends_to": count_in,
    "ends": stretches,
}
PARAMETERS = tuple(_PARSERS)
"""Names of the parameters, in the order in which `to_query` writes them."""
_UNCONDITIONAL = frozenset(("definition", *CONVENTION_PARTS, "viewer"))
BOUNDS = frozenset(
    (
        "step",
        "return_from",
        "return_to",
        "steps_from",
        "steps_to",
        "ends_from",
        "ends_to",
        "ends",
        "since",
    )
)
"""Conditions that may leave nothing out. `until` is none of them: that every episode is older is
reason to remove them, and `refuse_future` knows an end that leaves nothing out."""
_RANGES = (("return_from", "return_to"), ("steps_from", "steps_to"), ("ends_from", "ends_to"))
SPLIT_NEEDS_ENVIRONMENT = "splits belong to an environment; name it too, as environment="
_SIGNS = {"from": "≥", "to": "≤"}
_CAUSES = {"failure": "infrastructure failure", **dict(Episode.CAUSES)}
_LABELS = {
    "step": "training step",
    "since": "since",
    "until": "until",
    "error": "tool error",
    "who": "played by",
}


@dataclass(frozen=True, slots=True)
class FilterChip:
    """One condition of a filter, as a page shows it."""

    field: str
    """Name of the parameter."""
    label: str
    value: str
    query: str
    """Query string of the filter without this condition."""


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """A filter of episodes. Every field is None where the address does not set it. Ranges include
    both ends."""

    environment: str | None = None
    split: str | None = None
    """Name of a split; requires `environment`."""
    task: int | None = None
    suite: SuitePart | None = None
    """Version of a suite, or one of its members: the episodes of its tasks."""
    run: str | None = None
    step: WholeRange | None = None
    """Range of training steps."""
    model: str | None = None
    revision: str | None = None
    """Name of the code of the environment: the first digits of its digest."""
    label: LabelValues | None = None
    """Values of labels, which are further `orsweb_…` values of the client."""
    ending: str | None = None
    """How the episodes ended, one of ENDINGS."""
    player: str | None = None
    who: str | None = None
    """Label of the person who played, such as @alice; agents have none."""
    study: str | None = None
    """Name of a study, whose people played."""
    definition: Return | None = None
    """Parameter `return`; None uses the default of the environment, or the sum if none is named."""
    no_call: Treatment | None = None
    """Part of the convention that decides which episodes are attempts, like the next three; None:
    the environment's."""
    expired: Treatment | None = None
    interrupted: Treatment | None = None
    env_error: Treatment | None = None
    return_from: float | None = None
    return_to: float | None = None
    steps_from: int | None = None
    steps_to: int | None = None
    error: bool | None = None
    """Whether any call was refused or failed."""
    since: str | None = None
    """ISO date or time, UTC unless it says otherwise; or a span before now, such as 24h."""
    until: str | None = None
    """Exclusive end, in the same format as `since`; a date includes its day."""
    text: str | None = None
    ends_from: int | None = None
    """Smallest Episode.end_number to find."""
    ends_to: int | None = None
    ends: WholeRanges | None = None
    """Ranges of Episode.end_number to find."""
    viewer: Viewer = field(kw_only=True)
    """Who asks. Not a parameter, and no condition to show."""

    @classmethod
    def parse(
        cls, query: Mapping[str, str], viewer: Viewer, *, also: Collection[str] = ()
    ) -> EpisodeFilter:
        """Return the filter in an address; empty values count as absent. `also`: further parameters
        of the page.



        Raises: BadFilter for unknown parameters, for values that are not allowed, and for
        contradictions.
        """
        values = dict[str, Any]()
        for name, value in query.items():
            if name in _PARSERS:
                _refuse_doubles(query, name)
                if text := trimmed(value):
                    values[_attribute(name)] = _PARSERS[name](name, text)
            elif name not in also:
                raise unknown_name(name, value, (*PARAMETERS, *also), "filter")
        found = cls(**values, viewer=viewer)
        found._check()
        return found

    @classmethod
    def of_definition(
        cls, asked: DefinitionAsked, viewer: Viewer, run: str | None = None
    ) -> EpisodeFilter:
        """Return the filter of all episodes, or of those of a run, with these parts of a
        definition."""
        parts = {name: getattr(asked, name) for name in CONVENTION_PARTS}
        return cls(run=run, definition=asked.return_, viewer=viewer, **parts)

    def _check(self) -> None:
        """Refuse conditions that cannot hold together. Raises: BadFilter."""
        if self.split is not None and self.environment is None:
            raise BadFilter("split", self.split, SPLIT_NEEDS_ENVIRONMENT)
        if self.who is not None and self.player not in (None, "human"):
            raise BadFilter("who", self.who, f"only people have names; remove player={self.player}")
        if self.study is not None and self.player not in (None, "human"):
            raise BadFilter(
                "study", self.study, f"only people play studies; remove player={self.player}"
            )
        for low, high in _RANGES:
            if (
                (least := getattr(self, low)) is not None
                and (most := getattr(self, high)) is not None
                and least > most
            ):
                raise BadFilter(low, least, f"it is above {high}={most}; swap the two")

    def values(self) -> dict[str, str]:
        """Return the parameters that are set, with their texts."""
        given = ((name, getattr(self, _attribute(name))) for name in PARAMETERS)
        return {name: _text(value) for name, value in given if value is not None}

    def to_query(self, **further: str) -> str:
        """Return the query string, without `?`, with the `further` parameters that are not empty at
        its end."""
        return urlencode(self.values() | {name: value for name, value in further.items() if value})

    def without(self, field: str) -> EpisodeFilter:
        """Return the filter without the parameter `field`. Without the environment there is no
        split either."""
        gone: dict[str, Any] = {_attribute(field): None} | (
            {"split": None} if field == "environment" else {}
        )
        return replace(self, **gone)

    def chips(self) -> list[FilterChip]:
        """Return the conditions that are set, in the order of PARAMETERS."""
        return [
            FilterChip(name, *_spoken(name, text, self), self.without(name).to_query())
            for name, text in self.values().items()
        ]

    @property
    def asked(self) -> DefinitionAsked:
        """The parts of the definition that the filter gives; it has no threshold."""
        return DefinitionAsked(
            self.definition, None, self.no_call, self.expired, self.interrupted, self.env_error
        )

    @property
    def is_of_people(self) -> bool:
        """Return whether the filter finds only episodes that people played, who are few."""
        return self.player == "human" or self.who is not None or self.study is not None

    @property
    def conditions(self) -> list[str]:
        """Names of the parameters that leave episodes out, which the parts of a definition do not;
        and `key`, for an API key that reads only its own."""
        names = [field.name for field in fields(self) if field.name not in _UNCONDITIONAL]
        given = [name for name in names if getattr(self, name) is not None]
        return given if self.viewer.key_label is None else [*given, "key"]

    @property
    def is_empty(self) -> bool:
        """Return whether the filter finds all episodes that the reader may see."""
        return not self.conditions

    def refuse_future(self) -> None:
        """Refuse an end in the future, by which everything would be deleted or played again.
        Raises: BadFilter."""
        now = datetime.now(UTC)
        if (
            self.until is not None
            and (end := _moment(self.until, now, is_end=True)) is not None
            and end > now
        ):
            raise BadFilter(
                "until",
                self.until,
                f"it is after now ({now:%Y-%m-%dT%H:%M} UTC), so it leaves nothing out",
            )

    def span(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return `since` and the exclusive `until` as datetimes, relative to `now`."""
        return _moment(self.since, now), _moment(self.until, now, is_end=True)


def episodes_query(**parameters: object) -> str:
    """Return the query string of the episodes with these parameters, without those that are None
    or empty."""
    return urlencode(
        {name: _text(value) for name, value in parameters.items() if value not in (None, "")}
    )


def _attribute(parameter: str) -> str:
    return "definition" if parameter == "return" else parameter


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return digits_of(value) if isinstance(value, float) else str(value)


def _refuse_doubles(query: Mapping[str, str], name: str) -> None:
    """Refuse a parameter that the address has twice, which only a QueryDict can show. Raises:
    BadFilter."""
    given = query.getlist(name) if hasattr(query, "getlist") else []
    if len({value for value in given if value.strip()}) > 1:
        raise BadFilter(
            name, ", ".join(given), "the address has it more than once; one value is allowed"
        )


def _spoken(name: str, text: str, asked: EpisodeFilter) -> tuple[str, str]:
    """Return the label and the value of a condition as a page shows them."""
    stem, _, end = name.partition("_")
    if end in _SIGNS:
        label = f"return ({asked.definition})" if stem == "return" and asked.definition else stem
        return ("ending order" if stem == "ends" else label), f"{_SIGNS[end]} {text}"
    if name == "ends" and asked.ends:
        return "ending order", text if len(
            asked.ends
        ) < 4 else f"{asked.ends[0]} and {len(asked.ends) - 1} more ranges"
    if name == "since" and text[-1] in "mhdw" and text[:-1].isdecimal():
        return "within", text
    if name in CONVENTION_PARTS:
        return f"{_CAUSES[name]} counts", {"keep": "with its return", "zero": "as 0", "out": "not"}[
            text
        ]
    labels = PLAYER_CHOICES if name == "player" else _CAUSES if name == "ending" else {}
    return _LABELS.get(name, name), labels.get(text, text)


def ending_label(ending: str) -> str:
    """Return one of ENDINGS as pages show it."""
    return _CAUSES.get(ending, ending)


def _moment(text: str | None, now: datetime, *, is_end: bool = False) -> datetime | None:
    """Return the moment that `text` names, which `parameters.moment` has accepted; None for
    None."""
    if text is None:
        return None
    if text[-1] in "mhdw" and text[:-1].isdecimal():
        unit = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[text[-1]]
        return now - timedelta(**{unit: int(text[:-1])})
    found = datetime.fromisoformat(text)
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    is_day = len(text) <= len("2026-01-31")
    try:
        return found.astimezone(UTC) + timedelta(days=1 if is_end and is_day else 0)
    except OverflowError:  # beyond the first or last moment that a database and Python can name
        return (datetime.min if found.year == 1 else datetime.max).replace(tzinfo=UTC)
