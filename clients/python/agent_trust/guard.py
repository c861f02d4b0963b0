"""What `GuardASGI` and `GuardWSGI` share: the routes, what is asked for one, and what is answered."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from types import NoneType
from typing import Any, Literal, TypeVar

from ._operations import Permit
from ._transport import segment
from .errors import AgentTrustError, parse_json
from .settlement import Settlement, hold_of
from .sidecar import Decision, Unavailable, encode_json

# The decision with which a request reaches its handler. UNAVAILABLE only where that was asked for by name.
PassedDecision = Permit | Unavailable
# Approves a request that was suspended before: the approval's id, sent with the same request again.
_APPROVAL_HEADER = "x-agent-approval"
# Troubles of the service, and nothing that the agent could mend (contract §15).
_OURS = frozenset(["quota_unavailable", "state_stale"])
# Headers that a guard in front of the program would set, and those that some programs take for the method:
# the gate was asked about another one. Those of a client are not passed on.
FORGEABLE = re.compile(
    r"x[-_](?:gate[-_].*|attestation[-_]id|passport[-_]id|(?:http[-_])?method[-_]override|http[-_]method)",
    re.IGNORECASE,
)
# The whole body is in memory while the gate is asked: an approval is bound to its hash.
BODY_BYTES_MAX = 1024 * 1024


class GuardError(Exception):
    """The service refused the question itself, for example because of the API key or an unknown gate.

    That is a fault of this program and not of the agent; frameworks answer 500. `__cause__` is the
    `AgentTrustError`.
    """


@dataclass(frozen=True)
class GuardedRequest:
    """A request as the functions of a route see it."""

    method: str
    # As the framework routes it: decoded, without the query.
    path: str
    # As it was sent, with the query. Approvals are bound to it.
    target: str
    # Names in lower case; values of a header that was sent several times are in order.
    headers: Mapping[str, Sequence[str]]
    # Of the `{names}` in the path of the route.
    params: Mapping[str, str]
    body: bytes
    # The scope of ASGI, or the environ of WSGI.
    raw: Any = field(repr=False)

    def header(self, name: str) -> str | None:
        values = self.headers.get(name.lower())
        return None if values is None else ", ".join(values)

    @cached_property
    def json(self) -> Any:
        """The body as JSON; None: there is none, or it is not JSON."""
        return parse_json(self.body)


Value = TypeVar("Value")
Reads = Callable[[GuardedRequest], Value]


@dataclass(frozen=True)
class GuardRoute:
    """One route, and what it demands. The client chooses nothing of it.

    `path` is matched whole: `{name}` is any one segment, `/*` at the end any rest (not an empty one).
    `methods` is one method or several. A function gets the `GuardedRequest`; one that raises did not find in
    the request what it needs, which is 400.
    """

    methods: str | Sequence[str]
    path: str
    # `gate_…`
    gate: str
    # `<area>:<action>`
    permission: str
    # In USD; None: the request has no amount, and the gate decides what that means (contract §4).
    amount: float | Reads[float | Decimal | None] | None = None
    # Host that the agent wants to reach, where the gate has `allowed_domains`.
    domain: str | Reads[str | None] | None = None
    # The token of the agent. Default: `Authorization: Passport <token>` or `X-Agent-Passport`.
    passport_from: Reads[str | None] | None = None
    # Makes one charge of any number of copies (contract §5). All of them reach the handler: name a key only
    # where it serves a copy once, too.
    idempotency_key: Reads[str | None] | None = None
    # More about the request, which the gate searches for personal data, and which an approval is bound to.
    # Method, path with query, Content-Type and the SHA-256 of the body are always a part of it.
    context: Reads[Mapping[str, Any]] | None = None
    # What is asked, for the person who approves it (contract §8): `{"title", "lines": [{"label", "value"}],
    # "url"?}`, at most 2 KiB of JSON. An approval is bound to it. None: nothing is shown.
    display: Reads[Mapping[str, Any] | None] | None = None
    # Has the amount held, and reports how the request ended: `served`, or `failed` for an exception or a 5xx,
    # which gives all of it back (contract §19). None: the amount is spent with the PERMIT.
    settle: Literal[True] | Settlement | None = None
    # Serves requests while the sidecar gives no decision: nothing is limited, charged or recorded then, and
    # revoked passports pass. Default: they get 503.
    dangerously_serve_without_decision: bool = False

    def __post_init__(self) -> None:
        segment(self.gate)
        if not re.fullmatch(r"[a-z0-9_.-]{1,64}:[a-z0-9_.-]{1,64}", self.permission):
            raise ValueError("permission must be <area>:<action>")
        _pattern_of(self.path)


@dataclass(frozen=True)
class OpenRoute:
    """A route that anybody may call without a passport: the guard passes it on as it is."""

    methods: str | Sequence[str]
    path: str

    def __post_init__(self) -> None:
        _pattern_of(self.path)


@dataclass(frozen=True)
class Refusal:
    """What the agent is answered in place of the handler's answer."""

    status: int
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    def rendered(self) -> tuple[list[tuple[str, str]], bytes]:
        body = json.dumps(self.body, ensure_ascii=False).encode("utf-8", "replace")
        fixed = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "cache-control": "no-store",
        }
        return list({**fixed, **self.headers}.items()), body


