"""Each sink with a real receiver: a server, a program, a file."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from changes import BEGAN_US, History
from receivers import Receiver, wait_for

from tallystick.alerts.alert import alert_of, trial_alert
from tallystick.alerts.secret import decoded_secret
from tallystick.alerts.sinks import Context, SinkError, open_sink, requests_of, shown
from tallystick.alerts.sinks.alertmanager import posted
from tallystick.alerts.sinks.command import Command
from tallystick.coordinates.results import Acknowledgement, IncidentChange, IncidentChangeKind
from tallystick.coordinates.rules.topic_messages import Origin
from tallystick.errors import MisuseError
from tallystick.settings import load

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = json.loads((DOCS / "alert.schema.json").read_text("utf-8"))
SECRET = b"0123456789abcdef0123456789abcdef"
HOSTILE = "b\x1b[31m\u202e$(rm -rf)\n`x`\ud800"


def alert(instance="b", history=None):
    (change,) = (history or History()).errant(instance=instance)
    return alert_of(change, Origin("f", 1, "https://p/x"))


def sink(text, notices=None, secret=None):
    (request,) = requests_of([text])
    return open_sink(request, Context((notices if notices is not None else []).append, secret))


def test_what_is_sent_is_what_the_schema_says():
    """Of every kind, and of a hostile name."""
    history = History()
    steps = [history.errant(), history.errant(20, channel=None), history.healed()]
    made = [alert_of(c, Origin("f", 2, None, {"b": "c1"})) for s in steps for c in s]
    assert ["opened", "grown", "resolved"] == [one["kind"] for one in made]
    for one in (*made, trial_alert("f", None), alert(HOSTILE)):
        jsonschema.validate(json.loads(json.dumps(one)), SCHEMA)
        assert set(SCHEMA["properties"]) == set(one)
    assert ["firing", "firing", "resolved"] == [one["status"] for one in made]
    incident = replace(
        history.errant(30)[0].incident, acknowledgement=Acknowledgement("dba", "why", 1, None)
    )
    known = alert_of(IncidentChange(IncidentChangeKind.ACKNOWLEDGED, incident, 1), Origin("f", 2))
    at = "1970-01-01T00:00:00.000001Z"
    assert {"by": "dba", "why": "why", "at": at, "until": None} == known["acknowledgement"]
    kinds = {"kind": "opened", "status": "firing"}  # Those of what is sent, of which it is none
    jsonschema.validate(known | kinds, SCHEMA)
    page = (DOCS / "alerts.md").read_text("utf-8")
    assert [name for name in SCHEMA["properties"] if f"`{name}`" not in page] == []


def test_a_webhook_can_be_verified_as_the_page_shows():
    """The page's own code takes what is sent, and nothing that was changed."""
    code = re.findall(r"```python\n(.*?)```", (DOCS / "alerts.md").read_text("utf-8"), re.DOTALL)[0]
    names: dict = {}
    exec(code, names)  # noqa: S102  the code of the page
    verified = names["verified"]
    with Receiver() as receiver:
        sink(f"webhook={receiver.url}", secret=SECRET).send([alert()], 2)
    ((headers, body),) = receiver.got
    secret = "whsec_" + base64.b64encode(SECRET).decode()
    assert verified(secret, headers, body)
    assert not verified(secret, headers, body + b" ")
    assert not verified(secret, headers | {"webhook-id": "x"}, body)
    assert not verified(base64.b64encode(SECRET[1:]).decode(), headers, body)
    old = str(int(headers["webhook-timestamp"]) - 3600)
    assert not verified(secret, headers | {"webhook-timestamp": old}, body)
    sent = json.loads(body)
    assert sent["alert_id"] == headers["Idempotency-Key"] == headers["webhook-id"]
    assert "2" == headers["Tallystick-Attempt"]
    assert f"https://p/x#incident-{sent['incident_id']}" == sent["link"]


