"""Import pages: a file is chosen, looked at, and only then imported. Used by `environments.admin.task`.

The look and the import are jobs, for a file may be large. Between them the file waits in `uploads`; everything else that
was asked for stands in the address, so that a page can be reloaded.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from environments.models import Environment, Split

SHORT_SECONDS = 1.5
"""A look at a small file is waited for, so that its report is the next page."""


class ImportForm(forms.Form):
    """Where to, and what. An existing split, or the name and type of a new one."""

    file = forms.FileField(
        widget=forms.FileInput(attrs={"accept": ".jsonl,.ndjson,.json,.csv,.parquet", "data-file": ""}),
        help_text="JSON Lines, JSON, CSV or Parquet. Each line or row is a task.",
    )
    environment = forms.ModelChoiceField(Environment.objects.filter(is_procedural=False), empty_label=None)
    split = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"list": "splits", "autocomplete": "off"}),
        help_text="One that is there, or a name for a new one.",
    )
    type = forms.ChoiceField(choices=Split.TYPES, help_text="Of a new split: what clients are told it is for.")


def import_view(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """The form, or what is wrong with it."""
    if not request.user.has_perm("environments.add_task"):
        raise PermissionDenied
    form = ImportForm(request.POST or None, request.FILES or None, initial=_initial(request))
    shown = {
        **{"title": "Import tasks", "form": form, "max_bytes": settings.ORSWEB_MAX_UPLOAD_BYTES},
        "splits": Split.objects.select_related("environment").filter(frozen__isnull=True)[:200],
    }
    return TemplateResponse(request, "environments/import.html", {**context, **shown})


def _initial(request: HttpRequest) -> dict[str, Any]:
    """What the page that led here was about."""
    given = {name: request.GET[name] for name in ("environment", "split") if request.GET.get(name, "").isdecimal()}
    split = Split.objects.filter(pk=int(given["split"])).first() if "split" in given else None
    if split is not None:
        return {"environment": split.environment_id, "split": split.name, "type": split.type}
    return {"environment": int(given["environment"])} if "environment" in given else {}
