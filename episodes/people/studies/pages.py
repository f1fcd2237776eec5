"""The pages of the people who run studies: the list, one study with its links and results, and its
results as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from environments import conf, security_log
from environments.access.permissions import MAKE_STUDIES
from environments.access.privacy import viewer_of
from environments.display.visible import visible
from environments.files.csv_lines import csv_line
from environments.filtering.addresses import takes
from episodes.attempts.file_headers import csv_response
from episodes.models import Guest, Invite, Study
from episodes.people.invites.pages import question_to_revoke
from episodes.people.invites.rule import (
    ALIKE,
    CLOSED,
    MAX_NAME_CHARACTERS,
    end_plays,
    listed_already,
    person_name,
    replace_personal,
    revoke,
    same_name,
    save_invite,
    state_of,
)
from episodes.people.player_identity import for_accounts
from episodes.people.questions import question
from episodes.people.studies.making import studies_seen
from episodes.people.studies.results import (
    MAX_REASON_CHARACTERS,
    StudyPlay,
    exclude,
    include,
    plays_of,
    results_of,
)
from episodes.rendering.kinds import rendered

MAX_STUDIES = 200
MAX_LINKS = 500
"""Personal links that one form makes."""
MAX_DAYS = 365
COLUMNS = (
    "study",
    "person",
    "guest",
    "link",
    "task",
    "task_id",
    "attempt",
    "counts",
    "episode",
    "status",
    "cause",
    "return",
    "success",
    "steps",
    "seconds",
    "paused_seconds",
    "started",
    "ended",
    "blind",
    "excluded",
)


class LinksForm(forms.Form):
    """The form of further links: one for everybody, or one for each of the names."""

    names = forms.CharField(
        required=False, widget=forms.Textarea, max_length=MAX_LINKS * (MAX_NAME_CHARACTERS + 2)
    )
    days = forms.IntegerField(min_value=1, max_value=MAX_DAYS, initial=30)

    def clean_names(self) -> list[str]:
        try:
            lines = [
                person_name(line)
                for line in self.cleaned_data["names"].replace("\r\n", "\n").split("\n")
            ]
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        names = list(dict.fromkeys(filter(None, lines)))
        if len(names) > MAX_LINKS:
            raise forms.ValidationError(
                f"There are {len(names)} names; at most {MAX_LINKS} are allowed at once."
            )
        spellings = dict[str, str]()
        for name in names:
            if (other := spellings.setdefault(same_name(name), name)) != name:
                raise forms.ValidationError(
                    f"{name!r} and {other!r} are the same name. {ALIKE} Each person needs another "
                    "one."
                )
        return names


@require_safe
@never_cache
@for_accounts
@takes()
def studies(request: HttpRequest) -> HttpResponse:
    """Return the list of studies."""
    rows = studies_seen(viewer_of(request.user)).annotate(people=Count("invites__guests"))[
        :MAX_STUDIES
    ]
    return render(
        request,
        "people/studies.html",
        {"studies": rows, "may_make": request.user.has_perm(MAKE_STUDIES)},
    )


@require_safe
@never_cache
@for_accounts
@takes()
def study(request: HttpRequest, name: str) -> HttpResponse:
    """Return the page of a study: its links, who is where, and its results. Raises: Http404."""
    return _page(request, _study(request, name), LinksForm(initial={"days": 30}))


@require_safe
@never_cache
@for_accounts
@takes()
def study_csv(request: HttpRequest, name: str) -> HttpResponse:
    """Return every episode of a study as CSV, one a line. Raises: Http404."""
    study = _study(request, name)
    security_log.note("exported", f"study {study.name}")
    lines = [csv_line(COLUMNS), *map(_line, plays_of(study))]
    return csv_response(f"{study.name}.csv", lines)


@require_POST
@for_accounts
@takes()
def study_links(request: HttpRequest, name: str) -> HttpResponse:
    """Make one link for everybody, whose page shows it once, or personal links, as a CSV file.
    Raises: Http404."""
    study = _study(request, name)
    form = LinksForm(request.POST)
    if study.closed is not None:
        form.add_error("names", "The study is closed, so it takes nobody in.")
    elif (kind := request.POST.get("kind", "")) not in ("shared", "personal"):
        form.add_error(
            "names", f"kind={kind[:40]!r} is no kind of links. Choose shared or personal."
        )
    elif kind == "shared" and request.POST.get("names", "").strip():
        form.add_error(
            "names", "The link for everybody is for no names. Make personal links of them."
        )
    elif kind == "personal" and form.is_valid():
        names = form.cleaned_data["names"]
        if (
            trouble := listed_already(study, names)
            if names
            else "Enter a name for each link, one per line."
        ):
            form.add_error("names", trouble)
    if not form.is_valid():
        return _page(request, study, form, status=422)
    lasts, author = timedelta(days=form.cleaned_data["days"]), request.user.get_username()[:150]
    if kind == "shared":
        row = _invite(study, "link for everybody", author)
        link = _link(request, save_invite(row, lasts))
        return _page(request, study, LinksForm(initial={"days": 30}), {"link": link}, status=201)
    lines = [csv_line(("name", "link", "expires"))]
    for person in form.cleaned_data["names"]:
        row = _invite(study, person, author, is_personal=True)
        lines.append(
            csv_line((person, _link(request, save_invite(row, lasts)), _time(row.expires)))
        )
        replace_personal(row)
    return csv_response(f"{study.name}-links.csv", lines)


@require_POST
@for_accounts
@takes()
def study_revoke(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """End one link of a study, after a question. Raises: Http404."""
    study = _study(request, name)
    if (link := study.invites.filter(pk=pk).first()) is None:
        raise Http404(f"The study {study.name} has no link {pk}. Its page lists all of them.")
    if asking := question_to_revoke(request, link, reverse("study", args=[study.name])):
        return asking
    revoke(pk, request)
    return redirect("study", study.name)


@require_POST
@for_accounts
@takes()
def study_close(request: HttpRequest, name: str) -> HttpResponse:
    """End all links of a study for good, after a question. Raises: Http404."""
    study = _study(request, name)
    sentence = "All links stop working, and tasks in progress end. What was played is kept."
    back = reverse("study", args=[study.name])
    if asking := question(request, "Close this study?", sentence, "Close for good", back):
        return asking
    now = timezone.now()
    if Study.objects.filter(pk=study.pk, closed=None).update(closed=now):
        study.invites.filter(revoked=None).update(revoked=now)
        security_log.note(
            "study_changed", f"study {study.name}", detail="closed, with all of its links"
        )
    end_plays(study.invites.all(), request, CLOSED)
    return redirect("study", study.name)


@require_POST
@for_accounts
@takes()
def study_exclude(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Exclude a person from a study for a `reason`, or with `include` count them again. Raises:
    Http404."""
    study = _study(request, name)
    guest = Guest.objects.select_related("invite__study").filter(invite__study=study, pk=pk).first()
    if guest is None:
        raise Http404(
            f"Nobody with the number {pk} takes part in the study {study.name}. Its page "
            "lists everybody."
        )
    reason = " ".join(request.POST.get("reason", "").split())
    if "include" in request.POST:
        include(guest)
    elif visible(reason) == reason and 0 < len(reason) <= MAX_REASON_CHARACTERS:
        exclude(guest, reason, request.user.get_username())
    else:
        sentence = (
            f"Enter why {guest.name} is excluded, in at most {MAX_REASON_CHARACTERS} characters "
            "that can be seen."
        )
        return _page(
            request, study, LinksForm(initial={"days": 30}), {"trouble": sentence}, status=422
        )
    return redirect("study", study.name)


