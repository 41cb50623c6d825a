"""Whom a client trusts and who it says it is: TLS, SASL and tokens, without a broker."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tallystick.deploy.certificates import Authority
from tallystick.producers.kafka_clients import handshake, oauth
from tallystick.producers.kafka_clients.errors import BrokerRefusesError, KafkaPropertyError
from tallystick.producers.kafka_clients.handshake import require_accepted
from tallystick.producers.kafka_clients.kafka_python_arguments import kafka_python_arguments
from tallystick.producers.kafka_clients.oauth import ClientCredentials
from tallystick.producers.kafka_clients.tls import tls_context
from tallystick.producers.secret_file import BYTES_MAX, read_secret_file
from tests.support.token_servers import CLIENT, SECRET, TokenServer

HOST = "broker.example"
NOW = datetime.now(timezone.utc)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("ours")


@pytest.fixture
def files(authority, tmp_path):
    """Files by name: certificates and keys of both sides, and what is no good of them."""
    broker, client = authority.sign("broker", (HOST, "127.0.0.1")), authority.sign("me")
    key = load_pem_private_key(client.key, None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pass"))
    content = {
        "ours.pem": authority.certificate,
        "others.pem": Authority("others").certificate,
        "broker.pem": broker.certificate,
        "broker.key": broker.key,
        "me.pem": client.certificate,
        "me.key": client.key,
        "locked.key": locked,
        "open.key": client.key,
        "nothing revoked": revoked(authority),
        "revoked": revoked(authority, broker.certificate),
        "binary": b"\xff\xfe",
        "no pem": b"text",
    }
    for name, data in content.items():
        path = tmp_path / name
        path.write_bytes(data)
        path.chmod(0o644 if name == "open.key" else 0o600)
    (tmp_path / "folder").mkdir()
    return tmp_path


def revoked(authority: Authority, *certificates: bytes) -> bytes:
    """A list of revoked certificates, as PEM."""
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority._name)
    builder = builder.last_update(NOW - timedelta(days=1)).next_update(NOW + timedelta(days=1))
    for one in map(x509.load_pem_x509_certificate, certificates):
        entry = x509.RevokedCertificateBuilder().serial_number(one.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(NOW).build())
    return builder.sign(authority._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def filled(properties: dict[str, str], files: Path) -> dict[str, str]:
    """Of a location the file's path, of ``….pem`` its content."""
    return {
        name: str(files / value)
        if name.endswith(".location")
        else (files / value).read_text()
        if name.endswith(".pem")
        else value
        for name, value in properties.items()
    }


