"""CurveQuery: which curves to draw, of which episodes and how, as parameters ask for it.

The page of curves, its JSON and its CSV, the pages of runs and of their comparison, and the API
parse it. `curve_series.py` has the curves of a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

from environments.database.storable import id_in
from environments.display.numbers import digits_of
from environments.filtering.parameters import (
    BadFilter,
    any_text,
    chosen,
    flag,
    given,
    real,
    trimmed,
)
from environments.models import Viewer
from environments.scoring.definition import DefinitionOverrides
from episodes.figures.block_queries import Axis
from episodes.figures.curves.figure_menu import FIGURES, SCALAR, Figure
from episodes.figures.curves.smoothing import PARAMETERS as SMOOTHING_PARAMETERS
from episodes.figures.curves.smoothing import Smoothing
from episodes.figures.curves.zoomed_range import WHOLE, Range
from episodes.figures.run_splits import TOGETHER, SplitChoice, are_together_in
from episodes.figures.scopes import OVERLAYS, Overlay
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Run

AXES: tuple[Axis, ...] = get_args(Axis)
FORMATS = ("json", "csv", "data", "py", "svg", "pdf", "png")
PARAMETERS = (
    "x",
    "y",
    "by",
    "runs",
    "splits",
    *SMOOTHING_PARAMETERS,
    "log",
    "band",
    "minmax",
    "group",
    "failed",
    "hidden",
    "highlight",
    "sort",
    "from",
    "to",
    "format",
    "size",
)
OF_SEVERAL = ("by", "runs", "group", "failed", "sort")
"""Those of charts with a curve for each of several runs, environments or models."""
SORTS = ("last", "curve", "attempts", "return", "success", "length")
"""Columns by which the table of curves is sorted; `-` before one: highest first."""
MAX_SCALARS = 24
MIN_INCHES, MAX_INCHES = 1.5, 20.0
_SIZE = re.compile(r"(\d{1,2}(?:\.\d{1,2})?)x(\d{1,2}(?:\.\d{1,2})?)")
_RUN = re.compile(r'[ \t]*(?:"((?:[^"]|"")+)"[ \t]*|([^",\s][^,]*)|)(?:,|\Z)')
_RUN_LIST_FORM = (
    "run numbers or names separated by commas, such as 3,4; a name that is a number or holds a "
    "comma "
    'needs quotation marks around it, such as "2024"'
)
NOT_SMOOTHED = Smoothing()


@dataclass(frozen=True, slots=True)
class CurveQuery:
    filter: EpisodeFilter
    axis: Axis | None = None
    """None: training steps if all runs that are drawn have them, else episodes."""
    figures: tuple[Figure, ...] = ("return",)
    """What is drawn, each in a chart of its own, over the same part of the same axis."""
    scalars: tuple[str, ...] = ()
    """Names of the scalars that are drawn below, each in a chart of its own."""
    by: Overlay | Literal["all"] | None = None
    """Draw one curve for each run, environment or model; `all`: a single curve of all episodes; None:
    one for each environment, if there are several."""
    runs: tuple[int, ...] = ()
    """Ids of the runs to draw, instead of `by`; the first MAX_SERIES of them are drawn."""
    group: tuple[str, ...] = ()
    """Names of the values of configurations by which runs are grouped; empty: a curve for each."""
    has_failed: bool = True
    """Whether runs are drawn that failed."""
    are_together: bool = False
    """Whether the splits that a run played are drawn as one curve."""
    smoothing: Smoothing = NOT_SMOOTHED
    is_log: bool = False
    has_band: bool = True
    """Whether bands are drawn: of two curves, and of those of more that are highlighted."""
    has_extremes: bool | None = None
    """Whether light bands reach to the lowest and highest value; None: where a point averages
    several training steps."""
    hidden: tuple[str, ...] = ()
    """Keys of the curves that are not drawn (`ChartSeries.key`)."""
    highlighted: tuple[str, ...] = ()
    """Keys of the curves that stand out. Empty: of many curves those that end highest; a key that
    no curve has, such as `none`: none."""
    sort: str = "-last"
    """One of SORTS."""
    zoom: Range = WHOLE
    format: str = ""
    size: tuple[float, float] = (7.0, 3.0)
    """Width of a figure for papers, and height of each of its charts, in inches."""

    @property
    def x(self) -> Axis:
        return self.axis or "episode"

    @property
    def definition(self) -> DefinitionOverrides:
        """The parts of the definition that the address gives."""
        return self.filter.overrides

    @property
    def y(self) -> tuple[str, ...]:
        """The figures and scalars, as the address names them."""
        return *self.figures, *(f"{SCALAR}{name}" for name in self.scalars)

    @property
    def split_choice(self) -> SplitChoice:
        """Which splits are shown of a run that played several."""
        return SplitChoice(self.filter.environment, self.filter.split, self.are_together)

    @classmethod
    def parse(
        cls,
        query: Mapping[str, str],
        viewer: Viewer,
        parameters: Collection[str] = PARAMETERS,
    ) -> CurveQuery:
        """Return the query in an address. Raises: BadFilter.

        `parameters`: those that it may have besides the filter.
        """
        filter_ = EpisodeFilter.parse(query, viewer, also=parameters)

        def value(name: str, parse: Callable[[str, str], Any], default: Any) -> Any:
            return given(query, name, parse, default)

        figures, scalars = value("y", _figures, (("return",), ()))
        zoom = Range(value("from", real, None), value("to", real, None))
        if zoom.low is not None and zoom.high is not None and zoom.low > zoom.high:
            raise BadFilter(
                "from", zoom.low, f"it is above to={digits_of(zoom.high)}; swap the two"
            )
        return cls(
            filter=filter_,
            axis=value("x", chosen(AXES), None),
            figures=figures,
            scalars=scalars,
            by=value("by", chosen((*OVERLAYS, "all")), None),
            runs=value("runs", partial(run_ids, viewer=viewer), ()),
            group=value("group", _keys, ()),
            has_failed=value("failed", flag, True),
            are_together=are_together_in(query),
            smoothing=Smoothing.parse(query),
            is_log=value("log", flag, False),
            has_band=value("band", flag, True),
            has_extremes=value("minmax", flag, None),
            hidden=value("hidden", _keys, ()),
            highlighted=value("highlight", _keys, ()),
            sort=value("sort", chosen([*SORTS, *(f"-{name}" for name in SORTS)]), "-last"),
            zoom=zoom,
            format=value("format", chosen(FORMATS), ""),
            size=value("size", _inches, (7.0, 3.0)),
        )

    def to_query(self) -> str:
        """Return the query string of the page of curves that draws the same."""
        ends = {"from": self.zoom.low, "to": self.zoom.high}
        texts = {name: digits_of(value) for name, value in ends.items() if value is not None}
        return self.filter.to_query(**dict(self.switches()), **texts)

    def switches(self) -> list[tuple[str, str]]:
        """Return the parameters of the drawing, which stay when the filter changes, as pairs of
        name and text."""
        values = {
            "x": self.axis or "",
            "y": ",".join(self.y) if self.y != ("return",) else "",
            "by": self.by or "",
            "runs": ",".join(map(str, self.runs)),
            "group": ",".join(self.group),
            "failed": "" if self.has_failed else "no",
            "splits": TOGETHER if self.are_together else "",
            **self.smoothing.values(),
            "log": "yes" if self.is_log else "",
            "band": "" if self.has_band else "no",
            "minmax": "" if self.has_extremes is None else "yes" if self.has_extremes else "no",
            "hidden": ",".join(self.hidden),
            "highlight": ",".join(self.highlighted),
            "sort": self.sort if self.sort != "-last" else "",
            **replace(self.definition, threshold=None).values(),  # which has a field of its own
        }
        return [(name, text) for name, text in values.items() if text]


def _figures(name: str, text: str) -> tuple[tuple[Figure, ...], tuple[str, ...]]:
    """Return the figures and the names of scalars in a parameter. Raises: BadFilter."""
    parts = [trimmed(part) for part in any_text(name, text).split(",")]
    names = [part.removeprefix(SCALAR) for part in parts if part.startswith(SCALAR)]
    others = [chosen(FIGURES)(name, part) for part in parts if not part.startswith(SCALAR)]
    scalars = tuple(dict.fromkeys(filter(None, names)))
    if len(scalars) > MAX_SCALARS:
        raise BadFilter(name, f"{len(scalars)} scalars", f"at most {MAX_SCALARS} are drawn")
    return tuple(dict.fromkeys(others)), scalars


def _inches(name: str, text: str) -> tuple[float, float]:
    size = _SIZE.fullmatch(text.strip())
    width, height = map(float, size.groups()) if size else (0.0, 0.0)
    if not (min(width, height) >= MIN_INCHES and max(width, height) <= MAX_INCHES):
        limits = f"{MIN_INCHES:g} to {MAX_INCHES:g}, such as 3.4x2.4"
        raise BadFilter(name, text, f"it takes a width and a height in inches from {limits}")
    return width, height


def _keys(name: str, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, any_text(name, text).split(","))))


def run_ids(name: str, text: str, viewer: Viewer) -> tuple[int, ...]:
    """Return the ids of the runs that a parameter lists, in order and each once. Raises: BadFilter.

    A run is written as its number or its name, with commas between runs. Quotation marks around a
    name, doubled within it, are for names that are numbers or hold commas: `3,"2024","a,b"`.
    """
    parts, at = list[tuple[str, bool]](), 0
    while at < len(any_text(name, text)):
        if (run := _RUN.match(text, at)) is None:
            raise BadFilter(name, text, f"it takes {_RUN_LIST_FORM}")
        at, quoted_name = run.end(), (run[1] or "").replace('""', '"')
        if part := quoted_name or trimmed(run[2] or ""):
            parts.append((part, bool(quoted_name)))
    numbers = [None if is_name else id_in(part) for part, is_name in parts]
    names = [part for (part, _), number in zip(parts, numbers, strict=True) if number is None]
    rows = Run.objects.seen_by(viewer).filter(name__in=names)
    ids_by_name = dict(rows.values_list("name", "pk")) if names else {}
    if missing := [part for part in names if part not in ids_by_name]:
        raise BadFilter(name, text, f"there is no run {missing[0]}; it takes {_RUN_LIST_FORM}")
    pairs = zip(parts, numbers, strict=True)
    ids = (ids_by_name[part] if number is None else number for (part, _), number in pairs)
    return tuple(dict.fromkeys(ids))