@dataclass(frozen=True)
class Question:
    """What the sidecar is asked."""

    gate: str
    passport: str
    request: Mapping[str, Any]


class Guard:
    """The routes of a program, in order: the first that matches decides. What matches none is refused."""

    def __init__(
        self, control_plane_url: str, routes: Iterable[GuardRoute | OpenRoute], origin: str | None = None
    ) -> None:
        if not re.fullmatch(r"https?://[^\s/?#]+(?:/v1)?/*", control_plane_url):
            raise ValueError("control_plane_url must be an http or https origin")
        if origin is not None and not re.fullmatch(r"https?://[^\s/?#]+/*", origin):
            raise ValueError("origin must be an http or https origin")
        self._origin = None if origin is None else origin.rstrip("/")
        self._approvals = re.sub(r"(?:/v1)?/*$", "", control_plane_url) + "/v1/approvals/"
        self._routes = [
            (
                frozenset([route.methods] if isinstance(route.methods, str) else route.methods),
                pattern := _pattern_of(route.path),
                re.compile(pattern.pattern + "/?", re.DOTALL | re.IGNORECASE),
                route,
            )
            for route in routes
        ]

    def route_for(
        self, method: str, path: str, raw_path: str | None
    ) -> tuple[GuardRoute | OpenRoute, Mapping[str, str]] | Refusal:
        """`raw_path`: as sent, where the server says so; without its query."""
        if _is_ambiguous(path) or (raw_path is not None and _is_ambiguous_raw(raw_path)):
            return _refuse(403, _blocked("permission_missing", "This path can be read in several ways."))
        for methods, pattern, loose, route in self._routes:
            found = pattern.fullmatch(path) if method in methods else None
            if found is not None:
                return route, found.groupdict()
            # A program that takes /Admin and /admin/ for /admin, and HEAD for GET, would serve what this
            # route demands under a later route.
            is_same = method in methods or (method == "HEAD" and "GET" in methods)
            if is_same and loose.fullmatch(path) is not None:
                return _refuse(403, _blocked("permission_missing", "This is another route to some programs."))
        return _refuse(403, _blocked("permission_missing", "No permission is named for this route."))

    def passport_of(self, route: GuardRoute, request: GuardedRequest) -> str | Refusal:
        shown: list[str | None]
        if route.passport_from is not None:
            found = _read(route.passport_from, "passport", request)
            if isinstance(found, Refusal):
                return found
            if not isinstance(found, (str, NoneType)):
                return _unreadable("passport")
            shown = [found]
        else:
            shown = [
                *[_passport_in(value) for value in request.headers.get("authorization", ())],
                *request.headers.get("x-agent-passport", ()),
            ]
        passports = {token for token in shown if token}
        if not passports:
            return _unauthorized("passport_missing", "Show a passport.")
        if len(passports) > 1:
            return _unauthorized("passport_ambiguous", "Show one passport, not two.")
        return passports.pop()

    def question(self, route: GuardRoute, request: GuardedRequest, passport: str) -> Question | Refusal:
        values: dict[str, Any] = {}
        for name in ("context", "amount", "domain", "idempotency_key", "display"):
            value = _read(getattr(route, name), name, request)
            if isinstance(value, Refusal):
                return value
            values[name] = value
        if not _is_number(values["amount"]):
            return _invalid("amount", "The amount is not a number.")
        for name in ("domain", "idempotency_key"):
            if not isinstance(values[name], (str, NoneType)):
                return _unreadable(name)
        context = values.pop("context") or {}
        # Absent, not null: it is part of what an approval is bound to.
        if values["display"] is None:
            del values["display"]
        if not isinstance(context, Mapping):
            return _unreadable("context")
        if isinstance(values["amount"], Decimal):
            values["amount"] = float(values["amount"])
        asked = {
            **context,
            "method": request.method,
            "path": request.target,
            "permission_key": route.permission,
            "approval_id": request.header(_APPROVAL_HEADER),
            **values,
        }
        if request.body:
            asked.update(_body_asked_for(request))
        proof = None if self._origin is None else _proof_of(request, self._origin)
        if proof is not None:
            asked["proof"] = proof
        if route.settle is not None:
            asked["hold"] = hold_of(route.settle)
        return Question(route.gate, passport, asked)

    def verdict(self, route: GuardRoute, decision: Decision) -> PassedDecision | Refusal:
        """Passes on a PERMIT alone, and UNAVAILABLE where that was asked for by name."""
        if decision["decision"] == "PERMIT":
            return decision
        if decision["decision"] == "UNAVAILABLE":
            if route.dangerously_serve_without_decision:
                return decision
            hidden = ("attestation_id", "request_id")
            after_ms = decision["retry"]["after_ms"]
            return _refuse(503, _without(decision, hidden), 1_000 if after_ms is None else after_ms)
        if decision["decision"] == "SUSPEND":
            address = self._approvals + segment(decision["approval_id"])
            detail = (
                f"A person has to approve this. After that, send the same request with {_APPROVAL_HEADER}."
            )
            waiting = {
                "decision": "SUSPEND",
                "reason": decision["reason"],
                "detail": detail,
                "approval_id": decision["approval_id"],
                "approval_url": decision.get("approval_url"),
                "approval_api_url": address,
                "expires_at": decision["expires_at"],
            }
            return Refusal(202, {"location": address}, waiting)
        body = _without(decision, ("constraints_evaluated",))
        if decision["reason"] == "proof_missing":
            hint = "No proof is passed on here, because the guard has no origin."
            if self._origin is not None:
                hint = f"Make it for URLs at the origin {self._origin}."
            body = {**body, "detail": f"{decision['detail']} {hint}"}
        if decision["reason"] in _OURS:
            after_ms = decision["retry"]["after_ms"]
            return _refuse(503, body, 1_000 if after_ms is None else after_ms)
        is_passport = decision["reason"].startswith("passport_")
        refusal = _refuse(401 if is_passport else 403, body, decision["retry"]["after_ms"])
        return _challenged(refusal) if is_passport else refusal

    def refusal_for(self, error: AgentTrustError) -> Refusal:
        """What the agent sent is its own fault; everything else that is refused is one of this program."""
        is_of_agent = error.code in ("idempotency_conflict", "body_too_large") or (
            error.code == "invalid_request" and error.param is not None and "permission" not in error.param
        )
        if not is_of_agent:
            raise GuardError(f"agent-trust refuses this guard: {error}") from error
        body = {"error": {"code": error.code, "message": str(error), "param": error.param}}
        return _refuse(error.http_status or 400, body)


