"""Verifies a signed answer to an approval offline, written from docs/approvals.md ("Proof") alone."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from ._ed25519 import verify as verify_ed25519
from ._records import canonical, demand, from_base64url

# The curve P-256 (FIPS 186): its field, its order, b, and the base point.
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
SIGNED = ("approval_id", "request_hash", "amount_micro_usd")
# DigestInfo of SHA-256 (RFC 8017, 9.2).
SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")

Point = tuple[int, int] | None


class AnswerVerdict(NamedTuple):
    """True if the passkey that the proof names signed the answer. If not, `fault` says why."""

    fault: str | None

    def __bool__(self) -> bool:
        return self.fault is None


def verify_answer(approval: Any, answer: Any) -> AnswerVerdict:
    """`approval`: of `GET /approvals/:id`. `answer`: one of its answers. Nothing else is needed."""
    try:
        proof = answer["assertion"]
        demand(proof is not None, "the answer is not signed")
        signed = {name: approval[name] for name in SIGNED}
        signed |= {"policy_hash": proof["policy_hash"], "answer": answer["answer"]}
        challenge = hashlib.sha256(canonical(signed)).digest()
        data, client, signature = (
            from_base64url(proof[part]) for part in ("authenticator_data", "client_data_json", "signature")
        )
        said = json.loads(client)
        demand(said["type"] == "webauthn.get", "it is no signature of an answer")
        is_this = from_base64url(str(said.get("challenge"))) == challenge
        demand(is_this, "it signs another approval, request, policy, amount or answer")
        is_here = said.get("origin") == proof["origin"] and said.get("crossOrigin") is not True
        demand(is_here, "it was made on another page")
        demand(len(data) >= 37, "authenticator_data is too short")
        demand(data[:32] == hashlib.sha256(proof["rp_id"].encode()).digest(), "it is for another service")
        demand(data[32] & 5 == 5, "no person unlocked the passkey")
        message = data + hashlib.sha256(client).digest()
        demand(_is_signed(proof["public_key"], message, signature), "the signature is not of this passkey")
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as fault:
        return AnswerVerdict(str(fault) or "it is no signed answer")
    return AnswerVerdict(None)


def _is_signed(key: Any, message: bytes, signature: bytes) -> bool:
    if key["kty"] == "OKP":
        return verify_ed25519(from_base64url(key["x"]), message, signature)
    if key["kty"] == "RSA":
        return _is_rs256(_number(key["n"]), _number(key["e"]), message, signature)
    return _is_es256((_number(key["x"]), _number(key["y"])), message, signature)


def _number(text: str) -> int:
    return int.from_bytes(from_base64url(text), "big")


def _is_rs256(n: int, e: int, message: bytes, signature: bytes) -> bool:
    size = (n.bit_length() + 7) // 8
    if size < 256 or len(signature) != size:
        return False
    digest = SHA256_INFO + hashlib.sha256(message).digest()
    padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    return pow(int.from_bytes(signature, "big"), e, n) == int.from_bytes(padded, "big")


def _is_es256(key: tuple[int, int], message: bytes, signature: bytes) -> bool:
    x, y = key
    if x >= P or y >= P or (y * y - x**3 + 3 * x - B) % P != 0:
        return False
    r, s = _der(signature)
    if not (0 < r < ORDER and 0 < s < ORDER):
        return False
    digest, inverse = int.from_bytes(hashlib.sha256(message).digest(), "big"), pow(s, -1, ORDER)
    found = _add(_times(digest * inverse % ORDER, BASE), _times(r * inverse % ORDER, key))
    return found is not None and found[0] % ORDER == r


def _der(signature: bytes) -> tuple[int, int]:
    """The two numbers of an ES256 signature (RFC 3279, 2.2.3), in the one form that DER has for them."""
    numbers, at = [], 2
    for _ in range(2):
        demand(len(signature) > at + 1 and signature[at] == 2, "the signature is no DER")
        size = signature[at + 1]
        numbers.append(int.from_bytes(signature[at + 2 : at + 2 + size], "big"))
        at += 2 + size
    body = b"".join(_der_integer(number) for number in numbers)
    demand(signature == bytes([0x30, len(body) & 0xFF]) + body, "the signature is no DER")
    return numbers[0], numbers[1]


def _der_integer(number: int) -> bytes:
    data = number.to_bytes(number.bit_length() // 8 + 1, "big")
    return bytes([2, len(data) & 0xFF]) + data


def _add(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return one or other
    if one[0] == other[0]:
        if (one[1] + other[1]) % P == 0:
            return None
        slope = (3 * one[0] * one[0] - 3) * pow(2 * one[1], -1, P)
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, P)
    x = (slope * slope - one[0] - other[0]) % P
    return x, (slope * (one[0] - x) - one[1]) % P


def _times(factor: int, point: Point) -> Point:
    total: Point = None
    while factor:
        if factor & 1:
            total = _add(total, point)
        point, factor = _add(point, point), factor >> 1
    return total
