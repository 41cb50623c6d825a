"""Real servers, tails, an audit with page and alerts, receivers and a browser: all a user has."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tallystick.deploy.ports import HOST, free_base_port
from tallystick.producers.mysql_lab.layout import HUB, REPLICA_1, REPLICA_2, SOURCE_A, SOURCE_B
from tallystick.servers.lab import Lab
from tests.support.started_commands import Commands
from tests.tallystick.alerts.receivers import Alertmanager, Receiver
from tests.tallystick.outputs.chromium import Chromium

CHAIN, OTHERS = (SOURCE_A, REPLICA_1, REPLICA_2), (SOURCE_B, HUB)
"""Two tails follow the fleet."""
INTERVAL_S = 3.0
DEADLINE_S = 240.0
LOOK_S = 0.25
GRAVITY = ("CONSISTENT", "UNDECIDED", "INCONSISTENT")
# On a busy machine a page is looked at while its end is on the way.
_IS_SHOWN = "document.readyState === 'complete' && document.querySelector('.verdict') !== null"
_PAGE = """JSON.stringify((() => {
  const all = (path, of = document) => [...of.querySelectorAll(path)];
  const text = (path, of) => of.querySelector(path)?.textContent.trim();
  const symbol = of => of.querySelector("svg.symbol use")?.getAttribute("href");
  const pairs = (path, value) => Object.fromEntries(all(path).map(value));
  return {
    word: text(".verdict .word", document),
    words: document.querySelector("#verdict").innerText,
    title: document.title,
    nodes: pairs(".drawing g:has(> use)", g => text("title", g).split(": ")),
    strips: pairs(".strip:has(svg.symbol)", s => [text("bdi", s), symbol(s)]),
    cards: pairs(".cards .card", c => [text("h3", c), text(".badge", c)]),
    incidents: all("#incidents li[id]").map(i =>
      [i.id.replace("incident-", ""), text(".badge", i), text("code", i), text("bdi", i)]),
  };
})())"""
_SYMBOLS = {"#good": "CONSISTENT", "#open": "UNDECIDED", "#bad": "INCONSISTENT"}


class Page(NamedTuple):
    """What the page shows of now, each thing as it is shown there.

    ``strips`` has None where nothing is known; ``incidents`` are id, state, rule and instance.
    """

    word: str
    words: str
    title: str
    nodes: dict[str, str]
    strips: dict[str, str | None]
    cards: dict[str, str]
    incidents: list[tuple[str, str, str, str]]

    @property
    def newest(self) -> str:
        """The newest collection, whose name begins with when it was asked for."""
        found = re.search(r"c-\d{8}T\d{6}Z-\d+", self.words)
        return found.group() if found else ""

    def problems(self) -> list[str]:
        """In what the page does not agree with itself."""
        found = []
        if not self.title.startswith(f"{self.word}:"):
            found.append(f"hero {self.word}, title {self.title}")
        strips = dict(self.strips)
        fleet = strips.pop("Fleet", None)
        if fleet is None:  # stale: the rest is as it was then
            return found if self.word == "UNDECIDED" else [*found, f"{self.word}, Fleet unknown"]
        if fleet != self.word:
            found.append(f"hero {self.word}, timeline {fleet}")
        for name in strips.keys() | self.nodes.keys() | self.cards.keys():
            shown = [of.get(name) for of in (self.nodes, strips, self.cards)]
            if len(set(shown)) != 1:
                found.append(f"{name}: node, timeline, card {shown}")
        worst = max(self.cards.values(), key=GRAVITY.index, default="UNDECIDED")
        if worst != self.word:
            found.append(f"hero {self.word}, worst card {worst}")
        if ("open" in {state for _, state, _, _ in self.incidents}) != (worst == GRAVITY[-1]):
            found.append(f"hero {self.word}, incidents {self.incidents}")
        return found


class WatchedFleet:
    """A lab that is audited; everything runs as a process of its own.

    Args:
        lab: Its servers.
        directory: Where the commands run.
        bootstrap_servers: The broker.
        browser: Looks at the page all the time.

    Attributes:
        webhook: Takes alerts from the audit.
        notified: Takes the notifications of the Alertmanager.
        measured: Seconds that something took, and in how many it should be done.
        looked: How often the page was looked at.
        disagreed: What did not agree there, with when and what the page showed.
    """

    def __init__(
        self, lab: Lab, directory: Path, bootstrap_servers: str, browser: Chromium
    ) -> None:
        self.lab = lab
        self.directory = directory
        self.browser = browser
        self._listen = f"{HOST}:{free_base_port(1)}"
        self.webhook, self.notified = Receiver(), Receiver()
        self.alertmanager = Alertmanager(directory, self.notified)
        self.commands = Commands(
            directory,
            bootstrap_servers,
            collect_interval_s=str(INTERVAL_S),
            collect_deadline_s="10",
            page_url=f"http://{self._listen}/",
        )
        self.tails: dict[tuple[str, ...], subprocess.Popen[str]] = {}
        self.audit: subprocess.Popen[str] | None = None
        self.measured: dict[str, tuple[float, float]] = {}
        self.looked = 0
        self.disagreed: list[tuple[float, list[str], Page]] = []

    def start(self) -> None:
        """Everything, until the page shows an answer of each server."""
        self.alertmanager.start()
        for names in (CHAIN, OTHERS):
            self.start_tail(names)
        self.start_audit()
        self.open_page()
        self.until(lambda page: len(page.cards) == len(CHAIN + OTHERS), "no answers")

    def stop(self) -> None:
        """Everything."""
        self.commands.kill_all()
        self.alertmanager.stop()
        self.webhook.stop()
        self.notified.stop()

    def start_tail(self, names: tuple[str, ...]) -> None:
        """A tail of some servers."""
        sections = self.lab.config_file.read_text("utf-8").split("\n\n")
        kept = [s for s in sections if s.startswith("#") or s[9:].partition("]")[0] in names]
        config = self.lab.directory / f"{names[0]}.toml"
        config.write_text("\n\n".join(kept) + "\n", "utf-8")
        flags = ("--config", str(config), "--directory", f"tail-{names[0]}", "--from-oldest")
        self.tails[names] = self.commands.start("tail", *flags)

    def start_audit(self) -> None:
        """The job, with page and alerts."""
        self.audit = self.commands.start(
            *("audit", "--serve", "--listen", self._listen),
            *("--alert", f"webhook={self.webhook.url}", "--alert", "log=alerts.log"),
            *("--alert", f"alertmanager={self.alertmanager.url}"),
        )

    def open_page(self) -> None:
        """In the browser, when it is served."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            self.browser.open(f"http://{self._listen}/")
            if self.browser.evaluate(_IS_SHOWN):
                return
            assert time.monotonic() < deadline, "no page"
            time.sleep(0.2)

    def page(self) -> Page:
        """What the page shows; where it does not agree with itself is noted."""
        shown = json.loads(self.browser.evaluate(_PAGE))
        shown["strips"] = {name: _SYMBOLS.get(of) for name, of in shown["strips"].items()}
        shown["incidents"] = [tuple(one) for one in shown["incidents"]]
        page = Page(**shown)
        self.looked += 1
        problems = page.problems()
        if problems and not (self.disagreed and self.disagreed[-1][2] == page):
            self.disagreed.append((time.time(), problems, page))
        return page

    def until(
        self, is_so: Callable[[Page], object], what: str, deadline_s: float = DEADLINE_S
    ) -> Page:
        """Watch the page until a condition holds."""
        deadline = time.monotonic() + deadline_s
        while not is_so(page := self.page()):
            assert time.monotonic() < deadline, (what, page, self.alerts())
            time.sleep(LOOK_S)
        return page

    def wait(self, seconds: float) -> None:
        """Watch the page for a while."""
        ends = time.monotonic() + seconds
        self.until(lambda _: time.monotonic() > ends, "", seconds + DEADLINE_S)

    def measure(self, what: str, seconds: float, bound_s: float) -> None:
        """Keep how long something took, and in how many seconds it should be done."""
        self.measured[what] = round(seconds, 2), bound_s

    def alerts(self) -> list[tuple[str, str, str]]:
        """What the webhook has taken: kind, rule and instance."""
        return [(one["kind"], one["rule"], one["instance"]) for one in self.webhook.taken]

    def alerted(
        self, kind: str, rule: str, instance: str, deadline_s: float = DEADLINE_S
    ) -> tuple[dict[str, Any], float]:
        """The newest such alert, once there is one, and when it came."""
        self.until(lambda _: (kind, rule, instance) in self.alerts(), f"{kind} {rule}", deadline_s)
        n = max(n for n, one in enumerate(self.alerts()) if one == (kind, rule, instance))
        return self.webhook.taken[n], self.webhook.taken_at[n]

    def repeated(self) -> dict[tuple[str, str], int]:
        """Alerts that the log has more than once, or that were sent more than once as the first."""
        path = self.directory / "alerts.log"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        ids = Counter(("log", line.rpartition("alert ")[2].rstrip(")")) for line in lines)
        ids += Counter(
            ("webhook", headers["webhook-id"])
            for headers, _ in self.webhook.got
            if headers["Tallystick-Attempt"] == "1"
        )
        return {key: count for key, count in ids.items() if count > 1}

    def notifications(self) -> Counter[tuple[str, str, str]]:
        """What the Alertmanager has sent on: status, rule and instance."""
        return Counter(
            (one["status"], one["labels"]["rule"], one["labels"]["instance"])
            for group in self.notified.taken
            for one in group["alerts"]
        )

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        process = self.commands.start(*arguments)
        output, _ = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, arguments
        return output

    def picture(self, name: str) -> None:
        """The page as it looks now, for who wants to see it."""
        self.browser.picture(self.directory / f"{name}.png")
