"""Verifies exports of attestations offline, written from docs/verify.md alone; answers; and webhooks."""

from __future__ import annotations

import io
from datetime import datetime
from typing import Any, BinaryIO

from ._answers import AnswerVerdict as AnswerVerdict
from ._answers import verify_answer as verify_answer
from ._attachments import KINDS, Attachments
from ._ed25519 import verify
from ._export_lines import ExportLines
from ._facts import Facts
from ._records import LINK, canonical, demand, from_base64url, hash_of
from ._records import is_record, keys_for, read_chain, read_end, read_manifest
from ._verdict import Verdict as Verdict
from ._webhook import Webhook as Webhook
from ._webhook import verify_webhook as verify_webhook
from .receipt import ReceiptVerdict as ReceiptVerdict
from .receipt import verify_receipt as verify_receipt


def verify_attestations(export: bytes | BinaryIO, jwks: Any) -> Verdict:
    """`export`: its bytes, or a file of them. `jwks`: /.well-known/jwks.json, parsed, from the service.

    One pass, in the memory of one line. Raises ValueError for `jwks` that is no JWK set, and what reading
    the file raises. What it does not prove is in docs/verify.md, section 7.
    """
    lines = ExportLines(io.BytesIO(export) if isinstance(export, bytes) else export)
    keys, chains, records, compromised = keys_for("attestation", jwks), 0, 0, 0
    chain_id: str | None = None
    sequence: int | None = None
    facts = Facts()
    has_stopped = False  # A chain may stop early only where the end names broken chains.

    try:
        manifest = read_manifest(lines.next())
        created_s, since = datetime.fromisoformat(manifest["created_at"]).timestamp(), manifest["since"] or ""
        demand(keys.keys() >= set(manifest["key_ids"]), "a key is no attestation key of the JWKS")
        attachments, value = Attachments(manifest, keys, keys_for("catalog", jwks)), lines.next()
        while "chain" in value:
            chain, follows_archive = read_chain(value, chain_id, manifest["since"])
            first, last, previous = (chain[name] for name in ("first_sequence", "last_sequence", LINK))
            chain_id, chains, logged = chain["chain_id"], chains + 1, chain["logged"]
            for sequence in range(first, last + 1):
                record = value = facts.next(lines)
                if record.keys() & {"chain", "end", *KINDS}:
                    has_stopped = True
                    break
                demand(is_record(record, manifest), "the line is no record of this format")
                attachments.name(record)
                demand(record["chain_id"] == chain_id, "the record is of another chain")
                demand(record["sequence"] == sequence, "the sequence has a hole or a repetition")
                demand(record[LINK] == previous, "the link to the record before is wrong")
                resolution, refers_to = record["resolution"], record.get("refers_to", record["resolution"])
                demand((resolution is None) == (refers_to is None), "refers_to does not fit")
                demand(sequence > first or follows_archive or record["timestamp"] >= since, "before since")
                body = {name: record[name] for name in record if name not in ("hash", "signature")}
                previous = hash_of(canonical(body))
                demand(record["hash"] == previous, "the hash does not match the record")
                demand(logged.get(sequence, previous) == previous, "the log has another record here")
                demand(record["signing_key_id"] in manifest["key_ids"], "the key is not one of the manifest")
                key, message = keys[record["signing_key_id"]], f"agent-trust.attestation.v1:{previous}"
                demand(key["nbf"] <= created_s + 60, "the key is newer than the export")
                signature = from_base64url(record["signature"])
                demand(verify(key["x"], message.encode(), signature), "the signature is not valid")
                records, compromised = records + 1, compromised + key["compromised"]
                facts.name(record)
            else:
                demand(previous == chain["last_hash"], "the last record is not that of the header")
                value = facts.next(lines)
            sequence = None
        end = read_end(attachments.read(value, lines), chains, records)
        lines.finish()
        if broken := end.get("broken"):
            chain_id, sequence = broken[0]["chain_id"], broken[0]["sequence"]
            demand(False, f"the service names chains that are not whole, this one for {broken[0]['fault']}")
        demand(not has_stopped, "a chain stops before the last record that its header names")
    except ValueError as fault:  # A time such as 2026-13-01 too.
        return Verdict(str(fault), lines.number, chain_id, sequence, records, compromised)
    attached = attachments.compromised, attachments.removed, facts.opened, facts.withheld
    return Verdict(None, lines.number, chain_id, sequence, records, compromised, *attached)
