"""The form of an environment's page that makes it private or public and chooses its members."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import Group, User
from django.db.models import Q
from django.http import HttpRequest

from environments.access.local_operator import OPERATOR
from environments.access.permissions import SEE_PRIVATE
from environments.curation.environment_settings import SetPrivacy
from environments.models import Environment


class PrivacyForm(forms.Form):
    """The members: accounts and groups. Those of a public environment are kept for when it becomes
    private."""

    members = forms.ModelMultipleChoiceField(
        User.objects.none(), required=False, widget=forms.CheckboxSelectMultiple, label="Accounts"
    )
    groups = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Groups",
    )

    def __init__(self, environment: Environment, data: Any = None) -> None:
        members, groups = environment.members.all(), environment.member_groups.all()
        super().__init__(data, initial={"members": members, "groups": groups})
        # accounts that were deactivated stay members until somebody removes them
        people = User.objects.filter(Q(is_active=True) | Q(pk__in=members.values("pk"))).exclude(
            username=OPERATOR
        )
        fields: Any = self.fields
        fields["members"].queryset = people.order_by("username")


def set_privacy(
    request: HttpRequest, environment: Environment, form: PrivacyForm, *, is_private: bool
) -> SetPrivacy:
    """Return the action that a valid form asks for.

    Who makes an environment private and would not see it afterwards becomes a member too, or nobody
    could undo it who knows of it.
    """
    members = {user.pk for user in form.cleaned_data["members"]}
    groups = {group.pk for group in form.cleaned_data["groups"]}
    person = request.user
    sees_it = person.has_perm(SEE_PRIVATE) or person.groups.filter(pk__in=groups).exists()
    if is_private and not sees_it and person.pk is not None:
        members.add(person.pk)
    return SetPrivacy(environment.pk, is_private, frozenset(members), frozenset(groups))
