"""Verifies webhooks (docs/webhooks.md, Standard Webhooks)."""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

# One for the secret, and one for each of at most four earlier ones; others may add their own.
_SIGNATURES_MAX = 16

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
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    *,
    tolerance_s: float = 300,
    now_s: float | None = None,
) -> Webhook:
    """Whether the service sent exactly this body, at most `tolerance_s` from `now_s` (default: now).

    `body` is what arrived, byte for byte. `secrets`: that of the endpoint, or the old and the new one while
    it is rolled. Raises ValueError for text that is no `whsec_…` secret, and nothing else. Does NOT
    remember ids: an event may come more than once.
    """
    keys = [_key_of(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    values = {name.lower(): value for name, value in headers.items()}
    own_id, timestamp = values.get("webhook-id", ""), values.get("webhook-timestamp", "")
    signatures = values.get("webhook-signature", "")
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
        event, at, data = value["event"], value["timestamp"], value["data"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return Webhook("malformed")
    if not isinstance(event, str) or not isinstance(at, str) or not isinstance(data, dict):
        return Webhook("malformed")
    return Webhook(None, own_id, event, at, data)


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret[6:], validate=True) if secret.startswith("whsec_") else b""
    except ValueError:
        key = b""
    if not key:
        raise ValueError("a webhook secret is whsec_ and base64")
    return key
