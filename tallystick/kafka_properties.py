"""Kafka's properties from the environment and from ``tallystick.toml``, secrets from files.

``TALLYSTICK_KAFKA_SASL_MECHANISM`` is librdkafka's ``sasl.mechanism``, and so is ``sasl.mechanism``
in the table ``kafka`` of the file. A secret is a variable or the content of a file that others
cannot read, which the property's name with ``.file`` names; it is never a value in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tallystick.errors import MisuseError
from tallystick.producers.kafka_clients.errors import KafkaPropertyError
from tallystick.producers.kafka_clients.properties import SECRETS, checked
from tallystick.producers.secret_file import read_secret_file

VARIABLES = "TALLYSTICK_KAFKA_"
_OF_A_FILE = ".file"


def from_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The properties among the variables."""
    return {
        variable.removeprefix(VARIABLES).lower().replace("_", "."): value
        for variable, value in variables.items()
        if variable.startswith(VARIABLES)
    }


def from_file(table: Any, file: str) -> dict[str, str]:
    """The properties of a file's table; TOML makes tables of what has dots.

    Raises:
        MisuseError: It is no table, or a secret is in it.
    """
    if not isinstance(table, dict):
        raise MisuseError(f"{file!r}, kafka: expected a table [kafka] of properties")
    found = dict(_flat(table, ""))
    for name in sorted(SECRETS & found.keys()):
        variable = VARIABLES + name.upper().replace(".", "_")
        raise MisuseError(
            f"{file!r}, kafka: {name} is a secret, which is no value of this file; set {variable},"
            f" or {name}{_OF_A_FILE} to the path of a file"
        )
    return found


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield f"{prefix}{key}", str(value).lower()
        else:
            yield f"{prefix}{key}", str(value)


def readable(given: Mapping[str, str]) -> dict[str, str]:
    """The properties with the secrets that files hold, checked.

    Raises:
        KafkaPropertyError: A file cannot be read or is open to others, a secret has two origins, or
            a property cannot be set.
    """
    found: dict[str, str] = {}
    for name, value in given.items():
        secret = name.removesuffix(_OF_A_FILE)
        if name == secret or secret not in SECRETS:
            found[name] = value
            continue
        if secret in given:
            raise KafkaPropertyError(name, f"{secret} is set too")
        found[secret] = _secret_of(name, Path(value))
    return checked(found)


def _secret_of(name: str, path: Path) -> str:
    text = read_secret_file(path, lambda reason: KafkaPropertyError(name, reason))
    # An editor ends a file with a line break; a key has several.
    return text if name.startswith("ssl.key.pem") else text.removesuffix("\n").removesuffix("\r")
