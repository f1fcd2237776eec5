"""Filters: what the address of a list says about its rows, and which rows that leaves.

    class EpisodeFilter(Filters):
        model: str | None = parameter(any_text, "Name of a model", narrow=by_model)

    filters = EpisodeFilter.parse(request.GET, viewer)

A class declares each parameter once. Pages, JSON, files and commands parse the same parameters;
chips and the description of the API are made of the declarations.

A value that cannot be used is refused with a sentence that says what can. A name that does not
exist (of an environment, of a run) is no error: nothing has it, and the list says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, Self
from urllib.parse import urlencode

from django.db.models import Q

from environments.display.numbers import digits_of
from environments.filtering.parameters import (
    BadFilter,
    chosen,
    refuse_double,
    trimmed,
    unknown_name,
)
from environments.models import Viewer

_SIGNS = {"from": "≥", "to": "≤"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a filter."""

    name: str
    """Its name in addresses."""
    parse: Callable[[str, str], Any]
    """Returns the value for the name and the text. Raises: BadFilter."""
    text: str = ""
    """What it is, in the description of the API."""
    label: str = ""
    """Its name on pages; empty: as in addresses."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """Labels of the legal texts on pages; empty: any text may be legal."""
    kind: type = str
    """Type of the value in the description of the API."""
    narrow: Callable[[Any, Viewer], Q | str] | None = None
    """Returns the condition on rows, or the sentence that no such thing exists for the viewer.
    None: the condition depends on other parameters too, so the list itself has it."""
    is_condition: bool = True
    """Whether it leaves rows out; the parts of a definition do not."""
    is_bound: bool = False
    """Whether every row may be within it, such as `steps_from=0`."""
    is_indexed: bool = True
    """Whether an index alone gives its rows in order."""
    is_of_tasks: bool = False
    """Whether it names tasks, so that the rows are not of all splits of an environment."""
    example: str = ""
    """Examples of its value. The form of the list has a field with them; empty: the form's template
    has a field for it."""
    after: str = ""
    """Name of the parameter that it follows, for one of a feature."""
    field: str = ""
    """Field of the filter that has its value; empty: it is a feature's, and `more` has it."""
    default: Any = None
    """Its value where the address does not set it."""


def parameter(
    parse: Callable[[str, str], Any],
    text: str = "",
    *,
    name: str = "",
    default: Any = None,
    **facts: Any,
) -> Any:
    """Return a field of a filter. `name`: in addresses, if it is not that of the field; `facts`: as
    of `Parameter`."""
    facts |= {"name": name, "parse": parse, "text": text, "default": default}
    return field(default=default, metadata={"parameter": Parameter(**facts)})


def choice(legal: Collection[str], text: str = "", **facts: Any) -> Any:
    """Return a field of a filter that takes only these words; a mapping has their labels. `facts`:
    as of `parameter`."""
    labels = legal if isinstance(legal, Mapping) else {word: word for word in legal}
    return parameter(chosen(tuple(legal)), text, choices=labels, **facts)


@dataclass(frozen=True, slots=True)
class FilterChip:
    """One condition of a filter, as a page shows it."""

    field: str
    """Name of the parameter."""
    label: str
    value: str
    query: str
    """Query string of the filter without this condition."""


