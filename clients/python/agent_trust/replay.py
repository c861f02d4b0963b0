"""Decides the records of exports again, written from docs/replay.md alone.

    python -m agent_trust.replay FILE... --jwks JWKS [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

from ._conditions import ABSENT, Condition, UnknownForm
from ._decide import CONDITION, ENTRY, LEEWAY_MS, PASSPORT, POLICY, RATES, SUMS, Case
from ._decide import age_ms_of, ask, is_known, knows, ms_of, statuses, time_of, window_at
from ._export_lines import ExportLines
from .verify import verify_attestations

_LISTED = 100
_KINDS = ("agrees", "contradicted", "unjudged")
_TOKEN = {"passport_malformed", "passport_signature_invalid", "passport_unknown_key", "issuer_untrusted"}
_NEWER = ("external", "permit_token", "units")  # What newer versions decide by.
_PARTS = (("spend", "spend_limits", SUMS, 1_000_000), ("rate", "rate_limits", RATES, 1))


class _Unjudged(Exception):
    """With the word of section 4."""


class Replay:
    """Give it all attachments by `learn`, then all records by `note`, by `add`, and by `judge`."""

    def __init__(self) -> None:
        self._policies: dict[str, Any] = {}
        self._catalogs: dict[str, Any] = {}
        self._passports: dict[str, Any] = {}
        self._conditions: dict[str, Condition] = {}  # By their expressions.
        self._known: dict[int, bool] = {}  # By id(): whether this version knows all of a body.
        self._approvals: dict[str, Any] = {}
        self._voided: set[str] = set()
        self._approved: dict[str, int] = {}  # When, if no later record takes it back.
        self._ended: set[str] = set()
        self._later: dict[str, list[int]] = {}  # The amounts that PERMITs counted from then on.
        self._used: set[str] = set()  # Approvals whose money is that of a PERMIT.
        self._sums: dict[tuple[str, str, int], list[int]] = {}  # Sure, all, most, and the limit.
        self._decisions = {each: dict.fromkeys(_KINDS, 0) for each in ("PERMIT", "SUSPEND", "BLOCK")}
        self._statements = 0
        self._words: dict[str, int] = {}
        self._contradictions: list[dict[str, Any]] = []
        self._contradicted = 0

    def learn(self, line: dict[str, Any]) -> None:
        """An attachment of the export; other lines say nothing here."""
        if "policy" in line:
            self._policies[line["policy"]["policy_hash"]] = line["policy"]["body"]
        elif "catalog" in line:
            entries = {each["key"]: each for each in line["catalog"]["permissions"]}
            is_known = all(knows(each, ENTRY) for each in entries.values())
            self._catalogs[line["catalog"]["content_hash"]] = entries if is_known else None
        elif "passport" in line:
            self._passports[line["passport"]["body"]["passport_id"]] = line["passport"]["body"]
        elif "approval" in line:
            self._approvals[line["approval"]["body"]["approval_id"]] = line["approval"]["body"]
        elif "condition" in line:
            body = line["condition"]["body"]
            try:
                self._conditions[body["require"]] = Condition(body["form"])
            except UnknownForm:
                pass  # As if it were not there.

    def note(self, record: dict[str, Any]) -> None:
        resolution, about = record["resolution"], record.get("refers_to")
        if resolution is None and record["decision"] == "PERMIT":
            self._used.add(record.get("approval_id") or "")  # Records in form 1 name none.
        if resolution is None or about is None:
            return
        if about.startswith("appr_"):
            self._ended.add(about)
            if resolution == "voided":  # An answer that was undone.
                self._approved.pop(about, None)
            elif resolution == "approved":
                self._approved.setdefault(about, ms_of(record["timestamp"]))
        elif resolution == "voided":
            self._voided.add(about)
        else:
            self._later.setdefault(about, []).append(record["amount_micro_usd"] or 0)

    def add(self, record: dict[str, Any]) -> None:
        """What a PERMIT took of its limits, and what an approval held that none has used."""
        try:  # A sum is not of what the file does not say.
            self._facts(record)
        except _Unjudged:
            return
        amount = record["amount_micro_usd"] or 0
        if record["resolution"] is not None:
            about = record.get("refers_to") or ""
            if about.startswith("appr_") and about not in self._used:
                self._used.add(about)  # It may end more than once.
                self._count(record, {"spend": (self._held_from(about), 0, amount)})
            return
        if record["decision"] != "PERMIT" or record["test"]:
            return
        at, named = ms_of(record["timestamp"]), record["approval_id"] or ""
        is_kept = record["id"] not in self._voided
        amounts = [amount, *self._later.get(record["id"], [])]
        rises = sum(max(0, after - before) for before, after in zip(amounts, amounts[1:]))
        least = max(0, min(amount, amounts[-1] - rises)) if is_kept else 0
        money_at = self._held_from(named) if named.startswith("appr_") else at
        self._count(record, {"spend": (money_at, least, max(amounts)), "rate": (at, int(is_kept), 1)})
        approval = self._approvals.get(named, {})
        if named.startswith("sappr_") and "total_micro_usd" in approval and is_kept:
            total = named, "total", ms_of(approval["created_at"])
            sums = self._sums.setdefault(total, [0, 0, 0, approval["total_micro_usd"]])
            sums[0] += least

    def _held_from(self, approval: str) -> int | None:
        """None: nothing says when its money was taken."""
        created_at = self._approvals.get(approval, {}).get("created_at")
        return created_at and ms_of(created_at)

    def _count(self, record: dict[str, Any], taken: dict[str, tuple[int | None, int, int]]) -> None:
        """`taken`: of money and of requests when, the least, and the most at one moment."""
        for counter, kind, window, limit in self._limits(record):
            at, least, most = taken.get(kind, (None, 0, 0))
            if at is not None:
                start, end = window_at(window, at)
                sums = self._sums.setdefault((counter, window, start), [0, 0, 0, limit])
                sums[0] += least if start + LEEWAY_MS <= at < end - LEEWAY_MS else 0
                sums[1], sums[2] = sums[1] + least, sums[2] + most
                sums[3] = max(sums[3], limit)

    def _limits(self, record: dict[str, Any]) -> Iterator[tuple[str, str, str, int]]:
        """Counter, kind, window and limit of each limit that the request draws on."""
        policy = self._policies.get(record.get("policy_hash") or "", {})
        passport = self._passports.get(record["passport_id"] or "", {})
        owners = (("gate", record["gate_id"], policy), ("passport", record["passport_id"], passport))
        for kind, group, names, scale in _PARTS:
            for of, owner, stated in owners:
                rule = stated.get("constraints", {}).get(group, {})
                each = f":{record['passport_id']}" if rule.get("per") in ("passport", "user") else ""
                for window, name in names.items():
                    if name in rule:
                        yield f"{of}_{kind}:{owner}{each}", kind, window, round(rule[name] * scale)

    def judge(self, record: dict[str, Any], facts: Iterable[dict[str, Any]] = ()) -> None:
        """`facts`: those of the line after it."""
        if record["resolution"] is not None:
            self._statements += 1
            return
        counts = self._decisions[record["decision"]]
        try:
            fault, expected = self._judged(record, _open(record, facts))
        except _Unjudged as unjudged:
            counts["unjudged"] += 1
            self._words[str(unjudged)] = self._words.get(str(unjudged), 0) + 1
            return
        counts["contradicted" if fault else "agrees"] += 1
        if fault:
            self._contradicted += 1
            if len(self._contradictions) < _LISTED:
                named = {name: record[name] for name in ("chain_id", "sequence", "id", "decision", "reason")}
                self._contradictions.append({**named, "fault": fault, "expected": expected})

    def _judged(self, record: dict[str, Any], facts: dict[str, Any]) -> tuple[str | None, Any]:
        """The fault, None where it agrees; and what would have been decided."""
        if record["passport_id"] is None:
            if record["decision"] == "BLOCK" and record["reason"] in _TOKEN:
                raise _Unjudged("token")
            return "no_passport", None
        if record["reason"] == "quota_unavailable":
            raise _Unjudged("ledger")
        if any(record.get(name) is not None for name in _NEWER):
            raise _Unjudged("members")
        policy, catalog, passport = self._facts(record)
        if record["trust_level"] != (policy["trust_level"] if policy else None):
            return "trust_level", None
        if self._approval_fails(record, passport):
            return "approval", None
        if passport["status_changes_omitted"] and not is_known(record, passport):
            raise _Unjudged("passport_history")
        is_covered = record["decision"] == "PERMIT" and self._covers(record, passport)

        def case(wallet: str | None) -> Case:
            of_wallet = {**record, "wallet_id": wallet}
            by_facts = ask(record, passport, facts, self._conditions)
            return Case(of_wallet, policy, catalog, passport, self._is_full(record), is_covered, by_facts)

        known = statuses(record, passport)
        its_own = case(record["wallet_id"])
        word = _explain(record, its_own, known)
        if word is not None and its_own.facts_differ:
            return "facts", None
        if word is None and its_own.lacks_facts:
            raise _Unjudged("facts")
        if word is None and record["source"] != "control-plane":
            # It may not have heard yet that the passport came into a wallet, or left one.
            if _explain(record, case(None if record["wallet_id"] else "wal_"), known) is not None:
                word = "wallet"
        if word is None and "pii_controls" in (policy or {}).get("constraints", {}):
            names = (("permission_key", "permission"), ("domain", "domain_allowlist"))
            if any(record[name] is None and of in record["constraints_evaluated"] for name, of in names):
                word = "withheld"
        if word:
            raise _Unjudged(word)
        if word is not None:
            return None, None
        said = record["decision"], record["reason"]
        given = [*its_own.decisions(_assumed(record, its_own, known))]
        others = [each for each in given if (each.decision, each.reason) != said]
        if not others:
            is_alike = any(each.checks == record["constraints_evaluated"] for each in given)
            return "conditions" if is_alike else "checks", None
        other = next((each for each in others if each.decision != said[0]), others[0])
        return "decision", {"decision": other.decision, "reason": other.reason}

    def _facts(self, record: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Policy, catalog and passport. Raises _Unjudged."""
        passport = self._passport(record)
        if "policy_hash" not in record:
            raise _Unjudged("form_1")
        policy, catalog = self._policy(record)
        return policy, catalog, passport

    def _policy(self, record: dict[str, Any]) -> tuple[Any, Any]:
        if record["gate_id"] is None:
            return None, None
        policy = self._policies.get(record["policy_hash"] or "")
        if policy is None:
            raise _Unjudged("policy_missing")
        catalog = policy.get("catalog_hash")
        entries = None if catalog is None else self._catalogs.get(catalog)
        if not self._is_known(policy, POLICY) or (catalog is not None and entries is None):
            raise _Unjudged("policy_unknown")
        return policy, entries

    def _is_known(self, body: dict[str, Any], known: dict[str, Any]) -> bool:
        """Looked at once; what was learned stays."""
        is_known = self._known.get(id(body))
        if is_known is None:
            conditions = body.get("constraints", {}).get("conditions") or []
            is_known = knows(body, known) and all(knows(each, CONDITION) for each in conditions)
            self._known[id(body)] = is_known
        return is_known

    def _passport(self, record: dict[str, Any]) -> Any:
        passport = self._passports.get(record["passport_id"], {"removed": True})
        if passport.get("removed") is True:
            raise _Unjudged("passport_removed")
        if passport["token_hash"] == "federated":
            raise _Unjudged("passport_federated")
        if not self._is_known(passport, PASSPORT):
            raise _Unjudged("policy_unknown")
        return passport

    def _is_full(self, record: dict[str, Any]) -> Callable[[str], bool]:
        """Whether what the file says fills a window of this kind, with the request."""

        def is_full(kind: str) -> bool:
            units = 1 if kind == "rate" else record["amount_micro_usd"] or 0
            for counter, of, window, limit in self._limits(record):
                start, _ = window_at(window, ms_of(record["timestamp"]))
                taken = self._sums.get((counter, window, start), [0, 0, 0, 0])[2]
                if of == kind and taken + units > limit:
                    return True
            return False

        return is_full

    def _approval_fails(self, record: dict[str, Any], passport: Any) -> bool:
        named = record["approval_id"]
        if record["decision"] != "PERMIT" or named is None:
            return False
        approval = self._approvals.get(named, {"removed": True})
        if approval.get("removed") is True:
            raise _Unjudged("approval_removed")
        at, gate = ms_of(record["timestamp"]), approval["gate_id"] == record["gate_id"]
        if named.startswith("appr_"):
            if gate and named not in self._ended:
                raise _Unjudged("approval_before")
            return not gate or named not in self._approved or self._approved[named] > at + LEEWAY_MS
        ended = approval["ended_at"]
        return not gate or (ended is not None and ms_of(ended) <= at - age_ms_of(record) - LEEWAY_MS)

    def _covers(self, record: dict[str, Any], passport: Any) -> bool:
        """Whether the approval that a PERMIT names is for what was asked."""
        approval = self._approvals.get(record["approval_id"] or "")
        if approval is None or "each_micro_usd" not in approval:
            return approval is not None
        if "owner" in approval:
            account = passport["account_id"] == record["source_account"]
            is_its = account and passport["owner"] == approval["owner"]
        else:
            is_its = approval["passport_id"] == record["passport_id"]
        at = ms_of(record["timestamp"])
        return bool(
            is_its
            and approval["permission_key"] == record["permission_key"]
            and 0 < (record["amount_micro_usd"] or 0) <= approval["each_micro_usd"]
            and ms_of(approval["created_at"]) <= at + LEEWAY_MS
            and ms_of(approval["expires_at"]) > at - LEEWAY_MS
        )

    def report(self) -> dict[str, Any]:
        over: list[dict[str, Any]] = []
        for (counter, window, start), (sure, units, _, limit) in self._sums.items():
            if sure > limit or units > 3 * limit:
                named = {"counter": counter, "window": window, "starts_at": time_of(start), "limit": limit}
                over.append({**named, "units": sure if sure > limit else units})
        return {
            "decisions": self._decisions,
            "statements": self._statements,
            "unjudged": self._words,
            "contradictions": self._contradictions,
            "contradictions_unnamed": self._contradicted - len(self._contradictions),
            "over_limits": over[:_LISTED],
            "over_limits_unnamed": len(over[_LISTED:]),
        }


