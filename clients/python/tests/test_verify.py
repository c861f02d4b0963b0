"""The offline verifier, with the cases that test/clients/python.test.ts writes for it."""

from __future__ import annotations

import io
import json
import os
import re
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from agent_trust import _ed25519
from agent_trust.verify import verify_answer, verify_attestations, verify_webhook

_cases = json.loads(Path(os.environ["AGENT_TRUST_CASES"]).read_text())
_counts = ("compromised", "compromised_statements", "removed_approvals", "facts_opened", "facts_withheld")
_page = (Path(__file__).parents[3] / "docs/verify.md").read_text()


def _block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", _page, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


_example, _jwks = _block("jsonl").encode(), json.loads(_block("json"))
# The library, where it is installed; the plain implementation, everywhere.
_engines = {engine.__name__: engine for engine in (_ed25519._verify, _ed25519._verify_plain)}


class Ed25519(unittest.TestCase):
    def test_vectors_of_rfc_8032_and_signatures_that_no_honest_signer_makes(self) -> None:
        self.assertGreater(len(_cases["signatures"]), 50)
        for name, engine in _engines.items():
            with mock.patch.object(_ed25519, "_verify", engine):
                for case in _cases["signatures"]:
                    args = [bytes.fromhex(case[part]) for part in ("publicKey", "message", "signature")]
                    with self.subTest(engine=name, case=case["name"]):
                        self.assertIs(_ed25519.verify(*args), case["valid"])


class Answers(unittest.TestCase):
    def test_the_verdicts_of_the_service_for_each_kind_of_passkey(self) -> None:
        self.assertGreater(len(_cases["answers"]), 20)
        for number, case in enumerate(_cases["answers"]):
            with self.subTest(number):
                verdict = verify_answer(case["approval"], case["answer"])
                self.assertIs(bool(verdict), case["valid"], verdict.fault)

    def test_what_is_no_answer_is_a_fault_and_raises_nothing(self) -> None:
        case = _cases["answers"][0]
        for part in case["answer"]["assertion"]:
            for bad in (None, 1, "", "!", [], {}):
                broken = {**case["answer"], "assertion": {**case["answer"]["assertion"], part: bad}}
                if part not in ("passkey_id", "credential_id"):
                    self.assertFalse(verify_answer(case["approval"], broken), (part, bad))
        for answer in (None, {}, [], {"answer": "approved", "assertion": None}):
            self.assertFalse(verify_answer(case["approval"], answer))


