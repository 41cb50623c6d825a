"""A real broker with TLS, client certificates, SASL and ACLs, and users with some rights."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePatternFilter,
    ResourceType,
)

from tallystick.deploy.broker import HOST, LocalBroker
from tallystick.deploy.broker_security import ADMIN, USER, BrokerSecurity
from tallystick.deploy.certificates import Authority
from tallystick.kafka_properties import VARIABLES
from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_clients.kafka_python_arguments import kafka_python_arguments
from tallystick.producers.kafka_rights import Right, grant, set_password
from tallystick.producers.kafka_topics import ensure_topics, tallystick_topics
from tests.support.token_servers import CLIENT, SECRET, SUBJECT, TokenServer

OTHER_LISTENERS = {
    "EXPIRED": {"ends": datetime.now(timezone.utc) - timedelta(days=1)},
    "ELSEWHERE": {"hosts": ("kafka.example",)},
}
TOKENS = "TOKENS"
"""The listener of OAUTHBEARER."""


@dataclass(frozen=True)
class SecuredBroker:
    """It runs; its topics are there.

    Attributes:
        local: The broker.
        ports: Of listeners with other certificates, by name.
        prefix: Of its topics.
        strangers: A directory with the certificates of an authority it does not know.
        tokens: Whose tokens it takes.
    """

    local: LocalBroker
    ports: dict[str, int]
    prefix: str
    strangers: Path
    tokens: TokenServer

    @property
    def security(self) -> BrokerSecurity:
        found = self.local.security
        assert found is not None
        return found

    @property
    def admin(self) -> dict[str, str]:
        """Properties of who may do everything."""
        return self.security.client_properties(ADMIN) | self.certificate

    @property
    def certificate(self) -> dict[str, str]:
        """Properties of the client's certificate, without which nobody is let in."""
        return {
            "ssl.certificate.location": str(self.security.directory / "client.pem"),
            "ssl.key.location": str(self.security.directory / "client.key"),
        }

    def with_new_topics(self) -> SecuredBroker:
        """The same broker with topics of their own, which nobody but the admin may use."""
        found = replace(self, prefix=f"t{uuid.uuid4().hex[:8]}")
        client, servers = kafka_client("confluent-kafka", self.admin), self.local.bootstrap_servers
        ensure_topics(servers, tallystick_topics(2, found.prefix), client=client)
        return found

    def user(self, rights: Iterable[Right]) -> dict[str, str]:
        """Variables for a new user with these rights."""
        name = f"u{uuid.uuid4().hex[:8]}"
        password = f'pass "{name}" \\ é;='
        servers = self.local.bootstrap_servers
        set_password(servers, self.admin, name, password)
        rights = list(rights)
        if rights:
            grant(servers, self.admin, name, rights, self.prefix)
        properties = self.security.client_properties(USER) | self.certificate
        return self.variables(properties | {"sasl.username": name, "sasl.password": password})

    def token_holder(self, rights: Iterable[Right]) -> dict[str, str]:
        """Variables for who has a token, at the listener for it."""
        servers = self.local.bootstrap_servers
        grant(servers, self.admin, SUBJECT, rights, self.prefix)
        host = servers.rpartition(":")[0]
        return self.variables(
            {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(self.security.ca),
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": CLIENT,
                "sasl.oauthbearer.client.secret": SECRET,
                "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
            }
        ) | {"TALLYSTICK_BOOTSTRAP_SERVERS": f"{host}:{self.ports[TOKENS]}"}

    def revoke(self, user: str, right: Right) -> None:
        """Take a right away."""
        rule = ACLFilter(
            f"User:{user}",
            "*",
            ACLOperation[right.operation],
            ACLPermissionType.ALLOW,
            ResourcePatternFilter(
                ResourceType.TOPIC, f"{self.prefix}.{right.topic}", ACLResourcePatternType.LITERAL
            ),
        )
        servers = self.local.bootstrap_servers
        arguments = kafka_python_arguments(self.admin)
        with closing(KafkaAdminClient(bootstrap_servers=servers, **arguments)) as admin:
            ((_, removed, _),) = admin.delete_acls([rule])
        assert len(removed) == 1

    def change_password(self, variables: dict[str, str]) -> None:
        """Give the user of these variables another one; who is let in already stays."""
        name = variables[f"{VARIABLES}SASL_USERNAME"]
        set_password(self.local.bootstrap_servers, self.admin, name, "another one")

    def restart(self) -> None:
        """Everybody has to log in again."""
        self.local.stop()
        self.local.start()

    def variables(self, properties: dict[str, str]) -> dict[str, str]:
        """The environment of a command."""
        named = {VARIABLES + name.upper().replace(".", "_"): v for name, v in properties.items()}
        return named | {
            "TALLYSTICK_BOOTSTRAP_SERVERS": self.local.bootstrap_servers,
            "TALLYSTICK_TOPIC_PREFIX": self.prefix,
        }


