"""Logging in and out of the pages: every active account may. They matter once ORSWEB_API_KEYS is set (see `access.py`).

The admin is for staff among them, and says so itself to others.
"""

from __future__ import annotations

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.urls import path

WRONG = (
    "No active account has that name and password. Both are case-sensitive. A superuser can set a new "
    "password, or activate the account, in the admin under Users."
)


class LoginForm(AuthenticationForm):
    def get_invalid_login_error(self) -> ValidationError:
        return ValidationError(WRONG, code="invalid_login")


class Login(LoginView):
    """Leads to `next` when that is a page of this server, else to the overview."""

    template_name = "orsweb/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True


urlpatterns = [
    path("login/", Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
