"""The page on which curators set up a study."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from environments.access.privacy import viewer_of
from environments.display.visible import visible
from environments.errors import OrsError
from environments.filtering.addresses import takes
from environments.filtering.parameters import BadFilter
from environments.models import Viewer
from environments.scoring.task_buckets import BUCKETS
from episodes.models import Study, SuiteMember
from episodes.people.invites.rule import ALIKE, same_name
from episodes.people.player_identity import for_accounts
from episodes.people.studies.making import (
    TaskSelection,
    check_study_name,
    leaks_of_study,
    make_study,
    members_for_studies,
)
from episodes.suites.leaks import mark_of
from episodes.suites.versions import MAX_NAME_CHARACTERS, MAX_TASKS, splits_for_suites

MAX_TEXT_CHARACTERS = 20_000
MAX_MEMBERS_OFFERED = 200
MAX_PAUSE_MINUTES = MAX_LIMIT_MINUTES = 24 * 60
PAUSE_MINUTES = 60
"""Pause of a study whose form says none, unless its tasks have a time limit."""
CODES = ("completion_code", "incomplete_code", "no_task_code")
PRESET = ("tasks", "numbers", "search", "bucket")
"""Fields that the address can set, such as a link from the list of tasks."""
_TEXT: Any = {"required": False, "max_length": MAX_TEXT_CHARACTERS, "widget": forms.Textarea}


class StudyForm(forms.Form):
    """The form of a new study. `tasks` is `split/3` or `member/5`: the id of a split, or of a
    member of a suite."""

    name = forms.CharField(max_length=MAX_NAME_CHARACTERS)
    tasks = forms.ChoiceField()
    numbers = forms.CharField(required=False, max_length=10_000)
    search = forms.CharField(required=False, max_length=200)
    bucket = forms.ChoiceField(
        required=False, choices=[("", "any"), *((name, name) for name in BUCKETS)]
    )
    at_random = forms.IntegerField(required=False, min_value=1, max_value=MAX_TASKS)
    is_shuffled = forms.ChoiceField(
        choices=[("", "the same for everybody"), ("yes", "shuffled for each person")],
        required=False,
    )
    people_per_task = forms.IntegerField(required=False, min_value=1, max_value=10_000)
    tasks_per_person = forms.IntegerField(required=False, min_value=1, max_value=MAX_TASKS)
    attempts = forms.IntegerField(min_value=1, max_value=100, initial=1)
    limit_minutes = forms.IntegerField(required=False, min_value=1, max_value=MAX_LIMIT_MINUTES)
    pause_minutes = forms.IntegerField(required=False, min_value=0, max_value=MAX_PAUSE_MINUTES)
    is_blind = forms.BooleanField(required=False)
    counts_left = forms.BooleanField(required=False)
    instructions = forms.CharField(**_TEXT)
    consent = forms.CharField(**_TEXT)
    completion = forms.CharField(**_TEXT)
    least_finished = forms.IntegerField(required=False, min_value=0, max_value=MAX_TASKS)
    completion_code = forms.CharField(required=False, max_length=100)
    incomplete_code = forms.CharField(required=False, max_length=100)
    no_task_code = forms.CharField(required=False, max_length=100)

    def __init__(self, viewer: Viewer, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        splits = [split for split in splits_for_suites(viewer) if not split.is_generated]
        members = members_for_studies(viewer)[:MAX_MEMBERS_OFFERED]
        self.splits = {f"split/{split.pk}": split for split in splits}
        self.members: dict[str, SuiteMember] = {f"member/{member.pk}": member for member in members}
        split_options = [
            _option(key, f"{split.environment.name} / {split.name}", split.size)
            for key, split in self.splits.items()
        ]
        member_options = [
            _option(
                key,
                f"{member.version.suite.name} v{member.version.number}: {member.label}",
                member.tasks_count,
            )
            for key, member in self.members.items()
        ]
        field: Any = self.fields["tasks"]
        field.choices = [
            ("Splits, frozen as they are now", split_options),
            ("Versions of suites", member_options),
        ]

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        try:
            check_study_name(name)
        except OrsError as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return name

    def clean(self) -> dict[str, Any] | None:
        values = super().clean() or {}
        narrows = [
            name for name in ("numbers", "search", "bucket", "at_random") if values.get(name)
        ]
        if values.get("tasks") in self.members and narrows:
            self.add_error(
                "tasks",
                "The tasks of a suite are taken as they are. Remove the conditions, or "
                "choose a split.",
            )
        most, least = values.get("tasks_per_person"), values.get("least_finished")
        if most is not None and least is not None and least > most:
            self.add_error(
                "least_finished", f"A person gets at most {most}. Enter {most} or fewer."
            )
        for number, name in enumerate(CODES):
            if values.get(name) and visible(values[name]) != values[name]:
                self.add_error(
                    name, "The code has characters that people can't see or copy. Use others."
                )
            others = [same_name(values[other]) for other in CODES[:number] if values.get(other)]
            if values.get(name) and same_name(values[name]) in others:
                self.add_error(
                    name, f"Another outcome has this code. {ALIKE} Enter a different one."
                )
        return values

    def leaks(self) -> list[str]:
        """Return what to know of the tasks before the study is made. Call `is_valid` first. Raises:
        OrsError."""
        return leaks_of_study(self._tasks())

    def save(self, author: str) -> Study:
        """Return the new study. Call `is_valid` first. Raises: OrsError."""
        values = self.cleaned_data
        names = (
            "name",
            "people_per_task",
            "tasks_per_person",
            "attempts",
            "is_blind",
            "counts_left",
            "least_finished",
        )
        texts = ("instructions", "consent", "completion", *CODES)
        study = Study(author=author[:150], **{name: values[name] for name in (*names, *texts)})
        limit, pause = values["limit_minutes"], values["pause_minutes"]
        study.limit_seconds = 60 * limit if limit else None
        study.pause_seconds = 60 * (pause if pause is not None else 0 if limit else PAUSE_MINUTES)
        study.is_shuffled = values["is_shuffled"] == "yes"
        make_study(study, self._tasks())
        return study

    def _tasks(self) -> SuiteMember | TaskSelection:
        values = self.cleaned_data
        if (member := self.members.get(values["tasks"])) is not None:
            return member
        conditions = {name: values[name] for name in ("numbers", "search", "bucket", "at_random")}
        return TaskSelection(self.splits[values["tasks"]], **conditions)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@for_accounts
@takes(*PRESET)
def study_new(request: HttpRequest) -> HttpResponse:
    """Return the form of a new study; a POST makes it."""
    viewer, trouble = viewer_of(request.user), ""
    if request.method != "POST":
        preset = {name: request.GET.get(name, "") for name in PRESET}
        form = StudyForm(viewer, initial={"attempts": 1, **preset})
        if preset["tasks"] and preset["tasks"] not in {**form.splits, **form.members}:
            raise BadFilter(
                "tasks", preset["tasks"], "the form offers no such split or member of a suite"
            )
        if preset["bucket"] and preset["bucket"] not in BUCKETS:
            raise BadFilter("bucket", preset["bucket"], f"allowed are {', '.join(BUCKETS)}")
        return render(request, "people/study_form.html", {"form": form})
    form = StudyForm(viewer, request.POST)
    leaks = list[str]()
    if form.is_valid():
        try:
            leaks = form.leaks()
            if request.POST.get("seen", "") == mark_of(leaks):
                return redirect("study", form.save(request.user.get_username()).name)
        except OrsError as refusal:
            trouble = str(refusal)
    context = {"form": form, "trouble": trouble, "leaks": leaks, "seen": mark_of(leaks)}
    return render(request, "people/study_form.html", context, status=422)


def _option(key: str, name: str, count: int) -> tuple[str, str]:
    return key, f"{name} ({count:,} task{'' if count == 1 else 's'})"
