"""Requests that schemathesis makes from an OpenAPI document, valid and invalid, and what is wrong
with the responses.

Names and ids that exist replace some of those that are made up, because a server says little about
others. They
replace all names that no environment can have, because these are addresses of pages.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import FailedHealthCheck, Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import AcceptedNegativeData, FailureGroup
from schemathesis.specs.openapi import checks

from environments.authoring.reserved_names import RESERVED_NAMES

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.allow_header_conformance,
    checks.negative_data_rejection,
]
"""Without the schema of the body, which is not checked for streams of events: OpenAPI 3.1 has no
words for those."""
TIMEOUT_SECONDS = 60
GIVES_UP, FEW = {HealthCheck.filter_too_much}, 10
"""Hypothesis gives up when it has drawn 50 requests in vain and fewer than FEW of use, and
otherwise after hundreds."""
REAL_SHARE, KEYLESS_SHARE = 0.6, 0.03
KEY_HEADERS = {"x-api-key", "authorization"}
STATUSES_WITHOUT_KEY = {400, 401, 404, 405, 431}

Check = Callable[[Any], None]
"""Raises an exception when the response is not what it should be."""


@dataclass
class SchemaAttack:
    """`real` are values that exist, by the name of the parameter; `key` is sent with all requests
    but a few."""

    url: str
    key: str
    real: Mapping[str, Sequence[Any]]
    check: Check = lambda response: None
    public: frozenset[str] = frozenset()
    """Paths that need no key."""
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    """An example of each kind of failure."""
    _session: requests.Session = field(default_factory=requests.Session)

    @property
    def summary(self) -> str:
        """What was tried, in one line."""
        answers = ", ".join(
            f"{count} x {status}" for status, count in sorted(self.statuses.items())
        )
        return (
            f"{self.statuses.total()} requests, answered {answers}; {len(self.failures)} kinds of "
            "failures"
        )

    def run(self, document: Mapping[str, Any], cases: Callable[[str], int]) -> None:
        """Send `cases(path)` requests for each operation of the document, half of them invalid."""
        schema = schemathesis.openapi.from_dict(dict(document))
        for found in schema.get_all_operations():
            operation = found.ok()
            count = cases(operation.path)
            try:
                self._attack(operation, GenerationMode.NEGATIVE, count // 2)
            except (FailedHealthCheck, Unsatisfiable):  # every request is valid
                self._attack(operation, GenerationMode.POSITIVE, count // 2)
            self._attack(operation, GenerationMode.POSITIVE, count - count // 2)

    def _attack(self, operation: Any, mode: GenerationMode, cases: int) -> None:
        if not cases:
            return
        dice = random.Random(f"{operation.label} {mode}")

        @settings(
            max_examples=cases,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=set(HealthCheck) - (GIVES_UP if cases < FEW else set()),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            self._send(case, mode, dice)

        send()

    def _send(self, case: Any, mode: GenerationMode, dice: random.Random) -> None:
        self._make_real(case, mode, dice)
        for name in [name for name in case.headers if name.lower() in KEY_HEADERS]:
            del case.headers[name]
        has_key = dice.random() >= KEYLESS_SHARE
        headers = {"X-API-Key": self.key} if has_key else {}
        response = case.call(
            base_url=self.url,
            headers=headers,
            session=self._session,
            timeout=TIMEOUT_SECONDS,
            allow_redirects=False,
        )
        self.statuses[response.status_code] += 1
        if has_key or case.path in self.public:
            self._check(case, response)
        elif response.status_code not in STATUSES_WITHOUT_KEY:
            self._note(case, "answered without a key", response)

    def _make_real(self, case: Any, mode: GenerationMode, dice: random.Random) -> None:
        places = [case.path_parameters, case.query, case.headers]
        # else a body could become valid
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            places.append(case.body)
        for place in filter(None, places):
            for name in place:
                if name in self.real and (
                    str(place[name]) in RESERVED_NAMES or dice.random() < REAL_SHARE
                ):
                    place[name] = dice.choice(self.real[name])

    def _check(self, case: Any, response: Any) -> None:
        is_stream = response.headers.get("content-type", [""])[0].startswith("text/event-stream")
        body = [] if is_stream else [checks.response_schema_conformance]
        try:
            case.validate_response(response, checks=CHECKS + body)
            self.check(response)
        except FailureGroup as group:
            for failure in group.exceptions:
                if isinstance(failure, AcceptedNegativeData) and has_blank(response):
                    continue
                self._note(case, type(failure).__name__, response, failure)
        except Exception as error:
            self._note(case, type(error).__name__, response, error)

    def _note(
        self, case: Any, what: str, response: Any, error: BaseException | None = None
    ) -> None:
        sent = (
            f"{case.method} {case.formatted_path} {case.query} {dict(case.headers)} {case.body!r}"
        )
        example = f"{str(error or '')[:1500]}\nsent {sent[:1500]}\nanswered {response.text[:500]}"
        self.failures.setdefault(f"{case.operation.label}: {what} {response.status_code}", example)


def has_blank(response: Any) -> bool:
    """Return whether a parameter of the request was empty, which counts as absent, as forms of
    browsers send it."""
    query = urlsplit(response.request.url).query
    return any(not value.strip() for _, value in parse_qsl(query, keep_blank_values=True))