def _study(request: HttpRequest, name: str) -> Study:
    rows = studies_seen(viewer_of(request.user))
    study = rows.filter(name=name).first() if "\0" not in name else None
    if study is None:
        raise Http404(f"There is no study {name[:100]!r}. The Studies page lists all of them.")
    return study


def _page(
    request: HttpRequest,
    study: Study,
    form: LinksForm,
    more: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    results = results_of(study)
    per_person = None if study.people_per_task else results.tasks  # dealt out without a limit
    if study.tasks_per_person:
        per_person = min(study.tasks_per_person, results.tasks)
    links = study.invites.annotate(people=Count("guests"))[:MAX_LINKS]
    context = {
        "study": study,
        "results": results,
        "wanted": study.people_per_task,
        "per_person": per_person,
        "limit": None if study.limit_seconds is None else study.limit_seconds / 60,
        "pause": study.pause_seconds / 60,
        "guests": [(line, state_of(line.deck.guest.invite)) for line in results.guests],
        "links": [(link, state_of(link)) for link in links],
        "form": form,
        "max_links": MAX_LINKS,
        "may_make": request.user.has_perm(MAKE_STUDIES),
        "has_keys": conf.has_keys(),
        "texts": list(_texts(study)),
        "episodes": f"{reverse('episodes')}?{urlencode({'study': study.name})}",
        "counted": len(results.counted),
        "played": sum(bool(play.attempt) for play in results.plays),
        **(more or {}),
    }
    return render(request, "people/study.html", context, status=status)


def _texts(study: Study) -> Iterator[tuple[str, str]]:
    """Yield the titles and the HTML of what guests read."""
    for title, text in (
        ("Instructions", study.instructions),
        ("Consent", study.consent),
        ("End", study.completion),
    ):
        if text:
            yield title, rendered(text, "markdown")
    codes = (
        ("Completion code", study.completion_code),
        ("Code for people who finished fewer tasks", study.incomplete_code),
        ("Code for people for whom no task was left", study.no_task_code),
    )
    for title, code in codes:
        if code:
            yield title, format_html('<pre class="code">{}</pre>', code)


def _invite(study: Study, name: str, author: str, *, is_personal: bool = False) -> Invite:
    return Invite(
        name=name,
        environment=study.environment,
        study=study,
        is_blind=study.is_blind,
        is_personal=is_personal,
        author=author,
    )


def _link(request: HttpRequest, token: str) -> str:
    return request.build_absolute_uri(reverse("invite", args=[token]))


def _line(row: StudyPlay) -> str:
    """Return the line of an episode, with a cell for each of COLUMNS."""
    episode, guest = row.episode, row.play.guest
    cells = (
        row.study.name,
        guest.name if guest else "",
        guest.pk if guest else "",
        guest.invite.name if guest else "",
        row.number,
        episode.task_id,
        row.attempt or None,
        "yes" if row.counts else "no",
        episode.pk,
        episode.status,
        episode.cause,
        row.return_,
        {True: "yes", False: "no", None: ""}[row.is_success],
        episode.steps_count,
        row.seconds,
        row.play.paused_seconds,
        _time(episode.created),
        _time(episode.ended),
        "yes" if row.play.is_blind else "no",
        guest.exclusion if guest else "",
    )
    return csv_line(cells)


def _time(when: datetime | None) -> str:
    return when.isoformat(timespec="seconds") if when else ""
