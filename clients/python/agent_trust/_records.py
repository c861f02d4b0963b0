"""The form of the lines of an export and of the keys of a JWKS (docs/verify.md, sections 1, 2, 3 and 5)."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
from decimal import Decimal
from typing import Any

from .log import included_head

# Exports from before 2026-11-27, and later ones.
_EARLIER_MANIFEST = "created_at:time format:str key_ids:list since:time?"
_MANIFEST = f"{_EARLIER_MANIFEST} generation:generation"
CHAIN = "chain_id:str first_sequence:int last_hash:hash last_sequence:int previous_attestation_hash:hash?"
ARCHIVED_CHAIN = f"archived:archived {CHAIN}"  # Its first records are in an archive.
# Records from before 2026-11-22, and later ones.
EARLIER = """
    amount_micro_usd:int? chain_id:str constraints_evaluated:list decision:str gate_id:str? hash:hash id:str
    passport_id:str? permission_key:str? pii:pii previous_attestation_hash:hash? reason:str? request_hash:hash
    resolution:str? sequence:int signature:str signing_key_id:str source:str test:bool timestamp:time
"""
RECORD = f"{EARLIER} refers_to:str? source_account:str"
RECORD_2 = f"""{RECORD}
    approval_id:str? asserted:bool conditions:list? domain:str? external:external? facts:facts?
    hold_expires_at:time? permit_token:str? policy_hash:hash? proof:str? shadow:shadow? state_age_ms:int?
    trust_level:str? units:units? user:hash? wallet_id:str? wallet_path:list?
"""
# What newer versions decide by.
CARRIED = ("conditions", "external", "facts", "permit_token", "shadow", "units", "user")
_FORMATS = {  # Each with the records that it may hold.
    "agent-trust.attestations.v1": (RECORD, EARLIER),
    "agent-trust.attestations.v2": (RECORD_2, RECORD, EARLIER),
}
_END = "chains:int records:int"
_OBJECTS = {
    "external": "commitment:hash? decision:bool?",
    "shadow": "condition:str? decision:str? policy_hash:hash reason:str?",
}
_LISTS = {"facts": "commitment:hash path:str", "pii": "pointer:str type:str"}
# What stands in `end` only where chains are not whole.
_BROKEN = {"broken": "broken", "broken_unnamed": "int"}

_patterns = {
    "generation": re.compile("gen_[0-9a-f]{32}"),
    "hash": re.compile("sha256:[0-9a-f]{64}"),
    "time": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"),
}

LINK = "previous_attestation_hash"


def demand(holds: bool, fault: str) -> None:
    """Raises ValueError, whose text is for people, for what does not hold."""
    if not holds:
        raise ValueError(fault)


@functools.cache  # One for each of the few forms that this package names.
def _kinds(members: str) -> dict[str, str]:
    return dict(each.split(":") for each in members.split())


def has(value: Any, members: str) -> bool:
    """Whether it is an object with exactly these members, each of its kind; `?`: or null."""
    if not isinstance(value, dict):
        return False
    kinds = _kinds(members)
    return value.keys() == kinds.keys() and all(_is(value[name], kind) for name, kind in kinds.items())


def _is(value: Any, kind: str) -> bool:
    if kind.endswith("?"):
        return value is None or _is(value, kind[:-1])
    if kind in _patterns:
        return isinstance(value, str) and _patterns[kind].fullmatch(value) is not None
    if kind == "int":
        return type(value) is int and 0 <= value < 2**53
    if kind == "list":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if kind == "object":
        return isinstance(value, dict)
    if kind == "archived":
        return has(value, "hash:hash through_sequence:int") and value["through_sequence"] > 0
    if kind == "broken":
        members = "chain_id:str fault:str sequence:int"
        return isinstance(value, list) and bool(value) and all(has(each, members) for each in value)
    if kind == "opened":
        return isinstance(value, list) and all(_is_fact(each) for each in value)
    if kind == "units":
        return isinstance(value, dict) and all(_is(each, "int") for each in value.values())
    if kind in _OBJECTS:
        return has(value, _OBJECTS[kind])
    if kind in _LISTS:
        return isinstance(value, list) and all(has(each, _LISTS[kind]) for each in value)
    return kind == "any" or isinstance(value, bool if kind == "bool" else str)


def _is_fact(value: Any) -> bool:
    names = value.keys() if isinstance(value, dict) else ()
    marks = [name for name in ("absent", "hashed") if name in names and value[name] is True]
    members = "commitment:hash path:str salt:str value:any" + "".join(f" {name}:bool" for name in marks)
    return has(value, members)


def only(name: str, value: Any, members: str) -> Any:
    """What the line holds under its only name. Raises ValueError for another line."""
    demand(value.keys() == {name} and has(value[name], members), f"the line is no {name}")
    return value[name]


def read_chain(value: dict[str, Any], before: str | None, since: str | None) -> tuple[dict[str, Any], bool]:
    """The header of a chain after the chain `before`; and whether it goes on where an archive ends."""
    names = value["chain"] if isinstance(value["chain"], dict) else ()
    members = (ARCHIVED_CHAIN if "archived" in names else CHAIN) + " log_proof:str" * ("log_proof" in names)
    chain = only("chain", value, members)
    first, last, previous = chain["first_sequence"], chain["last_sequence"], chain[LINK]
    archived = chain.get("archived", {"through_sequence": 0, "hash": None})
    through = archived["through_sequence"]  # 0: no record of the chain is in an archive.
    demand(chain["chain_id"] > (before or ""), "the chains are not in ascending order")
    demand(through < first <= last or 0 < through == last == first - 1, "the header is wrong")
    demand((first == 1) == (previous is None), "the header is wrong")
    follows = first == through + 1
    demand(follows or since is not None, "the chain lacks its beginning")
    demand(not follows or previous == archived["hash"], "the chain does not go on after its archive")
    chain["logged"] = {}  # The hash that the log has, by its sequence.
    if "log_proof" in chain:
        chain_id, sequence, own = included_head(chain["log_proof"])
        is_of_chain = chain_id == chain["chain_id"] and first <= sequence <= last
        demand(is_of_chain, "the proof of the log is of another chain")
        chain["logged"] = {sequence: own}
    return chain, follows and through > 0


def read_manifest(value: dict[str, Any]) -> dict[str, Any]:
    """The member `manifest` of the first line. Raises ValueError for another line."""
    is_earlier = has(value.get("manifest"), _EARLIER_MANIFEST)
    manifest = only("manifest", value, _EARLIER_MANIFEST if is_earlier else _MANIFEST)
    demand(manifest["format"] in _FORMATS, "the format is another one")
    return manifest  # type: ignore[no-any-return]


def is_record(value: Any, manifest: dict[str, Any]) -> bool:
    """Whether it has the members of a record that an export of this format may hold."""
    return any(has(value, members) for members in _FORMATS[manifest["format"]])


def read_end(value: dict[str, Any], chains: int, records: int) -> dict[str, Any]:
    """The member `end` of the last line. Raises ValueError for another line, and for other counts."""
    end = value.get("end")
    names = end.keys() if isinstance(end, dict) else ()
    members = _END + "".join(f" {name}:{kind}" for name, kind in _BROKEN.items() if name in names)
    end = only("end", value, members)
    demand((end["chains"], end["records"]) == (chains, records), "the end counts other chains or records")
    return end  # type: ignore[no-any-return]


def canonical(value: object) -> bytes:
    """RFC 8785, of what has no numbers but integers, and no names of members outside of ASCII: a record."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def canonical_any(value: object) -> bytes:
    """RFC 8785, of any value. Slower by far."""
    return _text(value).encode()


