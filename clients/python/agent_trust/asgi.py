"""`GuardASGI`: the middleware for FastAPI, Starlette and every other ASGI program."""

from __future__ import annotations

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
from .sidecar import AsyncSidecar

__all__ = ["GuardASGI", "GuardError", "GuardRoute", "GuardedRequest", "OpenRoute", "PassedDecision"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class GuardASGI:
    """Asks a gate before `app` gets a request. The app gets it on a PERMIT alone.

    Every route has to be named: a `GuardRoute` is asked for, an `OpenRoute` is passed on, anything else is
    answered 403. Put the guard outside of everything that rewrites paths. The decision is
    `scope["state"]["agent_trust"]`, in Starlette and FastAPI `request.state.agent_trust`. A body is read
    first, at most `body_bytes_max` bytes of it (413 beyond), and given to the app in one piece. WebSockets
    are refused. `control_plane_url` is where agents reach the control plane: a SUSPEND leads them to their
    approval there. Raises `GuardError` where the service refuses the question itself (500).
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
    ) -> None:
        # One that is not asynchronous would stop the event loop for the time of each question.
        if not isinstance(sidecar, AsyncSidecar):
            raise TypeError("sidecar must be an AsyncSidecar")
        self._app, self._sidecar, self._body_bytes_max = app, sidecar, body_bytes_max
        self._guard = Guard(control_plane_url, routes, origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
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
        return await self._app(scope, _replay(body, receive), send)

    async def _decide(self, route: GuardRoute, request: GuardedRequest) -> PassedDecision | Refusal:
        passport = self._guard.passport_of(route, request)
        if isinstance(passport, Refusal):
            return passport
        question = self._guard.question(route, request, passport)
        if isinstance(question, Refusal):
            return question
        try:
            decision = await self._sidecar.check(
                question.gate, question.passport, question.request, traceparent=request.header("traceparent")
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