@pytest.mark.parametrize(
    ("status", "headers", "final", "retry_after"),
    [
        (503, {}, False, None),
        (429, {"Retry-After": "7"}, False, 7.0),
        (503, {"Retry-After": "999999"}, False, 3600.0),
        (503, {"Retry-After": "soon"}, False, None),
        (422, {}, True, None),
        (302, {"Location": "/elsewhere"}, False, None),
    ],
)
def test_what_a_receiver_refuses(status, headers, final, retry_after):
    """A redirect is not followed, Retry-After is bounded, the URL's path is not in the error."""
    with Receiver() as receiver:
        receiver.statuses.append((status, headers))
        with pytest.raises(SinkError, match=f"status {status}") as refused:
            sink(f"webhook={receiver.url}").send([alert()], 1)
        assert 1 == len(receiver.got)
        assert (final, retry_after) == (refused.value.is_final, refused.value.retry_after_s)
        assert "s3cret" not in str(refused.value)
    with pytest.raises(SinkError, match="no connection") as refused:
        sink(f"webhook={receiver.url}").send([alert()], 1)
    assert "s3cret" not in str(refused.value)


@pytest.fixture
def program(tmp_path):
    """Write a program that a command sink can run."""

    def make(text):
        path = tmp_path / "hook"
        path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_a_command_gets_values_and_the_document(program, tmp_path, monkeypatch):
    """No shell, no argument, none of our secrets; hostile names are escaped."""
    monkeypatch.setenv("TALLYSTICK_ALERTS_SECRET", "s3cret")
    monkeypatch.setenv("TALLYSTICK_MYSQL_PASSWORD", "s3cret")
    out = tmp_path / "out"
    path = program(
        "got = sys.argv[1:], dict(os.environ), json.load(sys.stdin)\n"
        f"json.dump(got, open({str(out)!r}, 'w'))"
    )
    given = alert(HOSTILE) | {"remedy": "x" * 200_000}
    sink(f"command={path}").send([given], 3)
    arguments, environ, document = json.loads(out.read_text())
    assert ([], given) == (arguments, document)
    assert "s3cret" not in str(environ)
    ours = {name: value for name, value in environ.items() if name.startswith("TALLYSTICK_")}
    assert {f"TALLYSTICK_ALERT_{name}" for name in (
        "ID", "KIND", "STATUS", "INCIDENT_ID", "RULE", "SEVERITY", "FLEET", "CLUSTER", "INSTANCE",
        "CHANNEL", "SENTENCE", "REMEDY", "COUNT", "WITNESS", "OPENED_AT", "LAST_SEEN_AT",
        "CLOSED_AT", "DETECTED_AT", "LINK", "ATTEMPT",
    )} == set(ours)  # fmt: skip
    assert ("3", "", "opened") == tuple(
        ours[f"TALLYSTICK_ALERT_{name}"] for name in ("ATTEMPT", "CHANNEL", "KIND")
    )
    assert not {"\x1b", "\u202e", "\n", "\0"} & set("".join(ours.values()))
    assert "$(rm -rf)" in ours["TALLYSTICK_ALERT_INSTANCE"]
    assert len(ours["TALLYSTICK_ALERT_REMEDY"]) == 8_001


def test_a_command_may_be_tallystick_itself(monkeypatch):
    """The values of an alert are no unknown settings."""
    monkeypatch.setenv("TALLYSTICK_ALERT_ID", "x")
    load()