def body_too_large() -> Refusal:
    return _refuse(413, {"error": {"code": "body_too_large", "message": "The body is too large."}})


def length_required() -> Refusal:
    message = "Send the body with a Content-Length."
    return _refuse(411, {"error": {"code": "invalid_request", "message": message}})


def body_incomplete() -> Refusal:
    return _refuse(400, {"error": {"code": "invalid_request", "message": "The body breaks off."}})


def is_sendable(request: Mapping[str, Any]) -> bool:
    try:
        encode_json(request)
        return True
    except (ValueError, TypeError, RecursionError):
        return False


def unsendable() -> Refusal:
    """Such as 1e999, which Python reads as an infinite number, in a body of which `context` takes a part."""
    return _invalid("request", "The request holds what cannot be written as JSON.")


def _read(value: Any, name: str, request: GuardedRequest) -> Any:
    if not callable(value):
        return value
    try:
        return value(request)
    except Exception:  # Its message may quote the request.
        return _unreadable(name)


def _unreadable(name: str) -> Refusal:
    return _invalid(name, f"The request lacks what its {name} is read from.")


def _body_asked_for(request: GuardedRequest) -> dict[str, str]:
    """The same bytes are another thing under another type or boundary. JSON in UTF-8 is not named."""
    asked = {"body_sha256": hashlib.sha256(request.body).hexdigest()}
    media_type, encoding = request.header("content-type") or "", request.header("content-encoding")
    if not _JSON_TYPE.fullmatch(media_type):
        asked["content_type"] = media_type
    if encoding is not None:
        asked["content_encoding"] = encoding
    return asked


_JSON_TYPE = re.compile("application/json(?:; ?charset=utf-8)?", re.IGNORECASE)


