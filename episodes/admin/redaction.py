"""Admin pages of redactions: the list, one with its episodes, and the form with which a text is
redacted."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from environments.access.privacy import viewer_of
from environments.admin import ReadOnlyAdmin
from environments.admin.job_page import job_url
from environments.database import background_jobs
from environments.filtering.addresses import id_asked, takes
from episodes.models import Redaction
from episodes.redaction.replacement import RedactionRefused, check_text, redact


class RedactionForm(forms.Form):
    text = forms.CharField(
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
    )
    reason = forms.CharField(
        required=False, max_length=300, help_text="Shown to everybody who reads the episodes"
    )

    def clean_text(self) -> str:
        text = str(self.cleaned_data["text"]).replace("\r\n", "\n").rstrip("\n")
        try:
            check_text(text)
        except RedactionRefused as error:
            raise forms.ValidationError(str(error)) from None
        return text


@admin.register(Redaction)
class RedactionAdmin(ReadOnlyAdmin):
    page_template = "episodes/admin_redaction.html"
    is_about_all = True
    list_display = ("__str__", "author", "reason", "rows", "created", "finished")
    ordering = ("-pk",)
    empty = "Nothing was redacted. Redact text from any step in a replay."
    empty_command = "redact"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return (
            request.user.has_perm("episodes.add_redaction")
            and not viewer_of(request.user).hides_anything
        )

    def page(self, request: HttpRequest, row: Redaction) -> dict[str, Any]:
        return {"episodes": row.episodes.order_by("-episode")[:100], "total": row.episodes.count()}

    @takes("episode", "step")
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Ask for the text; a POST finds or replaces it in a job. The text is in no address and on
        no page."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = RedactionForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            is_dry, author = request.POST.get("do") != "redact", request.user.get_username()
            text, reason = form.cleaned_data["text"], form.cleaned_data["reason"]
            job = background_jobs.start(
                "Find a text" if is_dry else "Redact a text",
                lambda progress: redact(text, author, reason, dry_run=is_dry, progress=progress),
                owner=author,
            )
            return HttpResponseRedirect(job_url(job.id, request.get_full_path()))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Redact a text",
            "form": form,
            "back": _page_of_step(request),
        }
        status = 422 if form.errors else 200
        return TemplateResponse(request, "episodes/admin_redact.html", context, status=status)


def _page_of_step(request: HttpRequest) -> str:
    """Return the address of the step from which a person came, or of the list of redactions."""
    episode, step = id_asked(request, "episode"), id_asked(request, "step")
    if episode is None:
        return reverse("admin:episodes_redaction_changelist")
    return f"{reverse('episode', args=[episode])}?step={step or 0}#step-{step or 0}"
