"""Forms of the bulk actions of the task list. Used by `environments.curation.admin.bulk`.

No field has the name of a field of `Selection`, because both are sent in one form.
"""

from __future__ import annotations

from typing import Any

from django import forms

from environments.curation.splits import splits_to_fill
from environments.display.number_fields import RowField
from environments.models import Split, Viewer


class ReasonForm(forms.Form):
    """The form for the reason of a change of tasks."""

    reason = forms.CharField(
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Shown in the history of each task.",
    )


class QuarantineForm(forms.Form):
    reason = forms.CharField(
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2, "autofocus": True}),
        help_text="Shown with the task and in its history.",
    )


class TagsForm(ReasonForm):
    tags = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off"}),
        help_text="One or more tags, separated by commas.",
    )
    field_order = ("tags", "reason")

    def clean_tags(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                word.strip() for word in self.cleaned_data["tags"].split(",") if word.strip()
            )
        )


class SplitChoice(RowField):
    def label_from_instance(self, obj: Split) -> str:
        return f"{obj} ({obj.size:,})"


class SplitForm(ReasonForm):
    """Choice of a split. Frozen and generated splits are not offered.

    `environment`: only its splits are offered; without it those of every environment that exists
    for the viewer.
    """

    into = SplitChoice(
        queryset=Split.objects.none(), empty_label="choose a split", label="Into split"
    )
    field_order = ("out_of", "into", "reason")

    def __init__(
        self,
        *args: Any,
        viewer: Viewer,
        environment: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        splits = splits_to_fill().seen_by(viewer)
        choices = splits.filter(environment=environment) if environment else splits
        for field in self.fields.values():
            if isinstance(field, SplitChoice):
                field.queryset = choices


class MoveForm(SplitForm):
    out_of = SplitChoice(
        queryset=Split.objects.none(), empty_label="choose a split", label="Out of split"
    )


class NewSplitForm(ReasonForm):
    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "off"}),
        help_text="The name that agents use, for example hard-train.",
    )
    type = forms.ChoiceField(choices=Split.TYPES, help_text="Clients see what the split is for.")
    field_order = ("name", "type", "reason")
