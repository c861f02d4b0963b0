"""For agents: requests that show a passport and prove that their sender holds its key.

    fetch = agent_fetch(passport, private_key)
    answer = fetch("POST", "https://shop.example/orders", body=b'{"sku":"a"}')

`AgentSigner` makes the headers alone, for any other HTTP client.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from ._ed25519 import public_key_of, sign

__all__ = ["AgentAnswer", "AgentFetch", "AgentSigner", "agent_fetch"]

_KEY_PREFIX = "ed25519_private:"
# RFC 9421 in the profile of Web Bot Auth, which covers the body too; or RFC 9449.
ProofKind = Literal["httpsig", "dpop"]


class AgentSigner:
    """Makes the headers of one request after another: the passport, and a new proof for each.

    `private_key` is the text that the service answered once (`ed25519_private:…`). Where the package
    `cryptography` is installed it does the arithmetic; plain Python takes some milliseconds, and not always
    the same time.
    """

    def __init__(
        self,
        passport: str,
        private_key: str,
        *,
        proof: ProofKind = "httpsig",
        lifetime_s: int = 60,
        signature_agent: str | None = None,
    ) -> None:
        seed = _decode(private_key.removeprefix(_KEY_PREFIX))
        if not private_key.startswith(_KEY_PREFIX) or len(seed) != 32:
            raise ValueError(f"a private key is {_KEY_PREFIX} and 32 bytes in base64url")
        if not 1 <= lifetime_s <= 300:
            raise ValueError("lifetime_s must be 1 to 300 seconds")
        self._jwk = {"crv": "Ed25519", "kty": "OKP", "x": _encode(public_key_of(seed))}
        if not _is_for(passport, self._jwk):
            raise ValueError("the passport was issued for another key than this one")
        self._passport, self._seed, self._proof = passport, seed, proof
        self._lifetime_s, self._signature_agent = lifetime_s, signature_agent
        self._thumbprint = _encode(_sha256(json.dumps(self._jwk, separators=(",", ":")).encode()))

    def headers(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        *,
        nonce: str | None = None,
        has_authorization: bool = False,
    ) -> dict[str, str]:
        """`has_authorization`: the request has one of its own, so the passport goes into X-Agent-Passport."""
        shown = (
            {"x-agent-passport": self._passport}
            if has_authorization
            else {"authorization": f"Passport {self._passport}"}
        )
        if self._proof == "dpop":
            return {**shown, "dpop": self._dpop(method, url, nonce)}
        return self._signature(method, url, body, shown)

    def _dpop(self, method: str, url: str, nonce: str | None) -> str:
        target = urlsplit(url)
        claims = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlunsplit((target.scheme, _authority(url), target.path or "/", "", "")),
            "iat": int(time.time()),
            "ath": _encode(_sha256(self._passport.encode())),
            **({} if nonce is None else {"nonce": nonce}),
        }
        header = {"typ": "dpop+jwt", "alg": "EdDSA", "jwk": self._jwk}
        text = ".".join(_encode(json.dumps(part).encode()) for part in (header, claims))
        return f"{text}.{_encode(sign(self._seed, text.encode()))}"

    def _signature(
        self, method: str, url: str, body: bytes | None, shown: Mapping[str, str]
    ) -> dict[str, str]:
        headers = dict(shown)
        if self._signature_agent is not None:
            headers["signature-agent"] = json.dumps(self._signature_agent)
        if body:
            headers["content-digest"] = f"sha-256=:{base64.b64encode(_sha256(body)).decode()}:"
        # Path and query as they are sent.
        target = re.sub("^[^/]*//[^/?#]*|#.*$", "", url)
        target = target if target.startswith("/") else f"/{target}"
        parts = {
            "@method": method,
            "@authority": _authority(url),
            "@target-uri": f"{urlsplit(url).scheme}://{_authority(url)}{target}",
            **headers,
        }
        created = int(time.time())
        names = " ".join(f'"{name}"' for name in parts)
        signed = (
            f"({names});created={created};expires={created + self._lifetime_s}"
            f';nonce="{secrets.token_urlsafe(16)}";keyid="{self._thumbprint}"'
            ';alg="ed25519";tag="web-bot-auth"'
        )
        lines = [f'"{name}": {value}' for name, value in parts.items()]
        base = "\n".join([*lines, f'"@signature-params": {signed}'])
        mark = base64.b64encode(sign(self._seed, base.encode("ascii"))).decode()
        return {**headers, "signature-input": f"sig1={signed}", "signature": f"sig1=:{mark}:"}


@dataclass(frozen=True)
class AgentAnswer:
    status: int
    # Names in lower case.
    headers: Mapping[str, str]
    body: bytes


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A proof is for one URL, and a passport for one server: a redirect is answered as it is."""

    def redirect_request(self, *_args: object) -> None:
        return None


class AgentFetch:
    """Sends requests with urllib. See `AgentSigner` for the arguments."""

    def __init__(self, signer: AgentSigner, timeout_s: float) -> None:
        self._signer, self._timeout_s = signer, timeout_s
        self._opener = urllib.request.build_opener(_NoRedirect)

    def __call__(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> AgentAnswer:
        given = {name.lower(): value for name, value in (headers or {}).items()}
        signed = self._signer.headers(method, url, body, has_authorization="authorization" in given)
        request = urllib.request.Request(url, data=body, headers={**given, **signed}, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return _answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.headers, error.read())


def agent_fetch(
    passport: str,
    private_key: str,
    *,
    proof: ProofKind = "httpsig",
    lifetime_s: int = 60,
    signature_agent: str | None = None,
    timeout_s: float = 30,
) -> AgentFetch:
    """A function that sends requests with the passport and a proof that this agent holds its key."""
    signer = AgentSigner(
        passport, private_key, proof=proof, lifetime_s=lifetime_s, signature_agent=signature_agent
    )
    return AgentFetch(signer, timeout_s)


def _answer(status: int, headers: Mapping[str, str], body: bytes) -> AgentAnswer:
    return AgentAnswer(status, {name.lower(): value for name, value in headers.items()}, body)


def _authority(url: str) -> str:
    """As RFC 9421 §2.2.3 has it: in small letters, without the port of the scheme."""
    target = urlsplit(url)
    host = (target.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(target.scheme)
    return host if target.port in (None, default) else f"{host}:{target.port}"


def _is_for(passport: str, jwk: Mapping[str, str]) -> bool:
    """Whether the passport names this key. What it says is not verified here."""
    try:
        bound = json.loads(_decode(passport.split(".")[1]))["cnf"]["jwk"]
        return all(bound.get(name) == value for name, value in jwk.items())
    except (ValueError, LookupError, TypeError, AttributeError):
        return False


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
