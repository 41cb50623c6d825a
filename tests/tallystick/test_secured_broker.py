"""Commands against a real broker with TLS, client certificates, SASL and ACLs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import final

import pytest

from tallystick.producers.kafka_clients.choice import kafka_client
from tallystick.producers.kafka_rights import RIGHTS, Right
from tallystick.streaming import table_reader
from tests.support.secured_brokers import SecuredBroker, running_secured_broker
from tests.support.started_commands import DEADLINE_S, Commands, wait_until
from tests.support.token_servers import SUBJECT

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "real_journals" / "errant_write.jsonl"
WITH_FINDINGS = ROOT / "tests" / "real_journals" / "lost_xa_gtids.jsonl"
CLIENTS = ("confluent-kafka", "kafka-python")
INCIDENT = "0" * 24

COMMANDS = {
    "load": ("load", "--events", "200", "--instances", "1"),
    "journal": ("journal",),
    "journal --write": ("journal", "--write", str(STORED)),
    "collect": ("collect", "--deadline", "0.5"),
    "incidents ack, unack": ("incidents", "ack", INCIDENT, "--why", "a test"),
    "retire": ("retire", "nobody", "--why", "a test"),
    "check, replay --output kafka": ("replay", str(STORED), "--output", "kafka=FINDINGS"),
}
ENDS = {"collect": 3, "check, replay --output kafka": 1}
# Each with a client of its own: what they do with Kafka is the same code.
LASTING = {
    "tail": ("kafka-python", "tail", "--server", "nobody=127.0.0.1:1"),
    "simulate": ("confluent-kafka", "simulate", "--topology", "single"),
}


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory):
    with running_secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def run_as(tallystick, secured_broker, monkeypatch):
    """Run a command with variables, in this process."""

    def run(variables, *arguments):
        for name in [name for name in os.environ if name.startswith("TALLYSTICK_")]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        findings = f"{secured_broker.prefix}.findings"
        return tallystick(*(text.replace("FINDINGS", findings) for text in arguments))

    return run


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_with_its_rights_and_not_with_one_less(
    run_as, secured_broker, command, client
):
    """Exactly those of the table; what is missing is one sentence, and status 2 or 75."""
    rights = RIGHTS[command]
    named = {"TALLYSTICK_CLIENT": client}
    ran = run_as(secured_broker.user(rights) | named, *COMMANDS[command])
    assert ENDS.get(command, 0) == ran.code, ran.err
    for missing in rights:
        kept = [right for right in rights if right != missing]
        ran = run_as(secured_broker.user(kept) | named, *COMMANDS[command])
        # Who may read a topic sees it, and learns with the first block that it may not write.
        is_late = missing == Right("WRITE", "journal") and Right("READ", "journal") in rights
        assert (75 if is_late else 2) == ran.code, (missing, ran.err)
        assert f"topic '{secured_broker.prefix}.{missing.topic}'" in ran.err, missing
        assert "docs/kafka.md" in ran.err
        assert "Traceback" not in ran.err


@pytest.mark.parametrize("command", LASTING)
def test_a_command_that_lasts_does_with_its_rights_and_not_with_one_less(
    run_as, secured_broker, tmp_path, command
):
    """All at once, each with topics of its own; of a server that is down tail writes answers."""
    client, *arguments = LASTING[command]
    rights, started = RIGHTS[command], {}
    servers = secured_broker.local.bootstrap_servers
    admin = kafka_client("confluent-kafka", secured_broker.admin)
    for missing in (None, *rights):
        broker = secured_broker.with_new_topics()
        variables = broker.user(right for right in rights if right != missing)
        asks = broker.user(RIGHTS["collect"])
        assert 3 == run_as(asks, "collect", "--deadline", "0.1").code
        # Of an empty topic nothing is read.
        admin.send(servers, f"{broker.prefix}.journal", b"somebody", b"")
        directory = tmp_path / str(len(started))
        directory.mkdir()
        commands = commands_of(variables | {"TALLYSTICK_CLIENT": client}, directory)
        started[missing] = broker, commands.start(*arguments), directory / "errors.0"
    broker, process, errors = started.pop(None)
    with closing(admin.open_reader(servers, f"{broker.prefix}.journal", since_ms=0)) as reader:
        wait_until(
            lambda: any(one.value for one in reader.read(0.1)) or process.poll(), "the journal"
        )
    process.send_signal(signal.SIGINT)
    assert 0 == process.wait(DEADLINE_S), errors.read_text()
    for missing, (broker, process, errors) in started.items():
        # Who may read a topic sees it, and learns with the first block that it may not write.
        assert (75 if missing == Right("WRITE", "journal") else 2) == process.wait(DEADLINE_S)
        said = errors.read_text()
        assert f"topic '{broker.prefix}.{missing.topic}'" in said, missing
        assert "docs/kafka.md" in said
        assert "Traceback" not in said


def commands_of(variables, directory):
    """Starts commands with these variables, in processes of their own."""
    settings = {name.removeprefix("TALLYSTICK_"): value for name, value in variables.items()}
    return Commands(directory, settings.pop("BOOTSTRAP_SERVERS"), **settings)


def refusals(broker):
    """What is wrong, the variables, and what is said of it."""
    right = broker.user(())
    other = broker.local.bootstrap_servers.rpartition(":")[0]
    stranger = broker.strangers / "stranger"
    others = {"TALLYSTICK_KAFKA_SSL_CA_LOCATION": str(broker.strangers / "others.pem")}

    def at(name):
        return {"TALLYSTICK_BOOTSTRAP_SERVERS": f"{other}:{broker.ports[name]}", **others}

    without = {name: value for name, value in right.items() if "_SSL_" not in name}
    yield "authority", right | others, "not signed by an authority that is trusted here"
    yield "host", right | at("ELSEWHERE"), "not for the host name '127.0.0.1'"
    yield "time", right | at("EXPIRED"), "its certificate has expired"
    yield (
        "password",
        right | {"TALLYSTICK_KAFKA_SASL_PASSWORD": "no such password"},
        "it does not accept this user",
    )
    yield "user", right | {"TALLYSTICK_KAFKA_SASL_USERNAME": "nobody"}, "not accept this user"
    yield (
        "no certificate",
        {n: v for n, v in right.items() if "CERTIFICATE" not in n and "SSL_KEY" not in n},
        "it does not accept this client's certificate",
    )
    yield (
        "another's certificate",
        right
        | {
            "TALLYSTICK_KAFKA_SSL_CERTIFICATE_LOCATION": f"{stranger}.pem",
            "TALLYSTICK_KAFKA_SSL_KEY_LOCATION": f"{stranger}.key",
        },
        "it does not accept this client's certificate",
    )
    yield (
        "protocol",
        without | {"TALLYSTICK_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"},
        "it speaks TLS at this port",
    )


def test_whatever_is_wrong_is_one_sentence(run_as, secured_broker):
    """For both clients, before either of them is started; Spark's part asks in the same way."""
    for what, variables, said in refusals(secured_broker):
        for client in CLIENTS:
            for command in (("load", "--events", "9"), ("audit", "--available-now")):
                ran = run_as(variables | {"TALLYSTICK_CLIENT": client}, *command)
                found = [line for line in ran.err.splitlines() if "Kafka" in line]
                assert (2, "", 1) == (ran.code, ran.out, len(found)), (what, ran.err)
                assert said in found[0], what
                assert "no such password" not in ran.err


