"""The admin pages of users and groups, which `urls.py` registers. Accounts matter once ORSWEB_API_KEYS is set."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm


class LoginAdmin(UserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]  # unfold has no types
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


class LoginGroupAdmin(GroupAdmin, ModelAdmin):  # type: ignore[misc]
    pass


def register(site: AdminSite) -> None:
    """Register users and groups with `site`, in the style of its other pages."""
    for model, model_admin in ((User, LoginAdmin), (Group, LoginGroupAdmin)):
        if site.is_registered(model):
            site.unregister(model)
        site.register(model, model_admin)
