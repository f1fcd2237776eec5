"""The training and evaluation runs that clients have named, and what their trainers say about
them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from django.http import Http404
from django.utils.cache import get_conditional_response
from django.utils.http import parse_etags
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers as s
from rest_framework.exceptions import PermissionDenied, UnsupportedMediaType
from rest_framework.request import Request
from rest_framework.response import Response

from environments.access.permissions import DESCRIBE_RUNS, refusal
from environments.filtering.parameters import BadFilter
from environments.keys.agent_key import sent_key
from environments.runtime.secrets_mask import mask_of
from environments.scoring.definition import DEFINITION_PARAMETERS
from environments.service import service_or_none
from environments.wire import json_problem, parsed_json
from episodes.api.auth import Reader
from episodes.api.base import ApiView, limit_of, page
from episodes.api.openapi import DEFINITION, documented, parameter
from episodes.api.serializers import ErrorSerializer, page_serializer
from episodes.figures.curves.figure_menu import SCALAR
from episodes.figures.run_splits import TOGETHER, SplitChoice
from episodes.figures.runs.run_columns import CONFIG, column_values
from episodes.figures.runs.run_lines import RunLine, RunQuery
from episodes.figures.runs.run_list import MAX_COLUMNS, NEWEST, RunListQuery
from episodes.figures.runs.run_order import SORTS
from episodes.figures.runs.serializers import (
    RunDescriptionSerializer,
    RunDetailResultsSerializer,
    RunDetailSerializer,
    RunResultsSerializer,
)
from episodes.figures.summary_cover import note_of_part
from episodes.models import Run
from episodes.rollups.run_totals import RunTotalsPart
from episodes.runs.description import STATES, parsed_description, run_name
from episodes.runs.trainer_updates import etag_of, run_by_name, steer

NOTE_TEXT = "Says that older episodes do not count in the order yet; usually empty"
ALL_SPLITS = parameter(
    "splits", "`together`: `figures` count all splits that a run played", enum=(TOGETHER,)
)


class RunsView(ApiView):
    """All runs; for a key, those that it created or recorded an episode or conversation of.

    Each episode counts by the definition of its own environment.
    """

    parameters = (
        "name",
        "state",
        "tag",
        "text",
        "config",
        "columns",
        "sort",
        "limit",
        "after",
        *SplitChoice.PARAMETERS,
        *DEFINITION_PARAMETERS,
    )

    @documented(
        "runs",
        "runs",
        page_serializer(RunResultsSerializer, "RunPage", note=s.CharField(help_text=NOTE_TEXT)),
        parameter("name", "Exact name of a run, or title of several"),
        parameter("state", "State of a run, as its trainer says", enum=STATES),
        parameter("failed", "`no` leaves out runs that failed", enum=("yes", "no")),
        parameter("tag", "A tag of a run"),
        parameter("text", "Up to 8 words in a run's name, model, tags, notes and configuration"),
        parameter("config", "Condition on a value of the configuration, such as temperature>0.7"),
        parameter(
            "columns",
            f"Up to {MAX_COLUMNS} names of values of the configuration, or {SCALAR}NAME for the "
            "last value of a scalar, as in lr,scalar.loss",
        ),
        parameter(
            "sort",
            f"Order: one of {', '.join(SORTS)}, or the name of a column: {CONFIG}NAME, {SCALAR}NAME; "
            "with - in front descending; return and success within each environment and split. "
            "Runs that are running come first unless "
            "nothing has come for two hours, except by -created, the default",
        ),
        parameter("split", "Name of a split: runs that played it, with their figures there"),
        ALL_SPLITS,
        "limit",
        parameter("after", "Cursor of a page; take it from `next`"),
        *DEFINITION,
    )
    def get(self, request: Request) -> Response:
        query = RunListQuery.parse(request.GET, self.reader.viewer, limit_of(request), NEWEST)
        result = query.result(self.reader.key.environments)
        columns = column_values(
            Run.objects.filter(pk__in=[run.pk for run in result.runs]), query.columns
        )
        context = self.context | _figures_of(result.lines) | {"columns": columns}
        shape: Any = RunResultsSerializer(result.runs, many=True, context=context)
        note = "" if query.order.is_newest else note_of_part(RunTotalsPart.name)
        return Response(page(request, shape.data, result.next, note=note))


class RunView(ApiView):
    """One run. Each episode counts by the definition of its own environment."""

    parameters = RunQuery.PARAMETERS

    @documented(
        "run",
        "runs",
        RunDetailResultsSerializer,
        parameter("environment", "Environment of the split"),
        parameter(
            "split",
            "One of several splits that the run played, which `figures` count; default: the first",
        ),
        ALL_SPLITS,
        *DEFINITION,
    )
    def get(self, request: Request, pk: int) -> Response:
        run = Run.objects.seen_by(self.reader.viewer).filter(pk=pk).prefetch_related("tags").first()
        if run is None:
            raise Http404(f"There is no run {pk}.")
        line = RunQuery.parse(request.GET, run, self.reader.viewer).result()
        context = self.context | _figures_of([line])
        return Response(RunDetailResultsSerializer(run, context=context).data)


class SteeredRunView(ApiView):
    """The newest run of a title, or the run of a name, with its ETag.

    The title or name is the rest of the path, percent-encoded; it may contain slashes.
    """

    http_method_names = ["get", "head", "put"]

    @documented("run_by_name", "runs", RunDetailSerializer)
    def get(self, request: Request, name: str) -> Response:
        run = run_by_name(_name_of(request, name, self.reader), self.reader.viewer)
        not_modified: Any = get_conditional_response(request._request, etag=etag_of(run))
        return not_modified or self._response(run)

    @extend_schema(
        operation_id="steer_run",
        tags=["runs"],
        description="Begin a run, or change what the trainer of the newest one of this title says "
        "about it. Members "
        "that are left out keep their values. The next run of the title begins if `state` is "
        "`running` and the newest "
        "one has ended or is at a later step, or if it has another model or configuration, unless "
        "`resume` is true. "
        "A key can change the runs that it created or recorded an episode or conversation of; a person "
        "needs the permission *Can change run*, and in a browser the CSRF token.",
        request={"application/json": RunDescriptionSerializer},
        parameters=[
            OpenApiParameter(
                "If-Match",
                str,
                OpenApiParameter.HEADER,
                description="ETag of the run as it was read: if the run has changed since, nothing "
                "happens and the "
                "response is 409",
            )
        ],
        responses={
            200: RunDetailSerializer,
            201: RunDetailSerializer,
            **dict.fromkeys((400, 401, 403, 404, 409, 413, 415, 429, 503), ErrorSerializer),
        },
    )
    def put(self, request: Request, name: str) -> Response:
        check_may_describe(self.reader)
        description = parsed_description(json_of(request, self.reader))
        header = request.headers.get("If-Match")
        etags = parse_etags(header or "")
        if header is not None and not etags:
            reason = 'it has to be an ETag with quotation marks, or "*"'
            raise BadFilter("If-Match", header, reason)
        name = _name_of(request, name, self.reader)
        check_run(name, self.reader)
        result = steer(name, description, self.reader.viewer, etags)
        return self._response(result.run, 201 if result.is_new else 200)

    def _response(self, run: Run, status: int = 200) -> Response:
        shape = RunDetailSerializer(run, context=self.context)
        return Response(shape.data, status, headers={"ETag": etag_of(run)})


def check_may_describe(reader: Reader) -> None:
    """Raises: PermissionDenied for a person who may not describe runs."""
    if reader.person is not None and not reader.person.has_perm(DESCRIBE_RUNS):
        raise PermissionDenied(refusal(reader.person, DESCRIBE_RUNS))


def check_run(name: str, reader: Reader) -> None:
    """Check that the key may describe runs of the title that the run of this name has. Raises:
    Forbidden."""
    titles = Run.objects.filter(name=name).values_list("title", flat=True)
    reader.key.check_run(titles.first() or name)


def _figures_of(lines: Sequence[RunLine]) -> dict[str, Any]:
    """Return what the serializers of runs with figures need."""
    return {"figures": {line.run.pk: line for line in lines}}


def json_of(request: Request, reader: Reader) -> Any:
    """Return the value of the body, with secrets masked. Raises: UnsupportedMediaType,
    BadFilter."""
    kind = (request.content_type or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedMediaType(
            kind, f"Content-Type is {kind or 'absent'}; it has to be application/json."
        )
    try:
        return parsed_json(_masked(request, reader, request._request.body.decode()))
    except (ValueError, RecursionError) as error:
        start = request._request.body[:80].decode(errors="replace")
        raise BadFilter(
            "body", start, f"it has to be JSON in UTF-8, and {_problem(error)}"
        ) from None


def _problem(error: Exception) -> str:
    """Return what is wrong with a text that is not JSON."""
    if isinstance(error, json.JSONDecodeError):
        return (
            f"at line {error.lineno}, column {error.colno} it is not: "
            f"{error.msg[:1].lower()}{error.msg[1:]}"
        )
    if isinstance(error, UnicodeDecodeError):
        return f"its byte {error.start} is not UTF-8"
    problem = json_problem(error)
    return "it is nested too deeply" if problem.startswith("nested") else problem


def _name_of(request: Request, name: str, reader: Reader) -> str:
    """Return the run's name in the path, as the recorder stores it. Raises: BadFilter."""
    raw = getattr(request._request, "scope", {}).get("raw_path", b"")
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadFilter("name", name, "the path has to be UTF-8, percent-encoded") from None
    return run_name(json.loads(_masked(request, reader, json.dumps({"name": name})))["name"])


def _masked(request: Request, reader: Reader, text: str) -> str:
    """Return the JSON text without the key of the request and the secrets of the key's sessions;
    for a person
    and for a server without keys, those of all sessions.
    """
    text = mask_of((sent_key(request.META),)).json(text)
    if (service := service_or_none()) is None:
        return text
    secrets, label = service.recent_secrets, reader.key.label
    return secrets.json(label, text) if label else secrets.log_line(text)
