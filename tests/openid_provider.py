"""A small OpenID provider over HTTP, which signs with RS256 and checks PKCE, and can be told to
answer wrongly."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, CLIENT_SECRET = "orsweb", "secret-of-the-client-0123456789"
ANSWERS_JSON = {"Content-Type": "application/json"}


class OpenIdProvider:
    """Everybody who comes to it is logged in as `claims` say. `wrong` replaces claims of the ID
    token."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.signing_key = self.key
        self.claims: dict[str, Any] = {"sub": "subject-1"}
        self.wrong: dict[str, Any] = {}
        self.user_info: dict[str, Any] = {}
        """Replaces claims of the user info."""
        self.tokens: list[str] = []
        """Everything secret that it has given away."""
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.get(self)

            def do_POST(self) -> None:
                provider.post(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reset(self) -> None:
        self.signing_key, self.wrong, self.user_info = self.key, {}, {}

    def get(self, handler: Any) -> None:
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/authorize":
            code = secrets.token_urlsafe(16)
            self._codes[code] = query
            self.tokens.append(code)
            back = f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"
            _answer(handler, 302, "", {"Location": back})
        elif url.path == "/.well-known/openid-configuration":
            _answer(handler, 200, json.dumps(self._configuration()), ANSWERS_JSON)
        elif url.path == "/keys":
            jwk = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
            _answer(
                handler,
                200,
                json.dumps({"keys": [jwk | {"kid": "1", "alg": "RS256"}]}),
                ANSWERS_JSON,
            )
        else:
            assert url.path == "/userinfo"
            _answer(handler, 200, json.dumps(self.claims | self.user_info), ANSWERS_JSON)

    def post(self, handler: Any) -> None:
        """Answer the request for tokens."""
        body = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
        given = {name: values[0] for name, values in parse_qs(body).items()}
        asked = self._codes.pop(given.get("code", ""), None)
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        is_right = (
            asked
            and asked["code_challenge"] == challenge
            and asked["redirect_uri"] == given["redirect_uri"]
        )
        if not is_right or (given["client_id"], given["client_secret"]) != (CLIENT, CLIENT_SECRET):
            _answer(handler, 400, '{"error": "invalid_grant"}', ANSWERS_JSON)
            return
        assert asked is not None
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
        }
        claims |= {"sub": self.claims["sub"]} | self.wrong
        token = jwt.encode(claims, self.signing_key, "RS256", {"kid": "1"})
        access = secrets.token_urlsafe(16)
        self.tokens += [token, access]
        body = json.dumps({"access_token": access, "token_type": "Bearer", "id_token": token})
        _answer(handler, 200, body, ANSWERS_JSON)

    def _configuration(self) -> dict[str, Any]:
        ends = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
        return {
            **{f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in ends.items()},
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/keys",
            "id_token_signing_alg_values_supported": ["RS256"],
        }


def _answer(handler: Any, status: int, body: str, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body.encode())))
    handler.end_headers()
    handler.wfile.write(body.encode())