def hash_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _text(value: Any) -> str:
    if isinstance(value, dict):  # In the order of UTF-16 code units.
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_text(name)}:{_text(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(each) for each in value) + "]"
    return number_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def number_text(value: float) -> str:
    """As ECMAScript writes it. The digits are those of Python; the exponent begins elsewhere."""
    if value.is_integer() and abs(value) < 1e21:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits
    power = int(exponent)
    return format(Decimal(repr(value)), "f") if -7 < power < 0 else f"{digits}e{power:+d}"


def from_base64url(text: str) -> bytes:
    """Empty for what is not base64url without padding, in the one form that its bytes have."""
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
    return data if base64.urlsafe_b64encode(data).rstrip(b"=").decode() == text else b""


def keys_for(purpose: str, jwks: Any) -> dict[str, Any]:
    """By `kid`, which is the thumbprint of the key (RFC 7638). Raises ValueError for what is no JWK set."""
    if not isinstance(jwks, dict) or not isinstance(jwks.get("keys"), list):
        raise ValueError("jwks must be a parsed JWK set")
    keys: dict[str, Any] = {}
    for jwk in jwks["keys"]:
        if not isinstance(jwk, dict) or (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
            continue
        kid, x, nbf = jwk.get("kid"), jwk.get("x"), jwk.get("nbf")
        if not isinstance(kid, str) or not isinstance(x, str) or type(nbf) is not int:
            continue
        member = hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest()
        if jwk.get("purpose") != purpose or from_base64url(kid) != member:
            continue
        # A key that comes twice is compromised if either says so.
        is_compromised = jwk.get("compromised") is not False or keys.get(kid, {}).get("compromised", False)
        keys[kid] = {"x": from_base64url(x), "nbf": nbf, "compromised": is_compromised}
    return keys
