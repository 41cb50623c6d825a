"""The page's server: on loopback without a token, on any other address with one."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import math
import secrets
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib import resources
from typing import Any, final
from urllib.parse import urlsplit

from aiohttp import web

from tallystick.coordinates.answers.purpose import MAX_AGE_S, Purpose
from tallystick.coordinates.answers.ready import ready, ready_document
from tallystick.errors import MisuseError
from tallystick.expectations.neutral import printable
from tallystick.outputs import html
from tallystick.outputs.html.live import Live, Query
from tallystick.page_server.address import Address
from tallystick.page_server.follow import Follower, Seen
from tallystick.runs.evidence import of_job
from tallystick.runs.result import RunResult
from tallystick.streaming.errors import TableError

COOKIE = "tallystick"
_CONNECTIONS_MAX = 64
_IDLE_S = 15.0
_FIELD_MAX = 4096
_REFUSED_AFTER_S = 1.0
_TEXTS_MAX = 8
_FORM_STYLE = (
    ":root { color-scheme: light dark } body { font: 1rem/1.6 system-ui, sans-serif;"
    " max-width: 24rem; margin: 20vh auto; padding: 0 1.25rem }"
    " input { font: inherit; width: 100% } button { font: inherit; margin-top: .8rem }"
)
_FORM_POLICY = (
    f"default-src 'none'; style-src {html.source_of(_FORM_STYLE)}; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_FORM = """<!DOCTYPE html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<title>tallystick</title><style>{}</style>
<main><form method="post" action="token"><p>{}</p><label>Token of this page
<input type="password" name="token" required autofocus autocomplete="current-password"></label>
<button>Open</button></form></main></html>"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@final
class PageServer:
    """Answers requests for the page.

    Args:
        follower: Reads the tables.
        address: Where it listens.
        token: Without it nothing is shown; None: to everybody who reaches the address.
    """

    def __init__(self, follower: Follower, address: Address, token: str | None) -> None:
        self._follower = follower
        self._address = address
        self._token = token
        self._session = secrets.token_urlsafe(32)
        files = resources.files("tallystick.outputs.html")
        self._script = files.joinpath("page.js").read_text("utf-8")
        self._one_page = asyncio.Lock()
        self._texts = _Texts()
        self._server: web.Server | None = None
        self._asked: set[object] = set()

    def application(self) -> web.Application:
        """The routes, after the checks."""
        application = web.Application(
            middlewares=[self._guard], client_max_size=_FIELD_MAX, handler_args=_LIMITS
        )
        application.router.add_get("/", self._page)
        application.router.add_get("/page.js", self._send_script)
        application.router.add_get("/ready/{purpose}/{instance}", self._ready)
        application.router.add_post("/token", self._take_token)
        return application

    async def listen(self, started: Callable[[str], None], stop: asyncio.Event) -> None:
        """Serve until it is to stop.

        Raises:
            MisuseError: The address cannot be listened on.
        """
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._server = runner.server
        try:
            site = web.TCPSite(runner, self._address.host, self._address.port)
            try:
                await site.start()
            except OSError as error:
                raise self._address.not_listened_on(error) from error
            started(f"http://{replace(self._address, port=site.port)}/")
            cutting = asyncio.create_task(self._cut_silent())
            await stop.wait()
            cutting.cancel()
        finally:
            await runner.cleanup()

    async def _cut_silent(self) -> None:
        """End connections that ask nothing: aiohttp waits for a first request without end."""
        assert self._server is not None
        waited: set[web.RequestHandler] = set()
        while True:
            await asyncio.sleep(_IDLE_S)
            connections = set(self._server.connections)
            self._asked &= connections
            silent = connections - self._asked
            for connection in silent & waited:
                connection.force_close()
            waited = silent

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._asked.add(request.protocol)
        try:
            answer = await self._answer(request, handler)
        except web.HTTPException as error:
            error.headers.update(_HEADERS)
            raise
        answer.headers.setdefault("Content-Security-Policy", "default-src 'none'")
        answer.headers.update(_HEADERS)
        return answer

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._server is not None and len(self._server.connections) > _CONNECTIONS_MAX:
            raise web.HTTPServiceUnavailable
        if not self._is_our_name(request.headers.get("Host", "")):
            raise web.HTTPMisdirectedRequest(text="This server has another name.\n")
        if request.path == "/token" or self._is_known(request):
            return await handler(request)
        return _form("")

    def _is_our_name(self, host: str) -> bool:
        """On loopback only its own names: a page of another host that resolves to it is refused."""
        if not self._address.is_loopback:
            return True
        try:
            name = urlsplit(f"//{host}").hostname
            return name == "localhost" or ipaddress.ip_address(name or "").is_loopback
        except ValueError:
            return False

    def _is_known(self, request: web.Request) -> bool:
        if self._token is None:
            return True
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        cookie = request.cookies.get(COOKIE, "")
        by_header = kind == "Bearer" and _is_same(given.strip(), self._token)
        return by_header or _is_same(cookie, self._session)

    async def _take_token(self, request: web.Request) -> web.StreamResponse:
        try:
            form = await asyncio.wait_for(request.post(), _IDLE_S)
        except asyncio.TimeoutError:
            raise web.HTTPRequestTimeout from None
        if self._token is None or not _is_same(str(form.get("token", "")), self._token):
            await asyncio.sleep(_REFUSED_AFTER_S)
            return _form("This is not the token.")
        there = web.Response(status=303, headers={"Location": "."})
        there.set_cookie(COOKIE, self._session, httponly=True, samesite="Strict", path="/")
        return there

    async def _send_script(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text=self._script, content_type="text/javascript")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        try:
            query = Query.of(request.query)
        except (OverflowError, ValueError):
            raise web.HTTPBadRequest(
                text="at: expected a time as 2026-03-01T12:00:00, UTC where it names no zone.\n"
            ) from None
        # One at a time: readers wait for each other, not for all processors.
        async with self._one_page:
            made = await asyncio.to_thread(self._render, query)
        if made is None:
            raise web.HTTPNotFound(text="The tables have no such collection.\n")
        text, policy, age_s = made
        tag = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
        headers = {"Content-Security-Policy": policy, "ETag": f'"{tag}"'}
        if age_s is not None:
            headers["Tallystick-Age"] = f"{age_s:.1f}"
        if request.headers.get("If-None-Match", "").strip('"') == tag:
            return web.Response(status=304, headers=headers)
        body = text.encode("utf-8", "backslashreplace")
        answer = web.Response(body=body, content_type="text/html", charset="utf-8", headers=headers)
        answer.enable_compression()
        return answer

    async def _ready(self, request: web.Request) -> web.StreamResponse:
        """200: yes; 503: no, or undecided; for tools that ask before they act."""
        names = ", ".join(one.value for one in Purpose)
        purpose = next((p for p in Purpose if p.value == request.match_info["purpose"]), None)
        if purpose is None:
            raise web.HTTPNotFound(text=f"Expected one of {names}.\n")
        max_age_s = _max_age(request.query.get("max-age"))
        async with self._one_page:
            answer = await asyncio.to_thread(
                self._decide, purpose, request.match_info["instance"], max_age_s
            )
        return web.json_response(answer, status=200 if answer["answer"] == "yes" else 503)

    def _decide(self, purpose: Purpose, instance_id: str, max_age_s: float) -> dict[str, Any]:
        try:
            evidence = of_job(self._follower.directory, "tallystick serve")
        except (MisuseError, TableError) as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        if instance_id not in evidence.instances:
            known = ", ".join(map(printable, evidence.instances))
            raise web.HTTPNotFound(text=f"No instance has this name; known are: {known}.\n")
        return ready_document(ready(purpose, instance_id, evidence, max_age_s), evidence)

    def _render(self, query: Query) -> tuple[str, str, float | None] | None:
        now = time.time()
        try:
            newest = self._follower.now()
            seen: Seen | None = newest
            if query.is_earlier:
                seen = self._follower.at(ts=query.ts, collection_id=query.collection)
        except TableError as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        if seen is None:
            return None
        live = Live(
            newest_at=newest.newest_at,
            is_stale=newest.is_stale(now),
            stale_after_s=newest.stale_after_s,
            is_earlier=query.is_earlier,
            later=_after(seen.result, newest.result) if query.is_earlier else None,
        )
        text = self._texts.of(newest.version, live, query, seen.result)
        return text, html.LIVE_POLICY, newest.age_s(now)


