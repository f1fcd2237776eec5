"""The pages to log in, to change the password and to log out, for every active account.

They are needed once the server has keys.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import (
    LoginView,
    LogoutView,
    PasswordChangeDoneView,
    PasswordChangeView,
)
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, include, path, reverse_lazy

from environments.filtering.addresses import takes

INVALID_LOGIN = (
    "Wrong user name or password. Both are case-sensitive. A superuser can set a new password, or "
    "activate the account, in the admin under Users."
)


class LoginForm(AuthenticationForm):
    def get_invalid_login_error(self) -> ValidationError:
        return ValidationError(INVALID_LOGIN, code="invalid_login")


class Login(LoginView):
    """Redirects to `next` if that is a page of this server, else to the overview."""

    template_name = "orsweb/login.html"
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        context = super().get_context_data(**more)
        if settings.ORSWEB_OIDC_ISSUER:
            context["sign_on"] = settings.ORSWEB_OIDC_NAME
            context["sign_on_failed"] = "sign_on" in self.request.GET
        return context


class Password(PasswordChangeView):
    """Asks for the old password. The login of this browser lasts, those of others end."""

    template_name = "orsweb/password.html"
    success_url = reverse_lazy("password_changed")

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.user.is_authenticated and not request.user.has_usable_password():
            raise PermissionDenied(f"{request.user.get_username()} logs in without a password.")
        return super().dispatch(request, *args, **kwargs)


urlpatterns: list[URLPattern | URLResolver] = [
    path("login/", takes("next", "sign_on")(Login.as_view()), name="login"),
    path("logout/", takes()(LogoutView.as_view()), name="logout"),
    path("password/", takes()(Password.as_view()), name="password"),
    path(
        "password/changed/",
        takes()(PasswordChangeDoneView.as_view(template_name="orsweb/password.html")),
        name="password_changed",
    ),
]
if settings.ORSWEB_OIDC_ISSUER:
    urlpatterns.append(path("sign-on/", include("orsweb.accounts.single_sign_on")))
