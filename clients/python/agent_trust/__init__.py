"""The client of agent-trust for Python: decisions, middleware, the control plane and offline verifiers."""

from .asgi import GuardASGI
from .control_plane import AgentTrust, ResponseInfo, response_of
from .errors import (
    AgentTrustError,
    AuthenticationError,
    ConflictError,
    ConnectionError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    PreconditionFailedError,
    RateLimitedError,
    ServiceError,
)
from .guard import GuardedRequest, GuardError, GuardRoute, OpenRoute, PassedDecision
from .settlement import GuardedAnswer, Settlement
from .sidecar import AsyncSidecar, CheckInput, Decision, Sidecar, Unavailable
from .wsgi import GuardWSGI

__version__ = "0.2.0"

__all__ = [
    "AgentTrust",
    "AgentTrustError",
    "AsyncSidecar",
    "AuthenticationError",
    "CheckInput",
    "ConflictError",
    "ConnectionError",
    "Decision",
    "ForbiddenError",
    "GuardASGI",
    "GuardError",
    "GuardRoute",
    "GuardWSGI",
    "GuardedAnswer",
    "GuardedRequest",
    "InvalidRequestError",
    "NotFoundError",
    "OpenRoute",
    "PassedDecision",
    "PreconditionFailedError",
    "RateLimitedError",
    "ResponseInfo",
    "ServiceError",
    "Settlement",
    "Sidecar",
    "Unavailable",
    "response_of",
]