@dataclass(frozen=True)
class Filters:
    """The parameters of a list that are set. A field has its default where the address does not set
    it. Ranges include both ends."""

    viewer: Viewer = field(kw_only=True)
    """Who asks. Not a parameter, and no condition to show."""

    more: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    """Values of the parameters of features, by name."""

    @classmethod
    @cache
    def parameters(cls) -> Mapping[str, Parameter]:
        """Return the parameters by name, in the order in which `values` has them."""
        parameters = list[Parameter]()
        for row in fields(cls):
            if own := row.metadata.get("parameter"):
                parameters.append(replace(own, name=own.name or row.name, field=row.name))
        for further in cls.of_features():
            names = [own.name for own in parameters]
            parameters.insert(names.index(further.after) + 1, further)
        return {own.name: own for own in parameters}

    @classmethod
    def of_features(cls) -> Collection[Parameter]:
        """Return the parameters that features add."""
        return ()

    @classmethod
    def parse(cls, query: Mapping[str, str], viewer: Viewer, *, also: Collection[str] = ()) -> Self:
        """Return the filter in an address; empty values count as absent, of any name. `also`: further parameters
        of the page.

        Raises: BadFilter for unknown parameters, for values that are not allowed, and for
        contradictions.
        """
        values = dict[str, Any]()
        for name, value in query.items():
            if declaration := cls.parameters().get(name):
                refuse_double(query, name)
                if text := trimmed(value):
                    values[name] = declaration.parse(name, text)
            elif name not in also and trimmed(value):
                raise cls.unknown(name, value, also)
        filters = cls.of(values, viewer)
        filters.check()
        return filters

    @classmethod
    def unknown(cls, name: str, value: str, also: Collection[str]) -> BadFilter:
        """Return the error for a parameter that the page does not have."""
        return unknown_name(name, value, (*cls.parameters(), *also), "filter")

    @classmethod
    def of(cls, values: Mapping[str, Any], viewer: Viewer) -> Self:
        """Return the filter with these values by name of their parameter."""
        own, more = dict[str, Any](), dict[str, Any]()
        for name, value in values.items():
            if attribute := cls.parameters()[name].field:
                own[attribute] = value
            else:
                more[name] = value
        return cls(viewer=viewer, more=more, **own)

    def check(self) -> None:
        """Refuse conditions that cannot hold together. Raises: BadFilter."""
        for low in self.parameters():
            high = f"{low.removesuffix('_from')}_to"
            if low.endswith("_from") and high in self.parameters():
                least, most = self.value(low), self.value(high)
                if least is not None and most is not None and least > most:
                    raise BadFilter(low, least, f"it is above {high}={most}; swap the two")

    def value(self, name: str) -> Any:
        """Return the value of a parameter; its default if it is not set."""
        declaration = self.parameters()[name]
        if declaration.field:
            return getattr(self, declaration.field)
        return self.more.get(name, declaration.default)

    def is_set(self, name: str) -> bool:
        return bool(self.value(name) != self.parameters()[name].default)

    @cached_property
    def parameters_in_address(self) -> Sequence[Parameter]:
        """The parameters that are set, in their order."""
        return [row for name, row in self.parameters().items() if self.is_set(name)]

    def text_of(self, name: str) -> str:
        """Return a parameter as an address has it; empty if it is not set."""
        return text_of(self.value(name)) if self.is_set(name) else ""

    def values(self) -> dict[str, str]:
        """Return the parameters that are set, with their texts."""
        return dict(self._texts)

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        texts = ((name, self.text_of(name)) for name in self.parameters())
        return {name: text for name, text in texts if text}

    def to_query(self, **further: object) -> str:
        """Return the query string, without `?`, with the `further` parameters that are not empty at
        its end."""
        return query_string(**(self.values() | further))

    def without(self, name: str) -> Self:
        """Return the filter without a parameter."""
        declaration = self.parameters()[name]
        if declaration.field:
            return replace(self, **{declaration.field: declaration.default})
        return replace(self, more={key: value for key, value in self.more.items() if key != name})

    def condition_and_unknown_names(self) -> tuple[Q, list[str]]:
        """Return the condition of the parameters that have one of their own, and a sentence for
        each name that does not exist. One query for each name, and another if it does not exist."""
        condition, sentences = Q(), list[str]()
        for declaration in self.parameters_in_address:
            if declaration.narrow is None:
                continue
            part = declaration.narrow(self.value(declaration.name), self.viewer)
            if isinstance(part, str):
                sentences.append(part)
            else:
                condition &= part
        return condition, sentences

    def chips(self) -> list[FilterChip]:
        """Return the parameters that are set, in their order."""
        return [
            FilterChip(name, *self.words_of(name, text), self.without(name).to_query())
            for name, text in self.values().items()
        ]

    def words_of(self, name: str, text: str) -> tuple[str, str]:
        """Return the label and the value of a parameter as a page shows them."""
        declaration = self.parameters()[name]
        stem, _, end = name.partition("_")
        words = declaration.choices.get(text, text)
        if isinstance(value := self.value(name), float):
            words = digits_of(float(f"{value:.12g}"))
        if sign := _SIGNS.get(end):
            return declaration.label or stem, f"{sign} {words}"
        return declaration.label or name, words

    @property
    def names_of_conditions(self) -> list[str]:
        """Names of the parameters that leave rows out; and `key`, for an API key that reads only
        its own."""
        names = [row.name for row in self.parameters_in_address if row.is_condition]
        return names if self.viewer.key_label is None else [*names, "key"]

    @property
    def is_empty(self) -> bool:
        """Whether the filter finds all rows that the viewer may see."""
        return not self.names_of_conditions


def text_of(value: object) -> str:
    """Return a value as an address has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return digits_of(value)
    return ",".join(map(str, value)) if type(value) is tuple else str(value)


def query_string(**parameters: object) -> str:
    """Return the query string with these parameters, without those that are None or empty."""
    return urlencode(
        {name: text_of(value) for name, value in parameters.items() if value not in (None, "")}
    )
