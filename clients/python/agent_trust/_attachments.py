"""What the records of an export name, after its chains (docs/verify.md, sections 1 and 6)."""

from __future__ import annotations

from typing import Any

from ._answers import verify_answer
from ._ed25519 import verify
from ._records import canonical_any, demand, from_base64url, has, hash_of

KINDS = ("policy", "catalog", "passport", "approval", "condition")
_POLICY = "body:object policy_hash:hash signature:str signing_key_id:str"
_EVIDENCE = "body:object hash:hash signature:str signing_key_id:str"


class Attachments:
    """Keeps the names, some hundred bytes for each. Methods raise ValueError for what does not hold."""

    def __init__(self, manifest: dict[str, Any], keys: dict[str, Any], catalog_keys: dict[str, Any]) -> None:
        self._is_on = manifest["format"].endswith("v2")
        self._keys = {kid: keys[kid] for kid in manifest["key_ids"]}
        self._catalog_keys = catalog_keys
        self._named: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        self.compromised = 0  # Passports and approvals by a compromised key.
        self.removed = 0  # Approvals of which the file says nothing but that.
        self._expressions: set[str] = set()  # Whose checked forms may follow.
        self._signed: dict[str, int] = {}  # Policies that want signed answers, and how many.

    def name(self, record: dict[str, Any]) -> None:
        if not self._is_on:
            return
        policy = record.get("policy_hash")
        if policy is not None:
            self._named["policy"][policy] = True
        if record["passport_id"] is not None:
            self._named["passport"][record["passport_id"]] = True
        resolved, resolution = record.get("refers_to") or "", record["resolution"]
        is_permit = record["decision"] == "PERMIT"
        # What became of a PERMIT has the amount that it counts from then on, and not the one that was asked.
        is_outcome = is_permit and resolution not in (None, "voided")
        said = {"request_hash": record["request_hash"]}
        said |= {} if is_outcome else {"amount_micro_usd": record["amount_micro_usd"]}
        for approval in {resolved if resolved.startswith("appr_") else None, record.get("approval_id")}:
            if approval is None:
                continue
            first: dict[str, Any] = {"said": {}, "policy": policy, "answers": set()}
            named = self._named["approval"].setdefault(f"{record['chain_id']} {approval}", first)
            is_same = all(named["said"].get(name, said[name]) == said[name] for name in said)
            is_same = is_same and policy in (None, named["policy"] or policy)
            demand(is_same or approval.startswith("sappr_"), "another request than that of its approval")
            named["policy"] = named["policy"] or policy
            named["said"] = said | named["said"]
            named["answers"].add("approved" if is_permit else resolution)

    def read(self, value: dict[str, Any], lines: Any) -> dict[str, Any]:
        """The line after all of it, the first of which `value` may be."""
        before = (0, "")
        while kind := next((kind for kind in KINDS if kind in value), None):
            demand(self._is_on and len(value) == 1, f"the line is no {kind} of this format")
            name, content = self._verified(kind, value[kind])
            place = (KINDS.index(kind), name)
            demand(before < place, "the order is another one")
            try:
                self._take(kind, name, content)
            except (AttributeError, KeyError, TypeError):
                demand(False, f"the line is no {kind} of this format")
            before, value = place, lines.next()
        demand(not any(self._named.values()), "a record names what is not there")
        return value

    def _take(self, kind: str, name: str, content: dict[str, Any]) -> None:
        if kind == "condition":
            demand(content["require"] in self._expressions, "nothing names this condition")
            self._expressions.remove(content["require"])
            return
        demand(name in self._named[kind], f"nothing names this {kind}")
        named = self._named[kind].pop(name)
        conditions = content.get("constraints", {}).get("conditions", ())
        self._expressions |= {each["require"] for each in conditions}
        if kind == "policy":
            self._learn(name, content)
        if kind == "approval":
            self._hold(content, named)

    def _verified(self, kind: str, value: Any) -> tuple[str, dict[str, Any]]:
        """The name of what is attached, and what is hashed of it."""
        if kind == "catalog":
            demand(isinstance(value, dict) and "content_hash" in value, "the line is no catalog")
            body = {name: value[name] for name in value if name not in ("content_hash", "signature")}
            own, kid, keys = value["content_hash"], body.get("signing_key_id"), self._catalog_keys
        else:
            demand(has(value, _POLICY if kind == "policy" else _EVIDENCE), f"the line is no {kind}")
            body, kid, keys = value["body"], value["signing_key_id"], self._keys
            own = value["policy_hash" if kind == "policy" else "hash"]
        demand(hash_of(canonical_any(body)) == own, f"the hash does not match the {kind}")
        demand(isinstance(kid, str) and kid in keys, f"the key of the {kind} is not one of the manifest")
        message, signature = f"agent-trust.{kind}.v1:{own}", from_base64url(str(value.get("signature")))
        demand(verify(keys[kid]["x"], message.encode(), signature), "the signature is not valid")
        self.compromised += keys[kid]["compromised"] and kind in ("passport", "approval")
        self.removed += kind == "approval" and body.get("removed") is True
        passport, approval = str(body.get("passport_id")), str(body.get("approval_id"))
        names = {"passport": passport, "approval": f"{passport} {approval}"}
        return names.get(kind, own), body

    def _learn(self, policy: str, body: dict[str, Any]) -> None:
        if isinstance(body.get("catalog_hash"), str):
            self._named["catalog"][body["catalog_hash"]] = True
        rule = body["constraints"].get("approvals") or {}
        if rule.get("passkey") is True:
            self._signed[policy] = (rule.get("approvers") or {}).get("count", 1)

    def _hold(self, body: dict[str, Any], named: dict[str, Any]) -> None:
        """Against the records that name it, and against what its policy demands."""
        if body.get("removed") is True or body["approval_id"].startswith("sappr_"):
            return
        is_same = all(body.get(name) == value for name, value in named["said"].items())
        demand(is_same, "the approval is about another request than the record that names it")
        answers = body["answers"]
        for answer in answers:
            proof = answer["assertion"]
            if proof is not None:
                is_its_policy = proof["policy_hash"] == (named["policy"] or proof["policy_hash"])
                demand(is_its_policy, "an answer signs another policy than the one of the record")
                verdict = verify_answer(body, answer)
                demand(bool(verdict), f"an answer is forged: {verdict.fault}")
        if named["policy"] not in self._signed:
            return
        people = {
            given: {each["user_id"] for each in answers if each["answer"] == given} for given in _NEEDED
        }
        is_whole = all(each["assertion"] is not None for each in answers) and all(
            len(people[given]) >= (self._signed[named["policy"]] if given == "approved" else 1)
            for given in _NEEDED
            if given in named["answers"]
        )
        demand(is_whole, "the policy demands signed answers that the approval lacks")


_NEEDED = ("approved", "denied")
