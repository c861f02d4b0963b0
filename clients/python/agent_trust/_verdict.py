"""What the verifier of exports answers."""

from __future__ import annotations

from typing import NamedTuple


class Verdict(NamedTuple):
    """True if all of it verifies. If not, `fault` says why, and line (from 1), chain and sequence where."""

    fault: str | None
    line: int
    chain_id: str | None
    sequence: int | None
    records: int
    compromised: int  # Records whose key somebody else may have had: who wrote them is unknown.
    compromised_statements: int = 0  # Passports and approvals by such a key: they may be forged.
    removed_approvals: int = 0  # Stated to be removed: nothing shows who answered them.
    facts_opened: int = 0  # Commitments that values in the file open.
    facts_withheld: int = 0  # Commitments that none does.

    def __bool__(self) -> bool:
        return self.fault is None
