"""The answer to a request whose key is refused, for the doors of agents, the API and probes."""

from __future__ import annotations

from rest_framework.exceptions import APIException, AuthenticationFailed, ErrorDetail, Throttled

from environments.errors import KeyRefused


def authentication_error(refusal: KeyRefused) -> APIException:
    """Return DRF's exception for a refused key."""
    if not refusal.wait_seconds:
        return AuthenticationFailed(str(refusal))
    error = Throttled(refusal.wait_seconds)
    error.detail = ErrorDetail(str(refusal))  # without the sentence that DRF adds
    return error