def has_ended(pid: int) -> bool:
    """Killed is not ended: that takes the kernel a moment."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_command_that_fails_or_hangs(program, tmp_path):
    """A status is an error with the last words; after the time-out its whole group is ended."""
    path = program("print('no pager', file=sys.stderr); sys.exit(3)")
    with pytest.raises(SinkError, match="status 3 no pager"):
        sink(f"command={path}").send([alert()], 1)
    pids = tmp_path / "pids"
    path = program(
        "import signal, subprocess\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\ntime.sleep(1000)"
    )
    with pytest.raises(SinkError, match="did not end in 2 s"):
        Command(path, timeout_s=2).send([alert()], 1)
    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: has_ended(pid), f"process {pid} goes on")
    with pytest.raises(MisuseError, match="expected a program"):
        sink("command=/no/such/program")
    with pytest.raises(SinkError, match="cannot be run"):
        Command(str(tmp_path)).send([alert()], 1)


def test_what_a_command_leaves_goes_on_and_none_begins_after_the_end(program, tmp_path):
    """A command may start a process that outlives it; with the audit nothing begins any more."""
    question, answer = tmp_path / "question", tmp_path / "answer"
    os.mkfifo(question)
    path = program(
        "import subprocess\n"
        f"subprocess.Popen(['sh', '-c', 'read line < {question}; echo $line > {answer}'])"
    )
    command = Command(path)
    command.send([alert()], 1)
    with question.open("r+b", buffering=0) as asked:
        asked.write(b"there\n")
        wait_for(lambda: answer.exists() and answer.read_text() == "there\n", "it was ended")
    command.close()
    with pytest.raises(SinkError, match="as the audit ends"):
        command.send([alert()], 2)


def test_a_log_has_each_line_once(tmp_path):
    """Also when the first attempt's end was not seen, and after a line that was cut short."""
    path = tmp_path / "alerts.log"
    for none in (tmp_path, tmp_path / "none" / "alerts.log"):
        with pytest.raises(MisuseError, match="expected a file in a directory"):
            sink(f"log={none}")
    one, other = alert(HOSTILE), alert("c")
    log = sink(f"log={path}")
    log.send([one], 1)
    log.send([one], 2)
    with path.open("a") as file:
        file.write("cut short")
    log.send([other], 2)
    lines = path.read_text("utf-8").splitlines()
    assert ["cut short"] == lines[1:2]
    assert 3 == len(lines)
    assert "no_errant_gtids b\\x1b[31m" in lines[0]
    assert one["sentence"][:20] in lines[0]
    log.send([alert("d"), alert("e")], 1)
    assert [*lines, "d:", "e:"] == [
        *path.read_text("utf-8").splitlines()[:3],
        *(line.split()[4] for line in path.read_text("utf-8").splitlines()[3:]),
    ]
    path.unlink()
    path.mkdir()
    with pytest.raises(SinkError, match="cannot be written"):
        log.send([one], 1)
    # In a process of its own: one that reads the device to its end takes the machine's memory.
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31));"
        "from pathlib import Path; from tallystick.alerts.sinks.log import LogFile;"
        f"LogFile(Path('/dev/full')).send([{one!r}], 1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stderr.endswith("SinkError: cannot be written: No space left on device\n")
    notices: list[str] = []
    sink("log", notices).send([other], 1)
    assert "opened critical no_errant_gtids c:" in notices[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["webhok=x"], "did you mean 'webhook'"),
        (["_sink"], "expected alertmanager, command, log, webhook"),
        (["webhook=ftp://x/s3cret"], "expected the URL of http or https"),
        (["webhook"], "expected the URL of http or https"),
        (["alertmanager=nowhere"], "expected the URL of http or https"),
        (["webhook=https://[x/s3cret"], "expected the URL of http or https"),
    ],
)
def test_misuse_is_one_sentence(words, message):
    """Before anything is run, and without what may be a secret."""
    with pytest.raises(MisuseError, match=message) as refused:
        sink(*words)
    assert "s3cret" not in str(refused.value)


def test_nothing_secret_is_shown():
    """Neither user nor path of a URL, in labels and in settings."""
    texts = ["webhook=https://me:pw@h/s3cret", "webhook=https://h/other", "log=/var/log/x"]
    labels = [request.label for request in requests_of(texts)]
    assert "webhook=https://h/…" == shown(texts[0])
    assert "log=/var/log/x" == shown(texts[2])
    assert 3 == len(set(labels))
    assert all(label.startswith("webhook h ") for label in labels[:2])
    assert "log /var/log/x" == labels[2]
    assert "s3cret" not in str(labels)