def _proof_of(request: GuardedRequest, origin: str) -> dict[str, Any] | None:
    """`request.proof` (contract §5): what the request's own headers hold, for its method and its URL here."""
    # Without the slash a target could end the host of the origin in another way.
    url = f"{origin}/{request.target.removeprefix('/')}"
    signed, dpop = request.header("signature-input") or "", request.header("dpop")
    if re.search(r'; *tag="(?:web-bot-auth|agent-trust)"', signed) is not None:
        names = ["signature-input", "signature", *_COMPONENT.findall(signed)][:_COMPONENTS_MAX]
        shown = {name: value for name in names if (value := request.header(name)) is not None}
        # The token is sent as `passport`: what carries it need not be repeated.
        shown.pop("x-agent-passport", None)
        if re.fullmatch("Passport [^ ]+", shown.get("authorization", "")) is not None:
            del shown["authorization"]
        proof: dict[str, Any] = {"method": request.method, "url": url, "headers": shown}
        # Of no body too, where one was signed: it may have been taken away.
        if request.body or '"content-digest"' in signed:
            digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
            proof["content_digest"] = f"sha-256=:{digest}:"
        # Both at once are `proof_invalid`.
        return proof if dpop is None else {**proof, "dpop": dpop}
    return None if dpop is None else {"dpop": dpop, "method": request.method, "url": url}


_COMPONENT = re.compile(r'"([a-z0-9!#$%&\'*+.^_`|~-]{1,64})"')
_COMPONENTS_MAX = 32


def _without(decision: Mapping[str, Any], hidden: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in decision.items() if name not in hidden}


def _is_number(amount: Any) -> bool:
    if amount is None:
        return True
    try:
        is_number = isinstance(amount, (int, float, Decimal)) and not isinstance(amount, bool)
        return is_number and math.isfinite(float(amount))
    except (OverflowError, ValueError):
        return False


def _passport_in(authorization: str) -> str | None:
    found = re.fullmatch(r"passport +(\S+) *", authorization, re.IGNORECASE)
    return None if found is None else found[1]


def _pattern_of(path: str) -> re.Pattern[str]:
    if not path.startswith("/") or _is_ambiguous(path) or "*" in path.removesuffix("/*"):
        raise ValueError("path must begin with / and may have {names}, and /* at its end")
    rest = "/.+" if path.endswith("/*") else ""
    segments = path.removesuffix("/*").split("/")
    names = (re.fullmatch(r"\{([A-Za-z_]\w*)\}", each) for each in segments)
    parts = (
        re.escape(each) if name is None else f"(?P<{name[1]}>[^/]+)" for each, name in zip(segments, names)
    )
    return re.compile("/".join(parts) + rest, re.DOTALL)


_delimiter = re.compile(r"[\\;?#%\x00-\x1f\x7f-\x9f\ufffd\ud800-\udfff]|//|(?:^|/)\.{1,2}(?:/|$)")
# Windows and what is written for it leave them out; others trim blanks.
_loose_end = re.compile(r"[.\s](?:/|$)|/\s")
# Marks that are not shown, beside those of the category Cf.
_invisible = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0000-\U000e0fff]")


def _is_ambiguous(path: str) -> bool:
    """Whether two readers of a decoded path may find different routes in it, as the sidecar sees it too."""
    if _delimiter.search(path) or _loose_end.search(path):
        return True
    return not path.isascii() and (_invisible.search(path) is not None or any(map(_is_look_alike, path)))


def _is_look_alike(character: str) -> bool:
    """Some readers fold it into another one, such as a letter or a slash, or leave it out."""
    is_hidden = unicodedata.category(character) in ("Cf", "Zl", "Zp")
    # To readers that do not mind case, they are letters of ASCII.
    is_ascii_in_other_case = character in "\u0130\u0131\u017f\u212a"
    return is_hidden or is_ascii_in_other_case or unicodedata.normalize("NFKC", character) != character


def _is_ambiguous_raw(path: str) -> bool:
    """Encoded delimiters and percent signs, and a percent sign that encodes nothing."""
    return re.search(r"%(?:2f|5c|3b|3f|23|25|00)|%(?![0-9a-f]{2})", path, re.IGNORECASE) is not None


def _blocked(reason: str, detail: str) -> dict[str, Any]:
    return {"decision": "BLOCK", "reason": reason, "detail": detail}


def _unauthorized(reason: str, detail: str) -> Refusal:
    return _challenged(_refuse(401, _blocked(reason, detail)))


def _challenged(refusal: Refusal) -> Refusal:
    return Refusal(refusal.status, {**refusal.headers, "www-authenticate": "Passport"}, refusal.body)


def _invalid(param: str, message: str) -> Refusal:
    return _refuse(400, {"error": {"code": "invalid_request", "message": message, "param": param}})


def _refuse(status: int, body: Mapping[str, Any], after_ms: float | None = None) -> Refusal:
    headers = {} if after_ms is None else {"retry-after": str(math.ceil(after_ms / 1_000))}
    return Refusal(status, headers, body)
