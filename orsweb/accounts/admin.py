"""The admin pages of users and groups, which `urls.py` registers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from environments.admin import StrictList
from environments.admin.base import InfinitePaginator


class AccountAdmin(StrictList, ModelAdmin):  # type: ignore[misc]  # unfold has no types
    """Lists that look like all others, and groups and permissions as checkboxes: Django's two lists
    side by side have names that screen readers do not get."""

    change_list_template = "environments/change_list.html"
    paginator = InfinitePaginator
    filter_horizontal = ()

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["widget"] = UnfoldAdminCheckboxSelectMultipleWidget()
        return super().formfield_for_manytomany(db_field, request, **kwargs)


class LoginAdmin(AccountAdmin, UserAdmin):  # type: ignore[misc, type-arg]
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    add_fieldsets = (
        *(UserAdmin.add_fieldsets or ()),
        (
            "What the account may do",
            {
                "fields": ("groups", "is_superuser"),
                "description": "Without a group, an account sees nothing. Superusers may do "
                "everything.",
            },
        ),
    )
    list_display = ("username", "group_names", "is_superuser", "is_active", "last_login")
    list_filter = ("groups", "is_superuser", "is_active")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")

    @admin.display(description="groups")
    def group_names(self, user: User) -> str:
        return ", ".join(group.name for group in user.groups.all())


class LoginGroupAdmin(AccountAdmin, GroupAdmin):  # type: ignore[misc]
    pass


def register(site: AdminSite) -> None:
    """Register users and groups with `site`, in the style of its other pages."""
    for model, model_admin in ((User, LoginAdmin), (Group, LoginGroupAdmin)):
        if site.is_registered(model):
            site.unregister(model)
        site.register(model, model_admin)
