"""The forms of an environment's page: how returns are computed, whether agents may play, what
people see."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest

from environments.admin.base import note
from environments.curation.action import Action
from environments.curation.admin.confirmation import applied
from environments.curation.admin.environment_secrets import change_secrets
from environments.curation.admin.privacy import PrivacyForm, set_privacy
from environments.curation.environment_settings import SetBlind, SetEnabled, SetScoring
from environments.models import Environment
from environments.scoring.returns import RETURNS

_WORDS = {
    "sum": "sum of rewards",
    "last": "last reward",
    "max": "highest reward",
    "mean": "mean of rewards",
}


class ScoringForm(forms.Form):
    """The definition in force; each field's help text says what the class declares."""

    default_return = forms.ChoiceField(
        choices=[(name, _WORDS[name]) for name in RETURNS], label="Return"
    )
    reward_low = forms.FloatField(label="Lowest return")
    reward_high = forms.FloatField(label="Highest return")
    success_threshold = forms.FloatField(label="Success above")

    def __init__(self, environment: Environment, data: Any = None) -> None:
        names = ("default_return", "reward_low", "reward_high", "success_threshold")
        super().__init__(data, initial={name: getattr(environment, name) for name in names})
        texts = {
            "default_return": _WORDS[environment.declared_return],
            "reward_low": f"{environment.declared_low:.15g}",
            "reward_high": f"{environment.declared_high:.15g}",
            "success_threshold": f"{environment.declared_threshold:.15g}",
        }
        for name, value in texts.items():
            self.fields[name].help_text = f"The class declares {value}."
            self.fields[name].widget.attrs.setdefault("step", "any")

    def clean(self) -> dict[str, Any] | None:
        values = super().clean() or {}
        low, high = values.get("reward_low"), values.get("reward_high")
        if low is not None and high is not None and not low < high:
            self.add_error(
                "reward_high",
                f"{high:,.15g} is not above the lowest return, {low:,.15g}. Enter a larger number.",
            )
        return values


def act(request: HttpRequest, environment: Environment) -> dict[str, forms.Form]:
    """Do what the form that was sent asks for.

    Returns the form, by the name of its template variable, if it has errors and has to be shown
    again.
    """
    match request.POST.get("action"):
        case "score":
            form = ScoringForm(environment, request.POST)
            if not form.is_valid():
                return {"form": form}
            _apply(request, environment, SetScoring(environment.pk, **form.cleaned_data))
        case "declared":
            _apply(request, environment, SetScoring(environment.pk))
        case "enable" | "disable" as name:
            _apply(request, environment, SetEnabled(environment.pk, name == "enable"))
        case "blind" | "seeing" as name:
            _apply(request, environment, SetBlind(environment.pk, name == "blind"))
        case "set_secret" | "remove_secret":
            return change_secrets(request, environment)
        case "private" | "public" as name:
            members = PrivacyForm(environment, request.POST)
            if not members.is_valid():
                return {"privacy": members}
            action = set_privacy(request, environment, members, is_private=name == "private")
            _apply(request, environment, action)
        case _:
            messages.error(
                request,
                "Nothing was changed, because the form named no action. Reload the page "
                "and try again.",
            )
    return {}


def _apply(request: HttpRequest, environment: Environment, action: Action) -> None:
    if outcome := applied(request, action.apply):
        note(request.user.pk, environment, outcome.sentence)