@pytest.mark.parametrize("client", CLIENTS)
def test_a_token_is_fetched_and_accepted(run_as, secured_broker, client):
    """And where it is refused the sentence has no secret."""
    variables = secured_broker.token_holder(RIGHTS["load"]) | {"TALLYSTICK_CLIENT": client}
    ran = run_as(variables, *COMMANDS["load"])
    assert 0 == ran.code, ran.err
    wrong = {"TALLYSTICK_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": "no such secret"}
    ran = run_as(variables | wrong, *COMMANDS["load"])
    assert (2, 1) == (ran.code, len(ran.err.splitlines()))
    assert "no token comes from there: Unauthorized" in ran.err
    assert "no such secret" not in ran.err


def test_a_topic_that_is_missing_is_made_by_who_may(run_as, secured_broker):
    """Who may not learns which right it lacks."""
    variables = secured_broker.user(RIGHTS["load"])
    ran = run_as(variables | {"TALLYSTICK_TOPIC_PREFIX": "nowhere"}, *COMMANDS["load"])
    assert 2 == ran.code
    assert "topic 'nowhere.journal' does not exist, or this user may not see it" in ran.err


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("role", ["tail", "audit"])
def test_the_doctor_names_the_right_that_is_missing(run_as, secured_broker, role, client):
    """With those of the table nothing has failed; without one it is named, and 2 the status."""
    rights, named = RIGHTS[role], {"TALLYSTICK_CLIENT": client}
    command = ("doctor", "--for", role)
    ran = run_as(secured_broker.user(rights) | named, *command)
    assert 0 == ran.code, ran.out
    assert "by SASL_SSL with SCRAM-SHA-512" in ran.out
    assert "may not see them: DESCRIBE_CONFIGS" in ran.out
    seen = [Right("DESCRIBE_CONFIGS", right.topic) for right in rights]
    ran = run_as(secured_broker.user([*rights, *seen]) | named, *command)
    assert "policy, retention, message size" in ran.out
    for missing in rights:
        kept = [right for right in rights if right != missing]
        ran = run_as(secured_broker.user(kept) | named, *command)
        (line,) = [line for line in ran.out.splitlines() if line.startswith("failed ")]
        topic = f"{secured_broker.prefix}.{missing.topic}"
        is_seen = any(right.topic == missing.topic for right in kept)
        said = f"lacks {missing.operation} on {topic}" if is_seen else f"topic '{topic}' does not"
        assert (2, True) == (ran.code, said in line), line
        assert "docs/kafka.md" in line


