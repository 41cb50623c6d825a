"""Settings: flag over environment over ``tallystick.toml`` over default, in one validated model."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_serializer, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from tallystick.errors import MisuseError
from tallystick.kafka_properties import (
    VARIABLES,
    from_environment,
    from_file,
    readable,
)
from tallystick.names import require_fit, require_known, suggestion
from tallystick.producers.given_files import GivenPath
from tallystick.producers.kafka_clients.choice import ClientName, default_client
from tallystick.producers.kafka_clients.properties import SHOWN
from tallystick.producers.mysql.settings import PASSWORD_VARIABLE, RELAY_LOG_TOKEN_VARIABLE
from tallystick.producers.toml_file import read_toml
from tallystick.streaming.kafka_options import VARIABLES as SPARK_VARIABLES

FILE = Path("tallystick.toml")
PREFIX = "TALLYSTICK_"
NOT_SETTINGS = frozenset({"TALLYSTICK_HOME"})
"""Variables with our prefix that others read: where fetched jars are kept (``deploy.jars``)."""
ALERTS_SECRET = "TALLYSTICK_ALERTS_SECRET"  # noqa: S105  its name, not its value
"""The secret that signs what a webhook gets."""
ALERT_PREFIX = "TALLYSTICK_ALERT_"
"""Values of an alert, in the environment of a command that it is handed to."""
_NOT_SHOWN = frozenset({"spark_properties", "kafka"})
"""Settings that are not shown where they are not fit: they may hold a secret."""
_FORMS = {
    "bootstrap_servers": "HOST:PORT, several with commas between them",
    "topic_prefix": "1 to 200 letters, digits, dots, underscores and hyphens",
    "spark_memory": "a number and m or g, as 2g",
    "page_url": "a URL with http or https, without a user",
}
"""What the settings with a pattern are, in words."""
_SECRET = re.compile("secret|password|token", re.IGNORECASE)

Origin = Literal["flag", "environment", "file", "default"]


class _File(InitSettingsSource):
    """``tallystick.toml``, with the table ``kafka`` as properties."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        # A link that leads nowhere, or a directory, is no file that nobody has written.
        found = read_toml(FILE) if os.path.lexists(FILE) else {}
        if "kafka" in found:
            found["kafka"] = from_file(found["kafka"], str(FILE))
        super().__init__(settings_cls, found)


class _Environment(EnvSettingsSource):
    """The environment, with the variables of properties put together."""

    def __call__(self) -> dict[str, Any]:
        found = dict(super().__call__())
        kafka = from_environment(os.environ)
        return {**found, "kafka": kafka} if kafka else found


