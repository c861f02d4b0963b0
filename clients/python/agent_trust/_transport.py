"""One service, reached over connections that are kept open, each call within one deadline."""

from __future__ import annotations

import dataclasses
import email.utils
import http.client
import io
import os
import random
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from .errors import AgentTrustError, ConnectionError, ServiceError

# Of one answer: 500 attestations, or 200 deliveries of 64 KiB each with their attempts.
ANSWER_BYTES_MAX = 32 * 1024 * 1024
# An idle connection is closed on our side first, so that no request meets a connection that the server is
# just closing: the sidecar does so after 10 s, the control plane after 5 s.
_IDLE_S_MAX = 4.0
# Beyond it, calls wait for a connection within their deadline.
_CONNECTIONS_MAX = 128
_DEADLINE_MS_MAX = 24 * 60 * 60 * 1_000
# What is not an export is short: an answer with an error has less than 1 KiB.
_REFUSAL_BYTES_MAX = 64 * 1024


class Deadline:
    """A moment on the monotonic clock, by which a whole call has ended."""

    def __init__(self, ms: float) -> None:
        if isinstance(ms, bool) or not isinstance(ms, (int, float)) or not 1 <= ms <= _DEADLINE_MS_MAX:
            raise ValueError(f"deadline_ms must be 1 to {_DEADLINE_MS_MAX}")
        self.at = time.monotonic() + ms / 1_000

    def left_s(self) -> float:
        """Seconds that are left. Raises TimeoutError when there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer within the deadline")
        return left


_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]{0,72})?")
# What a header can hold, of the length that every party passes on (W3C Trace Context, 3.3.1.5).
_STATE = re.compile(r"[\x20-\x7e]{1,512}")


def trace_headers(traceparent: str | None, tracestate: str | None) -> dict[str, str]:
    """The headers of a trace. One that is not valid is left out, because it must not fail the call."""
    if traceparent is None or _TRACE.fullmatch(traceparent) is None:
        return {}
    if tracestate is None or _STATE.fullmatch(tracestate) is None:
        return {"traceparent": traceparent}
    return {"traceparent": traceparent, "tracestate": tracestate}


@dataclasses.dataclass(frozen=True, repr=False)
class Call:
    method: str
    path: str
    deadline: Deadline
    body: bytes | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # At most this many further attempts.
    retries_max: int = 0
    # First pause; each further one is twice as long, and up to half of it is random.
    pause_s: float = 0.25
    # Whether it may be sent again although its first copy may have had an effect.
    is_idempotent: bool = False
    # Whether a 503 says that nothing happened, as it does for a decision (contract §5).
    is_void_at_503: bool = False


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def request_id(self) -> str | None:
        return self.headers.get("x-request-id")


@dataclasses.dataclass(frozen=True)
class Failure:
    code: Literal["timeout", "connection_failed", "bad_answer"]
    # True where no byte of the request can have reached the server.
    is_unsent: bool
    cause: BaseException


class _Response(http.client.HTTPResponse):
    """Passes over every informational answer, such as 103; `http.client` does so for 100 alone."""

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            line: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            if not 100 < line[1] < 200 or line[1] == 101:
                return line
            http.client.parse_headers(self.fp)


class _Connection(http.client.HTTPConnection):
    """Every wait for the socket ends at the deadline of the call that uses the connection."""

    # Only `Transport` connects: `http.client` would do so again after a lost connection, and send twice.
    auto_open = 0
    sock: socket.socket

    def __init__(self, host: str, port: int, is_tls: bool) -> None:
        super().__init__(host, port)
        self.default_port = 443 if is_tls else 80
        self.deadline = Deadline(1)
        self.is_unsent = True
        # Whether more came than one answer: what follows would be taken for the answer of the next call.
        self.has_excess = False
        self.idle_since = 0.0
        self.response_class = self._response  # type: ignore[assignment]

    def send(self, data: Any) -> None:
        self.sock.settimeout(self.deadline.left_s())
        self.is_unsent = False
        self.sock.sendall(data)

    def _response(self, sock: socket.socket, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
        response = _Response(sock, *args, **kwargs)
        response.fp.close()
        response.fp = _AnswerFile(_Reader(self), self)
        return response

    def is_alive(self) -> bool:
        """Whether it may serve another call: not idle for too long, and with nothing to read."""
        if time.monotonic() - self.idle_since > _IDLE_S_MAX:
            return False
        self.sock.settimeout(0)
        try:
            # Of the class, because that of a TLS socket takes no flags. Bytes that nobody has asked for are
            # an end of the connection, or the answer of another question.
            socket.socket.recv(self.sock, 1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False


class _Reader(io.RawIOBase):
    """The bytes of one answer: each wait ends at the deadline, which no trickle of bytes moves."""

    def __init__(self, connection: _Connection) -> None:
        self._deadline = connection.deadline
        self._sock = connection.sock
        self._raw = connection.sock.makefile("rb", buffering=0)
        self.is_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.is_ended:
            return 0
        self._sock.settimeout(self._deadline.left_s())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
            super().close()


class _AnswerFile(io.BufferedReader):
    def __init__(self, reader: _Reader, connection: _Connection) -> None:
        super().__init__(reader)
        self._reader, self._connection = reader, connection

    def close(self) -> None:
        if not self.closed:
            # What is in the buffer by now, without another look at the socket.
            self._reader.is_ended = True
            self._connection.has_excess = len(self.peek(1)) > 0
        super().close()


class Transport:
    """Thread-safe. Holds the API key, and shows it to nobody. Follows no redirect and uses no proxy.

    Raises ValueError, which does not contain the key, for an address or a key that cannot be used.
    """

    def __init__(self, url: str, api_key: str) -> None:
        self._is_tls, self._host, self._port = _origin_of(url)
        if not isinstance(api_key, str) or not re.fullmatch(r"[\x21-\x7e]+", api_key):
            raise ValueError("api_key must be a key of agent-trust (at_…)")
        self._authorization = f"Bearer {api_key}"
        self._tls = ssl.create_default_context() if self._is_tls else None
        self._start()
        _transports.add(self)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        self._idle: list[_Connection] = []
        self._used: set[_Connection] = set()
        self._resolving: Future[list[Any]] | None = None

    def close(self) -> None:
        """Closes every connection; what is under way fails."""
        with self._lock:
            idle, self._idle = self._idle, []
            used = list(self._used)
        for connection in idle:
            connection.close()
        for connection in used:
            try:
                connection.sock.shutdown(socket.SHUT_RDWR)
            except (OSError, AttributeError):
                continue  # It is not connected yet, or not any more.

    def exchange(self, call: Call) -> Answer | Failure:
        """What came of the call, after retries where they are safe."""
        for attempt in range(call.retries_max + 1):
            outcome = self._attempt(call)
            if attempt == call.retries_max or not _may_repeat(call, outcome):
                break
            wait_ms = retry_after_ms(outcome.headers) if isinstance(outcome, Answer) else None
            backoff_s = call.pause_s * 2**attempt * (1 - random.random() / 2)
            wait_s = backoff_s if wait_ms is None else wait_ms / 1_000
            if time.monotonic() + wait_s >= call.deadline.at:
                break
            time.sleep(wait_s)
        return outcome

    def stream(self, call: Call) -> io.RawIOBase | Answer | Failure:
        """One attempt: the body as a file if it is 200, which gives its connection back when it is closed."""
        opened = self._open(call)
        if isinstance(opened, Failure):
            return opened
        connection, response = opened
        if response.status == 200:
            return _Body(self, connection, response)
        try:
            body = response.read(_REFUSAL_BYTES_MAX)
            return Answer(response.status, _headers_of(response), body)
        except (OSError, http.client.HTTPException) as cause:
            return _failure(cause, is_unsent=False)
        finally:
            self.release(connection, is_reusable=False)

    def release(self, connection: _Connection, is_reusable: bool) -> None:
        with self._lock:
            self._used.discard(connection)
            if is_reusable:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
        if not is_reusable:
            connection.close()
        self._free.release()

    def _attempt(self, call: Call) -> Answer | Failure:
        opened = self._open(call)
        if isinstance(opened, Failure):
            return opened
        connection, response = opened
        is_reusable = False
        try:
            body = _read_all(response)
            # A process that was stopped finds the answer in its socket long after the deadline.
            call.deadline.left_s()
            is_reusable = not response.will_close and not connection.has_excess
            return Answer(response.status, _headers_of(response), body)
        except (OSError, http.client.HTTPException) as cause:
            return _failure(cause, is_unsent=False)
        except _TooLarge as cause:
            return Failure("bad_answer", False, cause)
        finally:
            response.close()
            self.release(connection, is_reusable)

    def _open(self, call: Call) -> Failure | tuple[_Connection, http.client.HTTPResponse]:
        """One attempt, up to the headers of the answer."""
        try:
            if not self._free.acquire(timeout=call.deadline.left_s()):
                raise TimeoutError("no free connection within the deadline")
        except TimeoutError as cause:
            return _failure(cause, is_unsent=True)
        connection = None
        try:
            connection = self._take() or self._connect(call.deadline)
            connection.deadline, connection.is_unsent = call.deadline, True
            with self._lock:
                self._used.add(connection)
            connection.request(call.method, call.path, call.body, self._headers_for(call))
            return connection, connection.getresponse()
        except BaseException as cause:
            is_unsent = connection is None or connection.is_unsent
            if connection is None:
                self._free.release()
            else:
                self.release(connection, is_reusable=False)
            if isinstance(cause, (OSError, http.client.HTTPException)):
                return _failure(cause, is_unsent)
            raise

    def _headers_for(self, call: Call) -> dict[str, str]:
        headers = {"Accept": "application/json", "Authorization": self._authorization, **call.headers}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        elif call.method == "POST":
            # A POST without a body says so: the sidecar takes exactly one Content-Length.
            headers["Content-Length"] = "0"
        return headers

    def _take(self) -> _Connection | None:
        """The connection that was used last; None if none is left that may serve another call."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_alive():
                return connection
            connection.close()

    def _connect(self, deadline: Deadline) -> _Connection:
        failed: OSError = OSError("the name has no address")
        for family, kind, protocol, _, address in self._resolve(deadline):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(deadline.left_s())
                sock.connect(address)
                # The head and the body of a request are two writes.
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    sock = self._tls.wrap_socket(sock, server_hostname=self._host)
                connection = _Connection(self._host, self._port, self._is_tls)
                connection.sock = sock
                return connection
            except OSError as cause:
                sock.close()
                failed = cause
        raise failed

    def _resolve(self, deadline: Deadline) -> list[Any]:
        """`getaddrinfo` takes no timeout: it runs in a thread of its own, one at a time for all callers."""
        if re.fullmatch(r"[\d.]+|.*:.*", self._host):
            return socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        with self._lock:
            future = self._resolving
            if future is None:
                future = self._resolving = Future()
                threading.Thread(target=self._look_up, args=[future], daemon=True).start()
        return future.result(deadline.left_s())

    def _look_up(self, future: Future[list[Any]]) -> None:
        try:
            future.set_result(socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as cause:
            future.set_exception(OSError(f"the name of the service is not found: {cause}"))
        finally:
            with self._lock:
                self._resolving = None


_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


def _after_fork() -> None:
    # Two processes on one connection would take each other's answers, a PERMIT of another question too.
    for transport in list(_transports):
        for connection in transport._idle:
            if connection.sock is not None:
                connection.sock.close()
        transport._start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Body(io.RawIOBase):
    """A streamed answer. `for line in file` reads lines; `read(n)` reads bytes."""

    def __init__(self, transport: Transport, connection: _Connection, response: http.client.HTTPResponse):
        self._transport, self._connection, self._response = transport, connection, response
        self._is_whole = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._response.read(len(buffer))
            if not data and self._response.length:
                raise http.client.IncompleteRead(data, self._response.length)
        except (OSError, http.client.HTTPException) as cause:
            raise lost("the export", _failure(cause, is_unsent=False)) from cause
        self._is_whole = not data
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._response.close()
        is_whole = self._is_whole and not self._connection.has_excess
        is_reusable = is_whole and not self._response.will_close
        self._transport.release(self._connection, is_reusable)


def lost(what: str, failure: Failure) -> AgentTrustError:
    """The error of a call that got no answer of this service."""
    error_class = ServiceError if failure.code == "bad_answer" else ConnectionError
    return error_class(f"{what}: {failure.cause}", failure.code)


def segment(value: str) -> str:
    """An id as a part of a path. Raises ValueError for what is no id and could lead to another address."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,128}", value):
        return value
    raise ValueError('an id is 1 to 128 letters, digits, "_" and "-"')


def text_segment(value: str) -> str:
    """A name or a hash as a part of a path. Raises ValueError for text that could change the path."""
    if isinstance(value, str) and 1 <= len(value) <= 256 and value not in (".", ".."):
        return quote(value, safe="")
    raise ValueError('a name in an address is 1 to 256 characters, and neither "." nor ".."')


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """Seconds or an HTTP date; None: the header is missing or cannot be used."""
    value = headers.get("retry-after")
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,6}", value):
        return int(value) * 1_000
    try:
        at_s = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0, round((at_s - time.time()) * 1_000))


class _TooLarge(Exception):
    pass


def _origin_of(url: str) -> tuple[bool, str, int]:
    """`url` with or without a closing `/v1`, as `{base_url}` of the documents has it."""
    try:
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        port = parts.port if parts.port is not None else (443 if is_tls else 80)
        is_origin = (
            parts.scheme in ("http", "https")
            and re.fullmatch(r"(?:/v1)?/?", parts.path)
            and not parts.query
            and not parts.fragment
            and "@" not in parts.netloc
            and re.fullmatch(r"[A-Za-z0-9._:-]+", parts.hostname or "")
        )
    except (ValueError, AttributeError, TypeError):
        is_origin = None
    if not is_origin:
        raise ValueError("url must be an http or https origin, such as http://127.0.0.1:8090")
    return is_tls, parts.hostname or "", port


def _may_repeat(call: Call, outcome: Answer | Failure) -> bool:
    if isinstance(outcome, Failure):
        if outcome.code == "timeout":
            return False
        return outcome.is_unsent or (outcome.code == "connection_failed" and call.is_idempotent)
    # A refusal by a plan limit takes nothing.
    if outcome.status == 429:
        return True
    return outcome.status == 503 and (call.is_idempotent or call.is_void_at_503)


def _failure(cause: BaseException, is_unsent: bool) -> Failure:
    code: Literal["timeout", "connection_failed"] = (
        "timeout" if isinstance(cause, TimeoutError) else "connection_failed"
    )
    return Failure(code, is_unsent, cause)


def _headers_of(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _read_all(response: http.client.HTTPResponse) -> bytes:
    if response.length is not None and response.length > ANSWER_BYTES_MAX:
        raise _TooLarge(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
    # With a length, `read()` alone notices that the connection closed early.
    body = response.read() if response.length is not None else response.read(ANSWER_BYTES_MAX + 1)
    if len(body) > ANSWER_BYTES_MAX:
        raise _TooLarge(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
    return body
