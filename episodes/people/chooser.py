"""The page where people choose what to play. GET shows it; POST starts the session and redirects to
the player."""

from __future__ import annotations

import secrets
from typing import Any

from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from environments.database.storable import id_in
from environments.filtering.addresses import flag_asked, takes
from environments.models import Environment, Split, Task
from episodes.browsing.task_lines import name_tasks
from episodes.models import Play
from episodes.people.player_identity import PlayerSeat, seated
from episodes.people.session_start import NotStarted, start_play
from episodes.people.task_choice import (
    BadChoice,
    TaskChoice,
    address_problems,
    choice_of,
    new_session,
)

MAX_ENDED_PLAYS = 8
MAX_RUNNING_PLAYS = 20


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
@takes("environment", "split", "number", "spec", "task", "once", "pick", "blind")
def chooser(request: HttpRequest, seat: PlayerSeat) -> HttpResponse:
    if seat.study is not None:  # which deals the tasks
        return redirect("study_home")
    if request.method == "POST":
        return _start(request, seat)
    flag_asked(request, "blind")
    choice = choice_of(request.GET.dict())
    # guests see what their invite is for, and no errors that would tell which other names exist
    return _page(
        request,
        seat,
        choice,
        {"errors": {} if seat.guest else address_problems(choice, seat.viewer)},
    )


def _start(request: HttpRequest, seat: PlayerSeat) -> HttpResponse:
    choice = choice_of(request.POST.dict())
    try:
        session_request = new_session(choice, seat, request.headers.get("User-Agent", ""))
        is_blind = choice.is_blind or _is_always_blind(seat, choice.environment)
        play = start_play(seat, session_request, is_blind=is_blind)
    except BadChoice as error:
        return _page(request, seat, choice, {"errors": {error.field: str(error)}}, status=422)
    except NotStarted as error:
        return _page(
            request,
            seat,
            choice,
            {"errors": {"start": str(error)}, "failed": error.episode},
            status=422,
        )
    return redirect("player", play.pk)


def _is_always_blind(seat: PlayerSeat, environment: str) -> bool:
    if seat.invite is not None and seat.invite.is_blind:
        return True
    return Environment.objects.filter(name=environment, is_blind=True).exists()


def _page(
    request: HttpRequest,
    seat: PlayerSeat,
    choice: TaskChoice,
    more: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    split_rows = Split.objects.seen_by(seat.viewer).filter(is_served=True)
    split_rows = split_rows.order_by("position", "name")
    rows = Environment.objects.seen_by(seat.viewer).filter(is_hosted=True)
    if seat.invite is not None:
        rows = rows.filter(pk=seat.invite.environment_id)
    environments = list(rows.prefetch_related(Prefetch("splits", queryset=split_rows)))
    playable = [row for row in environments if row.is_enabled and not row.unavailable]
    matches = [row for row in environments if row.name == choice.environment]
    environment = next(iter([*matches, *playable, *environments]), None)
    splits, task = list[Split](), None
    if environment is not None:
        splits = [
            split
            for split in environment.splits.all()
            if seat.may_play(environment.name, split.name)
        ]
        if seat.guest is None:  # the page shows only its name, as agents don't see its fields
            tasks = Task.objects.seen_by(seat.viewer).filter(environment=environment)
            task = tasks.filter(pk=id_in(choice.task) or 0).first()
    running = list(_plays(seat).filter(episode__status="running")[:MAX_RUNNING_PLAYS])
    last = list(_plays(seat).filter(episode__status="ended")[:MAX_ENDED_PLAYS])
    name_tasks(play.episode for play in (*running, *last))
    context = {
        "seat": seat,
        "once": secrets.token_hex(16),
        "choice": choice,
        "environments": environments,
        "chosen": environment,
        "splits": splits,
        "split": next(
            (split for split in splits if split.name == choice.split), next(iter(splits), None)
        ),
        "task": task,
        "is_always_blind": environment is not None and _is_always_blind(seat, environment.name),
        "running": running,
        "last": last,
        **(more or {}),
    }
    return render(request, "people/chooser.html", context, status=status)


def _plays(seat: PlayerSeat) -> QuerySet[Play]:
    relations = ("episode__environment", "episode__split", "episode__task")
    return Play.objects.filter(seat.plays).select_related(*relations).order_by("-pk")