def broker_context(files: Path, *, asks: bool = False) -> ssl.SSLContext:
    """A broker's side; it may ask for a client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "broker.pem", files / "broker.key")
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files / "ours.pem")
    return context


def speak(client: ssl.SSLContext, broker: ssl.SSLContext, host: str) -> None:
    """A handshake in memory: raises what either side does."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(back, there, server_hostname=host),
        broker.wrap_bio(there, back, server_side=True),
    ]
    while sides:
        for side in tuple(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                pass


OURS = {"ssl.ca.location": "ours.pem"}
NONE = {"ssl.endpoint.identification.algorithm": "none"}
UNCHECKED = {"enable.ssl.certificate.verification": "false"}


@pytest.mark.parametrize(
    ("properties", "host", "problem"),
    [
        (OURS, HOST, None),
        ({"ssl.ca.pem": "ours.pem"}, HOST, None),
        (OURS, "127.0.0.1", None),
        (OURS, "another.example", "Hostname mismatch"),
        (OURS | {"ssl.endpoint.identification.algorithm": "https"}, "another.example", "mismatch"),
        (OURS | NONE, "another.example", None),
        ({"ssl.ca.location": "others.pem"}, HOST, "unable to get local issuer"),
        ({"ssl.ca.location": "others.pem"} | NONE, HOST, "unable to get local issuer"),
        ({"ssl.ca.pem": "others.pem", "ssl.ca.location": "ours.pem"}, HOST, "local issuer"),
        ({"ssl.ca.location": "folder"}, HOST, "unable to get local issuer"),
        ({}, HOST, "unable to get local issuer"),
        (UNCHECKED, "another.example", None),
        ({"enable.ssl.certificate.verification": "true"}, HOST, "unable to get local issuer"),
        (OURS | {"ssl.crl.location": "nothing revoked"}, HOST, None),
        (OURS | {"ssl.crl.location": "revoked"}, HOST, "certificate revoked"),
    ],
)
def test_a_broker_is_trusted_by_the_properties_and_not_by_less(files, properties, host, problem):
    """Its authority, its name, and whether its certificate was revoked."""
    context = tls_context(filled(properties, files))
    if problem is None:
        speak(context, broker_context(files), host)
    else:
        with pytest.raises(ssl.SSLCertVerificationError, match=problem):
            speak(context, broker_context(files), host)


def test_without_an_authority_those_of_the_machine_are_trusted(files, monkeypatch):
    """As OpenSSL finds them."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files / "ours.pem"))
    speak(tls_context({}), broker_context(files), HOST)


OWN = {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.key"}


@pytest.mark.parametrize(
    ("own", "is_let_in"),
    [
        ({}, False),
        (OWN, True),
        ({"ssl.certificate.pem": "me.pem", "ssl.key.pem": "me.key"}, True),
        (OWN | {"ssl.key.location": "locked.key", "ssl.key.password": "pass"}, True),
    ],
)
def test_a_client_shows_its_certificate(files, own, is_let_in):
    """From files, from values, with a password; nothing of them stays open."""
    opened = set(Path("/proc/self/fd").iterdir())
    context = tls_context(filled(OURS | own, files))
    assert opened == set(Path("/proc/self/fd").iterdir())
    broker = broker_context(files, asks=True)
    if is_let_in:
        speak(context, broker, HOST)
    else:
        with pytest.raises(ssl.SSLError, match="did not return a certificate"):
            speak(context, broker, HOST)


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"ssl.ca.location": "missing"}, r"ssl.ca.location: '.*missing' cannot be read: No such"),
        ({"ssl.ca.location": "no pem"}, "ssl.ca.location: expected certificates as PEM"),
        ({"ssl.ca.pem": "no pem"}, "ssl.ca.pem: expected certificates as PEM"),
        ({"ssl.crl.location": "missing"}, r"ssl.crl.location: '.*missing' cannot be read"),
        ({"ssl.crl.location": "no pem"}, "ssl.crl.location: expected certificates as PEM"),
        ({"ssl.certificate.location": "me.pem"}, "ssl.key: a client's certificate and its key are"),
        ({"ssl.key.location": "me.key"}, "ssl.certificate: a client's certificate and its key are"),
        (
            OWN | {"ssl.certificate.location": "missing"},
            r"ssl.certificate.location: .*No such file",
        ),
        (
            OWN | {"ssl.certificate.location": "/dev/zero"},
            r"ssl.certificate.location: '/dev/zero' cannot be read: it is longer than 8 MiB",
        ),
        (OWN | {"ssl.certificate.location": "binary"}, "cannot be read: it is no text"),
        (OWN | {"ssl.key.location": "open.key"}, r"ssl.key.location: .*open to others \(mode 0644"),
        (OWN | {"ssl.key.location": "broker.key"}, r"ssl.key: .*\(key values mismatch\)"),
        (OWN | {"ssl.key.location": "locked.key"}, "ssl.key: it is no PEM key of the certificate"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_of_its_property(files, properties, said):
    """No value of it is shown."""
    with pytest.raises(KafkaPropertyError, match=said):
        tls_context(filled(properties, files))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.chmod(0o604), "open to others .mode 0604"),
        (lambda path: path.chmod(0o602), "open to others .mode 0602"),
        (lambda path: path.chmod(0o601), "open to others .mode 0601"),
        (lambda path: path.chmod(0o620), "open to others .mode 0620"),
        (lambda path: path.write_bytes(b"a" * (BYTES_MAX + 1)), "longer than a secret can be"),
        (lambda path: path.write_bytes(b"\xff"), "is no UTF-8"),
        (lambda path: path.unlink(), "cannot be read: No such file"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "expected a regular file"),
    ],
)
def test_a_secret_is_read_from_a_file_of_ones_own_only(tmp_path, change, said):
    """The group may read it, and nobody else."""
    path = tmp_path / "secret"
    path.write_bytes(b"a" * BYTES_MAX)
    path.chmod(0o640)
    assert "a" * BYTES_MAX == read_secret_file(path, ValueError)
    change(path)
    with pytest.raises(ValueError, match=said):
        read_secret_file(path, ValueError)


# A broker's answers: length, correlation id, body.


def frame(body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), 1) + body


VERSIONS = frame(b"\0\0" + bytes(4))
PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "secret",
}
TAKEN = frame(struct.pack(">hi", 0, 1) + b"\0\5PLAIN")
"""SaslHandshake, version 1: no error, the mechanisms."""
ACCEPTED = frame(struct.pack(">hhiq", 0, -1, 0, 0))
"""SaslAuthenticate, version 0: no error, no message, no bytes."""


@contextmanager
def answering(*answers: bytes, context: ssl.SSLContext | None = None):
    """A broker on loopback: each request is kept and gets the next answer, then it is over."""
    heard: list[bytes] = []

    def answer() -> None:
        connection, _ = server.accept()
        with closing(connection):
            try:
                stream = (
                    connection
                    if context is None
                    else context.wrap_socket(connection, server_side=True)
                )
                for one in answers:
                    heard.append(stream.recv(65_536))
                    stream.sendall(one)
                connection.shutdown(socket.SHUT_WR)
                while stream.recv(65_536):
                    pass
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1], heard
        thread.join()


def request(key: int, version: int, body: bytes) -> bytes:
    """As Kafka's protocol has it: size, key, version, correlation id, client id, body."""
    head = struct.pack(">hhih", key, version, 1, 10) + b"tallystick"
    return struct.pack(">i", len(head) + len(body)) + head + body


@pytest.mark.parametrize(
    ("answers", "properties", "requests"),
    [
        ([VERSIONS], {}, [request(18, 0, b"")]),
        ([frame(b"")], {}, [request(18, 0, b"")]),
        ([struct.pack(">ii", 1_000_000, 1) + bytes(999_996)], {}, [request(18, 0, b"")]),
        (
            [VERSIONS, TAKEN, ACCEPTED],
            PLAIN,
            [
                request(18, 0, b""),
                request(17, 1, b"\0\5PLAIN"),
                request(36, 0, b"\0\0\0\x0cme\0me\0secret"),
            ],
        ),
        # What kafka-python does not have is librdkafka's affair.
        ([VERSIONS], PLAIN | {"sasl.mechanism": "GSSAPI"}, [request(18, 0, b"")]),
    ],
)
def test_a_broker_that_answers_lets_this_client_in(answers, properties, requests):
    """Nothing is sent but what is needed for that."""
    with answering(*answers) as (port, heard):
        require_accepted("127.0.0.1", port, properties, 10.0)
    assert requests == heard


@pytest.mark.parametrize(
    ("answers", "properties", "said"),
    [
        ([b"\x15\x03\x01\0\2\2\x46" + bytes(8)], {}, "it speaks TLS at this port"),
        ([b"\x15\x03"], {}, "it speaks TLS at this port"),
        ([b""], {}, "it ends the connection without an answer"),
        ([VERSIONS[:7]], {}, "it ends the connection without an answer"),
        ([b"HTTP/1.1 400 Bad Request"], {}, "what answers there is no Kafka broker"),
        ([struct.pack(">ii", 3, 1)], {}, "what answers there is no Kafka broker"),
        ([struct.pack(">ii", 1_000_001, 1)], {}, "what answers there is no Kafka broker"),
        (
            [VERSIONS, frame(struct.pack(">hi", 33, 0))],
            PLAIN,
            "it does not take PLAIN. To fix: set sasl.mechanism",
        ),
        (
            [VERSIONS, TAKEN, frame(struct.pack(">hh", 58, 5) + b"wrong" + bytes(12))],
            PLAIN,
            r"it does not accept this user \(wrong\). To fix: set its name and password",
        ),
        (
            [VERSIONS, TAKEN, frame(struct.pack(">hh", 58, -1) + bytes(12))],
            PLAIN,
            r"it does not accept this user \(\)",
        ),
    ],
)
def test_a_broker_that_does_not_let_this_client_in_is_one_sentence(answers, properties, said):
    with (
        answering(*answers) as (port, _),
        pytest.raises(BrokerRefusesError, match=f"'127.0.0.1:{port}'.*{said}"),
    ):
        require_accepted("127.0.0.1", port, properties, 10.0)


@pytest.mark.parametrize(
    ("signed", "properties", "said"),
    [
        ({}, {}, None),
        ({}, PLAIN, None),
        ({"ends": NOW - timedelta(days=1)}, {}, "its certificate has expired"),
        ({"hosts": (HOST,)}, {}, "its certificate is not for the host name '127.0.0.1'"),
        ({}, {"ssl.ca.location": "others.pem"}, "not signed by an authority that is trusted here"),
        ({}, {"ssl.crl.location": "revoked"}, "certificate is not accepted .certificate revoked"),
    ],
)
def test_what_is_wrong_with_a_brokers_certificate_is_named(
    authority, files, signed, properties, said
):
    """By the same properties that its clients get."""
    made = authority.sign("broker", signed.get("hosts", ("127.0.0.1",)), signed.get("ends"))
    (files / "broker.pem").write_bytes(made.certificate)
    (files / "broker.key").write_bytes(made.key)
    (files / "revoked").write_bytes(revoked(authority, made.certificate))
    answers = [VERSIONS, TAKEN, ACCEPTED] if properties == PLAIN else [VERSIONS]
    protocol = {"security.protocol": "SASL_SSL" if properties == PLAIN else "SSL"}
    given = filled(OURS | properties | protocol, files)
    with answering(*answers, context=broker_context(files)) as (port, _):
        if said is None:
            require_accepted("127.0.0.1", port, given, 10.0)
        else:
            with pytest.raises(BrokerRefusesError, match=said):
                require_accepted("127.0.0.1", port, given, 10.0)


def test_a_broker_without_tls_at_the_port_is_named(files):
    """It takes the first bytes of TLS for a request, and what it answers is no TLS."""
    given = filled(OURS | {"security.protocol": "SSL"}, files)
    with (
        answering(VERSIONS) as (port, _),
        pytest.raises(BrokerRefusesError, match="it does not speak TLS at this port"),
    ):
        require_accepted("127.0.0.1", port, given, 10.0)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "it does not accept this client's certificate"),
        ("TLSV1_ALERT_UNKNOWN_CA", "it does not accept this client's certificate"),
        ("CERTIFICATE_VERIFY_FAILED", "TLS fails (certificate verify failed)"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "TLS fails (tlsv1 alert protocol version)"),
        ("WRONG_VERSION_NUMBER", "it does not speak TLS at this port"),
        ("RECORD_LAYER_FAILURE", "it does not speak TLS at this port"),
        (None, "TLS fails (no reason)"),
    ],
)
def test_openssls_reasons_why_a_handshake_fails(reason, said):
    """What a broker sends as an alert is of this client's certificate."""
    error = ssl.SSLError(1, "no reason")
    error.reason = reason
    cause, _ = handshake._failed(error)
    assert cause.startswith(said)


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([10], "its certificate has expired"),
        ([9], "its certificate is not valid yet"),
        ([62, 64], "its certificate is not for the host name 'h'"),
        ([2, 18, 19, 20, 21], "its certificate is not signed by an authority"),
        ([1, 3, 8, 11, 17, 22, 23, 61, 63, 65], "its certificate is not accepted (why)"),
    ],
)
def test_openssls_codes_of_a_certificate(codes, said):
    """X509_V_ERR_…, as the manual of X509_STORE_CTX_get_error has them."""
    for code in codes:
        error = ssl.SSLCertVerificationError()
        error.verify_code, error.verify_message = code, "why"
        cause, _ = handshake._untrusted(error, "h")
        assert cause.startswith(said)


