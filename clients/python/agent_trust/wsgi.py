"""`GuardWSGI`: the middleware for Flask, Django and every other WSGI program."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any, Literal
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
    body_incomplete,
    body_too_large,
    is_sendable,
    length_required,
    unsendable,
)
from .settlement import Ending, GuardedAnswer, OnReportError, log_report_error
from .sidecar import Sidecar

__all__ = ["GuardError", "GuardRoute", "GuardWSGI", "GuardedRequest", "OpenRoute", "PassedDecision"]

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class GuardWSGI:
    """Asks a gate before `app` gets a request. The app gets it on a PERMIT alone.

    As `GuardASGI`: every route has to be named, and anything else is answered 403. The decision is
    `environ["agent_trust"]` (Flask: `request.environ`, Django: `request.META`). With `settle` the outcome is
    reported in the thread of the request, after its answer. `on_report_error` gets the error of one that was
    not reported; default: it is logged.
    """

    def __init__(
        self,
        app: App,
        *,
        sidecar: Sidecar,
        control_plane_url: str,
        routes: Iterable[GuardRoute | OpenRoute],
        origin: str | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
        on_report_error: OnReportError = log_report_error,
    ) -> None:
        if not isinstance(sidecar, Sidecar):
            raise TypeError("sidecar must be a Sidecar")
        self._on_report_error = on_report_error
        self._app, self._sidecar, self._body_bytes_max = app, sidecar, body_bytes_max
        self._guard = Guard(control_plane_url, routes, origin)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        for name in [name for name in environ if _is_forgeable(name)]:
            del environ[name]
        environ.pop("agent_trust", None)
        try:
            path = _decoded(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
        except UnicodeError:
            path = "\ufffd"  # Refused as a path that can be read in several ways.
        sent = environ.get("RAW_URI") or environ.get("REQUEST_URI")
        raw = None if sent is None else _path_of(sent)
        found = self._guard.route_for(environ["REQUEST_METHOD"], path, raw)
        if isinstance(found, Refusal):
            return _answer(start_response, found)
        route, params = found
        if isinstance(route, OpenRoute):
            return self._app(environ, start_response)

        query = environ.get("QUERY_STRING", "")
        has_query = query != "" or "?" in (sent or "")
        target = (quote(path) if raw is None else raw) + (f"?{query}" if has_query else "")
        headers = {
            name[5:].replace("_", "-").lower(): [value]
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        if "CONTENT_TYPE" in environ:
            headers["content-type"] = [environ["CONTENT_TYPE"]]
        head = GuardedRequest(environ["REQUEST_METHOD"], path, target, headers, params, b"", environ)
        # Before the body: who shows no passport is not waited for.
        if route.passport_from is None:
            passport = self._guard.passport_of(route, head)
            if isinstance(passport, Refusal):
                return _answer(start_response, passport)
        body = self._read_body(environ)
        if isinstance(body, Refusal):
            return _answer(start_response, body)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        request = GuardedRequest(head.method, path, target, headers, params, body, environ)
        verdict = self._decide(route, request)
        if isinstance(verdict, Refusal):
            return _answer(start_response, verdict)
        environ["agent_trust"] = verdict
        ending = Ending(route, verdict, request, self._on_report_error)
        return self._serve(ending, environ, start_response)

    def _serve(self, ending: Ending, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if not ending.is_awaited:
            return self._app(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            values: dict[str, list[str]] = {}
            for name, value in headers:
                values.setdefault(name.lower(), []).append(value)
            ending.answer = GuardedAnswer(int(status[:3]), values)
            return start_response(status, headers, *error)

        def report(ended: Literal["served", "failed", "left"]) -> None:
            found = ending.report(ended)
            if found is None:
                return
            try:
                self._sidecar.report_outcome(found.attestation_id, found.outcome, amount=found.amount)
            except Exception as error:
                self._on_report_error(error)

        try:
            return _Reported(self._app(environ, start), report)
        except BaseException:
            report("failed")
            raise

    def _decide(self, route: GuardRoute, request: GuardedRequest) -> PassedDecision | Refusal:
        passport = self._guard.passport_of(route, request)
        if isinstance(passport, Refusal):
            return passport
        question = self._guard.question(route, request, passport)
        if isinstance(question, Refusal):
            return question
        try:
            decision = self._sidecar.check(
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

    def _read_body(self, environ: Environ) -> bytes | Refusal:
        length = environ.get("CONTENT_LENGTH") or ""
        if length.isascii() and length.isdigit():
            size = int(length[:12])
        elif environ.get("wsgi.input_terminated"):
            size = self._body_bytes_max + 1
        elif "HTTP_TRANSFER_ENCODING" in environ or length:
            # The app might read a body that the guard cannot see the end of.
            return length_required()
        else:
            return b""
        if size > self._body_bytes_max and length:
            return body_too_large()
        body: bytes = environ["wsgi.input"].read(size)
        if len(body) > self._body_bytes_max:
            return body_too_large()
        return body_incomplete() if length and len(body) < size else body


class _Reported:
    """The chunks of an answer. The server closes it after the last one, or where its client is gone."""

    def __init__(
        self, chunks: Iterable[bytes], report: Callable[[Literal["served", "failed", "left"]], None]
    ) -> None:
        self._chunks, self._report = chunks, report
        self._ended: Literal["served", "failed", "left"] = "left"

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks
            self._ended = "served"
        except GeneratorExit:
            raise
        except BaseException:
            self._ended = "failed"
            raise

    def close(self) -> None:
        try:
            close = getattr(self._chunks, "close", None)
            if close is not None:
                close()
        finally:
            self._report(self._ended)


def _decoded(path: str) -> str:
    """WSGI has the bytes of a path as characters of ISO 8859-1 (PEP 3333)."""
    return path.encode("latin-1").decode()


def _path_of(sent: str) -> str:
    """Of an address with or without its origin."""
    path = sent.split("?")[0]
    return path if path.startswith("/") else "/" + path.split("/", 3)[-1] if "://" in path else path


def _is_forgeable(name: str) -> bool:
    return name.startswith("HTTP_") and FORGEABLE.fullmatch(name[5:]) is not None


def _answer(start_response: StartResponse, refusal: Refusal) -> list[bytes]:
    headers, body = refusal.rendered()
    start_response(f"{refusal.status} {HTTPStatus(refusal.status).phrase}", headers)
    return [body]
