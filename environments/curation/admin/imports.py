"""Pages that import tasks: choose a file, preview the import, then import. Used by
`environments.curation.admin.task`.

Preview and import are jobs, because a file may be large. Between them the file waits in `uploads`;
everything else that was entered is in the address, so that a page can be reloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from environments.access.privacy import viewer_of
from environments.admin.base import author_of, note
from environments.admin.job_page import from_its_server, job_url, this_server
from environments.curation.admin import uploads
from environments.curation.admin.uploads import Upload
from environments.curation.splits import splits_to_fill
from environments.curation.transfer.importing import apply, dry_run
from environments.curation.transfer.source import FileSource
from environments.curation.transfer.target import ImportTarget
from environments.database import background_jobs
from environments.display.task_line import summary, summary_field
from environments.errors import OrsError
from environments.filtering.addresses import flag_asked, id_asked
from environments.filtering.parameters import BadFilter
from environments.models import Environment, Split
from environments.service import hidden_fields

MAX_WAIT_SECONDS = 1.5
"""Longest wait for a job, so that for a small file its result is the next page."""
MAX_SPLITS_OFFERED = 200


class ImportForm(forms.Form):
    """A file and the split that it goes into: an existing one, or the name and type of a new
    one."""

    file = forms.FileField(
        widget=forms.FileInput(
            attrs={"accept": ".jsonl,.ndjson,.json,.csv,.parquet", "data-file": ""}
        ),
        help_text="JSON Lines, JSON, CSV or Parquet. Each line or row is a task.",
    )
    environment = forms.ModelChoiceField(Environment.objects.none(), empty_label=None)
    split = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"list": "splits", "autocomplete": "off"}),
        help_text="An existing split, or the name of a new one.",
    )
    type = forms.ChoiceField(
        choices=Split.TYPES, help_text="For a new split. Clients see what the split is for."
    )

    def __init__(self, *args: Any, environments: QuerySet[Environment], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["environment"].queryset = environments  # type: ignore[attr-defined]  # it is a ModelChoiceField


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import's job."""

    sentence: str
    split: int | None
    """Id of the split that was filled; None: nothing was added, so the new split was not made."""


# --- choosing -------------------------------------------------------------------------------------


