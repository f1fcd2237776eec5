"""The pages to log in and out, for every active account; needed once ORSWEB_API_KEYS is set."""

from __future__ import annotations

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.urls import path

INVALID_LOGIN = (
    "Wrong user name or password. Both are case-sensitive. A superuser can set a new password, or activate the "
    "account, in the admin under Users."
)


class LoginForm(AuthenticationForm):
    def get_invalid_login_error(self) -> ValidationError:
        return ValidationError(INVALID_LOGIN, code="invalid_login")


class Login(LoginView):
    """Redirects to `next` if that is a page of this server, else to the overview."""

    template_name = "orsweb/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True


urlpatterns = [
    path("login/", Login.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