@pytest.fixture(scope="module")
def tokens():
    with TokenServer().listening() as server:
        yield server


def credentials(server: TokenServer, **more: str) -> dict[str, str]:
    given = {
        "method": "OIDC",
        "token.endpoint.url": server.url,
        "client.id": CLIENT,
        "client.secret": SECRET,
        **more,
    }
    return {f"sasl.oauthbearer.{name}": value for name, value in given.items()}


def test_a_token_is_kept_for_four_fifths_of_its_time(tokens, monkeypatch):
    """Of ten minutes: a broker asks for it with each connection."""
    now = 1_000.0
    monkeypatch.setattr(oauth.time, "monotonic", lambda: now)
    provider = ClientCredentials(credentials(tokens, scope="read write"))
    asked = len(tokens.forms)
    first = provider.token()
    assert b"grant_type=client_credentials&scope=read+write" == tokens.forms[-1]
    now += 479
    assert first == provider.token()
    assert asked + 1 == len(tokens.forms)
    now += 1
    assert 3 == provider.token().count(".") + 1
    assert asked + 2 == len(tokens.forms)
    ClientCredentials(credentials(tokens)).token()
    assert b"grant_type=client_credentials" == tokens.forms[-1]


def test_a_token_without_a_lifetime_is_used_once():
    """RFC 6749 recommends ``expires_in``, and does not require it."""
    with TokenServer().listening() as server:
        server.says_lifetime = False
        provider = ClientCredentials(credentials(server))
        for number in (1, 2):
            assert 3 == provider.token().count(".") + 1
            assert number == len(server.forms)