@final
class _Texts:
    """Pages as they were sent: that of a large fleet takes seconds, and browsers ask again."""

    def __init__(self) -> None:
        self._version = ""
        self._made: dict[tuple[Live, Query], str] = {}

    def of(self, version: str, live: Live, query: Query, result: RunResult) -> str:
        """The page, made anew if something was committed since, or if nobody has asked for it."""
        if version != self._version:
            self._version = version
            self._made.clear()
        text = self._made.get((live, query))
        if text is None:
            text = html.render_live(result, live, query)
            if len(self._made) == _TEXTS_MAX:
                self._made.pop(next(iter(self._made)))
            self._made[live, query] = text
        return text


_LIMITS = {
    "keepalive_timeout": _IDLE_S,
    "max_line_size": _FIELD_MAX,
    "max_field_size": _FIELD_MAX,
    "lingering_time": 1.0,
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "tallystick",
}


def _max_age(text: str | None) -> float:
    try:
        seconds = MAX_AGE_S if text is None else float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise web.HTTPBadRequest(text="max-age: expected seconds, 0 or more.\n")
    return seconds


def _after(earlier: RunResult, newest: RunResult) -> str | None:
    """The first collection of a result that another one does not reach."""
    last = max((cut.ts for cut in earlier.newest_cuts), default=0)
    later = (rows for rows in newest.collections if min(cut.ts for cut in rows) > last)
    return next((rows[0].collection_id for rows in later), None)


def _form(text: str) -> web.Response:
    answer = web.Response(
        status=401, text=_FORM.format(_FORM_STYLE, text), content_type="text/html"
    )
    answer.headers["Content-Security-Policy"] = _FORM_POLICY
    return answer


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode("utf-8", "replace"))


def serve(
    follower: Follower, address: Address, token: str | None, started: Callable[[str], None]
) -> int:
    """Serve until SIGINT or SIGTERM.

    Returns:
        128 and the signal's number.

    Raises:
        MisuseError: The address cannot be listened on.
    """
    received: list[int] = []

    async def until_stopped() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def take(number: int) -> None:
            received.append(number)
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, take, number)
        await PageServer(follower, address, token).listen(started, stop)

    asyncio.run(until_stopped())
    return 128 + received[0]
