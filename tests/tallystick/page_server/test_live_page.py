"""The live page: a server process on a run's tables, asked by a client and by a real browser."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import chromium
import pytest
from cuts import START, collection_cuts
from reports import HOSTILE, finding, healthy

from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import Incident, IncidentState
from tallystick.errors import MisuseError
from tallystick.outputs import tables
from tallystick.outputs.html.live import clusters_of
from tallystick.page_server import web
from tallystick.page_server.address import Address, read_token
from tallystick.page_server.follow import Follower
from tallystick.page_server.process import start
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.runs.replay import replay
from tallystick.settings import Settings
from tallystick.streaming.table_reader import times_written
from tallystick.streaming.table_sink import TableSink

DEADLINE_S = 60
POLL_S = 0.1
ROOT = Path(__file__).parents[3]
AGREED = """JSON.stringify([
  document.querySelector(".word").textContent,
  document.querySelector(".strip svg.symbol use").getAttribute("href"),
  [...document.querySelectorAll(".drawing g")].map(g => g.querySelector("title").textContent)
    .find(t => t.startsWith("replica-1:")),
  [...document.querySelectorAll(".cards .card")]
    .find(c => c.querySelector("h3").textContent === "replica-1")
    .querySelector(".badge").textContent.trim(),
  document.querySelectorAll("#incidents .badge").length,
])"""


class Run:
    """A job's tables, written a collection at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sink = TableSink(directory / "tables", "run")
        self.number = 0

    def collect(self, replicas: int = 2, **more) -> None:
        self.number += 1
        cuts = collection_cuts(self.number, replicas)
        name, ts = cuts[0].collection_id, cuts[0].ts
        row = {"collection_id": name, "verdict": "CONSISTENT", "reason": "",
               "instances": replicas + 1, "missing": 0, "is_late": False, "ts": ts}  # fmt: skip
        self.sink.write(self.number, cuts=cuts, validations=[row], **more)

    def incident(self, state: IncidentState) -> dict:
        found = finding(instance_id="replica-1", ts=START + 30_000_000, collection_id=None)
        closed = None if state is IncidentState.OPEN else START + 10_000_000 * (self.number + 1)
        one = Incident(
            *(found.finding_id, found.rule, found.case, found.severity, "replica-1", None, {}),
            *(state, found.ts, found.ts, closed, 1, found.witness, found),
        )
        return {"incidents": [one], "findings": [found] if closed is None else []}