def test_the_commands_show_no_secret(tallystick, monkeypatch, tmp_path):
    """`config` masks what it prints; a password in an argument is refused."""
    monkeypatch.setenv("TALLYSTICK_ALERTS", "webhook=https://me:pw@127.0.0.1:1/s3cret")
    ran = tallystick("config", "--json")
    assert ["webhook=https://127.0.0.1:1/…"] == json.loads(ran.out)["alerts"]["value"]
    assert "s3cret" not in ran.out + tallystick("config").out
    ran = tallystick("alerts", "test")
    assert (2, "webhook 127.0.0.1:1") == (ran.code, ran.out.splitlines()[1].partition("  ")[0])
    assert "no connection" in ran.out
    assert "s3cret" not in ran.out + ran.err
    ran = tallystick("alerts", "test", "--alert", "webhook=https://me:pw@127.0.0.1:1/s3cret")
    assert (2, "") == (ran.code, ran.out)
    assert "no password is an argument" in ran.err
    assert "pw" not in ran.err
    monkeypatch.setenv("TALLYSTICK_ALERTS_SECRET", "c2hvcnQ=")
    ran = tallystick("alerts", "test")
    assert 2 == ran.code
    assert "TALLYSTICK_ALERTS_SECRET: expected the base64 of 24 to 64" in ran.err
    assert "c2hvcnQ" not in ran.err
    monkeypatch.delenv("TALLYSTICK_ALERTS_SECRET")
    file = tmp_path / "secret"
    file.write_text(base64.b64encode(SECRET).decode() + "\n")
    file.chmod(0o644)
    monkeypatch.setenv("TALLYSTICK_ALERTS_SECRET_FILE", str(file))
    assert "is open to others" in tallystick("alerts", "test").err
    file.chmod(0o600)
    with Receiver() as receiver:
        monkeypatch.setenv("TALLYSTICK_ALERTS", f"webhook={receiver.url}")
        ran = tallystick("alerts", "test", "--json")
    assert (0, None) == (ran.code, json.loads(ran.out)[0]["error"])
    assert "webhook-signature" in {name.lower() for name in receiver.got[0][0]}
    assert "test" == receiver.taken[0]["kind"]
    assert (2, "") == (tallystick("alerts", "list").code, tallystick("alerts", "list").out)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        (base64.b64encode(SECRET).decode(), 32),
        (f"  whsec_{base64.b64encode(SECRET).decode()}\n", 32),
        (base64.b64encode(b"x" * 24).decode(), 24),
        (base64.b64encode(b"x" * 64).decode(), 64),
        (base64.b64encode(b"x" * 23).decode(), None),
        (base64.b64encode(b"x" * 65).decode(), None),
        ("!" + base64.b64encode(SECRET).decode(), None),
        (base64.b64encode(SECRET).decode()[:-1], None),
        ("\u20ac" * 32, None),
        ("", None),
    ],
)
def test_a_secret_is_the_base64_of_24_to_64_bytes(text, length):
    """With or without whsec_ before it; nothing else in it is left out."""
    if length is not None:
        assert length == len(decoded_secret(text, "here"))
        return
    with pytest.raises(MisuseError, match="here: expected the base64 of 24 to 64 random bytes"):
        decoded_secret(text, "here")


FIRST, LATER = "2026-09-21T14:13:20.000000Z", "2026-09-21T14:14:20.000000Z"


@pytest.mark.parametrize(
    ("changes", "starts", "ends"),
    [
        ({}, FIRST, "2026-09-21T14:17:20.000000Z"),
        ({"kind": "test"}, FIRST, LATER),
        ({"opened_at": LATER}, FIRST, "2026-09-21T14:17:20.000000Z"),
        ({"status": "resolved", "closed_at": FIRST}, FIRST, FIRST),
        ({"status": "resolved", "closed_at": "2026-09-21T14:13:00.000000Z"},
         "2026-09-21T14:13:00.000000Z", "2026-09-21T14:13:00.000000Z"),
        ({"status": "resolved", "closed_at": LATER}, FIRST, FIRST),
        ({"status": "acknowledged"}, FIRST, FIRST),
        ({"status": "resolved", "closed_at": FIRST, "opened_at": LATER}, FIRST, FIRST),
    ],
)  # fmt: skip
def test_an_alertmanager_gets_no_time_that_is_to_come(changes, starts, ends):
    """But for four minutes, one of a test, until it would take the alert for resolved."""
    given = {**alert(), "opened_at": FIRST, "closed_at": None, "channel": None, **changes}
    made = posted(given, BEGAN_US)
    assert (starts, ends) == (made["startsAt"], made["endsAt"])
    assert "channel" not in made["labels"]
    assert "generatorURL" in made
    assert "generatorURL" not in posted({**given, "link": None}, BEGAN_US)


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    """As every other program of the machine does."""
    with Receiver() as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        sink("webhook=http://alerts.invalid/x").send([alert()], 1)
    assert "alerts.invalid" == proxy.got[0][0]["Host"]
