"""Asks a sidecar for decisions: `Sidecar`, and `AsyncSidecar` for asyncio."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypedDict, TypeVar

from ._operations import Block, DecisionRequest, Permit, Suspend
from ._transport import (
    Answer,
    Call,
    Deadline,
    Failure,
    Transport,
    retry_after_ms,
    segment,
    trace_headers,
)
from .errors import AgentTrustError, error_of, parse_json

UnavailableReason = Literal[
    "timeout",
    "connection_failed",
    "bad_answer",
    "overloaded",
    "service_unavailable",
    "internal_error",
    "rate_limited",
]


class UnavailableRetry(TypedDict):
    retryable: Literal[True]
    after_ms: int | None


class Unavailable(TypedDict):
    """The service gave no decision. It is not a PERMIT: do not serve."""

    decision: Literal["UNAVAILABLE"]
    reason: UnavailableReason
    # A record may exist all the same where the answer was lost; nobody can name it.
    attestation_id: None
    # One sentence for people.
    detail: str
    retry: UnavailableRetry
    # None: there was no answer.
    request_id: str | None


# What a gate answers (contract §5), or that it did not. Serve on PERMIT and nothing else.
Decision = Permit | Suspend | Block | Unavailable


class CheckInput(TypedDict):
    # The token that the agent showed.
    passport: str
    # What the agent wants to do.
    request: DecisionRequest


DEADLINE_MS = 500.0
# Nobody waits for it after the answer.
_OUTCOME_DEADLINE_MS = 5_000.0
# Enough for a connection that broke; where nothing listens, the answer comes after less than 100 ms.
_RETRIES_MAX = 2
_PAUSE_S = 0.02


class Sidecar:
    """Asks a sidecar, or a control plane, for decisions. Thread-safe: one instance serves a whole program.

    `url` is its origin; `api_key` needs the scope `enforcement:check`. `deadline_ms` (1 to a day, default
    500) is the time from the call to its decision: name look-up, connecting, writing, retries and the whole
    body of the answer.

    Whatever goes wrong on the way (no connection, a broken one, no answer in time, 5xx, an answer that is no
    decision) is the decision `UNAVAILABLE`. Only what a repetition cannot cure is raised: a wrong API key
    (`AuthenticationError`, `ForbiddenError`), an unknown gate (`NotFoundError`), a wrong request
    (`InvalidRequestError`) and an idempotency key of another request (`ConflictError`). ValueError: what
    cannot be sent.

    A question is sent again only where that cannot charge twice: if it was never sent, after 503, or if
    `request["idempotency_key"]` is set. One with `request["proof"]`, only if it was never sent.

    `traceparent` and `tracestate` of a call are the W3C Trace Context of what it is for, which the service
    takes as the parent.
    One that is not valid is ignored.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8090", api_key: str = "", *, deadline_ms: float = DEADLINE_MS
    ) -> None:
        Deadline(deadline_ms)
        self._transport = Transport(url, api_key)
        self._deadline_ms = deadline_ms

    def check(
        self,
        gate_id: str,
        passport: str,
        request: DecisionRequest | Mapping[str, Any],
        *,
        deadline_ms: float | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> Decision:
        """May this passport do this at this gate?"""
        trace = trace_headers(traceparent, tracestate)
        path = f"/v1/gates/{segment(gate_id)}/check"
        return self._ask(path, passport, request, self._deadline(deadline_ms), trace)

    def enforce(
        self,
        passport: str,
        request: DecisionRequest | Mapping[str, Any],
        *,
        deadline_ms: float | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> Decision:
        """The same for `request["gate_id"]`; without one, the passport alone is checked (contract §5)."""
        trace = trace_headers(traceparent, tracestate)
        return self._ask("/v1/enforce", passport, request, self._deadline(deadline_ms), trace)

    def check_batch(
        self,
        gate_id: str,
        checks: Sequence[CheckInput],
        *,
        deadline_ms: float | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> list[Decision | AgentTrustError]:
        """1 to 256 checks at one gate, decided in this order as if each came alone.

        The results are in the same order; what is wrong with one check is an error in its place. Without an
        answer each is UNAVAILABLE. Raises where the call as a whole is refused.
        """
        deadline = self._deadline(deadline_ms)
        trace = trace_headers(traceparent, tracestate)
        path = f"/v1/gates/{segment(gate_id)}/check/batch"
        requests = [check["request"] for check in checks]
        body = {"checks": [{"passport": each["passport"], "request": each["request"]} for each in checks]}
        answer = self._send(path, body, requests, deadline, trace)
        if not isinstance(answer, Answer):
            return [answer for _ in checks]
        value = parse_json(answer.body)
        results = value.get("results") if isinstance(value, dict) else None
        # Otherwise a PERMIT could be taken for that of another check.
        if not isinstance(results, list) or len(results) != len(checks):
            return [unavailable("bad_answer", answer.request_id) for _ in checks]
        return [_read_decision(result) or _result_error(result) for result in results]

    def report_outcome(
        self,
        attestation_id: str,
        outcome: Literal["served", "failed"],
        *,
        amount: float | None = None,
        detail: str | None = None,
        deadline_ms: float = _OUTCOME_DEADLINE_MS,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> None:
        """How the service ended that a PERMIT allowed (contract §19).

        Returns when the sidecar, or the control plane, has it for good. The same outcome again is the same.
        Raises AgentTrustError, also where there was no answer: report again then.
        """
        body: dict[str, Any] = {"outcome": outcome}
        if amount is not None:
            body["amount"] = amount
        if detail is not None:
            body["detail"] = detail
        call = Call(
            "POST",
            f"/v1/attestations/{segment(attestation_id)}/outcome",
            Deadline(deadline_ms),
            encode_json(body),
            trace_headers(traceparent, tracestate),
            retries_max=_RETRIES_MAX,
            pause_s=_PAUSE_S,
            is_idempotent=True,
            is_void_at_503=True,
        )
        answer = self._transport.exchange(call)
        if isinstance(answer, Failure):
            raise AgentTrustError("The service did not take the outcome in time.", code=answer.code)
        if answer.status not in (200, 202):
            raise error_of(answer.status, answer.body, answer.request_id, retry_after_ms(answer.headers))

    def close(self) -> None:
        """Closes its connections. A call that is under way becomes UNAVAILABLE."""
        self._transport.close()

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _deadline(self, deadline_ms: float | None) -> Deadline:
        return Deadline(self._deadline_ms if deadline_ms is None else deadline_ms)

    def _ask(
        self,
        path: str,
        passport: str,
        request: Mapping[str, Any],
        deadline: Deadline,
        trace: dict[str, str],
    ) -> Decision:
        body = {"passport": passport, "request": request}
        answer = self._send(path, body, [request], deadline, trace)
        if not isinstance(answer, Answer):
            return answer
        decision = _read_decision(parse_json(answer.body))
        return decision or unavailable("bad_answer", answer.request_id)

    def _send(
        self,
        path: str,
        body: Mapping[str, Any],
        requests: Sequence[Mapping[str, Any]],
        deadline: Deadline,
        trace: dict[str, str],
    ) -> Answer | Unavailable:
        """The answer if it is a success. Raises what a repetition cannot cure."""
        # The first copy may have used the proof up: a second would be BLOCK `proof_replayed`.
        is_proven = any(request.get("proof") is not None for request in requests)
        call = Call(
            "POST",
            path,
            deadline,
            encode_json(body),
            trace,
            retries_max=_RETRIES_MAX,
            pause_s=_PAUSE_S,
            is_idempotent=not is_proven and all(map(_is_keyed, requests)),
            is_void_at_503=not is_proven,
        )
        outcome = self._transport.exchange(call)
        if isinstance(outcome, Failure):
            return unavailable(outcome.code)
        if outcome.status == 200:
            return outcome
        failure = _unless_raised(
            error_of(outcome.status, outcome.body, outcome.request_id, retry_after_ms(outcome.headers))
        )
        if isinstance(failure, AgentTrustError):
            raise failure
        return failure


Result = TypeVar("Result")

_THREADS_MAX = 32
# Of questions that wait for a thread: with 32 threads and answers after 1 ms, a wait of about 30 ms.
_WAITING_MAX = 1_024


class AsyncSidecar:
    """`Sidecar` for asyncio: the same calls, as coroutines that keep the same deadline.

    Calls run in at most `threads` threads (1 to 128), because only one implementation of connections,
    deadlines and retries is to be right. That costs a change of threads for each call (measured in
    clients/python/README.md) and no more than `threads` calls at once: more of them wait, within their
    deadline, and beyond 1,024 that wait the answer is UNAVAILABLE `overloaded` at once. A coroutine that is
    cancelled returns at once; its call ends by its deadline.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8090",
        api_key: str = "",
        *,
        deadline_ms: float = DEADLINE_MS,
        threads: int = _THREADS_MAX,
    ) -> None:
        if not 1 <= threads <= 128:
            raise ValueError("threads must be 1 to 128")
        self._sidecar = Sidecar(url, api_key, deadline_ms=deadline_ms)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="agent-trust")
        self._open_max = threads + _WAITING_MAX
        self._open = 0

    async def check(
        self,
        gate_id: str,
        passport: str,
        request: DecisionRequest | Mapping[str, Any],
        *,
        deadline_ms: float | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> Decision:
        """May this passport do this at this gate?"""

        def ask(left_ms: float) -> Decision:
            trace = {"traceparent": traceparent, "tracestate": tracestate}
            return self._sidecar.check(gate_id, passport, request, deadline_ms=left_ms, **trace)

        return await self._run(ask, deadline_ms, lambda missing: missing)

    async def enforce(
        self,
        passport: str,
        request: DecisionRequest | Mapping[str, Any],
        *,
        deadline_ms: float | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> Decision:
        """The same for `request["gate_id"]`; without one, the passport alone is checked (contract §5)."""

        def ask(left_ms: float) -> Decision:
            trace = {"traceparent": traceparent, "tracestate": tracestate}
            return self._sidecar.enforce(passport, request, deadline_ms=left_ms, **trace)

        return await self._run(ask, deadline_ms, lambda missing: missing)

    async def check_batch(
        self,
        gate_id: str,
        checks: Sequence[CheckInput],
        *,
        deadline_ms: float | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> list[Decision | AgentTrustError]:
        """As `Sidecar.check_batch`."""

        def ask(left_ms: float) -> list[Decision | AgentTrustError]:
            trace = {"traceparent": traceparent, "tracestate": tracestate}
            return self._sidecar.check_batch(gate_id, checks, deadline_ms=left_ms, **trace)

        return await self._run(ask, deadline_ms, lambda missing: [missing for _ in checks])

    async def report_outcome(
        self,
        attestation_id: str,
        outcome: Literal["served", "failed"],
        *,
        amount: float | None = None,
        detail: str | None = None,
        deadline_ms: float = _OUTCOME_DEADLINE_MS,
        traceparent: str | None = None,
        tracestate: str | None = None,
    ) -> None:
        """As `Sidecar.report_outcome`. Of more calls than may wait, it is an AgentTrustError `overloaded`."""
        if self._open >= self._open_max:
            raise AgentTrustError("Too many calls are under way.", code="overloaded")

        def report() -> None:
            self._sidecar.report_outcome(
                attestation_id,
                outcome,
                amount=amount,
                detail=detail,
                deadline_ms=deadline_ms,
                traceparent=traceparent,
                tracestate=tracestate,
            )

        future = asyncio.get_running_loop().run_in_executor(self._threads, report)
        self._open += 1
        future.add_done_callback(self._done)
        await future

    async def aclose(self) -> None:
        """Closes its connections. A call that is under way becomes UNAVAILABLE."""
        self._sidecar.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __aenter__(self) -> AsyncSidecar:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _run(
        self,
        ask: Callable[[float], Result],
        deadline_ms: float | None,
        without: Callable[[Unavailable], Result],
    ) -> Result:
        deadline = self._sidecar._deadline(deadline_ms)
        if self._open >= self._open_max:
            return without(unavailable("overloaded"))

        def run() -> Result:
            left_ms = (deadline.at - time.monotonic()) * 1_000
            return ask(left_ms) if left_ms >= 1 else without(unavailable("timeout"))

        future = asyncio.get_running_loop().run_in_executor(self._threads, run)
        self._open += 1
        future.add_done_callback(self._done)
        done, _ = await asyncio.wait([future], timeout=max(0, deadline.at - time.monotonic()))
        if done:
            return future.result()
        # It has not begun, or is just ending: nobody reads its answer any more.
        future.cancel()
        return without(unavailable("timeout"))

    def _done(self, future: asyncio.Future[Any]) -> None:
        self._open -= 1
        if not future.cancelled():
            future.exception()


def encode_json(body: Any) -> bytes:
    """ASCII. Raises ValueError for what is no JSON: NaN, an infinite number, an object of another type."""
    try:
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, RecursionError) as cause:
        raise ValueError(f"the body cannot be written as JSON: {cause}") from None


_details: dict[UnavailableReason, str] = {
    "timeout": "The service gave no decision within the deadline.",
    "connection_failed": "The service cannot be reached, or the connection broke.",
    "bad_answer": "The answer is not one of agent-trust.",
    "overloaded": "Too many questions wait in this program.",
}


def unavailable(
    reason: UnavailableReason,
    request_id: str | None = None,
    *,
    detail: str | None = None,
    after_ms: int | None = None,
) -> Unavailable:
    return {
        "decision": "UNAVAILABLE",
        "reason": reason,
        "attestation_id": None,
        "detail": _details[reason] if detail is None else detail,
        "retry": {"retryable": True, "after_ms": after_ms},
        "request_id": request_id,
    }


def _is_keyed(request: Mapping[str, Any]) -> bool:
    return isinstance(request.get("idempotency_key"), str)


def _unless_raised(error: AgentTrustError) -> Unavailable | AgentTrustError:
    """As a decision where a repetition can cure it.

    That is 5xx, plan limits (of a control plane) and what is no answer of this service; the rest is the
    caller's.
    """
    if error.code in ("bad_answer", "rate_limited") or (error.http_status or 0) >= 500:
        reason: Any = error.code
        return unavailable(
            reason, error.request_id, detail=str(error), after_ms=error.retry_after_ms
        )
    return error


def _read_decision(value: Any) -> Decision | None:
    if not isinstance(value, dict):
        return None
    # Without its record a PERMIT is not one of this service.
    needed = {"PERMIT": "attestation_id", "BLOCK": "attestation_id", "SUSPEND": "approval_id"}
    decision = value.get("decision")
    member = needed.get(decision) if isinstance(decision, str) else None
    if member is None or not isinstance(value.get(member), str):
        return None
    return value  # type: ignore[return-value]


def _result_error(result: Any) -> Unavailable | AgentTrustError:
    error = result.get("error") if isinstance(result, dict) else None
    status = error.get("status") if isinstance(error, dict) else None
    return _unless_raised(error_of(status if isinstance(status, int) else 200, encode_json(result)))