def test_the_doctor_says_why_it_is_not_let_in(run_as, secured_broker):
    """In the words of every command; what needs Kafka is not tried, and no secret is shown."""
    for what, variables, said in refusals(secured_broker):
        ran = run_as(variables, "doctor", "--for", "tail")
        (line,) = [line for line in ran.out.splitlines() if line.startswith("failed ")]
        assert (2, True) == (ran.code, said in line), (what, line)
        assert "needs what is checked as 'brokers'" in ran.out
        for name in ("TALLYSTICK_KAFKA_SASL_PASSWORD", "TALLYSTICK_KAFKA_SSL_KEY_PASSWORD"):
            assert variables.get(name, "no such secret") not in ran.out + ran.err


@contextmanager
def arguments_of_all() -> Iterator[set[bytes]]:
    """The command lines of all processes that run meanwhile."""
    seen: set[bytes] = set()
    is_over = threading.Event()

    def read() -> None:
        while not is_over.wait(0.2):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    seen.add(file.read_bytes())

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


@pytest.mark.long
def test_the_audit_does_with_its_rights_until_they_are_taken_away(
    run_as, secured_broker, tmp_path, started
):
    """By a password and by a token, both queries and all sinks; no secret is left anywhere.

    One has executors of its own, which read the topic with the driver's secrets. A right that is
    withdrawn, and a password that is changed: one sentence each, and 75.
    """
    audits = {}
    executors = {
        "TALLYSTICK_SPARK_MASTER": "local-cluster[2,1,512]",
        "TALLYSTICK_SPARK_PARTITIONS": "2",
    }
    for name, who, more in (
        ("password", SecuredBroker.user, {}),
        ("token", SecuredBroker.token_holder, {}),
        ("executors", SecuredBroker.user, executors),
    ):
        broker = secured_broker.with_new_topics()
        writes = broker.user(RIGHTS["journal --write"])
        assert 0 == run_as(writes, "journal", "--write", str(WITH_FINDINGS)).code
        (tmp_path / name).mkdir()
        variables = who(broker, RIGHTS["audit"]) | more
        audits[name] = started(broker, variables, tmp_path / name)
    with arguments_of_all() as arguments:
        for audit in audits.values():
            wait_until(lambda audit=audit: audit.has_ended or audit.has_asked, "a missing answer")
            assert audit.publishes_findings(), audit.errors
        token, password = audits["token"], audits["password"]
        token.broker.revoke(SUBJECT, Right("READ", "journal"))
        assert "This user may not do that to" in token.last_words()
        password.broker.change_password(password.variables)
        password.broker.restart()
        assert "do not accept each other: Authentication failed" in password.last_words()
    assert any(b"org.apache.spark" in line for line in arguments)
    key = Path(password.variables["TALLYSTICK_KAFKA_SSL_KEY_LOCATION"]).read_bytes()
    secrets = (
        password.variables["TALLYSTICK_KAFKA_SASL_PASSWORD"].encode(),
        token.variables["TALLYSTICK_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET"].encode(),
        key.splitlines()[1],
    )
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("checkpoint" in str(path) for path in files)
    assert any(path.name == "spark.log" for path in files)
    for secret in secrets:
        assert [] == [path for path in files if secret in path.read_bytes()]
        assert [] == [line for line in arguments if secret in line]
    states = [path for name in audits for path in (tmp_path / name / ".tallystick").rglob("*")]
    own = [path for path in states if not path.is_symlink()]  # one leads to Spark's own jars
    assert [] == [path for path in own if path.stat().st_mode & 0o077]


