"""The specification of a remote environment: `name=http://host:port/environment`, or the URL
alone."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from environments.authoring.declarations import check_name
from environments.errors import Unhostable

MAX_URL_CHARACTERS = 400
"""Longest URL: the width of its database column."""
KEY_VARIABLE = "ORSWEB_REMOTE_KEY_"
"""First part of the names of environment variables that hold keys for remote environments."""
_SPECIFICATION = re.compile(
    r"(?:(?P<alias>[^=/]*)=)?(?P<url>https?://.*)", re.DOTALL | re.IGNORECASE
)
_UNSAFE = re.compile(r"[^!-~]|[\"<>\\^`{|}]")
"""Characters that a URL contains only when they are percent-encoded."""


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """Where a remote environment is, and the credentials that requests to it carry."""

    name: str
    """The name under which this server serves it."""
    host: str
    port: int
    is_secure: bool
    prefix: str
    """Path of the server's own root, without a slash at its end; usually empty."""
    environment: str
    """The name of the environment at the other server, as it stands in the URL."""
    headers: Mapping[str, str]
    """Headers with credentials; never shown."""

    @property
    def env_name(self) -> str:
        """Return the name of the environment at the other server, as bodies have it."""
        return unquote(self.environment)

    @property
    def host_header(self) -> str:
        """Return the value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"

    @property
    def server(self) -> str:
        """Return the URL of the server, without credentials, for messages."""
        return f"{'https' if self.is_secure else 'http'}://{self.host_header}{self.prefix}"

    def __str__(self) -> str:
        """Return the URL of the environment, without credentials."""
        return f"{self.server}/{self.environment}"


def is_remote(specification: str) -> bool:
    """Return whether a specification names a URL rather than a class."""
    return _SPECIFICATION.fullmatch(specification.strip()) is not None


def parse(specification: str, keys: Mapping[str, str]) -> RemoteUrl:
    """Return what `specification` names; `keys` are the values of variables by what follows
    KEY_VARIABLE.

    Raises: Unhostable with one sentence that says what to change, and that shows no credentials.
    """
    match = _SPECIFICATION.fullmatch(specification.strip())
    assert match is not None, "is_remote() has not been asked"
    safe_url = _without_credentials(match["url"])
    if match["alias"] == "":
        raise Unhostable(
            f"'={safe_url}' has no name before '='; write name=http://host:port/environment."
        )
    if len(match["url"]) > MAX_URL_CHARACTERS:
        raise Unhostable(
            f"The URL {safe_url[:60]}… is longer than {MAX_URL_CHARACTERS} characters; "
            "use a shorter one."
        )
    try:
        parts = urlsplit(match["url"])
        port = parts.port
    except ValueError as error:
        raise Unhostable(
            f"{safe_url} is not a URL ({error}); write http://host:port/environment."
        ) from None
    prefix, _, environment = parts.path.rstrip("/").rpartition("/")
    if not parts.hostname or parts.query or parts.fragment or _UNSAFE.search(parts.path):
        raise Unhostable(
            f"{safe_url} is not the URL of an environment; write http://host:port/environment."
        )
    if not environment:
        raise Unhostable(
            f"{safe_url} names no environment; write {safe_url.rstrip('/')}/NAME with a name of "
            f"{safe_url.rstrip('/')}/list_environments."
        )
    is_secure = parts.scheme.lower() == "https"
    name = check_name(match["alias"] or unquote(environment), f"serve it as other_name={safe_url}")
    key = keys.get(variable_suffix(name), "")
    headers = _credentials(key, parts.username, parts.password)
    return RemoteUrl(
        name,
        parts.hostname,
        port or (443 if is_secure else 80),
        is_secure,
        prefix,
        environment,
        headers,
    )


def variable_suffix(name: str) -> str:
    """Return what follows KEY_VARIABLE for an environment: `MY_ENV` for `my-env`."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _credentials(key: str, user: str | None, password: str | None) -> dict[str, str]:
    """Return the headers with credentials: an API key, `Bearer …`, or the URL's user and
    password."""
    headers = {}
    if user is not None or password is not None:
        pair = f"{unquote(user or '')}:{unquote(password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    if key.lower().startswith("bearer "):
        headers["Authorization"] = key
    elif key:
        headers["X-API-Key"] = key
    if any(not value.isascii() or not value.isprintable() for value in headers.values()):
        raise Unhostable(f"A key in {KEY_VARIABLE}… has characters that no header may contain.")
    return headers


def _without_credentials(url: str) -> str:
    """Return a URL, valid or not, without user, password, query and fragment."""
    scheme, slashes, rest = re.split("[?#]", url)[0].partition("://")
    host, slash, path = rest.partition("/")
    if "@" in host:
        host = f"…@{host.rpartition('@')[2]}"
    elif "@" in path:  # a password with a slash in it
        host, slash, path = "…", "@", rest.rpartition("@")[2]
    return f"{scheme}{slashes}{host}{slash}{path}"