def _assumed(record: dict[str, Any], case: Case, known: list[str]) -> Iterator[tuple[Any, ...]]:
    """What the file leaves open, in the order of section 5."""
    # A BLOCK does not say whether money was to be held.
    holds = [bool(record["hold_expires_at"]), *[True] * (record["reason"] == "amount_missing")]
    parts_ms = (0,) if record["state_age_ms"] is None else (0, 0.5)
    return product(holds, known, case.wallets(), parts_ms)


def _explain(record: dict[str, Any], case: Case, known: list[str]) -> str | None:
    """What the record alone says of the decision: "" nothing. None: it is not given."""
    said = record["decision"], record["reason"], record["constraints_evaluated"], record["conditions"]
    if not case.lacks_price:
        if any(each[:4] == said for each in case.decisions(_assumed(record, case, known))):
            return ""
    for believed in case.decisions(_assumed(record, case, known), is_believed=True):
        if case.lacks_price and believed.reason != "currency_unsupported":
            continue
        if believed.word and believed[:4] == said:
            return "" if believed.word == "full" else believed.word
    return None


def _open(record: dict[str, Any], facts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Values by path; a value that was too long is known by its hash alone."""
    whole = [each for each in facts if "hashed" not in each]
    found = {each["path"]: ABSENT if "absent" in each else each["value"] for each in whole}
    is_named = any(each["path"] == "/user" for each in record.get("facts") or ())
    return found if record.get("user") is not None or is_named else {"/user": None, **found}


def replay_lines(lines: Callable[[], Iterable[dict[str, Any]]]) -> dict[str, Any]:
    """The report (docs/replay.md, section 5) of lines of exports, which `lines` reads anew each time."""
    replay = Replay()
    for line in lines():
        if "resolution" in line:
            replay.note(line)
        else:
            replay.learn(line)
    for line in lines():
        if "resolution" in line:
            replay.add(line)
    waiting = None
    for line in lines():
        if waiting is not None:
            replay.judge(waiting, line["facts"] if "attestation_id" in line else ())
        waiting = line if "resolution" in line else None
    if waiting is not None:
        replay.judge(waiting)
    return replay.report()


def _lines_of(files: list[str]) -> Iterator[dict[str, Any]]:
    for name in files:
        with open(name, "rb") as file:
            lines, line = ExportLines(file), {}
            while "end" not in line:
                line = lines.next()
                yield line


def _describe(report: dict[str, Any]) -> str:
    counts = {kind: sum(each[kind] for each in report["decisions"].values()) for kind in _KINDS}
    over = len(report["over_limits"]) + report["over_limits_unnamed"]
    is_good = counts["contradicted"] + over == 0
    rest = f"{counts['contradicted']} contradicted, {counts['unjudged']} not judged, {over} over limits"
    named = [*report["contradictions"], *report["over_limits"]]
    first = f"{'OK' if is_good else 'NOT OK'}: {counts['agrees']} decided again alike, {rest}."
    return "\n".join([first, *(json.dumps(each) for each in named)])


def main(arguments: list[str]) -> int:
    """0: nothing contradicts the files; 5: something does, or they do not verify; 2: nothing was verified."""
    parser = argparse.ArgumentParser(prog="agent_trust.replay", description="Decides exports again.")
    parser.add_argument("files", nargs="+", metavar="FILE", help="an export; archives go before it")
    parser.add_argument("--jwks", required=True, help="/.well-known/jwks.json of the service")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    try:
        with open(options.jwks, "rb") as file:
            jwks = json.load(file)
        for name in options.files:
            with open(name, "rb") as file:
                verdict = verify_attestations(file, jwks)
            if not verdict:
                print(f"NOT OK: {name}, line {verdict.line}: {verdict.fault}", file=sys.stderr)
                return 5
    except (OSError, ValueError) as error:
        print(f"{error}. Nothing was verified.", file=sys.stderr)
        return 2
    report = replay_lines(lambda: _lines_of(options.files))
    print(json.dumps(report) if options.json else _describe(report))
    is_good = not report["over_limits"] and not report["contradictions"]
    return 0 if is_good else 5


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
