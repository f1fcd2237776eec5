"""The form of an environment's page that gives it secrets, which no page ever shows, or removes
them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from environments import conf, security_log
from environments.access.permissions import CHANGE_KEYS
from environments.admin.base import note
from environments.models import Environment
from environments.operator_secrets.stored import (
    SecretRefused,
    keep,
    remove,
    stored_secrets,
    unavailable,
)
from environments.service import service_or_none


class SecretForm(forms.Form):
    """A secret to set. The form never shows a value, not even one that was just sent."""

    name = forms.CharField(
        widget=forms.TextInput({"autocomplete": "off", "placeholder": "openai_api_key"})
    )
    value = forms.CharField(
        strip=False,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text="Stored encrypted. Nobody can read it here; set it again to change it.",
    )


def secrets_of(environment: Environment) -> dict[str, Any]:
    """Return what the page shows of an environment's secrets: their names, and where each comes
    from."""
    in_file = conf.environment_secrets().get(environment.name, {})
    names_and_times = stored_secrets().get(environment.name, {})
    rows = [{"name": name, "is_in_file": True, "is_readable": True} for name in in_file]
    rows += [
        {"name": name, "is_in_file": False, "is_readable": text is not None}
        for name, text in names_and_times.items()
        if name not in in_file
    ]
    service = service_or_none()
    hosted_class = service.registry.find(environment.name) if service else None
    required_names = hosted_class.declared("required_secrets", ()) if hosted_class else ()
    names = {row["name"] for row in rows}
    missing = [name for name in required_names if name not in names]
    return {"secrets": rows, "missing_secrets": missing, "secrets_unavailable": unavailable()}


def change_secrets(request: HttpRequest, environment: Environment) -> dict[str, forms.Form]:
    """Do what the form asks for; return it, by the name of its template variable, if it has
    errors."""
    if not request.user.has_perm(CHANGE_KEYS):
        raise PermissionDenied
    form = SecretForm(request.POST)
    name = request.POST.get("name", "").strip()
    try:
        if request.POST["action"] == "remove_secret":
            remove(environment, name)
            sentence = f"The secret {name!r} was removed. Sessions that run keep it."
        elif not form.is_valid():
            return {"secret_form": form}
        else:
            keep(environment, name, form.cleaned_data["value"])
            sentence = f"The secret {name!r} is set. New sessions get it."
    except SecretRefused as refusal:
        form.add_error(None, str(refusal))
        return {"secret_form": form}
    note(request.user.pk, environment, sentence)
    security_log.note("environment_changed", environment.name, detail=sentence)
    messages.success(request, sentence)
    return {}
