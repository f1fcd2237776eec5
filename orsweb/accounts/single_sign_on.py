"""Single sign-on by OpenID Connect, with the library mozilla-django-oidc. Loaded only if
ORSWEB_OIDC_ISSUER is set.

An account belongs to the subject that the provider names, never to an e-mail address or a user
name: people can often choose those at a provider, and anybody who takes the address of another
account would take over the account.

The library uses PKCE, state and nonce, and checks the signature. What it leaves out is here:
issuer, audience and times of the ID token, that the user info is of the same subject, and an answer
for people to everything that goes wrong. No token, code or secret gets into the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
import requests
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from environments import security_log
from episodes.models import SignOnAccount

TIMEOUT_SECONDS = 5.0
"""Limit for each request to the provider, which a thread of the pages waits for."""
LEEWAY_SECONDS = 30.0
"""How far the clocks of the provider and of this server may differ."""
ALGORITHMS = ("RS256", "ES256", "RS384", "RS512", "ES384", "ES512")
"""Signatures that are accepted, the most usual first. All of them need the provider's private
key."""
FAILED = "failed"
_UNUSUAL = re.compile(r"[^\w.@+-]+")
"""Characters that user names do not have."""


@cache
def provider() -> Mapping[str, Any]:
    """Return what the provider publishes about itself, read once. Raises: SignOnFailed."""
    address = f"{settings.ORSWEB_OIDC_ISSUER}/.well-known/openid-configuration"
    try:
        response = requests.get(address, timeout=TIMEOUT_SECONDS)
        response.raise_for_status()
        document: dict[str, Any] = response.json()
    except (requests.RequestException, ValueError) as error:
        raise SignOnFailed(f"the provider does not answer ({type(error).__name__})") from error
    if str(document.get("issuer", "")).rstrip("/") != settings.ORSWEB_OIDC_ISSUER:
        raise SignOnFailed(
            f"the provider calls itself {str(document.get('issuer'))[:200]}, not ORSWEB_OIDC_ISSUER"
        )
    return document


class SignOnFailed(SuspiciousOperation):
    """A login that failed; the message is for the operator's log, and contains no token."""


def _setting(name: str, *default: Any) -> Any:
    """Return a setting of the library."""
    values = {
        "OIDC_RP_CLIENT_ID": settings.ORSWEB_OIDC_CLIENT_ID,
        "OIDC_RP_CLIENT_SECRET": settings.ORSWEB_OIDC_CLIENT_SECRET,
        "OIDC_RP_SCOPES": settings.ORSWEB_OIDC_SCOPES,
        "OIDC_USE_PKCE": True,
        "OIDC_TIMEOUT": TIMEOUT_SECONDS,
        "OIDC_AUTHENTICATION_CALLBACK_URL": "sign_on_callback",
        "LOGIN_REDIRECT_URL_FAILURE": f"{reverse('login')}?sign_on={FAILED}",
        "LOGIN_REDIRECT_URL": reverse("overview"),
    }
    endpoints = {
        "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
        "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",  # nosec B105 # the name of an address
        "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
        "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
    }
    if name in values:
        return values[name]
    if name in endpoints:
        return provider().get(endpoints[name], "")
    if name == "OIDC_RP_SIGN_ALGO":
        algorithms = provider().get("id_token_signing_alg_values_supported") or ALGORITHMS
        return next((name for name in ALGORITHMS if name in algorithms), ALGORITHMS[0])
    return import_from_settings(name, *default)


