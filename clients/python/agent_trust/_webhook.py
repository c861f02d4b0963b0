"""Verifies webhooks (docs/webhooks.md, Standard Webhooks)."""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

# One for the secret, and one for each of at most four earlier ones; others may add their own.
_SIGNATURES_MAX = 16
# Of the type of a CloudEvent, which endpoints of the format `cloudevents` get.
_TYPE_PREFIX = "agent-trust."

# Of any framework: names in any letters, values alone or in lists, both as text or bytes.
Headers = Mapping[str, Any] | Iterable[tuple[Any, Any]]

WebhookFault = Literal["headers_missing", "signature_invalid", "too_old", "too_new", "malformed"]


class Webhook(NamedTuple):
    """True if the service sent it. `id` is the same whenever this event is sent: act on each once."""

    fault: WebhookFault | None
    id: str = ""
    event: str = ""
    timestamp: str = ""
    data: Mapping[str, Any] = {}

    def __bool__(self) -> bool:
        return self.fault is None


def verify_webhook(
    body: bytes,
    headers: Headers,
    secrets: str | Sequence[str],
    *,
    tolerance_s: float = 300,
    now_s: float | None = None,
) -> Webhook:
    """Whether the service sent exactly this body, at most `tolerance_s` from `now_s` (default: now).

    `body` is what arrived, byte for byte: in the standard format or as a CloudEvent, with the same result.
    `headers` may have their names in any letters, and their values in lists; pairs are taken, too. `secrets`:
    that of the endpoint, or the old and the new one while it is rolled. Raises ValueError for text that is no
    `whsec_…` secret, and nothing else. Does NOT remember ids: an event may come more than once.
    """
    keys = [_key_of(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    ids, times, lines = (
        _values_of(headers, f"webhook-{name}") for name in ("id", "timestamp", "signature")
    )
    # Of two, this one would be verified and the other one might be used.
    if len(ids) != 1 or len(times) != 1:
        return Webhook("headers_missing")
    own_id, timestamp, signatures = ids[0], times[0], " ".join(lines).replace(", ", " ")
    if not own_id or not signatures or not re.fullmatch(r"[0-9]{1,12}", timestamp):
        return Webhook("headers_missing")
    message = f"{own_id}.{timestamp}.".encode() + body
    shown = [each.encode() for each in signatures.split(" ")[:_SIGNATURES_MAX]]
    made = [b"v1," + base64.b64encode(hmac.digest(key, message, "sha256")) for key in keys]
    # The signature comes first: only then does the time mean anything.
    if not any(hmac.compare_digest(mine, theirs) for mine in made for theirs in shown):
        return Webhook("signature_invalid")
    age_s = (time.time() if now_s is None else now_s) - int(timestamp)
    if abs(age_s) > tolerance_s:
        return Webhook("too_old" if age_s > 0 else "too_new")
    try:
        value = json.loads(body.decode())
        if value.get("specversion") == "1.0":
            event, at = value["type"].removeprefix(_TYPE_PREFIX), value["time"]
            if event == value["type"]:
                return Webhook("malformed")
        else:
            event, at = value["event"], value["timestamp"]
        data = value["data"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Webhook("malformed")
    if not isinstance(event, str) or not isinstance(at, str) or not isinstance(data, dict):
        return Webhook("malformed")
    return Webhook(None, own_id, event, at, data)


def _values_of(headers: Any, wanted: str) -> list[str]:
    """All that come under this name."""
    found: list[str] = []
    for name, value in headers.items() if hasattr(headers, "items") else headers:
        if _text(name).lower() == wanted:
            values = [value] if isinstance(value, (str, bytes)) else value
            found += [_text(each) for each in values or () if isinstance(each, (str, bytes))]
    return found


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret[6:], validate=True) if secret.startswith("whsec_") else b""
    except ValueError:
        key = b""
    if not key:
        raise ValueError("a webhook secret is whsec_ and base64")
    return key
