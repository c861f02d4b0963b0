"""What the client raises. No error holds anything that was sent: no API key, no passport, no body."""

from __future__ import annotations

import json
from typing import Any


class AgentTrustError(Exception):
    """Base of every error of this package.

    `code` is for programs to branch on (docs/errors.md, and `timeout`, `connection_failed`, `bad_answer`).
    `http_status` is None without an answer. `request_id` names the request to the operator of the service.
    `param` is the field at fault. `retry_after_ms` says after how many milliseconds to ask again.
    """

    def __init__(
        self,
        message: str,
        code: str,
        *,
        http_status: int | None = None,
        request_id: str | None = None,
        param: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.http_status = http_status
        self.request_id = request_id
        self.param = param
        self.retry_after_ms = retry_after_ms


class InvalidRequestError(AgentTrustError):
    """400: the request is wrong, and a repetition changes nothing."""


class AuthenticationError(AgentTrustError):
    """401: no API key that the service knows."""


class ForbiddenError(AgentTrustError):
    """403: the key lacks a scope, or its account is suspended."""


class NotFoundError(AgentTrustError):
    """404: no such resource in this account and mode."""


class ConflictError(AgentTrustError):
    """409: the state of the resource does not allow it, or the idempotency key is of another request."""


class PreconditionFailedError(AgentTrustError):
    """412: it has changed since it was read."""


class RateLimitedError(AgentTrustError):
    """429: the plan limit is used up."""


class ServiceError(AgentTrustError):
    """5xx, and answers that are not of this service."""


class ConnectionError(AgentTrustError):
    """No answer: no connection, a broken one, or none in time. Whether the call had an effect is unknown."""


_classes: dict[int, type[AgentTrustError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: PreconditionFailedError,
    429: RateLimitedError,
}


def error_of(
    status: int, body: bytes, request_id: str | None = None, retry_after_ms: int | None = None
) -> AgentTrustError:
    """The error that an answer means. A body that is not one of this service is `bad_answer`."""
    error = _error_in(body)
    if error is None:
        return ServiceError(
            f"HTTP {status} with a body that is not one of agent-trust",
            "bad_answer",
            http_status=status,
            request_id=request_id,
            retry_after_ms=retry_after_ms,
        )
    own_id, param = error.get("request_id"), error.get("param")
    return _classes.get(status, ServiceError)(
        error["message"],
        error["code"],
        http_status=status,
        request_id=own_id if isinstance(own_id, str) else request_id,
        param=param if isinstance(param, str) else None,
        retry_after_ms=retry_after_ms,
    )


def _error_in(body: bytes) -> dict[str, Any] | None:
    value = parse_json(body)
    error = value.get("error") if isinstance(value, dict) else None
    is_ours = (
        isinstance(error, dict)
        and isinstance(error.get("code"), str)
        and isinstance(error.get("message"), str)
    )
    return error if is_ours else None


def parse_json(body: bytes) -> object:
    """None for what is no JSON. RecursionError: nested deeper than Python reads."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