def import_view(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """Return the form, with its errors if there are any; redirects to the preview once a file has
    been sent."""
    _check_permission(request)
    form = ImportForm(
        request.POST or None,
        request.FILES or None,
        environments=_environments(request),
        initial=_initial(request),
    )
    if form.is_valid() and (redirect := _start_preview(request, form)):
        return redirect
    variables = {
        **{"title": "Import tasks", "form": form, "max_bytes": settings.ORSWEB_MAX_UPLOAD_BYTES},
        "splits": splits_to_fill().seen_by(viewer_of(request.user))[:MAX_SPLITS_OFFERED],
    }
    return TemplateResponse(request, "curation/import.html", {**context, **variables})


def _start_preview(request: HttpRequest, form: ImportForm) -> HttpResponse | None:
    """Store the file and start its preview. Returns the redirect, or None if the form now has an
    error."""
    values = form.cleaned_data
    try:
        target = _target(values["environment"], values["split"], values["type"])
    except OrsError as error:
        form.add_error("split", str(error))
        return None
    upload = uploads.store(values["file"], request.user.pk or 0)
    try:
        job = _preview(request, upload, target)
    except OrsError as error:
        upload.discard()
        form.add_error("file", str(error))
        return None
    return HttpResponseRedirect(_preview_url(upload, target, job))


def _initial(request: HttpRequest) -> dict[str, Any]:
    """Return the initial values from the address: a split by its id, or one that may not exist by
    `name` and `type`."""
    parameters = request.GET
    splits = Split.objects.existing().seen_by(viewer_of(request.user))
    number, environment = id_asked(request, "split"), id_asked(request, "environment")
    split = None if number is None else splits.filter(pk=number).first()
    if number is not None and split is None:
        raise BadFilter("split", str(number), "there is no split of that number")
    if environment is not None and not _environments(request).filter(pk=environment).exists():
        raise BadFilter("environment", str(environment), "there is no environment of that number")
    if (type_ := parameters.get("type", "")) and type_ not in dict(Split.TYPES):
        raise BadFilter("type", type_, f"allowed are {', '.join(dict(Split.TYPES))}")
    if split is not None:
        return {"environment": split.environment_id, "split": split.name, "type": split.type}
    return {"environment": environment, "split": parameters.get("name", ""), "type": type_}


# --- previewing -----------------------------------------------------------------------------------


def preview_view(request: HttpRequest, token: str, context: dict[str, Any]) -> HttpResponse:
    """Return the preview's progress, then its result. A POST starts the import, or with `stop`
    stops the preview."""
    _check_permission(request)
    if (elsewhere := from_its_server(request)) is not None:
        return elsewhere
    is_state, upload = flag_asked(request, "state"), uploads.find(token, request.user.pk or 0)
    environment = _environments(request).filter(pk=id_asked(request, "environment") or 0).first()
    if upload is None or environment is None:
        messages.error(
            request,
            "The uploaded file is gone: files are stored for an hour or until they are imported. "
            "Choose it again.",
        )
        return HttpResponseRedirect(_form_url(request))
    try:
        target = _target(environment, request.GET.get("split", ""), request.GET.get("type", ""))
        job = background_jobs.get(request.GET.get("job", ""))
        # an address may name any job
        job = job if job and job.subject == _subject(upload, target) else None
        if request.method == "POST":
            if "stop" not in request.POST:
                return _import(request, upload, target)
            if job is not None:
                job.cancel()
            return HttpResponseRedirect(request.get_full_path())
        if job is None:
            return HttpResponseRedirect(
                _preview_url(upload, target, _preview(request, upload, target))
            )
    except OrsError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(_form_url(request))
    if is_state:
        return JsonResponse({"state": job.state, "done": job.done, "total": job.total})
    variables = {
        "title": f"Import {upload.name}",
        "job": job,
        "target": target,
        "back": _form_url(request),
    }
    if job.state != "done":
        variables |= {"back_words": "Choose another file", "is_preview": True}
        return TemplateResponse(request, "environments/job.html", {**context, **variables})
    field, names = summary_field(environment.task_schema), hidden_fields(environment.name)
    sample = [summary(spec, field, names) for spec in job.result.sample]
    page = {**context, **variables, "report": job.result, "sample": sample}
    return TemplateResponse(request, "curation/import_report.html", page)


def _preview(request: HttpRequest, upload: Upload, target: ImportTarget) -> background_jobs.Job:
    """Start the job of a preview. Raises: TransferError if the ending of the file's name is of no
    known format."""
    source = FileSource.of(upload.path)
    job = background_jobs.start(
        f"Preview of {upload.name}",
        lambda progress: dry_run(source, target, progress),
        owner=author_of(request),
        subject=_subject(upload, target),
    )
    job.wait(MAX_WAIT_SECONDS)
    return job


def _subject(upload: Upload, target: ImportTarget) -> str:
    return f"{upload.token} into {target.environment.pk} {target.name!r} {target.type}"


def _preview_url(upload: Upload, target: ImportTarget, job: background_jobs.Job) -> str:
    parameters = {
        "environment": target.environment.pk,
        "split": target.name,
        "type": target.type,
        "job": job.id,
    }
    parameters |= this_server()
    return f"{reverse('admin:environments_task_look', args=[upload.token])}?{urlencode(parameters)}"


def _form_url(request: HttpRequest) -> str:
    """Return the address of the form, with the environment and split that are in the address of a
    preview."""
    of_look = {"environment": "environment", "name": "split", "type": "type"}
    parameters = {name: request.GET.get(other, "") for name, other in of_look.items()}
    return f"{reverse('admin:environments_task_import')}?{urlencode(parameters)}"


# --- importing ------------------------------------------------------------------------------------


def _import(request: HttpRequest, upload: Upload, target: ImportTarget) -> HttpResponse:
    source, author, user = FileSource.of(upload.path), author_of(request), request.user.pk
    skip_refused, as_written = (
        "skip_refused" in request.POST,
        request.POST.get("superseded") == "file",
    )

    def work(progress: background_jobs.Progress) -> Imported:
        report = apply(
            source,
            target,
            author=author,
            skip_refused=skip_refused,
            as_written=as_written,
            progress=progress,
        )
        split = (
            Split.objects.existing()
            .filter(environment=target.environment, name=target.name)
            .first()
        )
        if split is not None:  # because tasks that are only added have no revision
            note(user, split, report.sentence)
        upload.discard()
        return Imported(report.sentence, split.pk if split else None)

    job = background_jobs.start(f"Import {upload.name}", work, owner=author)
    job.wait(MAX_WAIT_SECONDS)
    return HttpResponseRedirect(job_url(job.id, reverse("admin:environments_task_changelist")))


def _target(environment: Environment, name: str, kind: str) -> ImportTarget:
    """Return the target of an import; `kind` matters only for a new split. Raises: TransferError,
    FrozenSplit."""
    splits = Split.objects.existing().filter(environment=environment, name=name)
    is_there = "\0" not in name and splits.exists()
    return ImportTarget.of(environment, name, None if is_there else kind)


def _environments(request: HttpRequest) -> QuerySet[Environment]:
    """Return the environments that exist for the person."""
    return Environment.objects.seen_by(viewer_of(request.user))


def _check_permission(request: HttpRequest) -> None:
    if not request.user.has_perm("environments.add_task"):
        raise PermissionDenied