class Attestations(unittest.TestCase):
    def test_the_worked_example_with_both_engines_as_bytes_and_as_a_file(self) -> None:
        for name, engine in _engines.items():
            with self.subTest(name), mock.patch.object(_ed25519, "_verify", engine):
                for export in (_example, io.BytesIO(_example)):
                    verdict = verify_attestations(export, _jwks)  # type: ignore[arg-type]
                    self.assertTrue(verdict)
                    self.assertEqual((verdict.fault, verdict.records, verdict.compromised), (None, 3, 0))

    def test_the_verdicts_of_the_client_for_node_at_the_same_line(self) -> None:
        self.assertGreater(len(_cases["exports"]), 20)
        for case in _cases["exports"]:
            with self.subTest(case["name"]):
                verdict = verify_attestations(case["text"].encode("utf-8", "surrogatepass"), case["jwks"])
                self.assertEqual((bool(verdict), verdict.line), (case["valid"], case["line"]), verdict)
                for count in _counts:
                    self.assertEqual(getattr(verdict, count), case[count])

    def test_the_record_at_fault_is_named(self) -> None:
        lines = _example.splitlines(keepends=True)
        for place, line in enumerate(lines):
            record = json.loads(line)
            if "sequence" not in record:
                continue
            forged = line.replace(b'"source":"', b'"source":"x')
            verdict = verify_attestations(b"".join([*lines[:place], forged, *lines[place + 1 :]]), _jwks)
            self.assertEqual(verdict.fault, "the hash does not match the record")
            found = (verdict.line, verdict.chain_id, verdict.sequence)
            self.assertEqual(found, (place + 1, record["chain_id"], record["sequence"]))

    def test_refuses_the_example_with_any_one_byte_changed_taken_away_or_added(self) -> None:
        unsigned = [re.search(rb'"%s":"[^"]*"' % name, _example) for name in (b"created_at", b"generation")]
        # In the line of the last record and around it: all of the members of each kind of line.
        for at in [*range(0, len(_example), 7), len(_example) - 1]:
            before, after = _example[:at], _example[at + 1 :]
            changes = [before + after, before + b"\n" + _example[at:]]
            # Nobody signs these members of the manifest: docs/verify.md, 7.
            if not any(place and place.start() <= at < place.end() for place in unsigned):
                changes.append(before + (b"1" if _example[at : at + 1] == b"0" else b"0") + after)
            for text in changes:
                self.assertFalse(verify_attestations(text, _jwks), f"{at}: {text[at - 20 : at + 20]!r}")

    def test_no_form_that_python_reads_as_the_same_json(self) -> None:
        end = b'{"end":{"chains":2,"records":3}}\n'
        self.assertTrue(_example.endswith(end))
        others = [b"true", b"2.0", b"2e0", b"02", b"-0", b"1" * 5_000, b"NaN", b"[" * 100_000, b"null"]
        for other in others:
            text = _example[: -len(end)] + end.replace(b"2", other, 1)
            self.assertFalse(verify_attestations(text, _jwks), other[:20])
        for text in (b"\xef\xbb\xbf" + _example, _example.decode().encode("utf-16"), b"\xff\n", b""):
            self.assertFalse(verify_attestations(text, _jwks))

    def test_a_time_that_is_none(self) -> None:
        wrong = _example.replace(b'"created_at":"2026-11', b'"created_at":"2026-13')
        verdict = verify_attestations(wrong, _jwks)
        self.assertEqual((verdict.line, verdict.records), (1, 0))
        self.assertFalse(verdict)

    def test_a_line_without_end_is_not_kept(self) -> None:
        verdict = verify_attestations(b"x" * (2**20 + 1), _jwks)
        self.assertEqual((verdict.fault, verdict.line), ("the file has no end, or a line is too long", 1))

    def test_keys_that_are_none(self) -> None:
        key = _jwks["keys"][0]
        changes: list[dict[str, Any]] = [
            {"purpose": "passport"},
            {"x": key["x"][:-1] + "A"},
            {"kid": "other"},
            {"kty": "EC"},
            {"nbf": "0"},
            {"nbf": True},
        ]
        for change in changes:
            with self.subTest(change):
                self.assertFalse(verify_attestations(_example, {"keys": [{**key, **change}]}))
        twice = {"keys": [{**key, "compromised": True}, key]}
        self.assertEqual(verify_attestations(_example, twice).compromised, 3)
        for jwks in (None, {}, {"keys": None}, []):
            with self.subTest(jwks=jwks), self.assertRaises(ValueError):
                verify_attestations(_example, jwks)


class Webhooks(unittest.TestCase):
    def test_the_verdicts_on_what_the_library_of_the_standard_has_signed(self) -> None:
        self.assertGreater(len(_cases["webhooks"]), 10)
        for case in _cases["webhooks"]:
            with self.subTest(case["name"]):
                webhook = verify_webhook(
                    case["body"].encode(), case["headers"], case["secrets"], now_s=case["now_s"]
                )
                self.assertEqual((webhook.fault, bool(webhook)), (case["fault"], case["fault"] is None))
                if webhook:
                    self.assertEqual(webhook.id, "evt_1")
                    self.assertEqual(webhook.event, "passport.revoked")
                    self.assertEqual(webhook.data, {"reason": "Größe"})

    def test_headers_of_asgi(self) -> None:
        case = next(case for case in _cases["webhooks"] if case["name"] == "as it is")
        headers = [(name.encode(), value.encode()) for name, value in case["headers"].items()]
        arguments: Any = (case["body"].encode(), headers, case["secrets"])
        self.assertTrue(verify_webhook(*arguments, now_s=case["now_s"]))

    def test_a_secret_that_is_none(self) -> None:
        for secret in ("secret", "whsec_", "whsec_*", "whsec_ä"):
            with self.subTest(secret), self.assertRaises(ValueError):
                verify_webhook(b"", {}, secret)


if __name__ == "__main__":
    unittest.main()
