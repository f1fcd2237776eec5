"""Recognizes requests through a proxy, which a server without API keys refuses.

Without keys, everybody who reaches the server is its operator. The server listens on loopback only,
but a proxy on the same machine would let everyone in that reaches the proxy. A request shows a
proxy by its headers. HTTP/1.0 is a sign as well: nginx uses it by default towards a server and adds
no header, while browsers, both SDKs and curl use HTTP/1.1.

A proxy that speaks HTTP/1.1 and adds no header cannot be distinguished from a program on this
machine.
"""

from __future__ import annotations

from functools import lru_cache

PROXY_HEADERS = frozenset(("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP"))
PROXY_PREFIX = "HTTP_X_FORWARDED"
REMEDY = (
    "and this server has no API keys, so everyone whom the proxy lets in could do everything. Set "
    "ORSWEB_API_KEYS=label:key (each key at least 8 characters) and ORSWEB_ALLOWED_HOSTS, or "
    "connect without a proxy."
)


@lru_cache(maxsize=256)
def proxy_header(names: tuple[str, ...]) -> str:
    """Return the name of the header that shows a proxy, of `names` as META has them; empty if none
    does.

    The result is cached because a client sends the same headers with each of its requests.
    """
    signs = (name for name in names if name in PROXY_HEADERS or name.startswith(PROXY_PREFIX))
    return next(signs, "").removeprefix("HTTP_").replace("_", "-").title()


def refusal_of_proxied(names: tuple[str, ...], http_version: str = "1.1") -> str:
    """Return the sentence that refuses a request that came through a proxy; empty if it shows no
    sign of one."""
    if header := proxy_header(names):
        return f"The header {header} shows that this request came through a proxy, {REMEDY}"
    if http_version == "1.0":
        return f"HTTP/1.0 is what a proxy speaks, such as nginx by default, {REMEDY}"
    return ""


def meta_name(header: bytes) -> str:
    """Return the key of a header in META."""
    name = header.decode("latin-1").upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"
