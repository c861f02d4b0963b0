"""One decision of a gate again, by what an export says of it (docs/replay.md, sections 2 and 4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any, NamedTuple

from ._conditions import ABSENT, Asked, Condition, of_json

LEEWAY_MS = 60_000
RATES = {"minute": "requests_per_minute", "hour": "requests_per_hour", "day": "requests_per_day"}
SUMS = {"day": "daily_usd", "month": "monthly_usd"}
_BINDING = ("per_transaction_usd", *SUMS.values())
_STALE_MS = {"L2": 60_000, "L3": 5_000}
_PRESENTED = ("approval_denied", "approval_expired", "approval_mismatch", "approval_used")

# What this version knows: the members of each object, and the values of those that are words.
_PER, _REPLAY = {"gate", "passport", "user"}, {"sidecar", "exact"}
_USD, _UNITS, _WEEK_S, _HOLD_S = (0, 1e9), (0, 2**53 - 1), (1, 604_800), (60, 604_800)
_RATE: dict[str, Any] = dict.fromkeys(RATES.values(), _UNITS)
_SPEND: dict[str, Any] = {**dict.fromkeys(_BINDING, _USD), "unpriced": {"block", "permit"}}
_ASK: dict[str, Any] = {"above_usd": _USD, "permissions": None, "expires_in_s": _WEEK_S}
_APPROVERS: dict[str, Any] = dict.fromkeys(("roles", "users", "not_requester", "not_owner"))
_APPROVERS["count"] = (1, 5)
_OWN: dict[str, Any] = {
    "rate_limits": _RATE,
    "spend_limits": _SPEND,
    "allowed_domains": None,
    "conditions": None,  # Each is a CONDITION.
    "approvals": _ASK,
    "proof_of_possession": {"mode": {"required"}, "replay": _REPLAY},
}
_CONSTRAINTS: dict[str, Any] = {
    **_OWN,
    "rate_limits": {**_RATE, "per": _PER},
    "spend_limits": {**_SPEND, "per": _PER, "alert_at": (1e-300, 1)},
    "pii_controls": {"mode": {"log_only", "redact", "block"}, "types": None},
    "approvals": {**_ASK, "approvers": _APPROVERS, "passkey": None},
    **{"trusted_issuers": None, "record_facts": None, "facts": {"keep", "commit"}},
    "holds": {"expires_in_s": _HOLD_S, "on_expiry": {"settle", "release"}, "overrun": {"refuse", "charge"}},
}
CONDITION = {**dict.fromkeys(("id", "require", "permissions", "message")), "otherwise": {"block", "approve"}}
_TIER = {"L1", "L2", "L3"}
POLICY: dict[str, Any] = {
    **dict.fromkeys(("catalog_hash", "catalog_version", "routes")),
    "trust_level": _TIER,
    "constraints": _CONSTRAINTS,
}
PASSPORT: dict[str, Any] = {
    **dict.fromkeys("passport_id account_id mode issuer_id agent_id agent_name owner permissions".split()),
    **dict.fromkeys("public_key token_hash token_signing_key_id issued_at expires_at".split()),
    **dict.fromkeys(("status_changes", "status_changes_omitted")),
    "trust_tier": _TIER,
    "constraints": _OWN,
}
ENTRY = dict.fromkeys(
    "key display_name description pricing category risk_level sla platform_fee requires_approval".split()
)


class MissingFacts(Exception):
    """No line opens what a condition reads."""


class Answer(NamedTuple):
    """What conditions say. `reason`: of a BLOCK; `differs`: a fact says another thing than its record."""

    failed: list[str]
    reason: str | None
    is_for_person: bool
    differs: bool


def ask(
    record: dict[str, Any], passport: dict[str, Any], facts: dict[str, Any], conditions: dict[str, Condition]
) -> Callable[[list[list[dict[str, Any]]], str, int | None], Answer]:
    """`facts`: values by path, ABSENT for what was absent. `conditions`: by their expressions."""

    def answer(lists: list[list[dict[str, Any]]], tier: str, amount: int | None) -> Answer:
        said = {"/request/permission_key": record["permission_key"], "/request/domain": record["domain"]}
        said |= {"/request/amount_micro_usd": amount, "/passport/id": passport["passport_id"]}
        said |= {"/passport/agent_id": passport["agent_id"], "/passport/issuer": passport["issuer_id"]}
        said |= {"/passport/trust_tier": tier}
        gate = {"id": record["gate_id"] or "", "trust_level": record["trust_level"] or ""}
        asked = Asked({}, ms_of(record["timestamp"]))
        failed: list[str] = []
        is_for_person = differs = False
        for condition in (each for conditions_of in lists for each in conditions_of):
            of, key = condition.get("permissions"), record["permission_key"]
            if of is not None and (key is None or not _covers(of, key)):
                continue
            known = conditions.get(condition["require"])
            if known is None or any(path not in facts for path in known.reads):
                raise MissingFacts
            for path in known.reads:
                is_known = said.get(path) is not None and facts[path] is not ABSENT
                differs = differs or (is_known and facts[path] != said[path])
            asked.variables = {**_variables(known.reads, facts), "gate": gate}
            truth = known.evaluate(asked)
            if truth is True:
                continue
            failed.append(condition["id"])
            if truth is None or condition.get("otherwise", "block") == "block":
                reason = "condition_error" if truth is None else "condition_not_met"
                return Answer(failed, reason, is_for_person, differs)
            is_for_person = True
        return Answer(failed, None, is_for_person, differs)

    return answer


def _variables(reads: list[str], facts: dict[str, Any]) -> dict[str, Any]:
    variables: dict[str, Any] = {"request": {}, "passport": {}, "claims": {}}
    for path in reads:
        if facts[path] is not ABSENT:
            *names, last = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
            at = variables
            for name in names:
                at = at.setdefault(name, {})
            at[last] = of_json(facts[path])
    return variables


class Given(NamedTuple):
    """What a policy decides; `word`: what of it the record alone says (section 4), or None."""

    decision: str
    reason: str | None
    checks: list[str]
    conditions: list[str] | None
    word: str | None = None


class Case:
    """A record with what decided on it. `ask`: what its conditions say, by the facts of the record."""

    def __init__(
        self, record: Any, policy: Any, catalog: Any, passport: Any, is_full: Any, is_approved: bool, ask: Any
    ) -> None:
        self._is_approved, self._ask = is_approved, ask
        self._answer: Answer | None = None
        self.lacks_facts = False  # A decision hangs on facts that no line opens.
        self._record, self._policy, self._passport = record, policy, passport
        self._catalog, self._is_full = catalog, is_full
        self._at_gate = policy["constraints"] if policy else {}
        self._rules = [self._at_gate, passport["constraints"]]
        price = self._price()
        self.lacks_price = record["amount_micro_usd"] is None and price is not None
        self._amount = price if self.lacks_price else record["amount_micro_usd"]

    @property
    def facts_differ(self) -> bool:
        """Whether a fact says something else than the record or the passport."""
        return self._answer is not None and self._answer.differs

    def decisions(self, assumed: Iterable[tuple[Any, ...]], is_believed: bool = False) -> Iterator[Given]:
        """Those that need no facts but those that are open."""
        for each in assumed:
            try:
                yield self.decide(*each, is_believed=is_believed)
            except MissingFacts:
                self.lacks_facts = True

    def wallets(self) -> list[tuple[bool, bool]]:
        """Whether they may limit money, and requests."""
        return list(product((False, True), repeat=2)) if self._record["wallet_id"] else [(False, False)]

    def decide(
        self, holds: bool, status: str, wallet: tuple[bool, ...], part_ms: float, is_believed: bool = False
    ) -> Given:
        """`wallet`: whether it limits money, and requests. `part_ms`: what was cut from the age."""
        self._holds, self._part_ms, self._is_believed = holds, part_ms, is_believed
        self._wallet_money, self._wallet_rate = wallet
        record, checks = self._record, []
        failed: list[str] | None = [] if self._has_conditions() else None
        for name, steps in self._checks(status):
            if name:
                checks.append(name)
            if name == "conditions":
                failed = self._asked().failed
            for decision, reason, belief in steps:
                if belief is None:
                    return Given(decision, reason, checks, failed)
                if is_believed and reason == record["reason"] and decision == record["decision"]:
                    return Given(decision, reason, checks, failed, belief)
        return Given("PERMIT", None, checks, failed)

    def _has_conditions(self) -> bool:
        return any(each.get("conditions") for each in self._rules)

    def _asked(self) -> Answer:
        if self._answer is None:
            tier = self._tier()
            lists = [each.get("conditions", []) for each in self._rules]
            self._answer = self._ask(lists, tier, self._amount)
        return self._answer

    def _checks(self, status: str) -> Iterator[tuple[str, list[tuple[str, str | None, str | None]]]]:
        """Each that is configured, and in its order what it may give: for certain, or by a belief."""
        policy, record = self._policy, self._record
        yield "passport", list(self._of_passport(status))
        if policy:
            yield "trust_level", _block(policy["trust_level"] > self._tier(), "trust_level_insufficient")
        is_said_stale = self._is_believed and record["reason"] == "state_stale"
        if policy and (policy["trust_level"] in _STALE_MS or is_said_stale):
            most = _STALE_MS.get(policy["trust_level"], math.inf)
            is_stale = _block(age_ms_of(record) + self._part_ms > most, "state_stale")
            yield "freshness", [*is_stale, _belief("state_stale", "state")]
        distrusted = _block(not self._is_trusted(), "issuer_untrusted")
        yield "issuer", [*distrusted, _belief("issuer_untrusted", "standing")]
        if any(_mode(each.get("proof_of_possession", "off")) == "required" for each in self._rules):
            unproved = [_belief(each, "proof") for each in ("proof_invalid", "proof_replayed")]
            ledger = _belief("quota_unavailable", "ledger")
            is_missing = record["proof"] is None
            yield "proof_of_possession", [*unproved, ledger, *_block(is_missing, "proof_missing")]
        if policy or record["permission_key"] is not None:
            yield "permission", list(self._of_permission())
        presented = [_belief(each, "approval") for each in _PRESENTED]
        if record["wallet_id"] and "spend_limit" not in record["constraints_evaluated"]:
            presented.append(_belief("wallet_frozen", "standing"))
        yield "", [*presented, _belief("quota_unavailable", "ledger")]
        if self._has_conditions():
            yield "conditions", _block(self._asked().reason, self._asked().reason or "")
        if any("allowed_domains" in each for each in self._rules):
            yield "domain_allowlist", list(self._of_domain())
        if "pii_controls" in self._at_gate:
            mode = self._at_gate["pii_controls"].get("mode")
            found = _block(mode == "block" and record["pii"], "pii_detected")
            too_long = [_belief("pii_detected", "request")] if mode != "log_only" else []
            yield "pii_controls", [*found, *too_long]
        is_foreign = record["reason"] == "currency_unsupported"
        lacks_amount = self._holds and self._amount is None
        if self._has("spend_limits", _BINDING) or lacks_amount or is_foreign or record["wallet_id"]:
            yield "spend_limit", list(self._of_spend())
        if self._has("rate_limits", _RATE) or self._wallet_rate:
            yield "rate_limit", list(self._of_rate())
        is_asked = self._entry().get("requires_approval") or (record["approval_id"] or "").startswith("appr_")
        is_asked = is_asked or (self._has_conditions() and self._asked().is_for_person)
        if is_asked or any("approvals" in each for each in self._rules):
            yield "approval", list(self._of_approval())

    def _has(self, group: str, names: Iterable[str]) -> bool:
        return any(name in each.get(group, {}) for each in self._rules for name in names)

    def _of_passport(self, status: str) -> Iterator[tuple[str, str | None, str | None]]:
        at, passport = ms_of(self._record["timestamp"]), self._passport
        yield _belief("passport_unknown_key", "standing")
        valid_from = ms_of(passport["issued_at"]) // 1000 * 1000 - LEEWAY_MS  # The token has whole seconds.
        yield from _block(at < valid_from, "passport_not_yet_valid")
        until = passport["expires_at"]
        yield from _block(until and at >= ms_of(until) // 1000 * 1000, "passport_expired")
        yield _belief("passport_revoked", "standing")
        yield _belief("passport_suspended", "standing")
        yield from _block(status == "revoked", "passport_revoked")
        yield from _block(status == "suspended", "passport_suspended")
        yield _belief("mode_mismatch", "mode")

    def _is_own(self) -> bool:
        return bool(self._passport["account_id"] == self._record["source_account"])

    def _is_trusted(self) -> bool:
        trusted = self._at_gate.get("trusted_issuers", ["own"])
        is_named = "*" in trusted or self._passport["issuer_id"] in trusted
        return is_named or ("own" in trusted and self._is_own())

    def _tier(self) -> str:
        if self._record["asserted"]:  # Nobody showed the token.
            return "L1"
        named = self._passport["issuer_id"] in self._at_gate.get("trusted_issuers", [])
        return str(self._passport["trust_tier"]) if self._is_own() or named else "L1"

    def _entry(self) -> dict[str, Any]:
        entry: dict[str, Any] = (self._catalog or {}).get(self._record["permission_key"], {})
        return entry

    def _price(self) -> int | None:
        pricing = self._entry().get("pricing") or {}
        if pricing.get("currency", "USD") != "USD":
            return None
        if pricing.get("model") == "free":
            return 0
        return int(pricing["price_cents"]) * 10_000 if pricing.get("model") == "per_call" else None

    def _of_permission(self) -> Iterator[tuple[str, str | None, str | None]]:
        key = self._record["permission_key"]
        yield from _block(key is None, "permission_missing")
        yield from _block(not _covers(self._passport["permissions"], key or ""), "permission_not_granted")
        yield from _block(self._catalog is not None and key not in self._catalog, "permission_not_in_catalog")

    def _of_domain(self) -> Iterator[tuple[str, str | None, str | None]]:
        domain = self._record["domain"]
        lists = [each["allowed_domains"] for each in self._rules if "allowed_domains" in each]
        yield from _block(domain is None, "domain_missing")
        yield from _block(not all(_is_in(domain or "", each) for each in lists), "domain_not_allowed")

    def _of_spend(self) -> Iterator[tuple[str, str | None, str | None]]:
        amount = self._amount
        groups = [each.get("spend_limits", {}) for each in self._rules]
        limits = [each for each in groups if any(name in each for name in _BINDING)]
        if self._record["amount_micro_usd"] is None:
            yield _belief("currency_unsupported", "request")
        is_needed = self._holds or self._wallet_money
        is_needed = is_needed or any(each.get("unpriced") != "permit" for each in limits)
        yield from _block(amount is None and is_needed, "amount_missing")
        # An approval has taken its money from the windows already.
        named = self._record["approval_id"] or ""
        is_held = self._record["decision"] == "PERMIT" and named.startswith("appr_")
        binding = _BINDING[:1] if is_held else _BINDING
        singly = [round(each[name] * 1e6) for each in limits for name in binding if name in each]
        yield from _block(any((amount or 0) > each for each in singly), "spend_limit_exceeded")
        if amount and any(name in each for each in limits for name in SUMS.values()):
            yield _belief("spend_limit_exceeded", "full" if self._is_full("spend") else "units")
        if self._record["wallet_id"]:
            yield _belief("wallet_frozen", "standing")
        if self._wallet_money and amount:
            yield _belief("wallet_limit_exceeded", "ledger")
        yield _belief("quota_unavailable", "ledger")

    def _of_rate(self) -> Iterator[tuple[str, str | None, str | None]]:
        is_none = any(rules.get("rate_limits", {}).get(name) == 0 for rules in self._rules for name in _RATE)
        yield from _block(is_none, "rate_limit_exceeded")
        if self._has("rate_limits", _RATE):
            yield _belief("rate_limit_exceeded", "full" if self._is_full("rate") else "units")
        if self._wallet_rate:
            yield _belief("wallet_limit_exceeded", "ledger")
        yield _belief("quota_unavailable", "ledger")

    def _of_approval(self) -> Iterator[tuple[str, str | None, str | None]]:
        record = self._record
        amount, key = self._amount, record["permission_key"]
        by_condition = self._has_conditions() and self._asked().is_for_person
        is_presented = record["decision"] == "PERMIT" and (record["approval_id"] or "").startswith("appr_")
        is_asked = by_condition or bool(self._entry().get("requires_approval"))
        for rules in self._rules:
            rule = rules.get("approvals", {})
            if "above_usd" in rule:
                unpriced = rules.get("spend_limits", {}).get("unpriced", "block")
                yield from _block(amount is None and unpriced == "block", "amount_missing")
                is_asked = is_asked or (amount or 0) > round(rule["above_usd"] * 1e6)
            is_asked = is_asked or _covers(rule.get("permissions", []), key or "")
        if is_asked and self._policy:
            yield _belief("approvals_pending_exceeded", "pending")
        if is_asked:
            yield _belief("quota_unavailable", "ledger")
        # A standing approval answers no condition.
        if is_asked and not (self._is_approved and (is_presented or not by_condition)):
            yield ("SUSPEND" if self._policy else "BLOCK"), "approval_required", None


def _block(is_blocked: Any, reason: str) -> list[tuple[str, str | None, str | None]]:
    return [("BLOCK", reason, None)] if is_blocked else []


def _belief(reason: str, word: str) -> tuple[str, str | None, str | None]:
    return "BLOCK", reason, word


def _mode(proof: Any) -> str:
    return str(proof["mode"] if isinstance(proof, dict) else proof)


def _covers(permissions: list[str], key: str) -> bool:
    return key in permissions or f"{key.partition(':')[0]}:*" in permissions


def _is_in(domain: str, allowed: list[str]) -> bool:
    return any(domain == each or (each.startswith("*.") and domain.endswith(each[1:])) for each in allowed)


def knows(value: Any, known: Any) -> bool:
    """Whether nothing in it is unknown to this version."""
    if isinstance(known, set):
        return isinstance(value, str) and value in known
    if isinstance(known, tuple):
        return type(value) in (int, float) and known[0] <= value <= known[1]
    if known is None or not isinstance(value, dict):
        return True
    if "mode" in known and "mode" not in value:
        return False
    return all(name in known and knows(each, known[name]) for name, each in value.items())


def age_ms_of(record: dict[str, Any]) -> float:
    """A control plane has no age; a sidecar without one was never connected."""
    age, is_sidecar = record["state_age_ms"], record["source"] != "control-plane"
    return age if age is not None else math.inf if is_sidecar else 0


def statuses(record: dict[str, Any], passport: dict[str, Any]) -> list[str]:
    """The one that was known for certain, and those that may have been known."""
    at = ms_of(record["timestamp"])
    known_until = at - age_ms_of(record) - LEEWAY_MS
    known = "active"
    maybe: list[str] = []
    for change in passport["status_changes"]:
        changed = ms_of(change["at"])
        if changed <= known_until:
            known, maybe = change["status"], []
        elif changed <= at + LEEWAY_MS:
            maybe.append(change["status"])
    return [known, *maybe]


def is_known(record: dict[str, Any], passport: dict[str, Any]) -> bool:
    known_until = ms_of(record["timestamp"]) - age_ms_of(record) - LEEWAY_MS
    return any(ms_of(change["at"]) <= known_until for change in passport["status_changes"])


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def ms_of(time: str) -> int:
    return (datetime.fromisoformat(time) - _EPOCH) // timedelta(milliseconds=1)


def time_of(ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def window_at(name: str, at: int) -> tuple[int, int]:
    """Start and end, in UTC."""
    length = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}.get(name)
    if length:
        return at - at % length, at - at % length + length
    start = (_EPOCH + timedelta(milliseconds=at)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (start + timedelta(days=31)).replace(day=1)
    return ms_of(start.isoformat()), ms_of(end.isoformat())
