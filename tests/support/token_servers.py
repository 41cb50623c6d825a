"""A server of tokens on loopback: client credentials of OAuth 2.0, tokens that it signs itself."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

CLIENT, SECRET, SUBJECT = "me", "client secret é:", "holder"
LIFETIME_S = 600


class TokenServer:
    """Its key, the address where it listens, and the forms that it was sent.

    Attributes:
        says_lifetime: Whether its answers have ``expires_in``, which is recommended only.
    """

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self.port = 0
        self.scheme = "http"
        self.forms: list[bytes] = []
        self.says_lifetime = True

    @property
    def url(self) -> str:
        """Where tokens are asked for."""
        return f"{self.scheme}://127.0.0.1:{self.port}/token"

    @property
    def keys(self) -> str:
        """What a broker checks signatures by: a JSON Web Key Set."""
        public = self._key.public_key().public_numbers()
        numbers = {"n": public.n.to_bytes(256, "big"), "e": public.e.to_bytes(3, "big")}
        key = {name: _encoded(number) for name, number in numbers.items()}
        return json.dumps({"keys": [{"kty": "RSA", "kid": "1", "alg": "RS256", **key}]})

    def token(self) -> str:
        """A new one."""
        now = int(time.time())
        head = {"alg": "RS256", "kid": "1"}
        claims = {"sub": SUBJECT, "iat": now, "exp": now + LIFETIME_S, "scope": "kafka"}
        parts = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        signature = self._key.sign(parts.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{parts}.{_encoded(signature)}"

    @contextmanager
    def listening(self, context: ssl.SSLContext | None = None) -> Iterator[TokenServer]:
        """Answers who knows the secret; over TLS with a context."""
        expected = f"Basic {base64.b64encode(f'{CLIENT}:{SECRET}'.encode()).decode()}"
        tokens = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_arguments: Any) -> None:
                """Nothing is printed."""

            def do_POST(self) -> None:
                tokens.forms.append(self.rfile.read(int(self.headers["Content-Length"])))
                is_known = self.headers["Authorization"] == expected
                answer = {"access_token": tokens.token()}
                answer |= {"expires_in": LIFETIME_S} if tokens.says_lifetime else {}
                body = json.dumps(answer if is_known else {"error": "invalid_client"}).encode()
                self.send_response(200 if is_known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.port = server.server_port
            if context is not None:
                self.scheme = "https"
                server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield self
            server.shutdown()


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
