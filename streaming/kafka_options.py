"""Properties of Kafka's clients, under librdkafka's names, as options of Spark's source and sink.

Options become part of plans, and so of what Spark explains, logs and reports in errors. So what is
secret is no option: the option names a variable of the JVM's environment, from which Kafka's Java
client takes the value when it is made (KIP-421), and which only this user's processes can read.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallystick.streaming.errors import KafkaOptionError

VARIABLES = "TALLYSTICK_SPARK_KAFKA_"

_SAME: Final = frozenset(
    {
        *("security.protocol", "sasl.mechanism", "client.id", "client.rack", "client.dns.lookup"),
        *("metadata.max.age.ms", "connections.max.idle.ms", "reconnect.backoff.ms"),
        *("reconnect.backoff.max.ms", "retry.backoff.ms", "retry.backoff.max.ms"),
        *("socket.connection.setup.timeout.ms", "sasl.oauthbearer.token.endpoint.url"),
    }
)
_RENAMED: Final = {
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
}
_CREDENTIALS: Final = frozenset(
    {
        *("sasl.username", "sasl.password", "sasl.oauthbearer.method", "https.ca.location"),
        *("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
        *("sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"),
    }
)
_CERTIFICATES: Final = frozenset(
    {
        *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem"),
        *("ssl.key.location", "ssl.key.pem", "ssl.key.password"),
        "ssl.endpoint.identification.algorithm",
    }
)
_SECURITY = "org.apache.kafka.common.security"
_LOGINS: Final = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
}
_TOKENS = f"{_SECURITY}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
_PEM_BYTES_MAX = 8 * 2**20
_PKCS8 = re.compile(r"-----BEGIN (ENCRYPTED )?PRIVATE KEY-----")


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """How Spark speaks to brokers.

    Attributes:
        options: Of the source and of the sink; no secret is among them.
        environment: Variables of the JVM, which hold the secrets.
    """

    options: Mapping[str, str]
    environment: Mapping[str, str]


def kafka_options(properties: Mapping[str, str]) -> KafkaOptions:
    """The options for some properties.

    Raises:
        KafkaOptionError: Java's client has nothing like one of them, or one that is needed is
            missing, or a file cannot be read.
    """
    java: dict[str, str] = {}
    for name, value in properties.items():
        if name in _SAME or name in _RENAMED:
            java[_RENAMED.get(name, name)] = value
        elif name not in _CREDENTIALS | _CERTIFICATES:
            raise KafkaOptionError(f"{name}: Spark's Kafka client has nothing like it")
    secrets: dict[str, str] = {}
    if properties.get("security.protocol", "").startswith("SASL_"):
        secrets["sasl.jaas.config"] = jaas_config(properties)
        if properties["sasl.mechanism"] == "OAUTHBEARER":
            java["sasl.login.callback.handler.class"] = _TOKENS
    if properties.get("security.protocol", "").endswith("SSL"):
        java |= _trusted(properties)
        own = _own(properties)
        secrets |= own
        if own:
            java["ssl.keystore.type"] = "PEM"
    environment = {VARIABLES + name.upper().replace(".", "_"): v for name, v in secrets.items()}
    for name, variable in zip(secrets, environment, strict=True):
        java[name] = f"${{env:{variable}}}"
    if secrets:
        java |= {
            "config.providers": "env",
            "config.providers.env.class": (
                "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
            ),
            "config.providers.env.param.allowlist.pattern": f"{VARIABLES}.*",
        }
    return KafkaOptions({f"kafka.{name}": value for name, value in java.items()}, environment)


def jaas_config(properties: Mapping[str, str]) -> str:
    """The login module of a mechanism with its credentials, as Java's configuration has it.

    Raises:
        KafkaOptionError: The mechanism is another, or a credential is missing.
    """
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in _LOGINS:
        raise KafkaOptionError(f"sasl.mechanism: expected one of {', '.join(_LOGINS)}")
    if mechanism == "OAUTHBEARER":
        options = _token_options(properties)
    else:
        options = {
            "username": _needed(properties, "sasl.username", mechanism),
            "password": _needed(properties, "sasl.password", mechanism),
        }
    texts = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return f"{_LOGINS[mechanism]} required {texts};"


def _token_options(properties: Mapping[str, str]) -> dict[str, str]:
    if properties.get("sasl.oauthbearer.method", "").lower() != "oidc":
        raise KafkaOptionError("sasl.oauthbearer.method: expected oidc")
    _needed(properties, "sasl.oauthbearer.token.endpoint.url", "OAUTHBEARER")
    options = {
        "clientId": _needed(properties, "sasl.oauthbearer.client.id", "OAUTHBEARER"),
        "clientSecret": _needed(properties, "sasl.oauthbearer.client.secret", "OAUTHBEARER"),
    }
    if "sasl.oauthbearer.scope" in properties:
        options["scope"] = properties["sasl.oauthbearer.scope"]
    if "https.ca.location" in properties:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.location"] = properties["https.ca.location"]
    for pair in properties.get("sasl.oauthbearer.extensions", "").split(","):
        name, is_pair, value = pair.partition("=")
        if is_pair:
            options[f"extension_{name}"] = value
    return options


def _needed(properties: Mapping[str, str], name: str, mechanism: str) -> str:
    if name not in properties:
        raise KafkaOptionError(f"{name}: {mechanism} needs it")
    return properties[name]


def _quoted(value: str) -> str:
    """A text between quotes, with the escapes of Java's StreamTokenizer."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def _trusted(properties: Mapping[str, str]) -> dict[str, str]:
    java = {}
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if "ssl.ca.pem" in properties:
        # Certificates of authorities are no secret, and may be longer than a variable can be.
        java["ssl.truststore.type"] = "PEM"
        java["ssl.truststore.certificates"] = properties["ssl.ca.pem"]
    elif "ssl.ca.location" in properties:
        path = Path(properties["ssl.ca.location"]).absolute()
        if path.is_dir():
            raise KafkaOptionError("ssl.ca.location: Spark's Kafka client takes a file of PEM only")
        java["ssl.truststore.type"] = "PEM"
        # Absolute: Spark's JVM has a working directory of its own.
        java["ssl.truststore.location"] = str(path)
    return java


def _own(properties: Mapping[str, str]) -> dict[str, str]:
    certificate = _text(properties, "ssl.certificate")
    key = _text(properties, "ssl.key")
    if certificate is None or key is None:
        return {}
    if not _PKCS8.search(key):
        raise KafkaOptionError(
            "ssl.key: Spark's Kafka client takes PKCS #8 only; convert it: openssl pkcs8 -topk8"
        )
    own = {"ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key}
    if "ssl.key.password" in properties:
        own["ssl.key.password"] = properties["ssl.key.password"]
    return own


def _text(properties: Mapping[str, str], prefix: str) -> str | None:
    if f"{prefix}.pem" in properties:
        return properties[f"{prefix}.pem"]
    location = properties.get(f"{prefix}.location")
    if location is None:
        return None
    try:
        return _whole(Path(location)).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise KafkaOptionError(
            f"{prefix}.location: {location!r} cannot be read: {reason}"
        ) from error


def _whole(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(_PEM_BYTES_MAX + 1)
    if len(content) > _PEM_BYTES_MAX:
        raise OSError(errno.EFBIG, f"it is longer than {_PEM_BYTES_MAX >> 20} MiB")
    return content