class Settings(BaseSettings):
    """What the commands work with; each description is what ``tallystick config`` prints."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix=PREFIX)

    bootstrap_servers: Annotated[
        str, Field(pattern=r"^[^\s,:]+:\d+(,[^\s,:]+:\d+)*$", description="Kafka: host:port, …")
    ] = "127.0.0.1:19092"
    client: Annotated[
        ClientName, Field(description="the Kafka client; kafka-python where there is no other")
    ] = default_client()
    kafka: Annotated[
        dict[str, SecretStr],
        NoDecode,
        Field(description="properties of the Kafka clients (docs/kafka.md)"),
    ] = {}
    topic_prefix: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9._-]{1,200}$", description="topics are named PREFIX.journal, …"),
    ] = "tallystick"
    journal_partitions: Annotated[
        int, Field(ge=1, le=10_000, description="partitions of a journal topic that is made")
    ] = 4
    replication_factor: Annotated[
        int, Field(ge=1, le=100, description="replicas of a topic that is made")
    ] = 1
    directory: Annotated[
        GivenPath, Field(description="state of runs: broker, checkpoints, reports")
    ] = Path(".tallystick")
    instances: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(description="instances that must answer; no others are judged"),
    ] = ()
    collect_interval_s: Annotated[
        float, Field(ge=0.5, le=86_400, description="seconds between two collections")
    ] = 60.0
    collect_deadline_s: Annotated[
        float,
        Field(
            gt=0,
            le=86_400,
            description="seconds that a collection waits for answers, and then to be compared",
        ),
    ] = 30.0
    unanswered_max: Annotated[
        int, Field(ge=1, le=1_000, description="unanswered requests that make an instance silent")
    ] = 2
    unreadable_max: Annotated[
        int,
        Field(
            ge=0, le=1_000_000, description="unreadable messages in ten minutes that alert nobody"
        ),
    ] = 10
    disabled: Annotated[
        tuple[str, ...], NoDecode, Field(description="rules that are switched off")
    ] = ()
    keep_runs: Annotated[
        int, Field(ge=1, le=10_000, description="collections that Data Docs keep")
    ] = 20
    keep_details_days: Annotated[
        int,
        Field(ge=1, le=36_500, description="days that the tables keep each collection's own rows"),
    ] = 35
    keep_history_days: Annotated[
        int,
        Field(ge=1, le=36_500, description="days that the tables keep findings and sums of hours"),
    ] = 400
    report_collections: Annotated[
        int,
        Field(ge=1, le=100_000, description="newest collections that a report has in detail"),
    ] = 100
    spark_master: Annotated[str, Field(min_length=1, description="Spark's master URL")] = "local[2]"
    spark_memory: Annotated[
        str, Field(pattern=r"^[1-9]\d*[mg]$", description="heap of Spark's driver")
    ] = "2g"
    spark_properties: Annotated[
        dict[str, str],
        NoDecode,
        Field(description="more of Spark's own properties (docs/cluster.md)"),
    ] = {}
    spark_partitions: Annotated[
        int,
        Field(ge=1, le=10_000, description="parts of the audit's state; fixed by the first run"),
    ] = 1
    spark_checkpoint: Annotated[
        str | None,
        Field(description="URL of Spark's checkpoints, as hdfs://HOST:PORT/PATH; or in DIRECTORY"),
    ] = None
    serve_token_file: Annotated[
        GivenPath | None,
        Field(description="file with the token of the live page, for any address but loopback"),
    ] = None
    metrics_port: Annotated[
        int | None,
        Field(ge=1, le=65_535, description="port for a Prometheus scrape and for probes"),
    ] = None
    metrics_host: Annotated[
        str, Field(min_length=1, description="address that this port is opened on")
    ] = "127.0.0.1"
    alerts: Annotated[
        tuple[str, ...], NoDecode, Field(description="sinks of alerts: NAME or NAME=TARGET")
    ] = ()
    alerts_growth: Annotated[
        int, Field(ge=2, le=1_000, description="an incident that grew by this factor is alerted")
    ] = 10
    alerts_queue: Annotated[
        int, Field(ge=10, le=1_000_000, description="alerts that wait for one sink at most")
    ] = 10_000
    certificate_key_file: Annotated[
        GivenPath | None, Field(description="file with the key that signs certificates of backups")
    ] = None
    alerts_secret_file: Annotated[
        GivenPath | None, Field(description="file with the secret that signs what a webhook gets")
    ] = None
    page_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://[^\s@]+$", description="where the page is, for links to incidents"
        ),
    ] = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags over environment over file."""
        return init_settings, _Environment(settings_cls), _File(settings_cls)

    @field_serializer("alerts", when_used="json")
    def _without_secrets(self, texts: tuple[str, ...]) -> list[str]:
        """What is shown of sinks: the path of a URL is a secret at many services."""
        from tallystick.alerts.sinks import shown

        return [shown(text) for text in texts]

    @field_serializer("kafka", when_used="json")
    def _shown_properties(self, properties: dict[str, SecretStr]) -> dict[str, str]:
        """Values of properties that are known to be no secrets."""
        return {
            name: value.get_secret_value() if name in SHOWN else "***"
            for name, value in properties.items()
        }

    def stale_after_s(self, usual_s: float = 0.0) -> float:
        """Seconds after the newest collection from which on nothing is known of now.

        Args:
            usual_s: What has lain between two collections.
        """
        return 3 * max(self.collect_interval_s, usual_s) + self.collect_deadline_s

    @property
    def kafka_properties(self) -> dict[str, str]:
        """The properties of the Kafka clients with their values."""
        return {name: value.get_secret_value() for name, value in self.kafka.items()}

    @field_validator("kafka", mode="before")
    @classmethod
    def _readable(cls, value: Any) -> Any:
        """With what the files of secrets hold, and refused before anything connects."""
        if isinstance(value, str):
            message = f"expected a variable {VARIABLES}… for each property (docs/kafka.md)"
            raise ValueError(message)  # noqa: TRY004  pydantic takes it for what is not fit
        return readable(value)

    @field_validator("instances", "disabled", "alerts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """The environment has a list as text with commas."""
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("spark_properties", mode="before")
    @classmethod
    def _properties(cls, value: Any) -> Any:
        """The environment has them as a JSON object."""
        if isinstance(value, str):
            try:
                return json.loads(value)
            except ValueError as error:
                raise ValueError(f"is no JSON object: {error}") from None
        return value

    @field_validator("spark_properties")
    @classmethod
    def _fit_properties(cls, properties: dict[str, str]) -> dict[str, str]:
        """They are handed to Spark as arguments, which every user of the machine can read."""
        for name in properties:
            if not name.startswith("spark."):
                raise ValueError(f"{name!r} is no property of Spark: those begin with 'spark.'")
            if _SECRET.search(name):
                raise ValueError(f"{name!r} is a secret, which is no setting: docs/cluster.md")
        return properties

    @field_validator("spark_checkpoint")
    @classmethod
    def _url_of_a_folder(cls, url: str | None) -> str | None:
        """Of a folder of its own, with nothing that a path would not keep."""
        if url is None or re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#]*(/[^\s/?#]+)+/?", url):
            return url and url.rstrip("/")
        raise ValueError("is no URL of a folder: expected SCHEME://HOST:PORT/PATH or file:///PATH")

    @field_validator("instances")
    @classmethod
    def _fit_instances(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        """One that no instance can have would be waited for at each collection."""
        try:
            require_fit(names)
        except MisuseError as error:
            raise ValueError(str(error)) from None
        return names

    @field_validator("disabled")
    @classmethod
    def _known_rules(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        from tallystick.coordinates.rules.catalogue import RULES

        try:
            for name in names:
                require_known("rule", name, RULES)
        except MisuseError as error:
            raise ValueError(str(error)) from None
        return names


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings with where each value comes from."""

    settings: Settings
    origins: Mapping[str, Origin]


def load(flags: Mapping[str, Any] | None = None) -> Loaded:
    """Read every source and validate the result.

    Args:
        flags: Values of flags; None, or an empty list, means that a flag was not set.

    Raises:
        MisuseError: A source names something that is no setting, or has an unfit value for it.
    """
    set_flags = {
        name: value for name, value in (flags or {}).items() if value not in (None, [], ())
    }
    _refuse_unknown_variables()
    origins: dict[str, Origin] = dict.fromkeys(Settings.model_fields, "default")
    origins.update(dict.fromkeys(_from_file(), "file"))
    origins.update(dict.fromkeys(_Environment(Settings)(), "environment"))
    origins.update(dict.fromkeys(set_flags, "flag"))
    try:
        return Loaded(Settings(**set_flags), origins)
    except ValidationError as error:
        raise MisuseError(_sentence(error, origins)) from None


def _refuse_unknown_variables() -> None:
    for variable in os.environ:
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable in (PASSWORD_VARIABLE, ALERTS_SECRET, RELAY_LOG_TOKEN_VARIABLE):
            continue
        if variable.startswith((f"{PASSWORD_VARIABLE}_", ALERT_PREFIX, VARIABLES, SPARK_VARIABLES)):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in Settings.model_fields:
            # Its value may be a secret that was meant for somebody else: it is not shown.
            raise MisuseError(
                f"The environment variable {variable} is no setting"
                f"{suggestion(name, Settings.model_fields)}"
            )


def _from_file() -> dict[str, Any]:
    try:
        found = _File(Settings)()
    except OSError as error:
        raise MisuseError(f"{str(FILE)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise MisuseError(f"{str(FILE)!r} is no TOML: {error}") from None
    for name in found:
        if name not in Settings.model_fields:
            raise MisuseError(
                f"{str(FILE)!r}: {name!r} is no setting{suggestion(name, Settings.model_fields)}"
            )
    return found


def _sentence(error: ValidationError, origins: Mapping[str, Origin]) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0])
    origin = origins[name]
    where = {
        "flag": flag_name(name),
        "environment": PREFIX + name.upper(),
        "file": f"{str(FILE)!r}, {name}",
        "default": name,
    }[origin]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_pattern_mismatch":
        message = f"expected {_FORMS[name]}"
    elif first["type"] == "path_type":
        message = "expected a path"
    given = first["input"]
    found = ", ".join(map(str, given)) if isinstance(given, list | tuple) else str(given)
    # Of an address with a user a password may be part; of a list the name that is unfit is said.
    is_said = first["type"] == "value_error" and isinstance(given, list | tuple)
    is_hidden = "@" in found or name in _NOT_SHOWN
    shown = "" if is_said or is_hidden else f", found {found[:80]!r}"
    return f"{where}: {message[:1].lower()}{message[1:]}{shown}"


def flag_name(name: str) -> str:
    """The flag of a setting: a list's flag is repeated for each value."""
    return "--" + {"instances": "instance", "disabled": "disable", "alerts": "alert"}.get(
        name, name
    ).replace("_", "-")