@contextmanager
def serving(directory: Path, *flags: str, **settings: str):
    """A server process; yields its address."""
    environ = os.environ | {"TALLYSTICK_COLLECT_DEADLINE_S": "3600"} | settings
    command = [sys.executable, "-m", "tallystick.cli", "serve", str(directory), *flags]
    command += ["--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            assert process.wait(DEADLINE_S) == 143


@contextmanager
def serving_here(directory: Path, token: str | None):
    """A server in this process; yields its address."""
    started, ended = queue.Queue(), asyncio.Event()
    server = web.PageServer(Follower(directory, Settings()), Address("127.0.0.1", 0), token)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(
        target=loop.run_until_complete, args=(server.listen(started.put, ended),)
    )
    thread.start()
    try:
        yield started.get(timeout=DEADLINE_S)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(DEADLINE_S)


@pytest.fixture
def run(tmp_path):
    made = Run(tmp_path / "run")
    for _ in range(4):
        made.collect()
    return made


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    executable = chromium.find()
    if executable is None:
        pytest.skip("no chromium on the PATH: the page is not looked at in a browser")
    started = chromium.Chromium(executable, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


def ask(address: str, path: str = "/", method: str = "GET", body: str | None = None, **headers):
    port = int(re.findall(r":(\d+)/", address)[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def until(browser, expression: str, expected) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while (found := browser.evaluate(expression)) != expected:
        assert time.monotonic() < deadline, f"{expression}: {found!r}"
        time.sleep(POLL_S)


def test_the_page_is_sent_once_and_asks_nobody_else(run):
    """The same page has the same tag; its policy allows no other host and nothing inline."""
    with serving(run.directory) as address:
        answer, text = ask(address)
        policy = answer.headers["Content-Security-Policy"]
        assert 200 == answer.status
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        assert not re.search(r"https?:|<script>|\son[a-z]+=|\sstyle=", text)
        again, nothing = ask(address, If_None_Match=answer.headers["ETag"])
        assert (304, "") == (again.status, nothing)
        run.collect()
        changed, _ = ask(address, If_None_Match=answer.headers["ETag"])
        deadline = time.monotonic() + DEADLINE_S
        while changed.status == 304:  # the tables were read a moment ago
            assert time.monotonic() < deadline
            time.sleep(POLL_S)
            changed, _ = ask(address, If_None_Match=answer.headers["ETag"])
        assert 404 == ask(address, "/?collection=none")[0].status
        assert 404 == ask(address, "/etc/passwd")[0].status


def test_a_page_is_made_once_for_all_who_ask(run, monkeypatch):
    """Anew when something was committed; of other parts of the fleet each its own, a few kept."""
    made = []
    render = web.html.render_live

    def render_live(result, live, query):
        made.append(query.instance)
        return render(result, live, query)

    monkeypatch.setattr(web.html, "render_live", render_live)
    with serving_here(run.directory, None) as address:
        first = ask(address)[1]
        assert first == ask(address)[1]
        assert first != ask(address, "/?instance=replica-1")[1]
        assert ["", "replica-1"] == made
        run.collect()
        deadline = time.monotonic() + DEADLINE_S
        while ask(address)[1] == first:
            assert time.monotonic() < deadline
            time.sleep(POLL_S)
        assert ["", "replica-1", ""] == made
        for number in range(web._TEXTS_MAX):
            ask(address, f"/?instance={number}")
        ask(address)
        assert ["6", "7", ""] == made[-3:]


def test_who_asks_nothing_is_let_go(run, monkeypatch):
    """A connection without a request, and one whose form never ends."""
    monkeypatch.setattr(web, "_IDLE_S", 0.2)
    with serving_here(run.directory, "a token") as address:
        port = int(address.rsplit(":", 1)[1].rstrip("/"))
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as silent:
            assert b"" == silent.recv(1)
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as slow:
            slow.sendall(
                b"POST /token HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
                b"Content-Type: application/x-www-form-urlencoded\r\n\r\nt"
            )
            assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_only_its_own_names_are_answered(run):
    """A name of another host that resolves to loopback reads nothing."""
    with serving(run.directory) as address:
        for host, status in (("127.0.0.1:1", 200), ("localhost", 200), ("[::1]:80", 200),
                             ("evil.example", 421), ("127.0.0.1.evil.example", 421)):  # fmt: skip
            assert status == ask(address, Host=host)[0].status, host


def test_a_token_opens_the_page_and_nothing_else_does(run, tmp_path):
    """By a form, which gives a cookie that is not the token, or by a header."""
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    with serving(run.directory, "--serve-token-file", str(file)) as address:
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        for path in ("/", "/page.js", "/?token=0123456789abcdef"):
            answer, text = ask(address, path)
            assert (401, False) == (answer.status, "CONSISTENT" in text)
        assert 401 == ask(address, Authorization="Bearer 0123456789abcdeg")[0].status
        assert 401 == ask(address, Cookie="tallystick=0123456789abcdef")[0].status
        assert 200 == ask(address, Authorization="Bearer 0123456789abcdef")[0].status
        assert 401 == ask(address, "/token", "POST", "token=x", **form)[0].status
        answer, _ = ask(address, "/token", "POST", "token=0123456789abcdef", **form)
        cookie = answer.headers["Set-Cookie"]
        assert 303 == answer.status
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "0123456789abcdef" not in cookie
        assert 200 == ask(address, Cookie=cookie.partition(";")[0])[0].status


def test_no_address_but_loopback_is_served_without_a_token(tmp_path):
    """And a short one is none."""
    for text in ("127.0.0.1:0", "[::1]:80", "localhost:1"):
        assert read_token(None, Address.of(text)) is None
    with pytest.raises(MisuseError, match="no loopback address"):
        read_token(None, Address.of("0.0.0.0:80"))
    for text in ("80", "example.com:80", "127.0.0.1", "127.0.0.1:x", ""):
        with pytest.raises(MisuseError, match="expected ADDRESS:PORT"):
            Address.of(text)
    (tmp_path / "token").write_text("short")
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(MisuseError, match="open to others"):
        read_token(tmp_path / "token", Address.of("0.0.0.0:80"))
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(MisuseError, match="16 characters"):
        read_token(tmp_path / "token", Address.of("0.0.0.0:80"))


def test_beside_a_job_it_is_a_process_that_ends_with_it(tmp_path, run):
    """Before anything was written; an address that is taken is refused at once."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        taken = f"^{address} cannot be listened on: Address already in use$"
        with pytest.raises(MisuseError, match=taken):
            start(tmp_path / "audit", address, Settings())
        with pytest.raises(MisuseError, match=taken):
            web.serve(Follower(run.directory, Settings()), Address.of(address), None, print)
    directory = str(tmp_path / "audit")
    program = (
        "import pathlib, sys, time; from tallystick.page_server.process import start;"
        "from tallystick.settings import Settings;"
        f"start(pathlib.Path({directory!r}), {address!r}, Settings());"
        "time.sleep(600)"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert job.stderr is not None
        assert f"page: http://{address}/\n" == job.stderr.readline()
        assert "No collection has been written yet" in ask(f"http://{address}/")[1]
    finally:
        job.kill()
    # Its end of the pipe is closed when it has ended, too.
    assert "" == job.stderr.read()
    job.wait()


def test_a_part_of_the_fleet_and_an_earlier_collection_are_pages_of_their_own(run):
    """With the fleet's verdict beside the part's; the earlier one knows nothing of later ones."""
    run.collect(**run.incident(IncidentState.OPEN))
    with serving(run.directory) as address:
        _, text = ask(address, "/?instance=REPLICA-2")
        assert '<p class="word">CONSISTENT</p>' in text
        assert re.search(r"Of 1 of 3 instances; the whole fleet: .*INCONSISTENT", text)
        assert '<p class="word">INCONSISTENT</p>' in ask(address)[1]
        _, text = ask(address, "/?collection=c-000002")
        assert "Newest collection <bdi><code>c-000002</code></bdi>" in text
        assert '<p class="word">CONSISTENT</p>' in text
        assert 'href="?collection=c-000001" rel="prev"' in text
        assert 'href="?collection=c-000003" rel="next"' in text
        _, text = ask(address, "/?at=2026-01-01T00:00:35")
        assert "Newest collection <bdi><code>c-000003</code></bdi>" in text
        assert text == ask(address, "/?at=2026-01-01T01:00:35%2B01:00")[1]
        for at in ("25:00", "2026-13-01", "0001-01-01T00:00%2B01:00"):
            assert 400 == ask(address, f"/?at={at}")[0].status
        _, text = ask(address, "/?cluster=source-1&instance=" + "%3Cscript%3E")
        assert "<script>" not in text
        assert "UNDECIDED" in text


def test_hostile_names_are_inert(tmp_path):
    """In what the page is asked for, too."""
    sink = TableSink(tmp_path / "run" / "tables", "run")
    cuts = [
        replace(cut, instance_id=text)
        for text in HOSTILE
        for cut in collection_cuts(1, 1)
        if cut.channel is None
    ]
    sink.write(0, cuts=cuts)
    with serving(tmp_path / "run") as address:
        _, text = ask(address)
        assert "<script>" not in text
        assert "&lt;script&gt;document.title" in text


def test_a_collection_whose_answers_come_one_by_one_is_written_once(run):
    """Its pieces are no interval; a fast backlog is no interval either."""
    limit = Follower(run.directory, Settings()).now().stale_after_s
    assert 3 * Settings().collect_interval_s + Settings().collect_deadline_s == limit
    run.sink.write(run.number + 1, cuts=collection_cuts(run.number, 2)[:1])
    assert run.number == len(times_written(run.directory / "tables"))


@pytest.mark.chromium
def test_it_follows_an_incident_from_its_opening_to_its_end(run, browser):
    """Without a reload; verdict, timeline, fleet and card agree at each step."""
    with serving(run.directory) as address:
        browser.open(address)
        good = '["CONSISTENT","#good","replica-1: CONSISTENT","CONSISTENT",%d]'
        until(browser, AGREED, good % 0)
        browser.evaluate("window.same = true; document.querySelector('input').value = 'typed'")
        run.collect(**run.incident(IncidentState.OPEN))
        until(
            browser,
            AGREED,
            '["INCONSISTENT","#bad","replica-1: INCONSISTENT","INCONSISTENT",1]',
        )
        browser.evaluate("document.querySelector('#findings details').open = true")
        # As links of alerts and messages have it.
        assert browser.evaluate("document.querySelector('li[id^=incident-]') !== null")
        link = "document.querySelector('.strip a').getAttribute('href')"
        assert browser.evaluate(f"document.querySelector({link}) !== null")
        assert browser.evaluate("document.querySelectorAll('pre + button').length > 0")
        run.collect(**run.incident(IncidentState.RESOLVED))
        until(browser, AGREED, good % 1)
        assert browser.evaluate("document.querySelector('#findings details').open")
        assert browser.evaluate("document.querySelectorAll('.strip a.bad').length > 0")
        assert browser.evaluate("same && document.querySelector('input').value === 'typed'")
        assert browser.evaluate("document.title").startswith("CONSISTENT")
        assert browser.said == []
        assert {url for url in browser.requests if not url.startswith(("data:", address))} == set()


@pytest.mark.chromium
def test_what_is_old_is_never_shown_as_now(run, browser):
    """Neither where the job writes nothing, nor where the server does not answer."""
    word = "document.querySelector('.word').textContent"
    soon = {"TALLYSTICK_COLLECT_DEADLINE_S": "0.01", "TALLYSTICK_COLLECT_INTERVAL_S": "0.5"}
    with serving(run.directory, **soon) as address:
        browser.open(address)
        until(browser, word, "UNDECIDED")
        assert "Nothing is known of now" in browser.evaluate("document.body.innerText")
        assert "#good" not in browser.evaluate(
            "[...document.querySelectorAll('.strip svg.symbol use')]"
            ".map(u => u.getAttribute('href')).join()"
        )
    with serving(run.directory) as address:
        browser.open(address)
        until(browser, word, "CONSISTENT")
        until(browser, "document.getElementById('age').textContent.includes('s ago')", True)  # noqa: FBT003
    # Nobody answers now, and the page's clock is a minute later.
    browser.evaluate("const now = Date.now; Date.now = () => now.call(Date) + 60000; 0")
    until(browser, word, "UNDECIDED")
    assert "does not answer" in browser.evaluate("document.body.innerText")


@pytest.mark.chromium
def test_a_thousand_instances_on_a_phone_and_on_paper(tmp_path, browser):
    """Nothing is wider than the window; all can be found by name; the keyboard reaches the form."""
    run = Run(tmp_path / "run")
    run.collect(999)
    run.collect(999)
    with serving(run.directory) as address:
        browser.open(address, 360)
        assert browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert browser.evaluate("document.querySelectorAll('.drawing g text').length < 200")
        assert "940 consistent" in browser.evaluate("document.body.innerText")
        browser.ask("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab",
                    windowsVirtualKeyCode=9)  # fmt: skip
        assert "instance" == browser.evaluate("document.activeElement.name")
        browser.ask("Emulation.setEmulatedMedia", media="print")
        assert "none" == browser.evaluate(
            "getComputedStyle(document.getElementById('filter')).display"
        )
        assert len(browser.ask("Page.printToPDF")["data"]) > 10_000
        browser.ask("Emulation.setEmulatedMedia", media="")
        browser.open(f"{address}?instance=replica-987", 360)
        assert "Of 1 of 1 000 instances" in browser.evaluate(
            "document.body.innerText.replace(/\\u202f/g, ' ')"
        )


def test_clusters_are_those_of_the_producers_labels():
    """Of who has none it is that of the source of all its sources, or by who replicates."""
    cuts = collection_cuts(1, 3)
    result = replace(healthy(1), cuts=cuts)
    assert {"source-1"} == set(clusters_of(result).values())
    labels = {"source-1": "blue", "replica-2": "green"}
    labelled = [replace(cut, cluster=labels.get(cut.instance_id)) for cut in cuts]
    assert clusters_of(replace(result, cuts=labelled)) == {
        "source-1": "blue",
        "replica-1": "blue",
        "replica-2": "green",
        "replica-3": "blue",
    }


def test_who_is_ready_is_answered_with_a_status(tmp_path):
    """200 yes, 503 no or undecided, with the same document as the command; the token guards it."""
    history = simulate(Scenario(seed=1, topology="pair"))
    lines = tmp_path / "pair.jsonl"
    text = (f"{line}\n" for block in history.blocks(4096) for line in block_to_lines(block))
    lines.write_text("".join(text))
    tables.write(replay([str(lines)], frozenset()), str(tmp_path / "run" / "tables"))
    (tmp_path / "token").write_text("a token of 24 characters")
    (tmp_path / "token").chmod(0o600)
    with serving(tmp_path / "run") as address:
        yes, text = ask(address, "/ready/failover/replica-a1?max-age=1e10")
        assert (200, "yes") == (yes.status, json.loads(text)["answer"])
        assert "no-store" == yes.headers["Cache-Control"]
        no, text = ask(address, "/ready/failover/source-a?max-age=1e10")
        assert (503, "no") == (no.status, json.loads(text)["answer"])
        old, text = ask(address, "/ready/backup/replica-a1")
        assert (503, "undecided") == (old.status, json.loads(text)["answer"])
        assert 120.0 == json.loads(text)["max_age_s"]
        for path, status in (
            ("backup/none", 404), ("restore/replica-a1", 404), ("backup/replica-a1?max-age=x", 400),
            ("backup/replica-a1?max-age=nan", 400), ("backup/replica-a1?max-age=-1", 400),
        ):  # fmt: skip
            assert status == ask(address, f"/ready/{path}")[0].status
        (tmp_path / "run" / "tables").rename(tmp_path / "gone")
        gone, text = ask(address, "/ready/failover/replica-a1")
        assert (503, True) == (gone.status, "there is no directory" in text)
        (tmp_path / "gone").rename(tmp_path / "run" / "tables")
    token = f"--serve-token-file={tmp_path / 'token'}"
    with serving(tmp_path / "run", token) as address:
        assert 401 == ask(address, "/ready/backup/replica-a1")[0].status
        bearer = {"Authorization": "Bearer a token of 24 characters"}
        assert 503 == ask(address, "/ready/backup/replica-a1", **bearer)[0].status
