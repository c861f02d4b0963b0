"""Proofs of the transparency log, written from docs/log.md and the specifications of C2SP alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ._ed25519 import verify

PATH_HASHES_MAX = 63
SIGNATURES_MAX = 64
WITNESS_CLOCK_S_MAX = 300


class LogProofVerdict(NamedTuple):
    """True if the proof holds. Then the log has record `sequence` of `chain_id`, with this hash.

    Compare it with an export that verifies: every record of the chain before it is covered, too.
    """

    fault: str | None
    chain_id: str | None = None
    sequence: int | None = None
    hash: str | None = None
    origin: str | None = None
    size: int | None = None
    witnesses: tuple[str, ...] = ()  # Those of the policy that cosigned, by its names.
    untimely: tuple[str, ...] = ()  # Those whose cosignatures do not count, because of their time.

    def __bool__(self) -> bool:
        return self.fault is None


class _Key(NamedTuple):
    name: str
    key_id: bytes
    kind: int
    x: bytes


_Rule = Callable[[set[str]], bool]


def verify_log_proof(
    proof: str, policy: str, *, jwks: Any = None, now_s: float | None = None
) -> LogProofVerdict:
    """`proof`: a tlog-proof of GET /v1/attestations/{id}/proof. `policy`: a tlog-policy, as text.

    No cosignature counts that is more than 5 minutes later than `now_s` (default: now), or, with the JWK set
    of the service, older than the log's key. Raises ValueError for a policy with a mistake.
    """
    logs, witnesses, is_quorum = _read_policy(policy)
    until_s = int(time.time() if now_s is None else now_s) + WITNESS_CLOCK_S_MAX
    begins = {} if jwks is None else _begins(jwks)
    try:
        return _judge(proof, logs, witnesses, is_quorum, begins, until_s)
    except (ValueError, KeyError, TypeError, binascii.Error):
        return LogProofVerdict("this is not a tlog-proof of the log of this service")


def included_head(proof: str) -> tuple[str, int, str]:
    """Chain, sequence and hash that the log has, by the proof alone: who signed it is not looked at.

    Raises ValueError for a proof whose path does not lead to the root of its own checkpoint.
    """
    try:
        read = _read(proof)
    except (KeyError, TypeError, binascii.Error) as fault:
        raise ValueError("the proof of the log is malformed") from fault
    if not read.is_included:
        raise ValueError("the proof of the log does not hold")
    return read.chain_id, read.sequence, read.hashed


def _judge(
    proof: str,
    logs: list[_Key],
    witnesses: dict[str, _Key],
    is_quorum: _Rule,
    begins: dict[str, int],
    until_s: int,
) -> LogProofVerdict:
    read = _read(proof)
    text, origin, signatures = read.text, read.origin, read.signatures
    by_log = {key: _state(key, text, signatures) for key in logs if key.name == origin}
    cosigned = {name: _state(key, text, signatures) for name, key in witnesses.items()}
    if False in by_log.values() or False in cosigned.values():
        return LogProofVerdict("a signature of the checkpoint does not verify")
    signers = [_encode_url(key.x) for key, state in by_log.items() if state]
    if not signers:
        return LogProofVerdict("the checkpoint is signed by no log that the policy names")
    from_s = min((begins[x] for x in signers if x in begins), default=0)
    by = [name for name, state in cosigned.items() if state]
    names = tuple(name for name in by if _is_timely(witnesses[name], signatures, from_s, until_s))
    untimely = tuple(name for name in by if name not in names)
    if not is_quorum(set(names)):
        fault = "the checkpoint lacks the cosignatures that the policy asks for"
        return LogProofVerdict(fault, untimely=untimely)
    if not read.is_included:
        return LogProofVerdict("the entry is not in the tree of the checkpoint", untimely=untimely)
    return LogProofVerdict(
        None, read.chain_id, read.sequence, read.hashed, origin, read.size, names, untimely
    )


class _Proof(NamedTuple):
    chain_id: str
    sequence: int
    hashed: str
    text: str
    origin: str
    size: int
    signatures: list[tuple[str, bytes, bytes]]
    is_included: bool


def _read(proof: str) -> _Proof:
    start, end = proof.index("\n\n"), proof.rindex("\n\n")
    _demand(start < end and proof.endswith("\n"))
    first, extra, index_line, *path = proof[:start].split("\n")
    text, lines = proof[start + 2 : end + 1], proof[end + 2 : -1].split("\n")
    _demand(first == "c2sp.org/tlog-proof@v1" and len(path) <= PATH_HASHES_MAX)
    _demand(extra.startswith("extra ") and index_line.startswith("index ") and len(lines) <= SIGNATURES_MAX)
    head = json.loads(_decode(extra[6:]))
    chain_id, sequence, hashed = head["chain_id"], head["sequence"], head["hash"]
    _demand(isinstance(chain_id, str) and "\n" not in chain_id and type(sequence) is int)
    _demand(isinstance(hashed, str) and re.fullmatch("sha256:[0-9a-f]{64}", hashed) is not None)
    index, hashes = _number(index_line[6:]), [_hash(line) for line in path]
    origin, size_text, root_text = text.split("\n")[:3]
    size, root = _number(size_text), _hash(root_text)
    signatures = [_signature(line) for line in lines]
    entry = _sha256(f"agent-trust.log.v1\n{chain_id}\n{sequence}\n{hashed}\n".encode())
    is_included = index < size and root_of(_sha256(b"\0" + entry), index, size, hashes) == root
    return _Proof(chain_id, sequence, hashed, text, origin, size, signatures, is_included)


def root_of(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes | None:
    """RFC 6962, 2.1.1, from the top down."""
    if size == 1:
        return None if path else leaf
    if not path:
        return None
    half = 1 << (size - 1).bit_length() - 1
    if index < half:
        own = root_of(leaf, index, half, path[:-1])
        return own and _sha256(b"\1" + own + path[-1])
    own = root_of(leaf, index - half, size - half, path[:-1])
    return own and _sha256(b"\1" + path[-1] + own)


def _state(key: _Key, text: str, signatures: list[tuple[str, bytes, bytes]]) -> bool | None:
    """None: this key has not signed."""
    own = [signature for name, key_id, signature in signatures if (name, key_id) == key[:2]]
    return all(_is_signed(key, text, signature) for signature in own) if own else None


def _begins(jwks: Any) -> dict[str, int]:
    """By its `x`: from when on each key of a log has signed."""
    if not isinstance(jwks, dict) or not isinstance(jwks.get("keys"), list):
        raise ValueError("jwks must be a parsed JWK set")
    keys = [key for key in jwks["keys"] if isinstance(key, dict) and key.get("purpose") == "log"]
    return {str(key.get("x")): key["nbf"] for key in keys if type(key.get("nbf")) is int}


def _is_timely(
    key: _Key, signatures: list[tuple[str, bytes, bytes]], from_s: int, until_s: int
) -> bool:
    times = [int.from_bytes(own[:8], "big") for name, key_id, own in signatures if (name, key_id) == key[:2]]
    return any(from_s <= time_s <= until_s for time_s in times)


def _is_signed(key: _Key, text: str, signature: bytes) -> bool:
    if key.kind == 1:
        return verify(key.x, text.encode(), signature)
    time_s = int.from_bytes(signature[:8], "big")
    message = f"cosignature/v1\ntime {time_s}\n{text}"
    return 0 < time_s < 1 << 63 and verify(key.x, message.encode(), signature[8:])


_GROUP_DEPTH_MAX = 32


def _read_policy(policy: str) -> tuple[list[_Key], dict[str, _Key], _Rule]:
    logs: list[_Key] = []
    witnesses: dict[str, _Key] = {}
    rules: dict[str, _Rule] = {}
    members: set[str] = set()
    # Groups within groups: each costs stack.
    depths: dict[str, int] = {}
    quorum: _Rule | None = None
    for number, line in enumerate(policy.split("\n"), 1):
        words = [word for word in re.split("[ \t]+", line) if word]
        if not words or words[0].startswith("#"):
            continue
        try:
            kind, *rest = words
            if kind == "log":
                logs.append(_key(rest[0], 1, logs))
            elif kind == "witness":
                witnesses[rest[0]] = _key(rest[1], 4, list(witnesses.values()))
                _define(rules, rest[0], lambda names, name=rest[0]: name in names)  # type: ignore[misc]
            elif kind == "group":
                name, least_text, *of = rest
                _demand(len(set(of)) == len(of) and not members & set(of))
                members |= set(of)
                depths[name] = 1 + max(depths.get(member, 0) for member in of)
                _demand(depths[name] <= _GROUP_DEPTH_MAX)
                least = {"any": 1, "all": len(of)}.get(least_text) or _number(least_text)
                _demand(1 <= least <= len(of))
                _define(rules, name, _group(least, [rules[member] for member in of]))
            else:
                _demand(kind == "quorum" and quorum is None and len(rest) == 1)
                quorum = (lambda names: True) if rest[0] == "none" else rules[rest[0]]
        except (ValueError, KeyError, IndexError) as fault:
            raise ValueError(f"policy, line {number}: it is not a line of a tlog-policy") from fault
    if quorum is None:
        raise ValueError("policy: it has no quorum")
    return logs, witnesses, quorum


def _group(least: int, of: list[_Rule]) -> _Rule:
    return lambda names: sum(rule(names) for rule in of) >= least


def _define(rules: dict[str, _Rule], name: str, rule: _Rule) -> None:
    _demand(name != "none" and name not in rules)
    rules[name] = rule


def _key(vkey: str, kind: int, known: list[_Key]) -> _Key:
    name, key_id, encoded = vkey.split("+", 2)
    public = _decode(encoded)
    _demand(len(public) == 33 and public[0] == kind and all(key.x != public[1:] for key in known))
    _demand(_sha256(name.encode() + b"\n" + public)[:4].hex() == key_id)
    return _Key(name, bytes.fromhex(key_id), kind, public[1:])


def _signature(line: str) -> tuple[str, bytes, bytes]:
    dash, name, encoded = line.split(" ")
    signature = _decode(encoded)
    _demand(dash == "\u2014" and name != "" and len(signature) > 4)
    return name, signature[:4], signature[4:]


def _demand(holds: bool) -> None:
    if not holds:
        raise ValueError


def _number(text: str) -> int:
    _demand(re.fullmatch("0|[1-9][0-9]{0,15}", text) is not None)
    return int(text)


def _hash(text: str) -> bytes:
    decoded = _decode(text)
    _demand(len(decoded) == 32)
    return decoded


def _encode_url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
