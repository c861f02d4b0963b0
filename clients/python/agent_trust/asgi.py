"""`GuardASGI`: the middleware for FastAPI, Starlette and every other ASGI program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import quote

from .errors import AgentTrustError
from .guard import (
    BODY_BYTES_MAX,
    FORGEABLE,
    Guard,
    GuardedRequest,
    GuardError,
    GuardRoute,
    OpenRoute,
    PassedDecision,
    Refusal,
    body_too_large,
    is_sendable,
    unsendable,
)
from .settlement import Ending, GuardedAnswer, OnReportError, Report, log_report_error
from .sidecar import AsyncSidecar

__all__ = ["GuardASGI", "GuardError", "GuardRoute", "GuardedRequest", "OpenRoute", "PassedDecision"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
# A server that stops waits for outcomes as long as one may take. What is late ends with its hold.
_REPORTS_AWAITED_S = 5.0


class GuardASGI:
    """Asks a gate before `app` gets a request. The app gets it on a PERMIT alone.

    Every route has to be named: a `GuardRoute` is asked for, an `OpenRoute` is passed on, anything else is
    answered 403. Put the guard outside of everything that rewrites paths. The decision is
    `scope["state"]["agent_trust"]`, in Starlette and FastAPI `request.state.agent_trust`. A body is read
    first, at most `body_bytes_max` bytes of it (413 beyond), and given to the app in one piece. WebSockets
    are refused. `control_plane_url` is where agents reach the control plane: a SUSPEND leads them to their
    approval there. Raises `GuardError` where the service refuses the question itself (500). With `settle`
    outcomes are reported after answers; the end of the lifespan waits for them. `on_report_error` gets the
    error of one that was not reported; default: it is logged.
    """

    def __init__(
        self,
        app: App,
        *,
        sidecar: AsyncSidecar,
        control_plane_url: str,
        routes: Iterable[GuardRoute | OpenRoute],
        origin: str | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
        on_report_error: OnReportError = log_report_error,
    ) -> None:
        # One that is not asynchronous would stop the event loop for the time of each question.
        if not isinstance(sidecar, AsyncSidecar):
            raise TypeError("sidecar must be an AsyncSidecar")
        self._app, self._sidecar, self._body_bytes_max = app, sidecar, body_bytes_max
        self._guard = Guard(control_plane_url, routes, origin)
        self._on_report_error = on_report_error
        # The loop itself keeps no task from being collected.
        self._reports: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, self._after_reports(receive), send)
        if scope["type"] != "http":
            # Before it is accepted, that is 403. A type that is not known yet is not passed on either.
            return await send({"type": "websocket.close", "code": 1008})
        raw_path = scope.get("raw_path")
        raw = None if raw_path is None else raw_path.decode("latin-1").split("?")[0]
        found = self._guard.route_for(scope["method"], scope["path"], raw)
        if isinstance(found, Refusal):
            return await _answer(send, found)
        kept = [header for header in scope["headers"] if not FORGEABLE.fullmatch(header[0].decode("latin-1"))]
        state = {name: value for name, value in (scope.get("state") or {}).items() if name != "agent_trust"}
        scope = {**scope, "headers": kept, "state": state}
        route, params = found
        if isinstance(route, OpenRoute):
            return await self._app(scope, receive, send)

        headers: dict[str, list[str]] = {}
        for name, value in kept:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        query = scope.get("query_string", b"").decode("latin-1")
        target = (quote(scope["path"]) if raw is None else raw) + (f"?{query}" if query else "")
        head = GuardedRequest(scope["method"], scope["path"], target, headers, params, b"", scope)
        # Before the body: who shows no passport is not waited for.
        if route.passport_from is None:
            passport = self._guard.passport_of(route, head)
            if isinstance(passport, Refusal):
                return await _answer(send, passport)
        body = await self._read_body(receive)
        if body is None:
            return None
        if isinstance(body, Refusal):
            return await _answer(send, body)
        request = GuardedRequest(scope["method"], scope["path"], target, headers, params, body, scope)
        verdict = await self._decide(route, request)
        if isinstance(verdict, Refusal):
            return await _answer(send, verdict)
        state["agent_trust"] = verdict
        ending = Ending(route, verdict, request, self._on_report_error)
        if not ending.is_awaited:
            return await self._app(scope, _replay(body, receive), send)
        return await self._serve(ending, scope, body, receive, send)

    async def _serve(
        self, ending: Ending, scope: Scope, body: bytes, receive: Receive, send: Send
    ) -> None:
        client = _Client(body, receive, lambda: self._report(ending.report("left")))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                ending.answer = _answer_of(message)
            is_last = _is_last(message)
            # After the last message a server tells the same as of a client that leaves.
            client.is_answered = is_last
            try:
                await send(message)
            except OSError:
                self._report(ending.report("left"))
                raise
            if is_last:
                self._report(ending.report("served"))

        try:
            await self._app(scope, client.receive, answer)
        except asyncio.CancelledError:
            # By the server: its client has left, or it stops.
            self._report(ending.report("left"))
            raise
        finally:
            self._report(ending.report("failed"))
            client.close()

    def _report(self, report: Report | None) -> None:
        if report is None:
            return

        attestation_id, outcome, amount = report

        async def send() -> None:
            try:
                await self._sidecar.report_outcome(attestation_id, outcome, amount=amount)
            except Exception as error:
                self._on_report_error(error)

        task = asyncio.create_task(send())
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    def _after_reports(self, receive: Receive) -> Receive:
        async def later() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown" and self._reports:
                await asyncio.wait(self._reports, timeout=_REPORTS_AWAITED_S)
            return message

        return later

    async def _decide(self, route: GuardRoute, request: GuardedRequest) -> PassedDecision | Refusal:
        passport = self._guard.passport_of(route, request)
        if isinstance(passport, Refusal):
            return passport
        question = self._guard.question(route, request, passport)
        if isinstance(question, Refusal):
            return question
        try:
            decision = await self._sidecar.check(
                question.gate,
                question.passport,
                question.request,
                traceparent=request.header("traceparent"),
                tracestate=request.header("tracestate"),
            )
        except AgentTrustError as error:
            return self._guard.refusal_for(error)
        except (ValueError, TypeError, RecursionError):
            if is_sendable(question.request):
                raise
            return unsendable()
        return self._guard.verdict(route, decision)

    async def _read_body(self, receive: Receive) -> bytes | Refusal | None:
        """None: the client went away."""
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._body_bytes_max:
                return body_too_large()
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)


class _Client:
    """Hears the client of a request leave, also where the program does not listen. Its body is read."""

    def __init__(self, body: bytes, receive: Receive, on_left: Callable[[], None]) -> None:
        self._on_left = on_left
        self.is_answered = False
        self._gone = asyncio.ensure_future(receive())
        self._gone.add_done_callback(self._note)
        self.receive = _replay(body, self._hear)

    async def _hear(self) -> Message:
        return await asyncio.shield(self._gone)

    def _note(self, gone: asyncio.Future[Message]) -> None:
        if gone.cancelled():
            return
        gone.exception()
        if not self.is_answered:
            self._on_left()

    def close(self) -> None:
        self._gone.cancel()


def _is_last(message: Message) -> bool:
    kind = message["type"]
    if kind in ("http.response.body", "http.response.zerocopysend"):
        return not message.get("more_body", False)
    return bool(kind == "http.response.pathsend")


def _answer_of(start: Message) -> GuardedAnswer:
    headers: dict[str, list[str]] = {}
    for name, value in start.get("headers", ()):
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return GuardedAnswer(start["status"], headers)


def _replay(body: bytes, receive: Receive) -> Receive:
    is_given = False

    async def again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _answer(send: Send, refusal: Refusal) -> None:
    headers, body = refusal.rendered()
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
