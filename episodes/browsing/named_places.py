"""Places whose names have the words of a text: environments, runs, models, tasks, an episode or a
task by its number, and those of features. For the palette (Ctrl K) and the search field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar
from urllib.parse import urlencode

from django.db.models import Max, Model, QuerySet, TextField
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils.text import Truncator

from environments.database.folding import contains
from environments.features import PageLink, features, named, url_of_page
from environments.models import Environment, Split, Task, Viewer
from environments.models.folding import fold, fold_term
from environments.service import task_line
from environments.tasks.task_facts import name_of_place, task_names
from environments.tasks.task_places import places_of
from episodes.filtering.names import models, runs
from episodes.models import Episode, Run

MAX_OF_A_KIND = 6
MAX_SEARCHED_TASKS = 5_000
"""Tasks whose lines are searched, the newest ones."""
MAX_READ_TASKS = 50
"""Tasks among them with the words anywhere in their content whose lines are made."""
MIN_TITLE_CHARACTERS = 3
MAX_TITLE_CHARACTERS = 90
Named = TypeVar("Named", bound=Model)
_NUMBER = re.compile(r"(?:(?P<kind>episode|task)\s*)?#?(?P<number>\d{1,18})", re.IGNORECASE)
_TASK = re.compile(
    r"(?:(?P<environment>\S+)\s+)?(?P<split>\S+?)(?:\s+|\s*#\s*)(?P<position>\d{1,5})"
)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class NamedPlace:
    kind: str
    """What it is, in one word, such as "run"."""
    name: str
    url: str


def places_named(text: str, viewer: Viewer) -> list[NamedPlace]:
    """Return what the viewer may see by that name, the best matches first, MAX_OF_A_KIND of each
    kind; nothing for an empty text. Among runs and models the newest MAX_NAMES of `names.py` are
    searched, among tasks the newest MAX_SEARCHED_TASKS."""
    text = text.strip()[:200]
    if not text:
        return []
    kinds = [_numbered, _tasks, _environments, _runs, _models, *named("named_places"), _titles]
    places = [place for kind in kinds for place in islice(kind(text, viewer), MAX_OF_A_KIND)]
    return sorted(places, key=lambda place: distance(place.name, text))


def distance(name: str, text: str) -> int:
    """Return how little a name that has all words of the text is like it; 0: it has the same
    words."""
    own, words = _WORD.findall(name.casefold()), _WORD.findall(text.casefold())
    if own == words:
        return 0
    if name.casefold().startswith(text.casefold()):
        return 1
    if set(words) <= set(own):
        return 2
    return 3 if all(any(word.startswith(start) for word in own) for start in words) else 4


def _numbered(text: str, viewer: Viewer) -> Iterator[NamedPlace]:
    """Yield the episode with a number, `12` or `episode 12`, or the task, `task 12`."""
    if not (match := _NUMBER.fullmatch(text)):
        return
    if (match["kind"] or "episode").lower() == "task":
        for place in _task_places(Task.objects.seen_by(viewer).filter(pk=match["number"])):
            yield replace(place, name=f"task {match['number']}: {place.name}")
        return
    episodes = Episode.objects.seen_by(viewer).filter(pk=match["number"])
    for pk in episodes.values_list("pk", flat=True):
        yield NamedPlace("episode", f"#{pk}", reverse("episode", args=[pk]))


def _tasks(text: str, viewer: Viewer) -> Iterator[NamedPlace]:
    """Yield the tasks at a place, such as `test #0` or `math test 0`; `task 0` is that of any
    split."""
    if not (match := _TASK.fullmatch(text)):
        return
    splits = Split.objects.filter(
        is_served=True, environment__in=Environment.objects.seen_by(viewer)
    ).exclude(pk__in=viewer.sealed_splits)
    if match["split"].lower() != "task":
        splits = splits.filter(name__iexact=match["split"])
    if match["environment"]:
        splits = splits.filter(environment__name__iexact=match["environment"])
    position = int(match["position"])
    splits = splits.select_related("environment").order_by("environment__position", "position")
    for split in splits[:MAX_OF_A_KIND]:
        for place in places_of(split).filter(position=position):
            name = f"{split.environment.name} {name_of_place(split, position, is_hidden=place.is_hidden)}"
            yield NamedPlace("task", name, reverse("task", args=[place.task_id]))


def _titles(text: str, viewer: Viewer) -> Iterator[NamedPlace]:
    """Yield the tasks whose line has words that begin with those of the text; it has no hidden
    fields."""
    if len(text) < MIN_TITLE_CHARACTERS:
        return
    newest = Task.objects.aggregate(newest=Max("pk"))["newest"] or 0
    rows = Task.objects.seen_by(viewer).filter(pk__gt=newest - MAX_SEARCHED_TASKS)
    for word in text.split():
        rows = rows.filter(
            contains(Coalesce("folded", "spec", output_field=TextField()), fold_term(word))
        )
    rows, starts = rows.order_by("-pk")[:MAX_READ_TASKS], _WORD.findall(fold(text))

    def has_starts(task: Task) -> bool:
        words = _WORD.findall(fold(task_line(task.environment, task.spec)))
        return all(any(word.startswith(start) for word in words) for start in starts)

    yield from _task_places(rows, has_starts)


def _task_places(
    tasks: QuerySet[Task], is_wanted: Callable[[Task], bool] = lambda task: True
) -> Iterator[NamedPlace]:
    rows = list(islice(filter(is_wanted, tasks.select_related("environment")), MAX_OF_A_KIND))
    names = task_names([task.pk for task in rows])
    for task in rows:
        line = Truncator(task_line(task.environment, task.spec)).chars(MAX_TITLE_CHARACTERS)
        place = f"{task.environment.name} {names[task.pk]}"
        yield NamedPlace("task", f"{line} ({place})", reverse("task", args=[task.pk]))


def has_words(name: str, text: str) -> bool:
    """Return whether the name has all words of the text, in any order and case."""
    return all(word in name.casefold() for word in text.casefold().split())


def with_best_words(names: Iterable[str], text: str) -> list[str]:
    """Return the first MAX_OF_A_KIND of the names with all words of the text, in any order and case,
    the best matches first."""
    rows = [name for name in names if has_words(name, text)]
    return sorted(rows, key=lambda name: distance(name, text))[:MAX_OF_A_KIND]


def with_words(rows: QuerySet[Named], text: str) -> QuerySet[Named]:
    """Return the rows whose `name` has all words of the text, in any order and case."""
    for word in text.split():
        rows = rows.filter(name__icontains=word)
    return rows


def _environments(text: str, viewer: Viewer) -> Iterator[NamedPlace]:
    """Yield the environments with that name, and pages about one, such as `math leaderboard`."""
    rows = Environment.objects.seen_by(viewer).order_by("-is_hosted", "position")
    names = list(rows.values_list("name", flat=True))
    for name in names:
        if has_words(name, text):
            yield NamedPlace("environment", name, reverse("environment", args=[name]))
    pages = [link for feature in features() for link in feature.environment_pages]
    for label, page, *_ in (PageLink("Leaderboard", "leaderboard"), *pages):
        for name in names:
            if has_words(f"{name} {label}", text) and not has_words(name, text):
                yield NamedPlace("page", f"{name} {label}", url_of_page(page, name))


def _runs(text: str, viewer: Viewer) -> Iterator[NamedPlace]:
    names = with_best_words(runs(viewer), text)
    ids = dict(Run.objects.filter(name__in=names).values_list("name", "pk"))
    for name in names:
        if name in ids:
            yield NamedPlace("run", name, reverse("run", args=[ids[name]]))


def _models(text: str, viewer: Viewer) -> Iterator[NamedPlace]:
    for name in with_best_words(models(viewer), text):
        yield NamedPlace("model", name, f"{reverse('episodes')}?{urlencode({'model': name})}")