def test_a_server_of_tokens_is_trusted_by_its_authority(files):
    """The one that is named, in place of those of the machine."""
    with TokenServer().listening(broker_context(files)) as server:
        given = credentials(server)
        trusting = given | {"https.ca.location": str(files / "ours.pem")}
        assert 3 == ClientCredentials(trusting).token().count(".") + 1
        for name in ({}, {"https.ca.location": str(files / "others.pem")}):
            with pytest.raises(KafkaPropertyError, match=r"comes from there: .*CERTIFICATE_VERIFY"):
                ClientCredentials(given | name).token()
        assert 1 == len(server.forms)


def test_extensions_are_pairs():
    """As librdkafka has them: what has no name is none; a value may have an equals sign."""
    given = credentials(TokenServer(), extensions="a=1,b=c=d,none")
    assert {"a": "1", "b": "c=d"} == ClientCredentials(given).extensions()
    assert {} == ClientCredentials(credentials(TokenServer())).extensions()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"method": "default"}, "sasl.oauthbearer.method: expected oidc"),
        ({"token.endpoint.url": "file:///etc/passwd"}, "token.endpoint.url: expected https://"),
        ({"client.secret": "another"}, "no token comes from there: Unauthorized"),
        ({"token.endpoint.url": "http://127.0.0.1:9/"}, "no token comes from there: .*refused"),
    ],
)
def test_why_there_is_no_token_is_one_sentence(tokens, more, said):
    """Without the secret."""
    with pytest.raises(KafkaPropertyError, match=said) as caught:
        ClientCredentials(credentials(tokens, **more)).token()
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["token.endpoint.url", "client.id", "client.secret", "method"])
def test_what_is_needed_for_a_token_is_named(tokens, name):
    given = credentials(tokens)
    del given[f"sasl.oauthbearer.{name}"]
    with pytest.raises(KafkaPropertyError, match=f"sasl.oauthbearer.{name}: "):
        ClientCredentials(given)


