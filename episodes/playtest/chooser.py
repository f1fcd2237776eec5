"""Chooser: the page where somebody says what to play. GET shows it, POST begins the session and goes to the player."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from environments.models import Environment, Split, Task
from episodes.models import Play
from episodes.playtest.opening import NotOpened, open_play
from episodes.playtest.seat import PlayerSeat, seated
from episodes.playtest.task_choice import BadWish, TaskChoice, misnamed, session_of, wish_of

LAST_PLAYS = 8
RUNNING_PLAYS = 20


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@seated
def chooser(request: HttpRequest, seat: PlayerSeat) -> HttpResponse:
    if request.method == "POST":
        return _begin(request, seat)
    wish = wish_of(request.GET.dict())
    # a guest is shown what the invite is for, and is told of nothing else
    return _page(request, seat, wish, {"errors": {} if seat.guest else misnamed(wish)})


def _begin(request: HttpRequest, seat: PlayerSeat) -> HttpResponse:
    wish = wish_of(request.POST.dict())
    try:
        wanted = session_of(wish, seat, request.headers.get("User-Agent", ""))
        is_blind = wish.is_blind or _is_always_blind(seat, wish.environment)
        play = open_play(seat, wanted, is_blind=is_blind)
    except BadWish as error:
        return _page(request, seat, wish, {"errors": {error.field: str(error)}}, status=422)
    except NotOpened as error:
        return _page(request, seat, wish, {"errors": {wish.place: str(error)}, "failed": error.episode}, status=422)
    return redirect("player", play.pk)


def _is_always_blind(seat: PlayerSeat, environment: str) -> bool:
    if seat.invite is not None and seat.invite.is_blind:
        return True
    return Environment.objects.filter(name=environment, is_blind=True).exists()


def _page(
    request: HttpRequest, seat: PlayerSeat, wish: TaskChoice, more: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    environments = list(_environments(seat))
    playable = [one for one in environments if one.is_enabled and not one.unavailable]
    chosen = next(
        (one for one in environments if one.name == wish.environment), next(iter(playable or environments), None)
    )
    splits = _splits(seat, chosen)
    context = {
        "seat": seat,
        "wish": wish,
        "environments": environments,
        "chosen": chosen,
        "splits": splits,
        "split": next((split for split in splits if split.name == wish.split), next(iter(splits), None)),
        "task": _task(wish, chosen) if seat.guest is None else None,
        "is_always_blind": chosen is not None and _is_always_blind(seat, chosen.name),
        "running": _plays(seat).filter(episode__status="running")[:RUNNING_PLAYS],
        "last": _plays(seat).filter(episode__status="ended")[:LAST_PLAYS],
        **(more or {}),
    }
    return render(request, "playtest/chooser.html", context, status=status)


def _environments(seat: PlayerSeat) -> QuerySet[Environment]:
    splits = Split.objects.filter(is_served=True).order_by("position", "name")
    rows = Environment.objects.filter(is_hosted=True).prefetch_related(Prefetch("splits", queryset=splits))
    return rows.filter(pk=seat.invite.environment_id) if seat.invite else rows


def _splits(seat: PlayerSeat, environment: Environment | None) -> Sequence[Split]:
    if environment is None:
        return []
    return [split for split in environment.splits.all() if seat.may_play(environment.name, split.name)]


def _task(wish: TaskChoice, environment: Environment | None) -> Task | None:
    """The task that the address names; the page says its name alone, for agents see none of its fields either."""
    if environment is None or not wish.task.isdecimal() or len(wish.task) > 18:
        return None
    return Task.objects.filter(pk=int(wish.task), environment=environment).first()


def _plays(seat: PlayerSeat) -> QuerySet[Play]:
    related = ("episode__environment", "episode__split", "episode__task")
    return Play.objects.filter(seat.plays).select_related(*related).order_by("-pk")