@final
class StartedAudit:
    """An audit in a process of its own."""

    def __init__(self, broker: SecuredBroker, variables: dict[str, str], directory: Path) -> None:
        self.broker, self.variables = broker, variables
        self._tables = directory / ".tallystick/audit/tables"
        self._errors = directory / "errors.0"
        self.commands = commands_of(variables, directory)
        options = ("--collect-interval-s", "5", "--collect-deadline-s", "2")
        self._process = self.commands.start("audit", *options)

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def has_asked(self) -> bool:
        """Whether a request went to the collect topic and back, and its deadline is over."""
        return (self._tables / "cuts").exists() and any(
            cut.answer == "missing" for cut in table_reader.read_cuts(self._tables)
        )

    def publishes_findings(self) -> bool:
        """Whether the topic of the findings has some."""
        client = kafka_client("confluent-kafka", self.broker.admin)
        servers, topic = self.broker.local.bootstrap_servers, f"{self.broker.prefix}.findings"
        with closing(client.open_reader(servers, topic, since_ms=0)) as reader:
            wait_until(lambda: self.has_ended or list(reader.read(0.5)), "a finding")
        return not self.has_ended

    def last_words(self) -> str:
        """The one sentence by which it has ended, with status 75."""
        assert 75 == self._process.wait(DEADLINE_S), self.errors
        assert "Traceback" not in self.errors
        (sentence,) = [line for line in self.errors.splitlines() if "docs/kafka.md" in line]
        return sentence


@pytest.fixture
def started():
    """Starts audits; what still runs at the end is killed."""
    audits = []

    def start(*arguments):
        audits.append(StartedAudit(*arguments))
        return audits[-1]

    yield start
    for audit in audits:
        audit.commands.kill_all()


def test_the_table_of_rights_is_that_of_the_commands():
    """docs/kafka.md has each command with what it reads and writes."""
    page = (ROOT / "docs" / "kafka.md").read_text("utf-8")
    for command, rights in RIGHTS.items():
        of = {
            kind: ", ".join(right.topic for right in rights if right.operation == kind) or "-"
            for kind in ("READ", "WRITE")
        }
        assert f"| `{command}` | {of['READ']} | {of['WRITE']} |" in page
