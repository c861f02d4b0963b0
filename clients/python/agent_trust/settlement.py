"""How a guard has an amount held, and what it reports of the answer (contract §19)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from .guard import GuardedRequest, GuardRoute, PassedDecision

Outcome = Literal["served", "failed"]
# Called with the error of a report that did not arrive: its hold ends by itself.
OnReportError = Callable[[Exception], None]


@dataclass(frozen=True)
class GuardedAnswer:
    """What the program has answered, without its body."""

    status: int
    # Names in lower case; values of a header that was sent several times are in order.
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def header(self, name: str) -> str | None:
        values = self.headers.get(name.lower())
        return None if values is None else ", ".join(values)


@dataclass(frozen=True)
class Settlement:
    """How a guard has the amount held, and reports what it came to."""

    # How long the amount is held. None: as the gate has it.
    expires_in_s: int | None = None
    # What it came to, in USD, once the answer is complete; None: all that is held.
    amount: Callable[[GuardedRequest, GuardedAnswer], float | Decimal | None] | None = None
    # What is reported of a client that left before the answer was complete.
    client_left: Outcome = "served"


def hold_of(settle: Literal[True] | Settlement) -> Any:
    """The member `hold` of a request."""
    if settle is True or settle.expires_in_s is None:
        return True
    return {"expires_in_s": settle.expires_in_s}


class Report(NamedTuple):
    attestation_id: str
    outcome: Outcome
    amount: float | None


class Ending:
    """The end of one request that a guard has passed on."""

    def __init__(
        self, route: GuardRoute, decision: PassedDecision, request: GuardedRequest, on_error: OnReportError
    ) -> None:
        self._settle, self._request, self._on_error = route.settle, request, on_error
        self._id = decision["attestation_id"] if decision["decision"] == "PERMIT" else None
        self.answer: GuardedAnswer | None = None

    @property
    def is_awaited(self) -> bool:
        return self._settle is not None and self._id is not None

    def report(self, ended: Literal["served", "failed", "left"]) -> Report | None:
        """What to report; the first time alone. `served` is `failed` where the answer is a 5xx."""
        settle, attestation_id = self._settle, self._id
        if settle is None or attestation_id is None:
            return None
        self._settle = None
        settlement = Settlement() if settle is True else settle
        if ended == "left":
            return Report(attestation_id, settlement.client_left, None)
        if ended == "failed" or self.answer is None or self.answer.status >= 500:
            return Report(attestation_id, "failed", None)
        try:
            spent = None if settlement.amount is None else settlement.amount(self._request, self.answer)
            return Report(attestation_id, "served", None if spent is None else _usd(spent))
        except Exception as error:
            self._on_error(error)
            return None


def _usd(spent: Any) -> float:
    if isinstance(spent, (int, float, Decimal)) and not isinstance(spent, bool):
        amount = float(spent)
        if math.isfinite(amount) and amount >= 0:
            return amount
    raise TypeError(f"settle.amount answered {spent!r}, which is no amount")


def log_report_error(error: Exception) -> None:
    logging.getLogger("agent_trust").error("An outcome was not reported: %s", error)
