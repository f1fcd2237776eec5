"""Curves of return, success and length over episodes, time or training steps, for any filter of
episodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from environments.errors import nearest
from environments.filtering.parameters import flag, given
from environments.models import Environment, Viewer
from environments.models.viewer import visible_environments
from episodes.analytics.components import ComponentCurves, component_curves, names_of
from episodes.analytics.curve import MAX_POINTS, Curve, curve
from episodes.analytics.curve_query import AXES, CurveQuery
from episodes.analytics.revision_marks import RevisionMark, marks_of
from episodes.analytics.run_splits import TOGETHER, named_split, of_one_split
from episodes.analytics.scopes import people_left_out, scope_of_filter
from episodes.analytics.tokens import TokenCurve, token_curve
from episodes.api.base import ANY, ApiView, whole
from episodes.api.openapi import FILTERS, documented, parameter
from episodes.api.serializers_figures import CurveSerializer, definitions_content
from episodes.filtering.conditions import NamedRows

OWN = ("x", "from", "to", "points", "threshold", "component", "tokens", "splits")
ALL = "*"
"""Instead of the name of a component: those that most attempts report."""


COMPONENT_TEXT = (
    "Name of a component that environments report with their rewards; repeat it for several. `*`: "
    "the eight that most "
    "attempts report. The newest 10,000 episodes are read"
)

TOKENS_TEXT = (
    "`yes`: `tokens` has the tokens that clients reported. The newest 10,000 episodes are read; "
    "default `no`"
)


TOGETHER_TEXT = (
    "`together`: the splits that the run played are one curve. Without it, a filter by a run that "
    "names no split finds "
    "its first one, if it played several; `split` in the response says which"
)


class CurvesView(ApiView):
    """One curve. A filter by an environment, a split or a run alone counts every episode; other filters, and keys,
    count the newest 50,000.
    """

    parameters = ANY

    @documented(
        "curves",
        "figures",
        CurveSerializer,
        parameter("x", "Axis of the curve; default `episode`", enum=AXES),
        parameter("from", "Smallest x to show; a time in seconds since the epoch", kind=float),
        parameter("to", "Largest x to show", kind=float),
        parameter("points", f"Maximum number of points, up to {MAX_POINTS}", kind=int),
        parameter(
            "threshold",
            "A return above it is a success; default: that of the environment, else 0.9",
            kind=float,
        ),
        parameter("component", COMPONENT_TEXT),
        parameter("splits", TOGETHER_TEXT, enum=(TOGETHER,)),
        parameter("tokens", TOKENS_TEXT, enum=("yes", "no")),
        *FILTERS,
    )
    def get(self, request: Request) -> Response:
        query = CurveQuery.parse(request.GET, self.reader.viewer, OWN)
        points = whole(request, "points", MAX_POINTS, least=1, most=MAX_POINTS) or MAX_POINTS
        has_tokens = given(request.GET, "tokens", flag) or False
        named = NamedRows.of(query.filter)
        self.refuse_unknown(named.unknown)
        split = None if query.are_together else named_split(query.filter, named)
        if split is not None:
            query = replace(query, filter=of_one_split(query.filter, split))
            named = replace(named, environment=split.environment, split=split)
        scope = scope_of_filter(query.filter, named)
        line = curve(scope, query.definitions(named), query.x, points=points, zoom=query.zoom)
        components = self._components(line, request.GET.getlist("component"))
        tokens = token_curve(line) if has_tokens else None
        people = people_left_out(query.filter, named)
        content = _content(line, components, tokens, people) | {"split": named.split}
        return Response(CurveSerializer(content).data)

    def _components(self, found: Curve, names: list[str]) -> ComponentCurves:
        """Return the curves of the components that the parameter names. Raises: OrsError for an unknown name."""
        if not names:
            return ComponentCurves([], "")
        known = names_of(_visible_ids(self.reader.viewer))
        for name in names:
            if name != ALL and name not in known:
                there = (
                    f"There are {', '.join(known)}."
                    if known
                    else "No environment has reported any."
                )
                self.refuse_unknown(
                    f"No environment reports the component {name!r}.{nearest(name, known)} {there}"
                )
        return component_curves(found, None if ALL in names else list(dict.fromkeys(names)))


def _visible_ids(viewer: Viewer) -> list[int] | None:
    """Return the ids of all environments but the hidden ones; None if there are no hidden ones."""
    if not (condition := visible_environments(viewer, "pk")):
        return None
    return list(Environment.objects.filter(condition).values_list("pk", flat=True))


def _mark(mark: RevisionMark) -> dict[str, Any]:
    revision = mark.revision
    facts = {
        "environment": revision.environment.name,
        "code": revision.code,
        "git_commit": revision.git_commit,
    }
    return {"x": mark.x, "is_dirty": revision.is_dirty, **facts}


def _content(
    found: Curve, components: ComponentCurves, tokens: TokenCurve | None, people: str
) -> dict[str, Any]:
    notes = (people, found.note, components.note, tokens.note if tokens else "")
    return {
        "definition": definitions_content(found.definition),
        "x": found.axis,
        "total": found.total,
        "excluded": found.excluded,
        "success_error": found.success_error,
        "is_bounded": found.is_bounded,
        "note": " ".join(note for note in notes if note),
        "points": found.points,
        "revisions": [_mark(mark) for mark in marks_of(found)],
        "components": components.series,
        "tokens": tokens,
    }
