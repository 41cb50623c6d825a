"""Properties of Kafka's clients as options of Spark's: each mapped or refused, no secret in one."""

from __future__ import annotations

import os

import pytest

from tallystick.streaming import session
from tallystick.streaming.errors import KafkaOptionError
from tallystick.streaming.kafka_options import jaas_config, kafka_options

PLAIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "hunter2",
}
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "hunter2",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens/x",
}
LOGIN = "org.apache.kafka.common.security"


def test_secrets_are_in_the_environment_and_options_name_them(tmp_path):
    """So no plan has one; the provider may read these variables only."""
    (tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----\nhunter3\n")
    (tmp_path / "me.pem").write_text("a certificate\n")
    made = kafka_options(
        {
            **PLAIN,
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.key.location": str(tmp_path / "key.pem"),
            "ssl.certificate.location": str(tmp_path / "me.pem"),
            "ssl.key.password": "hunter4",
        }
    )
    assert "hunter" not in repr(made.options)
    environment = dict(made.environment)
    assert environment == {
        "TALLYSTICK_SPARK_KAFKA_SASL_JAAS_CONFIG": (
            f'{LOGIN}.plain.PlainLoginModule required username="me" password="hunter2";'
        ),
        "TALLYSTICK_SPARK_KAFKA_SSL_KEYSTORE_KEY": "-----BEGIN PRIVATE KEY-----\nhunter3\n",
        "TALLYSTICK_SPARK_KAFKA_SSL_KEYSTORE_CERTIFICATE_CHAIN": "a certificate\n",
        "TALLYSTICK_SPARK_KAFKA_SSL_KEY_PASSWORD": "hunter4",
    }
    options = made.options
    assert "SASL_SSL" == options["kafka.security.protocol"]
    assert str(tmp_path / "ca.pem") == options["kafka.ssl.truststore.location"]
    assert "https" == options["kafka.ssl.endpoint.identification.algorithm"]
    assert "PEM" == options["kafka.ssl.truststore.type"] == options["kafka.ssl.keystore.type"]
    assert "${env:TALLYSTICK_SPARK_KAFKA_SASL_JAAS_CONFIG}" == options["kafka.sasl.jaas.config"]
    assert (
        "TALLYSTICK_SPARK_KAFKA_.*" == options["kafka.config.providers.env.param.allowlist.pattern"]
    )


def test_without_properties_nothing_is_set():
    """A broker in the clear is spoken to as before."""
    made = kafka_options({})
    assert ({}, {}) == (made.options, made.environment)


@pytest.mark.parametrize(
    ("password", "written"),
    [
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ('\\"', r'"\\\""'),
        ("a;b=c required", '"a;b=c required"'),
        ("a\nb", r'"a\nb"'),
        ("päß ${env:HOME}", '"päß ${env:HOME}"'),
    ],
)
def test_a_password_stays_one_value_of_the_login(password, written):
    """Whatever is in it."""
    login = jaas_config({**PLAIN, "sasl.password": password})
    assert login.endswith(f" password={written};")


def test_names_and_the_host_check_are_mapped():
    """``none`` is Java's empty text."""
    options = kafka_options(
        {
            "security.protocol": "SSL",
            "ssl.endpoint.identification.algorithm": "none",
            "socket.send.buffer.bytes": "65536",
            "reconnect.backoff.ms": "100",
        }
    ).options
    assert "" == options["kafka.ssl.endpoint.identification.algorithm"]
    assert "65536" == options["kafka.send.buffer.bytes"]
    assert "100" == options["kafka.reconnect.backoff.ms"]


def test_tokens_are_fetched_by_javas_client():
    """With the client's id, secret and scope in the login."""
    made = kafka_options({**TOKENS, "sasl.oauthbearer.scope": "kafka"})
    assert "https://tokens/x" == made.options["kafka.sasl.oauthbearer.token.endpoint.url"]
    assert made.options["kafka.sasl.login.callback.handler.class"].endswith(
        ".OAuthBearerLoginCallbackHandler"
    )
    assert made.environment["TALLYSTICK_SPARK_KAFKA_SASL_JAAS_CONFIG"] == (
        f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required"
        ' clientId="me" clientSecret="hunter2" scope="kafka";'
    )


def test_tokens_without_a_scope_and_from_a_server_of_an_authority_of_ones_own():
    """Extensions are pairs; what has no value is none."""
    more = {"https.ca.location": "ca.pem", "sasl.oauthbearer.extensions": "a=1,b=c=d,none"}
    assert jaas_config(TOKENS | more) == (
        f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required"
        ' clientId="me" clientSecret="hunter2"'
        ' ssl.truststore.type="PEM" ssl.truststore.location="ca.pem"'
        ' extension_a="1" extension_b="c=d";'
    )


def test_certificates_may_be_values_and_a_key_without_a_password(tmp_path, monkeypatch):
    """A file is named from the root: Spark's JVM has a working directory of its own."""
    key = "-----BEGIN PRIVATE KEY-----\nhunter3\n"
    own = {"ssl.certificate.pem": "a certificate", "ssl.key.pem": key}
    made = kafka_options({"security.protocol": "SSL", "ssl.ca.pem": "an authority", **own})
    assert "PEM" == made.options["kafka.ssl.truststore.type"]
    assert "an authority" == made.options["kafka.ssl.truststore.certificates"]
    assert {
        "TALLYSTICK_SPARK_KAFKA_SSL_KEYSTORE_KEY": key,
        "TALLYSTICK_SPARK_KAFKA_SSL_KEYSTORE_CERTIFICATE_CHAIN": "a certificate",
    } == dict(made.environment)
    monkeypatch.chdir(tmp_path)
    made = kafka_options({"security.protocol": "SSL", "ssl.ca.location": "ca.pem"})
    assert str(tmp_path / "ca.pem") == made.options["kafka.ssl.truststore.location"]
    assert {} == made.environment
    assert "kafka.ssl.keystore.type" not in made.options
    assert "kafka.config.providers" not in made.options
    with pytest.raises(KafkaOptionError, match="takes a file of PEM only"):
        kafka_options({"security.protocol": "SSL", "ssl.ca.location": str(tmp_path)})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"socket.nagle.disable": "true"},
            "socket.nagle.disable: Spark's Kafka client has nothing",
        ),
        ({**PLAIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism: expected one of PLAIN, SCRAM"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: expected one of"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "sasl.username: PLAIN needs",
        ),
        ({**TOKENS, "sasl.oauthbearer.method": "default"}, "expected oidc"),
        (
            {"security.protocol": "SSL", "ssl.certificate.pem": "x", "ssl.key.pem": "BEGIN RSA"},
            "PKCS #8 only",
        ),
        (
            {"security.protocol": "SSL", "ssl.key.location": "/nowhere"},
            "ssl.key.location: '/nowhere' cannot be read",
        ),
        (
            {"security.protocol": "SSL", "ssl.certificate.location": "/dev/zero"},
            "ssl.certificate.location: '/dev/zero' cannot be read: it is longer than 8 MiB",
        ),
        *(
            ({name: value for name, value in TOKENS.items() if not name.endswith(left)}, said)
            for left, said in (
                ("client.id", "sasl.oauthbearer.client.id: OAUTHBEARER needs it"),
                ("client.secret", "sasl.oauthbearer.client.secret: OAUTHBEARER needs it"),
                ("endpoint.url", "sasl.oauthbearer.token.endpoint.url: OAUTHBEARER needs it"),
                (".method", "sasl.oauthbearer.method: expected oidc"),
            )
        ),
    ],
)
def test_what_cannot_be_mapped_is_one_sentence(given, said):
    """Before Spark is started."""
    with pytest.raises(KafkaOptionError, match=said):
        kafka_options(given)


def test_variables_are_there_while_the_program_is_started(monkeypatch):
    """What is started afterwards does not get them; what was there is there again."""
    monkeypatch.setenv("LC_ALL", "C")
    with session._variables({"TALLYSTICK_SPARK_KAFKA_X": "hunter2"}):
        assert "hunter2" == os.environ["TALLYSTICK_SPARK_KAFKA_X"]
        assert "C.UTF-8" == os.environ["LC_ALL"]
    assert "TALLYSTICK_SPARK_KAFKA_X" not in os.environ
    assert "C" == os.environ["LC_ALL"]
