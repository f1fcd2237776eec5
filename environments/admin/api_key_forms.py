"""The forms on the admin pages of API keys: making a key, changing it, and its quotas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.text import capfirst

from environments import conf
from environments.access.permissions import SEE_OPERATIONS, SEE_PRIVATE
from environments.access.privacy import viewer_of
from environments.keys.agent_key import ADMIN, CURATE, MONITOR, SCOPES, USUAL_SCOPES
from environments.models import ApiKey, Environment
from environments.quotas import DESCRIPTIONS, MAX_QUOTA

MAX_DAYS = 3650


class QuotasForm(forms.Form):
    """A field for each quota; an empty one means the server's default."""

    def __init__(self, data: Any = None, quotas: Mapping[str, int] = MappingProxyType({})) -> None:
        super().__init__(data, initial=dict(quotas))
        default = conf.quotas()
        for name, what in DESCRIPTIONS.items():
            number = getattr(default, name)
            placeholder = f"{number:,}" if number else "no limit"
            self.fields[name] = forms.IntegerField(
                required=False,
                min_value=0,
                max_value=MAX_QUOTA,
                label=capfirst(what),
                widget=forms.NumberInput(attrs={"placeholder": placeholder}),
            )

    def values(self) -> dict[str, Any]:
        """Return the fields of the row."""
        values = self.cleaned_data
        return {"quotas": {name: value for name, value in values.items() if value is not None}}


class KeyForm(forms.Form):
    """What every key has. People who fill it in give no more than they may do themselves, or the
    key may already."""

    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text="Shown with everything that is recorded with the key.",
    )
    scopes = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple, initial=USUAL_SCOPES, label="What it may do"
    )
    environments = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Without a choice, it may use all.",
    )
    splits = forms.CharField(
        required=False, help_text="Names of splits, separated by commas. Empty: all."
    )
    run = forms.CharField(
        required=False, max_length=200, help_text="The only run that it may record. Empty: any."
    )

    def offer(self, person: Any, row: ApiKey) -> None:
        """Set the choices that the person has for the key `row`."""
        scopes = [name for name in SCOPES if name in {*scopes_that(person), *row.scopes}]
        rows = Environment.objects.seen_by(viewer_of(person))
        fields: Any = self.fields
        fields["scopes"].choices = [(name, f"{name}: {SCOPES[name]}") for name in scopes]
        names = dict.fromkeys([*rows.values_list("name", flat=True), *row.environments])
        fields["environments"].choices = [(name, name) for name in names]

    def values(self) -> dict[str, Any]:
        """Return the fields of the row."""
        values = self.cleaned_data
        return {
            "name": values["name"].strip(),
            "scopes": values["scopes"],
            "environments": values["environments"],
            "splits": [name.strip() for name in values["splits"].split(",") if name.strip()],
            "run": values["run"].strip(),
        }


class NewKeyForm(KeyForm):
    days = forms.FloatField(
        required=False,
        min_value=0.001,
        max_value=MAX_DAYS,
        label="Expires after days",
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text="Empty: never.",
    )
    owner = forms.ModelChoiceField(
        User.objects.filter(is_active=True).order_by("username"),
        required=False,
        help_text="The key stops working when this account is deactivated.",
    )

    def __init__(self, person: Any, data: Any = None) -> None:
        super().__init__(data, initial={"owner": person.pk})
        self.offer(person, ApiKey())
        self._person = person
        self.fields["name"].widget.attrs["autofocus"] = True
        if not person.is_superuser:
            del self.fields["owner"]

    def values(self) -> dict[str, Any]:
        days = self.cleaned_data["days"]
        expires = timezone.now() + timedelta(days=days) if days else None
        owner = self.cleaned_data["owner"] if "owner" in self.fields else self._person
        return {**super().values(), "expires": expires, "owner": owner}


class ChangedKeyForm(KeyForm):
    expires = forms.DateTimeField(
        required=False,
        widget=forms.DateTimeInput({"type": "datetime-local", "step": 60}, format="%Y-%m-%dT%H:%M"),
        help_text="In UTC. Empty: never.",
    )

    def __init__(self, person: Any, row: ApiKey, data: Any = None) -> None:
        names = ("name", "scopes", "environments", "run", "expires")
        values = {name: getattr(row, name) for name in names}
        super().__init__(data, initial={**values, "splits": ", ".join(row.splits)})
        self.offer(person, row)
        self._row = row
        self.fields["name"].help_text = "Only a key that was never used can get another name."

    def values(self) -> dict[str, Any]:
        expires = self._row.expires
        if "expires" in self.changed_data:
            expires = self.cleaned_data["expires"]
        return {**super().values(), "expires": expires}


def scopes_that(person: Any) -> list[str]:
    """Return the scopes that the person may give: none that would let a key do more than they may
    do themselves."""
    may_give = {
        CURATE: person.has_perm("environments.change_task"),
        # figures name all environments
        MONITOR: person.has_perms((SEE_OPERATIONS, SEE_PRIVATE)),
        ADMIN: person.is_superuser,
    }
    return [scope for scope in SCOPES if may_give.get(scope, True)]
