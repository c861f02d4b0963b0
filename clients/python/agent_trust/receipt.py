"""Receipts of sidecars, written from docs/receipts.md alone."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from ._ed25519 import verify
from ._records import canonical, canonical_any, from_base64url, has, hash_of, keys_for
from .log import root_of

TURN_MAX = 1_024
PATH_MAX = 10

_STATEMENT = """
    attestation_id:str chain_id:str decision:str gate_id:str? issued_at:time log_by:time reason:str?
    request_hash:hash
"""
_CERTIFICATE = """
    account_id:str expires_at:time kid:str not_before:time purpose:str sidecar_id:str signature:str
    signing_key_id:str x:str
"""
_MEMBERS = {"certificate", "format", "history", "index", "path", "signature", "size", "statement"}

FAULTS = {
    "malformed": "this is not a receipt (agent-trust.receipt.v1)",
    "other_request": "the receipt is of another request",
    "certificate_key_unknown": "the key of the sidecar is certified by no attestation key of the JWKS",
    "certificate_key_compromised": "the key that certified the sidecar was declared compromised",
    "certificate_forged": "the certificate of the sidecar does not verify",
    "not_in_time": "the receipt was not issued while the certificate of the sidecar was in force",
    "key_revoked": "the key of the sidecar was revoked: its receipts prove nothing",
    "forged": "the signature is not of this statement: statement, path or signature was changed",
}


class ReceiptVerdict(NamedTuple):
    """True if a sidecar of the service has signed the statement.

    Whether the record is there is another question: hold the receipt against an export.
    """

    fault: str | None  # One of FAULTS, which has its text.
    statement: dict[str, Any] | None = None
    sidecar_id: str | None = None

    def __bool__(self) -> bool:
        return self.fault is None


def verify_receipt(
    receipt: Any, jwks: Any, *, request: dict[str, Any] | None = None, revoked: Any = None
) -> ReceiptVerdict:
    """`receipt`: the member of an answer. `jwks`: /.well-known/jwks.json, parsed, from the service.

    `request`: what was asked; the receipt has to be of it. `revoked`: /.well-known/sidecar-keys.json,
    parsed. Raises ValueError for a `jwks` or `revoked` that is none, and nothing else.
    """
    keys = keys_for("attestation", jwks)
    revoked_kids = _revoked(revoked)
    if not _is_receipt(receipt):
        return ReceiptVerdict("malformed")
    statement, certificate = receipt["statement"], receipt["certificate"]
    key, x = keys.get(certificate["signing_key_id"]), from_base64url(certificate["x"])
    if key is None:
        return ReceiptVerdict("certificate_key_unknown")
    if key["compromised"]:
        return ReceiptVerdict("certificate_key_compromised")
    if not _is_certified(certificate, key, x):
        return ReceiptVerdict("certificate_forged")
    leaf = hashlib.sha256(b"\0" + canonical(statement)).digest()
    path = [from_base64url(each) for each in receipt["path"]]
    root = root_of(leaf, receipt["index"], receipt["size"], path)
    message = f"agent-trust.receipt.v1:{receipt['size']}:{root.hex() if root else ''}"
    if root is None or not verify(x, message.encode(), from_base64url(receipt["signature"])):
        return ReceiptVerdict("forged")
    issued = statement["issued_at"]
    in_time = certificate["not_before"] <= issued <= certificate["expires_at"]
    if not in_time or issued >= statement["log_by"]:
        return ReceiptVerdict("not_in_time")
    if certificate["kid"] in revoked_kids:
        return ReceiptVerdict("key_revoked")
    if request is not None and _hash_of_request(request) != statement["request_hash"]:
        return ReceiptVerdict("other_request")
    return ReceiptVerdict(None, statement, certificate["sidecar_id"])


def _is_certified(certificate: dict[str, Any], key: dict[str, Any], x: bytes) -> bool:
    body = {name: certificate[name] for name in certificate if name != "signature"}
    member = hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{certificate["x"]}"}}'.encode()).digest()
    message = f"agent-trust.sidecar-key.v1:{hash_of(canonical(body))}"
    return (
        len(x) == 32
        and from_base64url(certificate["kid"]) == member
        and verify(key["x"], message.encode(), from_base64url(certificate["signature"]))
    )


def _is_receipt(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != _MEMBERS or value["format"] != "agent-trust.receipt.v1":
        return False
    index, size, path = value["index"], value["size"], value["path"]
    return (
        has(value["statement"], _STATEMENT)
        and value["statement"]["decision"] in ("PERMIT", "BLOCK")
        and has(value["certificate"], _CERTIFICATE)
        and value["certificate"]["purpose"] == "sidecar"
        and type(index) is int
        and type(size) is int
        and 0 <= index < size <= TURN_MAX
        and isinstance(path, list)
        and len(path) <= PATH_MAX
        and all(isinstance(each, str) and len(from_base64url(each)) == 32 for each in path)
        and isinstance(value["signature"], str)
    )


def _revoked(revoked: Any) -> set[str]:
    if revoked is None:
        return set()
    listed = revoked.get("revoked") if isinstance(revoked, dict) else None
    if not isinstance(listed, list):
        raise ValueError("revoked must be the parsed /.well-known/sidecar-keys.json")
    return {each["kid"] for each in listed if isinstance(each, dict) and isinstance(each.get("kid"), str)}


def _hash_of_request(request: dict[str, Any]) -> str:
    return hash_of(
        canonical_any({name: request[name] for name in request if name not in ("proof", "approval_id")})
    )