def test_properties_are_arguments_of_kafka_python(files):
    """Under its names; what a context of TLS has is in the context."""
    assert {} == kafka_python_arguments({})
    given = {"client.id": "x", "reconnect.backoff.ms": "50", "socket.send.buffer.bytes": "7"}
    assert {
        "client_id": "x",
        "reconnect_backoff_ms": 50,
        "send_buffer_bytes": 7,
    } == kafka_python_arguments(given)
    assert {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
    } == kafka_python_arguments(PLAIN)
    made = kafka_python_arguments(filled(OURS | NONE | {"security.protocol": "SSL"}, files))
    assert {"security_protocol", "ssl_context"} == made.keys()
    speak(made["ssl_context"], broker_context(files), "another.example")


def test_tokens_are_an_argument_of_kafka_python(tokens):
    """The properties of tokens belong to their mechanism."""
    by_tokens = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    made = kafka_python_arguments(by_tokens | credentials(tokens))
    assert 3 == made["sasl_oauth_token_provider"].token().count(".") + 1


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"retry.backoff.ms": "1.5"}, "retry.backoff.ms: expected an integer"),
        ({"retry.backoff.ms": "²"}, "retry.backoff.ms: expected an integer"),
        ({"ssl.cipher.suites": "x"}, "ssl.cipher.suites: kafka-python knows nothing like it"),
        (PLAIN | {"sasl.oauthbearer.scope": "x"}, "sasl.oauthbearer.scope: kafka-python knows"),
        (PLAIN | {"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: expected one of PLAIN, SCRAM-SHA"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: expected one of PLAIN"),
        ({k: v for k, v in PLAIN.items() if "user" not in k}, "sasl.username: PLAIN needs it"),
        ({k: v for k, v in PLAIN.items() if "pass" not in k}, "sasl.password: PLAIN needs it"),
    ],
)
def test_what_kafka_python_has_nothing_like_is_refused(properties, said):
    """In place of a connection that is less than was meant."""
    with pytest.raises(KafkaPropertyError, match=said):
        kafka_python_arguments(properties)
