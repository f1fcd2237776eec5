"""The comparison page: two episodes side by side, or several runs on the tasks that they share."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from environments.access.privacy import viewer_of
from environments.database.storable import id_in
from environments.filtering.addresses import refuse_others, takes
from environments.filtering.parameters import BadFilter, trimmed
from environments.scoring.definition import DEFINITION_PARAMETERS
from environments.scoring.returns import RETURNS
from episodes.analytics.curve_query import PARAMETERS as SWITCHES
from episodes.browsing.episode_list import for_rows, summary_of
from episodes.dashboard.compare_runs import compare_runs
from episodes.dashboard.guards import refused, refused_blind
from episodes.dashboard.replay import number
from episodes.filtering.names import name_tasks
from episodes.models import Episode
from episodes.transcript.comparison import comparison_of
from episodes.transcript.peers import pairs_to_compare
from episodes.transcript.steps import TranscriptView
from episodes.visibility import blind_to

MAX_SHOWN_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class SuggestedPair:
    """Two attempts at one task, with the task in words."""

    failed: Episode
    solved: Episode
    summary: str


@require_safe
@never_cache
@takes("episodes", "row", "revision", "environment", "split", *DEFINITION_PARAMETERS, *SWITCHES)
def compare(request: HttpRequest) -> HttpResponse:
    """Compare `episodes=1,2` or `runs=3,4`; without either, return the page on which to choose."""
    if request.GET.get("runs", "").strip(", "):
        try:
            return compare_runs(request)
        except BadFilter as error:
            return _refused(request, str(error))
    if request.GET.get("episodes", "").strip(", "):
        return compare_episodes(request)
    refuse_others(request, ("episodes", "runs"))
    return render(request, "episodes/compare_start.html", {"pairs": _suggested(request)})


def _suggested(request: HttpRequest) -> list[SuggestedPair]:
    """Return pairs of attempts worth comparing: at the same task, one failed, the other
    succeeded."""
    seen = Episode.objects.seen_by(viewer_of(request.user))
    pairs = pairs_to_compare(seen)
    episodes = for_rows(seen).in_bulk([pk for pair in pairs for pk in pair])
    name_tasks(episodes.values())
    return [
        SuggestedPair(episodes[failed], episodes[solved], summary_of(episodes[failed]))
        for failed, solved in pairs
        if failed in episodes and solved in episodes  # neither was deleted meanwhile
    ]


def compare_episodes(request: HttpRequest) -> HttpResponse:
    """Return the page of two episodes aligned by step. The parameter `row` selects the window that
    holds that row."""
    asked = request.GET.get("episodes", "")
    ids = _ids(asked)
    if len(ids) != 2:
        sentence = (
            f"episodes={asked[:100]!r} does not name two episodes; give two different episode "
            "numbers "
            "separated by a comma, such as episodes=12,15."
        )
        return _refused(request, sentence)
    seen = Episode.objects.seen_by(viewer_of(request.user))
    related = seen.select_related("environment", "split", "task", "run", "revision")
    episodes = related.defer("task__spec", "task__folded").in_bulk(ids)
    if blind := blind_to(request.user).filter(pk__in=list(episodes)).first():
        return refused_blind(request, blind)
    missing = [pk for pk in ids if pk not in episodes]
    if missing:
        return _refused(
            request, f"There is no episode {missing[0]}. It may have been deleted; choose another."
        )
    left, right = (episodes[pk] for pk in ids)
    name_tasks((left, right))
    return _side_by_side(request, left, right)


def _side_by_side(request: HttpRequest, left: Episode, right: Episode) -> HttpResponse:
    definition = request.GET.get("return") or left.environment.default_return
    if definition not in RETURNS:
        return _refused(
            request,
            f"return={definition[:100]!r} is not a definition of the return; use "
            f"{', '.join(RETURNS)}.",
        )
    view = TranscriptView(definition=definition, characters=MAX_SHOWN_CHARACTERS)
    context = {
        "left": left,
        "right": right,
        "sides": [(one, one.returns[definition]) for one in (left, right)],
        "turned": f"{right.pk},{left.pk}",
        "definition": definition,
        "own_definition": left.environment.default_return,
        "comparison": comparison_of(left, right, view, number(request, "row")),
    }
    return render(request, "episodes/compare.html", context)


def _ids(text: str) -> list[int]:
    """Return the numbers in `text`, in order and without duplicates; empty if any part is not a
    number."""
    words = list(map(trimmed, text.split(","))) if len(text) < 200 else []
    ids = [pk for pk in map(id_in, words) if pk is not None]
    return list(dict.fromkeys(ids)) if len(ids) == len(words) else []


def _refused(request: HttpRequest, sentence: str) -> HttpResponse:
    return refused(
        request, "Nothing to compare", sentence, [(reverse("compare"), "Choose what to compare")]
    )