@contextmanager
def running_secured_broker(directory: Path) -> Iterator[SecuredBroker]:
    """One with a listener for each certificate that a client must refuse."""
    names = (*OTHER_LISTENERS, TOKENS)
    port, *others = _ports(2 + len(names))
    ports = dict(zip(names, others[1:], strict=True))
    tokens = TokenServer()
    (directory / "keys.json").write_text(tokens.keys)
    more = {
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "listeners": f"SASL_SSL://{HOST}:{port},CONTROLLER://{HOST}:{others[0]},"
        + ",".join(f"{name}://{HOST}:{number}" for name, number in ports.items()),
        "advertised.listeners": f"SASL_SSL://{HOST}:{port},"
        + ",".join(f"{name}://{HOST}:{number}" for name, number in ports.items()),
        # TLS fails before anything else, so the others need no users.
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL,"
        f"{TOKENS}:SASL_SSL," + ",".join(f"{name}:SSL" for name in OTHER_LISTENERS),
        **_of_tokens((directory / "keys.json").as_uri()),
    }
    authority = Authority("of other listeners")
    for name, wrong in OTHER_LISTENERS.items():
        made = authority.sign("broker", **({"hosts": (HOST,)} | wrong))
        (directory / f"{name}.pem").write_bytes(made.key + made.certificate)
        here = f"listener.name.{name.lower()}"
        more |= {f"{here}.ssl.keystore.type": "PEM", f"{here}.ssl.keystore.location": f"{name}.pem"}
    stranger = Authority("nobody knows it").sign("stranger")
    (directory / "stranger.pem").write_bytes(stranger.certificate)
    (directory / "stranger.key").touch(0o600)
    (directory / "stranger.key").write_bytes(stranger.key)
    (directory / "others.pem").write_bytes(authority.certificate)
    with (
        tokens.listening(),
        _java_may_read((directory / "keys.json").as_uri()),
        LocalBroker(directory, port=port, security=more) as local,
    ):
        yield SecuredBroker(local, ports, "", directory, tokens).with_new_topics()


def _of_tokens(keys: str) -> dict[str, str]:
    here, oauth = f"listener.name.{TOKENS.lower()}", "org.apache.kafka.common.security.oauthbearer"
    return {
        f"{here}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{here}.oauthbearer.sasl.jaas.config": f"{oauth}.OAuthBearerLoginModule required;",
        f"{here}.oauthbearer.sasl.server.callback.handler.class": (
            f"{oauth}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{here}.sasl.oauthbearer.jwks.endpoint.url": keys,
    }


@contextmanager
def _java_may_read(url: str) -> Iterator[None]:
    """Kafka 4 reads keys from addresses only that a property of Java names."""
    before = os.environ.get("JAVA_TOOL_OPTIONS")
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
    os.environ["JAVA_TOOL_OPTIONS"] = f"{before or ''} {allowed}".strip()
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_TOOL_OPTIONS"]
        else:
            os.environ["JAVA_TOOL_OPTIONS"] = before


def _ports(count: int) -> list[int]:
    """Free ports, the first two beside each other, as a broker's and its controller's are."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(socket.create_server((HOST, 0)))
            number = first.getsockname()[1]
            try:
                stack.enter_context(socket.create_server((HOST, number + 1)))
            except OSError:
                continue
            more = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count - 2)]
            return [number, number + 1, *(one.getsockname()[1] for one in more)]
