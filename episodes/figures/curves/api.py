"""Curves of return, success and length over episodes, time or training steps, for any filter of
episodes."""

from __future__ import annotations

from dataclasses import replace

from rest_framework.request import Request
from rest_framework.response import Response

from environments.errors import nearest
from environments.filtering.parameters import flag, given, whole_from
from environments.models import Environment
from environments.models.viewer import visible_environments
from episodes.api.base import ANY, ApiView
from episodes.api.openapi import FILTERS, documented, parameter
from episodes.figures.curves.components import ComponentCurves, component_curves, names_of
from episodes.figures.curves.curve_parameters import AXES, CurveQuery
from episodes.figures.curves.curve_points import MAX_POINTS, Curve, curve
from episodes.figures.curves.revision_marks import marks_of
from episodes.figures.curves.serializers import CurveSerializer
from episodes.figures.curves.tokens import token_curve
from episodes.figures.run_splits import TOGETHER, named_split, of_one_split
from episodes.figures.scopes import people_left_out, scope_of_filter
from episodes.figures.serializers import definitions_content
from episodes.filtering.conditions import NamedRows

OWN = ("x", "from", "to", "points", "component", "tokens", "splits")
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
        parameter("component", COMPONENT_TEXT),
        parameter("splits", TOGETHER_TEXT, enum=(TOGETHER,)),
        parameter("tokens", TOKENS_TEXT, enum=("yes", "no")),
        *FILTERS,
    )
    def get(self, request: Request) -> Response:
        query = CurveQuery.parse(request.GET, self.reader.viewer, OWN)
        points = given(request.GET, "points", whole_from(1, MAX_POINTS), MAX_POINTS)
        has_tokens = given(request.GET, "tokens", flag, False)
        subject = NamedRows.of(query.filter)
        self.refuse_unknown(subject.unknown)
        split = None if query.are_together else named_split(query.filter, subject)
        if split is not None:
            query = replace(query, filter=of_one_split(query.filter, split))
            subject = replace(subject, environment=split.environment, split=split)
        scope = scope_of_filter(query.filter, subject)
        line = curve(scope, subject.definitions, query.x, points=points, zoom=query.zoom)
        components = self._components(line, request.GET.getlist("component"))
        tokens = token_curve(line) if has_tokens else None
        notes = [people_left_out(query.filter, subject), line.note, components.note]
        notes += [tokens.note] if tokens else []
        content = {
            "split": subject.split,
            "definition": definitions_content(line.definition),
            "x": line.axis,
            "total": line.total,
            "excluded": line.excluded,
            "success_error": line.success_error,
            "is_bounded": line.is_bounded,
            "note": " ".join(note for note in notes if note),
            "points": line.points,
            "revisions": marks_of(line),
            "components": components.series,
            "tokens": tokens,
        }
        return Response(CurveSerializer(content).data)

    def _components(self, line: Curve, names: list[str]) -> ComponentCurves:
        """Return the curves of the components that the parameter names. Raises: OrsError for an unknown name."""
        if not names:
            return ComponentCurves([], "")
        visible = visible_environments(self.reader.viewer, "pk")
        rows = Environment.objects.filter(visible).values_list("pk", flat=True)
        existing = names_of(list(rows) if visible else None)
        every = f"There are {', '.join(existing)}."
        for name in names:
            if name != ALL and name not in existing:
                self.refuse_unknown(
                    f"No environment reports the component {name!r}.{nearest(name, existing)} "
                    f"{every if existing else 'No environment has reported any.'}"
                )
        return component_curves(line, None if ALL in names else list(dict.fromkeys(names)))
