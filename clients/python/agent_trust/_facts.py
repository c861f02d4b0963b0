"""Values that decisions read, against the commitments of their records (docs/facts.md)."""

from __future__ import annotations

import re
from typing import Any

from ._records import canonical_any, demand, has, hash_of

_FORM_BYTES_MAX = 1024
_salt = re.compile(r"[A-Za-z0-9_-]{22}")
_hash = re.compile("sha256:[0-9a-f]{64}")


def commitment_of(fact: dict[str, Any]) -> str:
    """What it is a commitment to. Raises ValueError for what is malformed."""
    path, salt, value = fact["path"], fact["salt"], fact["value"]
    if "absent" in fact:
        demand(value is None, "what is absent has no value")
        form = b""
    elif "hashed" in fact:
        demand(isinstance(value, str) and _hash.fullmatch(value) is not None, "the value is no hash")
        form = value.encode()
    else:
        form = canonical_any(value)
        form = form if len(form) <= _FORM_BYTES_MAX else hash_of(form).encode()
    return hash_of(f"agent-trust.fact.v1:{salt}:{path}:".encode() + form)


class Facts:
    """Of an export, each line after its record. `opened` and `withheld` count commitments."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._closed: dict[str, str] = {}  # Of the record before, by path, what is not open yet.
        self.opened = 0
        self.withheld = 0

    def name(self, record: dict[str, Any]) -> None:
        self._id = record["id"]
        self._closed = {each["path"]: each["commitment"] for each in record.get("facts") or ()}
        if record.get("user") is not None:
            self._closed["/user"] = record["user"]
        self.withheld += len(self._closed)

    def next(self, lines: Any) -> dict[str, Any]:
        """The next line that has no facts of the record before it."""
        while "attestation_id" in (value := lines.next()):
            demand(has(value, "attestation_id:str facts:opened"), "the line has no facts of this format")
            demand(value["attestation_id"] == self._id, "the facts do not follow their record")
            for fact in value["facts"]:
                demand(_salt.fullmatch(fact["salt"]) is not None, "the salt is none")
                path, commitment = fact["path"], fact["commitment"]
                demand(self._closed.pop(path, None) == commitment, "the record has no such commitment")
                demand(commitment_of(fact) == commitment, "a value does not open its commitment")
                self.opened, self.withheld = self.opened + 1, self.withheld - 1
        return value  # type: ignore[no-any-return]