class SignOnBackend(OIDCAuthenticationBackend):  # type: ignore[misc]  # the library has no types
    get_settings = staticmethod(_setting)

    def __init__(self) -> None:
        """Ask for no settings yet: Django makes an object for every password too, and the provider
        may be away."""
        self.UserModel = User

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> User | None:
        if request is None or "code_verifier" not in kwargs:  # somebody logs in with a password
            return None
        try:
            super().__init__()
            user: User | None = super().authenticate(request, **kwargs)
        except SignOnFailed as error:
            reason = str(error)
        except (
            jwt.PyJWTError,
            SuspiciousOperation,
            requests.RequestException,
            KeyError,
            ValueError,
        ) as error:
            # its text may quote a token
            reason = f"the provider's answer was refused ({type(error).__name__})"
        else:
            return user
        request.sign_on_problem = reason  # type: ignore[attr-defined]  # security_signals.py notes it
        return None

    def _verify_jws(self, payload: Any, key: Any) -> dict[str, Any]:
        """Return the claims of the ID token, checked by signature, issuer, audience and times."""
        claims: dict[str, Any] = jwt.decode(
            payload,
            key,
            algorithms=[self.OIDC_RP_SIGN_ALGO],
            issuer=provider()["issuer"],
            audience=settings.ORSWEB_OIDC_CLIENT_ID,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
        return claims

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User:
        claims = dict(payload)
        if self.OIDC_OP_USER_ENDPOINT:
            claims = self.get_userinfo(access_token, id_token, payload)
            if claims.get("sub") != payload["sub"]:
                raise SignOnFailed("the user info is about another subject than the ID token")
            claims |= payload
        user = _account_of(claims)
        _join_groups(user, claims.get(settings.ORSWEB_OIDC_GROUPS_CLAIM))
        return user


def _account_of(claims: Mapping[str, Any]) -> User:
    """Return the account of the subject, created at its first login."""
    identity = {"issuer": settings.ORSWEB_OIDC_ISSUER, "subject": str(claims["sub"])}
    with transaction.atomic():
        accounts = SignOnAccount.objects.select_related("user").filter(**identity)
        if (account := accounts.first()) is not None:
            return account.user
        email = str(claims.get("email") or "")
        text = str(claims.get("preferred_username") or email or claims["sub"])
        # a name that no account has: an existing account never becomes somebody else's
        name = base = _UNUSUAL.sub("-", text).strip("-")[:140] or "person"
        number = 1
        while User.objects.filter(username__iexact=name).exists():
            number += 1
            name = f"{base}-{number}"
        user = User.objects.create_user(name, email=email[:254])
        SignOnAccount.objects.create(user=user, **identity)
    return user


def _join_groups(user: User, claim: Any) -> None:
    """Make the account a member of exactly those groups that exist here and that the provider
    names.

    Without the claim, memberships stay as they are.
    """
    if not isinstance(claim, str | list):
        return
    names = [claim] if isinstance(claim, str) else [name for name in claim if isinstance(name, str)]
    groups = set(Group.objects.filter(name__in=names))
    if groups != set(user.groups.all()):
        with security_log.acting("single sign-on", ""):
            user.groups.set(groups)


class SignOn(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """Redirects to the provider."""

    get_settings = staticmethod(_setting)

    def __init__(self, **more: Any) -> None:
        super(OIDCAuthenticationRequestView, self).__init__(**more)  # asks for no settings yet

    def get(self, request: HttpRequest) -> HttpResponse:
        try:
            self.OIDC_OP_AUTH_ENDPOINT = _setting("OIDC_OP_AUTHORIZATION_ENDPOINT")
            self.OIDC_RP_CLIENT_ID = settings.ORSWEB_OIDC_CLIENT_ID
            answer: HttpResponse = super().get(request)
        except SignOnFailed as error:
            security_log.note("login_failed", "single sign-on", who="", detail=str(error))
            return HttpResponseRedirect(_setting("LOGIN_REDIRECT_URL_FAILURE"))
        return answer


class SignOnCallback(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Where the provider sends the browser back to."""

    get_settings = staticmethod(_setting)

    def get(self, request: HttpRequest) -> HttpResponse:
        reason = "the provider refused it" if "error" in request.GET else ""
        try:
            if not reason:
                answer: HttpResponse = super().get(request)
                return answer
        except SuspiciousOperation:
            reason = "this browser has not started it"
        security_log.note("login_failed", "single sign-on", who="", detail=reason)
        return self.login_failure()  # type: ignore[no-any-return]


urlpatterns = [
    path("", SignOn.as_view(), name="sign_on"),
    path("callback/", SignOnCallback.as_view(), name="sign_on_callback"),
]
