"""Properties of Kafka's clients: where they come from, what is refused, what is never shown."""

from __future__ import annotations

import pytest

from tallystick.producers.kafka_clients.errors import KafkaPropertyError
from tallystick.producers.kafka_clients.properties import checked, without_secrets
from tallystick.settings import FILE, load

SECRET = "hunter2 is secret"
SASL = {"SECURITY_PROTOCOL": "sasl_ssl", "SASL_MECHANISM": "PLAIN", "SASL_USERNAME": "me"}


@pytest.fixture
def variables(monkeypatch, tmp_path):
    """Set variables of properties, by the end of their names, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def set_all(values):
        for name, value in values.items():
            monkeypatch.setenv(f"TALLYSTICK_KAFKA_{name}", value)

    return set_all


def test_a_variable_is_a_property_of_librdkafka(variables):
    """Its underscores are the dots of the name; protocol and mechanism get Kafka's spelling."""
    variables({**SASL, "SASL_PASSWORD": SECRET, "RECONNECT_BACKOFF_MAX_MS": "500"})
    assert {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": SECRET,
        "reconnect.backoff.max.ms": "500",
    } == load().settings.kafka_properties
    assert "environment" == load().origins["kafka"]


def test_a_table_of_the_file_has_them_too_and_the_environment_goes_over_it(variables):
    """With librdkafka's names, whose dots make tables in TOML."""
    FILE.write_text(
        '[kafka]\nsecurity.protocol = "SSL"\nretry.backoff.ms = 50\nretry.backoff.max.ms = 90\n'
        '"ssl.ca.location" = "a.pem"\nsocket.keepalive.enable = true\n'
    )
    variables({"SSL_CA_LOCATION": "b.pem"})
    assert {
        "security.protocol": "SSL",
        "retry.backoff.ms": "50",
        "retry.backoff.max.ms": "90",
        "ssl.ca.location": "b.pem",
        "socket.keepalive.enable": "true",
    } == load().settings.kafka_properties


def test_a_secret_comes_from_a_file_that_others_cannot_read(tallystick, variables, tmp_path):
    """The line break that ends it is not part of it."""
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o644)
    variables({**SASL, "SASL_PASSWORD_FILE": str(file)})
    refused = tallystick("config")
    assert 2 == refused.code
    assert "sasl.password.file: " in refused.err
    assert "open to others (mode 0644)" in refused.err
    file.chmod(0o600)
    assert SECRET == load().settings.kafka_properties["sasl.password"]
    variables({"SASL_PASSWORD": SECRET})
    assert "sasl.password.file: sasl.password is set too" in tallystick("config").err


def test_no_secret_is_a_value_of_the_file_of_settings(tallystick):
    """It names what to do instead, and not the value."""
    FILE.write_text(f'[kafka]\nsasl.password = "{SECRET}"\n')
    refused = tallystick("config")
    assert (2, "") == (refused.code, refused.out)
    assert "set TALLYSTICK_KAFKA_SASL_PASSWORD, or sasl.password.file" in refused.err
    assert SECRET not in refused.err


def test_what_is_shown_of_them_is_no_secret(tallystick, variables):
    """Nor a value of a property that nobody knows."""
    variables({**SASL, "SASL_PASSWORD": SECRET, "SSL_NEW_PASSPHRASE": "open sesame"})
    for arguments in (("config",), ("config", "--json")):
        shown = tallystick(*arguments)
        assert 0 == shown.code
        assert "sasl.password" in shown.out
        assert SECRET not in shown.out + shown.err
        assert "sesame" not in shown.out + shown.err
    assert SECRET not in repr(load().settings)
    assert "sesame" not in repr(load().settings)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"acks": "1"}, "acks: tallystick sets it"),
        ({"bootstrap.servers": "a:1"}, "bootstrap.servers: it is the setting bootstrap_servers"),
        ({"security.protocol": "TLS"}, "security.protocol: expected one of PLAINTEXT, SSL"),
        ({"sasl.username": "a"}, "no effect with security.protocol PLAINTEXT"),
        (
            {"security.protocol": "SSL", "sasl.username": "a"},
            "no effect with security.protocol SSL",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "ssl.ca.pem": "a"},
            "ssl.ca.pem: it has no effect",
        ),
        ({"ssl.keystore.location": "a.p12"}, "name PEM files in ssl.certificate.location"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, said):
    """Above all what would be sent in the clear because a property was forgotten."""
    with pytest.raises(KafkaPropertyError, match=said):
        checked(given)


def test_a_secret_is_taken_out_of_a_text_of_a_library():
    """What is known to be no secret stays."""
    properties = {"sasl.password": SECRET, "sasl.username": "tallystick"}
    assert "*** of tallystick" == without_secrets(f"{SECRET} of tallystick", properties)
