"""A headless Chromium over its debugging pipe: no driver, no port, no library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
DEADLINE_S = 60


def find() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """One browser with one page; what the page asks for and says is kept."""

    def __init__(self, executable: str, profile: Path) -> None:
        to_browser, ours_out = os.pipe()
        ours_in, from_browser = os.pipe()

        def wire() -> None:
            # The browser reads commands from 3 and writes answers to 4. Copies first: an end that
            # is 3 or 4 already must not be overwritten before it is read.
            commands, answers = os.dup(to_browser), os.dup(from_browser)
            high = [os.dup(commands), os.dup(answers)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=wire,  # noqa: PLW1509  # this process has one thread
            close_fds=False,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._out, self._in, self._buffer = ours_out, ours_in, b""
        self._number = 0
        self.requests: list[str] = []
        self.said: list[str] = []
        targets = self.ask("Target.getTargets")["targetInfos"]
        (page,) = [t["targetId"] for t in targets if t["type"] == "page"]
        attached = self.ask("Target.attachToTarget", targetId=page, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    _session = None

    def ask(self, method: str, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._until(lambda m: m.get("id") == self._number)["result"]

    def open(
        self, page: Path | str, width: int = 1200, height: int = 900, dark: bool = False
    ) -> None:
        self.requests.clear()
        self.said.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = "dark" if dark else "light"
        self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.ask("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        self._until(lambda m: m.get("method") == "Page.loadEventFired")

    def evaluate(self, expression: str):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def _until(self, is_wanted):
        deadline = time.monotonic() + DEADLINE_S
        last = b""
        while True:
            while b"\0" in self._buffer:
                last, _, self._buffer = self._buffer.partition(b"\0")
                message = json.loads(last)
                self._note(message)
                if is_wanted(message):
                    assert "error" not in message, message
                    return message
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"nothing for {DEADLINE_S} s; the last message was {last[:300]!r}"
            self._buffer += os.read(self._in, 1 << 20)

    def _note(self, message) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Log.entryAdded":
            self.said.append(params["entry"]["text"])
        elif method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
            self.said.append(str(params))
        elif method == "Page.javascriptDialogOpening":
            self.said.append(f"dialog: {params}")
