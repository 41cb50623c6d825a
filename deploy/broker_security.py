"""What makes the local broker a secured one: TLS, SASL, and rights by ACLs.

Everything is in the directory ``security`` beside the broker's data: made at the first start, then
kept, so that clients go on after the broker's restart. Nobody else can read it.
"""

from __future__ import annotations

import secrets
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.coordinates.values.errors import MissingExtraError
from tallystick.deploy.private_files import private_directory, write_private

if TYPE_CHECKING:
    from socket import socket

HOSTS = ("127.0.0.1", "localhost")
ADMIN = "admin"
"""The broker itself, who may do everything."""
USER = "tallystick"
"""Who uses it, and may do what ACLs grant."""
FOLDER = "security"
_LISTENER = "SASL_SSL"
_MODULES = "org.apache.kafka.common.security"
_PASSWORD_BYTES = 24


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """How one secured broker is spoken to.

    Attributes:
        directory: Where the files are.
        more: Properties of the broker that go over those from here.
    """

    directory: Path
    more: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, broker: Path, more: Mapping[str, str] | None = None) -> BrokerSecurity:
        """That of a broker's directory, made where it is missing.

        Raises:
            MissingExtraError: There is none, and cryptography is not installed.
        """
        found = cls(broker / FOLDER, more or {})
        if not found.ca.exists():
            found._make()
        return found

    def _make(self) -> None:
        try:
            from tallystick.deploy.certificates import Authority
        except ModuleNotFoundError:
            raise MissingExtraError("broker start --secure needs cryptography", "stream") from None

        private_directory(self.directory)
        for user in (ADMIN, USER):
            write_private(self.password_file(user), secrets.token_urlsafe(_PASSWORD_BYTES).encode())
        authority = Authority("tallystick's local broker")
        broker = authority.sign("broker", HOSTS)
        write_private(self.directory / "broker.pem", broker.key + broker.certificate)
        client = authority.sign(USER)
        write_private(self.directory / "client.key", client.key)
        write_private(self.directory / "client.pem", client.certificate)
        # Last: with it everything is there.
        write_private(self.ca, authority.certificate)

    @property
    def ca(self) -> Path:
        """The certificate of its authority."""
        return self.directory / "ca.pem"

    def password_file(self, user: str) -> Path:
        """The file with a user's password."""
        return self.directory / f"{user}.password"

    def password(self, user: str) -> str:
        """A user's password."""
        return self.password_file(user).read_text("ascii")

    def client_properties(self, user: str) -> dict[str, str]:
        """How a client speaks to it, under librdkafka's names."""
        return {
            "security.protocol": _LISTENER,
            "sasl.mechanism": "PLAIN" if user == ADMIN else "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.password(user),
            "ssl.ca.location": str(self.ca),
        }

    def server_properties(self, host: str, port: int, controller_port: int) -> dict[str, str]:
        """What goes over the configuration of a broker without it; paths as the broker has them."""
        users = {user: self.password(user) for user in (ADMIN, USER)}
        own = f'username="{ADMIN}" password="{users[ADMIN]}"'
        known = " ".join(f'user_{user}="{password}"' for user, password in users.items())
        plain = f"{_MODULES}.plain.PlainLoginModule required {own}"
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        here = f"listener.name.{_LISTENER.lower()}"
        return {
            "listeners": f"{_LISTENER}://{host}:{port},CONTROLLER://{host}:{controller_port}",
            "advertised.listeners": f"{_LISTENER}://{host}:{port}",
            "listener.security.protocol.map": f"CONTROLLER:{_LISTENER},{_LISTENER}:{_LISTENER}",
            "inter.broker.listener.name": _LISTENER,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{FOLDER}/broker.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{FOLDER}/ca.pem",
            # Without the listener's name Kafka asks nobody for a certificate beside SASL.
            f"{here}.ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            # SCRAM's users are in the cluster's metadata, which the broker reads as a client.
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"{here}.plain.sasl.jaas.config": f"{plain} {known};",
            f"{here}.scram-sha-256.sasl.jaas.config": scram,
            f"{here}.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": (
                f'{plain} user_{ADMIN}="{users[ADMIN]}";'
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            **self.more,
        }

    def opened(self, connection: socket, host: str) -> ssl.SSLSocket:
        """A connection as the broker itself, over TLS, on which requests can be made.

        SaslHandshake (key 17, version 1) names the mechanism, SaslAuthenticate (36, version 0) has
        PLAIN's bytes. Each answer: length, correlation id, error code, and what is not read here.

        Raises:
            OSError: It is not accepted.
        """
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.directory / "broker.pem")
        encrypted = context.wrap_socket(connection, server_hostname=host)
        token = f"\0{ADMIN}\0{self.password(ADMIN)}".encode()
        for key, version, body in (
            (17, 1, struct.pack(">h5s", 5, b"PLAIN")),
            (36, 0, struct.pack(f">i{len(token)}s", len(token), token)),
        ):
            # Request header version 1; the client's name is null.
            request = struct.pack(">hhih", key, version, 1, -1) + body
            encrypted.sendall(struct.pack(">i", len(request)) + request)
            with encrypted.makefile("rb") as answer:
                (length,) = struct.unpack(">i", answer.read(4))
                _correlation_id, error = struct.unpack(">ih", answer.read(length)[:6])
            if error:
                raise OSError(f"Kafka's error {error}")
        return encrypted
