"""Ed25519 of RFC 8032 with the rules of contract §11.

Without dependencies, in about 3 ms for each signature; where the package `cryptography` is installed
(Debian: python3-cryptography), that does the arithmetic, and a whole export verifies some 10 times as fast.
Both answer alike: what libraries disagree about is refused before either is asked. Nothing of verification is
secret. Signing in plain Python does not take the same time for all keys: install `cryptography` where others
can measure it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)
# y of the points of small order: 0, 1, -1, and the two of order 8.
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = {0, 1, P - 1, _Y8, P - _Y8}

# Extended coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z, x·y = T/Z (RFC 8032, 5.1.4).
Point = tuple[int, int, int, int]


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """False for whatever was not signed with this key, or by no honest signer (contract §11)."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    s = int.from_bytes(signature[32:], "little")
    if s >= ORDER or not _is_strict(public_key) or not _is_strict(signature[:32]):
        return False
    return _verify(public_key, message, signature)


def _is_strict(encoded: bytes) -> bool:
    y = int.from_bytes(encoded, "little") % 2**255
    return y < P and y not in _SMALL_ORDER


def _add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _double(p: Point) -> Point:
    a, b, c = p[0] * p[0] % P, p[1] * p[1] % P, 2 * p[2] * p[2] % P
    h = a + b
    e, g = h - (p[0] + p[1]) * (p[0] + p[1]), a - b
    f = c + g
    return e * f % P, g * h % P, f * g % P, e * h % P


@functools.lru_cache(64)  # A key signs thousands of records of an export.
def _decode(encoded: bytes) -> Point | None:
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y % 2**255
    xx = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(xx, (P + 3) // 8, P)
    if (x * x - xx) % P != 0:
        x = x * ROOT % P
    if (x * x - xx) % P != 0:
        return None
    x = P - x if x % 2 != sign else x
    return x, y, 1, x * y % P


_BASE = _decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def _verify_plain(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether R is the encoding of S·B - k·A, which is one of the two equations that RFC 8032 allows."""
    a = _decode(public_key)
    if a is None or _BASE is None:
        return False
    s = int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), "little") % ORDER
    minus_a = (P - a[0], a[1], 1, P - a[3])
    both, point = _add(_BASE, minus_a), (0, 1, 1, 0)
    # Both products with the same doublings, bit by bit (Straus and Shamir).
    for place in range(252, -1, -1):
        point = _double(point)
        bits = s >> place & 1, k >> place & 1
        if bits != (0, 0):
            point = _add(point, both if bits == (1, 1) else _BASE if bits[0] else minus_a)
    return _encode(point) == signature[:32]


def public_key_of(seed: bytes) -> bytes:
    """Of the 32-byte private seed."""
    return _encode(_times_base(_scalar_of(seed)[0]))


def _sign_plain(seed: bytes, message: bytes) -> bytes:
    scalar, prefix = _scalar_of(seed)
    public_key = _encode(_times_base(scalar))
    r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % ORDER
    first = _encode(_times_base(r))
    k = int.from_bytes(hashlib.sha512(first + public_key + message).digest(), "little") % ORDER
    return first + ((r + k * scalar) % ORDER).to_bytes(32, "little")


def _scalar_of(seed: bytes) -> tuple[int, bytes]:
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & ~7
    return scalar & ((1 << 254) - 1) | 1 << 254, digest[32:]


def _times_base(scalar: int) -> Point:
    point, power = (0, 1, 1, 0), _BASE
    while scalar > 0 and power is not None:
        if scalar & 1:
            point = _add(point, power)
        power, scalar = _double(power), scalar >> 1
    return point


def _encode(point: Point) -> bytes:
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def sign(seed: bytes, message: bytes) -> bytes:
    """The 64-byte signature by the key of this 32-byte seed."""
    return _sign(seed, message)


def _with_library() -> Callable[[bytes, bytes, bytes], bool]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    def _verify_fast(public_key: bytes, message: bytes, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    return _verify_fast


def _signer_with_library() -> Callable[[bytes, bytes], bytes]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return lambda seed, message: Ed25519PrivateKey.from_private_bytes(seed).sign(message)


try:
    _verify = _with_library()
    _sign = _signer_with_library()
except Exception:  # Not installed, or built for another Python: its import may then raise anything.
    _verify = _verify_plain
    _sign = _sign_plain
