"""The page on which curators publish a suite, or a further version of one."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from environments.access.privacy import viewer_of
from environments.display.numbers import digits_of
from environments.filtering.addresses import takes
from environments.models import Split
from environments.scoring.convention import CONVENTION_PARTS
from environments.scoring.definition import DefinitionOverrides, definition_of
from environments.scoring.returns import RETURNS
from episodes.models import Suite, SuiteMember, SuiteVersion
from episodes.suites.leaks import leaks_of_members, mark_of
from episodes.suites.pages import version_or_404
from episodes.suites.versions import (
    MAX_MEMBERS,
    MAX_NAME_CHARACTERS,
    NewMember,
    SuiteRefused,
    UnchangedSuite,
    check_name,
    definition_of_member,
    members_of,
    publish,
    splits_for_suites,
)

MORE_ROWS = 3
MAX_DESCRIPTION_CHARACTERS = 5_000
_OWN = "as the environment defines"


class SuiteSplitChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # not generic when it runs
    def label_from_instance(self, obj: Any) -> str:
        return (
            f"{obj.environment.name} / {obj.name} ({obj.size:,} task{'' if obj.size == 1 else 's'})"
        )


class SuiteForm(forms.Form):
    name = forms.CharField(max_length=MAX_NAME_CHARACTERS)
    description = forms.CharField(
        required=False, max_length=MAX_DESCRIPTION_CHARACTERS, widget=forms.Textarea
    )
    score = forms.ChoiceField(choices=SuiteVersion.SCORES, initial="success")

    def __init__(self, *args: Any, is_new: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].disabled = not is_new

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if not self.fields["name"].disabled:
            try:
                check_name(name)
            except SuiteRefused as refusal:
                raise forms.ValidationError(str(refusal)) from refusal
        return name


class SuiteMemberForm(forms.Form):
    split = SuiteSplitChoice(Split.objects.none(), required=False, empty_label="no split")
    weight = forms.FloatField(required=False, initial=1)
    return_ = forms.ChoiceField(
        required=False, choices=[("", _OWN), *((name, name) for name in RETURNS)]
    )
    threshold = forms.FloatField(required=False)
    no_call, expired, interrupted, env_error = (
        forms.ChoiceField(
            required=False, choices=[("", _OWN), *((value, value) for value in values)]
        )
        for values in CONVENTION_PARTS.values()
    )

    def __init__(self, *args: Any, splits: list[Split], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["split"]
        rows = Split.objects.filter(pk__in=[split.pk for split in splits])
        field.queryset = rows.select_related("environment")
        labels = ((split.pk, field.label_from_instance(split)) for split in splits)
        field.choices = [("", "no split"), *labels]

    def member(self) -> NewMember | None:
        """Return the member; None for a row without a split."""
        values = self.cleaned_data
        split: Split | None = values["split"]
        if split is None:
            return None
        parts = {name: values[name] or None for name in CONVENTION_PARTS}
        definition = DefinitionOverrides(values["return_"] or None, values["threshold"], **parts)
        weight = 1.0 if values["weight"] is None else values["weight"]
        return NewMember(split, definition_of(split.environment, definition), weight)


MemberForms: Any = forms.formset_factory(SuiteMemberForm, extra=0, max_num=MAX_MEMBERS)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@takes()
def suite_new(request: HttpRequest) -> HttpResponse:
    """Return the form of a new suite; a POST publishes its first version."""
    return _answer(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@takes()
def suite_edit(request: HttpRequest, name: str) -> HttpResponse:
    """Return the form of the next version, filled with the latest; a POST publishes it. Raises:
    Http404."""
    return _answer(request, version_or_404(request, name))


def _answer(request: HttpRequest, latest: SuiteVersion | None) -> HttpResponse:
    splits = [
        split for split in splits_for_suites(viewer_of(request.user)) if not split.is_generated
    ]
    form, rows = _forms(request, latest, splits)
    trouble, leaks, status = "", list[str](), 200
    if request.method == "POST" and "more" not in request.POST:
        status = 400
        if form.is_valid() and rows.is_valid():
            members = [member for row in rows if (member := row.member()) is not None]
            leaks = leaks_of_members(members)
            try:
                if request.POST.get("seen", "") == mark_of(leaks):
                    return HttpResponseRedirect(_publish(request, latest, form, members))
            except SuiteRefused as refusal:
                trouble = str(refusal)
    context = {
        "latest": latest,
        "form": form,
        "rows": rows,
        "trouble": trouble,
        "has_splits": bool(splits),
        "leaks": leaks,
        "seen": mark_of(leaks),
    }
    return render(request, "suites/suite_form.html", context, status=status)


def _forms(
    request: HttpRequest, latest: SuiteVersion | None, splits: list[Split]
) -> tuple[SuiteForm, Any]:
    kwargs = {"form_kwargs": {"splits": splits}, "prefix": "member"}
    initial, rows = {}, list[dict[str, Any]]()
    if latest is not None:
        suite = latest.suite
        initial = {"name": suite.name, "description": suite.description, "score": latest.score}
    if request.method == "POST":
        data = request.POST.copy()
        if "more" in data and (count := data.get("member-TOTAL_FORMS", "")).isdecimal():
            data["member-TOTAL_FORMS"] = str(min(MAX_MEMBERS, int(count[:4]) + MORE_ROWS))
        return SuiteForm(data, initial=initial, is_new=latest is None), MemberForms(data, **kwargs)
    if latest is not None:
        rows = [_row(member, splits) for member in members_of(latest)]
    rows = [*rows, *[{"weight": 1}] * MORE_ROWS][:MAX_MEMBERS]
    return SuiteForm(initial=initial, is_new=latest is None), MemberForms(initial=rows, **kwargs)


def _row(member: SuiteMember, splits: list[Split]) -> dict[str, Any]:
    """Return the values of a row for a member of the latest version, with the parts that the
    environment differs in."""
    definition, own = definition_of_member(member), definition_of(member.environment)
    return {
        "split": member.split_id if member.split in splits else None,
        "weight": digits_of(member.weight),
        "return_": definition.return_ if definition.return_ != own.return_ else "",
        "threshold": definition.threshold if definition.threshold != own.threshold else None,
        **definition.convention.parameters(own.convention),
    }


def _publish(
    request: HttpRequest, latest: SuiteVersion | None, form: SuiteForm, members: list[NewMember]
) -> str:
    """Publish the version and return the address of its page. Raises: SuiteRefused."""
    values, author = form.cleaned_data, request.user.get_username()[:150]
    suite = latest.suite if latest else Suite(name=values["name"], author=author)
    has_new_text = suite.description != values["description"]
    suite.description = values["description"]
    try:
        version = publish(suite, values["score"], members, author)
    except UnchangedSuite:
        if latest is None or not has_new_text:
            raise
        version = latest
    if has_new_text and latest is not None:
        suite.save(update_fields=["description"])
    return reverse("suite_version", args=[suite.name, version.number])
