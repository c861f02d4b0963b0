"""The control plane: `AgentTrust`, with one method for each operation of the API."""

from __future__ import annotations

import dataclasses
import io
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, TypeVar, cast
from urllib.parse import urlencode

from ._operations import Operations
from ._transport import (
    Answer,
    Call,
    Deadline,
    Failure,
    Transport,
    lost,
    retry_after_ms,
    segment,
    text_segment,
)
from .errors import error_of, parse_json
from .sidecar import encode_json


@dataclasses.dataclass(frozen=True)
class ResponseInfo:
    """What came with an answer besides its body. Names of headers are in lower case."""

    status: int
    request_id: str | None
    headers: Mapping[str, str]


class _Object(dict[str, Any]):
    """The JSON object of an answer, which knows the answer that it came with."""

    info: ResponseInfo


def response_of(answer: object) -> ResponseInfo:
    """Of an object that a method of `AgentTrust` returned. Raises TypeError for any other."""
    if not isinstance(answer, _Object):
        raise TypeError("this object was not returned by a call of AgentTrust")
    return answer.info


_DEADLINE_MS = 30_000.0
_EXPORT_MS = 60 * 60 * 1_000.0
_RETRIES_MAX = 5

Page = TypeVar("Page")


class AgentTrust(Operations):
    """The control plane. Thread-safe: one instance serves a whole program.

    A refusal is raised as an `AgentTrustError` of the class of its status, a missing answer as a
    `ConnectionError`, and what cannot be sent as a ValueError. `deadline_ms` (1 to a day, default 30,000; an
    export has an hour) is that of each call with its retries, at most `retries_max` (0 to 5, default 2).

    A call is repeated, after `Retry-After` or a growing pause, if it never reached the service, after 429,
    and after a lost connection or 503 if it reads, creates under an idempotency key, or asks for a decision
    under one. Each creation gets such a key of its own, the same for all of its repetitions. Nothing else is
    repeated: the service may have done it.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        api_key: str = "",
        *,
        deadline_ms: float | None = None,
        retries_max: int = 2,
    ) -> None:
        if deadline_ms is not None:
            Deadline(deadline_ms)
        if not isinstance(retries_max, int) or not 0 <= retries_max <= _RETRIES_MAX:
            raise ValueError(f"retries_max must be 0 to {_RETRIES_MAX}")
        self._transport = Transport(url, api_key)
        self._deadline_ms = deadline_ms
        self._retries_max = retries_max

    def close(self) -> None:
        """Closes its connections. A call that is under way fails."""
        self._transport.close()

    def __enter__(self) -> AgentTrust:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pages(self, operation: Callable[..., Page], /, *ids: str, **query: Any) -> Iterator[Page]:
        """All pages of a list: `agent_trust.pages(agent_trust.list_gates, limit=100)`.

        It follows `next_cursor`: items that come and go meanwhile make no other item come twice or be passed
        over. A service before version 0.3 has no cursors on most lists, and is walked by `offset`.
        """
        while True:
            page = operation(*ids, **query)
            yield page
            members = cast(Mapping[str, Any], page)
            if "next_cursor" in members:
                if members["next_cursor"] is None:
                    return
                query.pop("offset", None)
                query["cursor"] = members["next_cursor"]
            else:
                count = len(_items_of(members))
                query["offset"] = members.get("offset", 0) + count
                if count == 0 or query["offset"] >= members.get("total", 0):
                    return

    def items(self, operation: Callable[..., Any], /, *ids: str, **query: Any) -> Iterator[Any]:
        """All items of all pages: `for gate in agent_trust.items(agent_trust.list_gates): ...`."""
        for page in self.pages(operation, *ids, **query):
            yield from _items_of(page)

    def _call(
        self,
        method: str,
        path: str,
        flags: str,
        *,
        path_ids: Mapping[str, str],
        query: Mapping[str, str | int | None],
        headers: Mapping[str, str | None],
        body: Any,
        deadline_ms: float | None,
    ) -> Any:
        words = set(flags.split())
        default_ms = _EXPORT_MS if "stream" in words else _DEADLINE_MS
        own_ms = default_ms if self._deadline_ms is None else self._deadline_ms
        deadline = Deadline(own_ms if deadline_ms is None else deadline_ms)
        own = {name: value for name, value in headers.items() if value is not None}
        if "creates" in words:
            own.setdefault("idempotency-key", str(uuid.uuid4()))
        search = urlencode({name: value for name, value in query.items() if value is not None})
        address = re.sub(
            r"\{(\w+)\}",
            lambda found: (text_segment if found[1] in ("owner", "hash") else segment)(path_ids[found[1]]),
            path,
        )
        call = Call(
            method,
            address if search == "" else f"{address}?{search}",
            deadline,
            # Where a body is optional, an empty one is sent.
            encode_json({} if body is None else body) if "body" in words else None,
            {name: _header(name, value) for name, value in own.items()},
            retries_max=0 if "status" in words else self._retries_max,
            is_idempotent=method == "GET" or "creates" in words or _is_keyed_decision(body),
        )
        what = f"{method} {path}"
        return self._stream(call, what) if "stream" in words else self._answer(call, what, words)

    def _answer(self, call: Call, what: str, words: set[str]) -> Any:
        answer = self._transport.exchange(call)
        if isinstance(answer, Failure):
            raise lost(what, answer) from answer.cause
        if answer.status == 304:
            return None
        is_report = "status" in words and answer.status == 503
        if answer.status not in (200, 201, 202) and not is_report:
            raise _refusal(answer)
        if "text" in words:
            return answer.body.decode()
        value = parse_json(answer.body)
        if not isinstance(value, dict):
            raise _refusal(answer)
        result = _Object(value)
        result.info = ResponseInfo(answer.status, answer.request_id, answer.headers)
        return result

    def _stream(self, call: Call, what: str) -> BinaryIO:
        opened = self._transport.stream(call)
        if isinstance(opened, Failure):
            raise lost(what, opened) from opened.cause
        if isinstance(opened, Answer):
            raise _refusal(opened)
        return io.BufferedReader(opened, 64 * 1024)


def _header(name: str, value: str) -> str:
    # A line break would begin a header of the caller's choice.
    if isinstance(value, str) and re.fullmatch(r"[\x20-\x7e]{1,1024}", value):
        return value
    raise ValueError(f"{name} must be 1 to 1,024 visible ASCII characters")


def _is_keyed_decision(body: Any) -> bool:
    """`request.idempotency_key` of a decision, or of all of a batch (contract §5)."""
    if not isinstance(body, Mapping):
        return False
    checks = body.get("checks")
    questions = checks if isinstance(checks, (list, tuple)) else [body]
    requests = [each.get("request") if isinstance(each, Mapping) else None for each in questions]
    return all(
        isinstance(each, Mapping) and isinstance(each.get("idempotency_key"), str) for each in requests
    )


def _items_of(page: Mapping[str, Any]) -> list[Any]:
    """A page has one array of items, under the name of its kind."""
    return next((value for value in page.values() if isinstance(value, list)), [])


def _refusal(answer: Answer) -> Exception:
    return error_of(answer.status, answer.body, answer.request_id, retry_after_ms(answer.headers))
