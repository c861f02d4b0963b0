"""What agents send: the passport, and a proof that its sender holds the key."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import unittest
from typing import Any

from agent_trust import _ed25519
from agent_trust.agent import AgentSigner, agent_fetch
from agent_trust.guard import Guard, GuardedRequest, GuardRoute, Question

SEED = bytes(range(32))
KEY = "ed25519_private:" + base64.urlsafe_b64encode(SEED).rstrip(b"=").decode()
URL = "https://Shop.example:443/orders?a=1#part"


def encode(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


PUBLIC_KEY = _ed25519.public_key_of(SEED)
JWK = {"kty": "OKP", "crv": "Ed25519", "x": base64.urlsafe_b64encode(PUBLIC_KEY).rstrip(b"=").decode()}
PASSPORT = f"h.{encode({'cnf': {'jwk': JWK}})}.s"


class Signing(unittest.TestCase):
    def test_the_vector_of_rfc_8032(self) -> None:
        seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
        signature = bytes.fromhex(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        )
        for sign in (_ed25519.sign, _ed25519._sign_plain):
            self.assertEqual(sign(seed, b"\x72"), signature)
        self.assertTrue(_ed25519.verify(_ed25519.public_key_of(seed), b"\x72", signature))

    def test_a_message_is_signed_with_its_body(self) -> None:
        headers = AgentSigner(PASSPORT, KEY).headers("POST", URL, b"tea")
        signed = headers["signature-input"].removeprefix("sig1=")
        base = "\n".join(
            [
                '"@method": POST',
                '"@authority": shop.example',
                '"@target-uri": https://shop.example/orders?a=1',
                f'"authorization": Passport {PASSPORT}',
                f'"content-digest": {headers["content-digest"]}',
                f'"@signature-params": {signed}',
            ]
        )
        signature = base64.b64decode(headers["signature"].removeprefix("sig1=:").removesuffix(":"))
        self.assertTrue(_ed25519.verify(PUBLIC_KEY, base.encode(), signature))

    def test_signs_path_and_query_as_they_are_sent(self) -> None:
        for url, sent in (
            ("https://Shop.example:443/it's?q=it's&{b}=`", "https://shop.example/it's?q=it's&{b}=`"),
            ("https://shop.example/orders?", "https://shop.example/orders?"),
            ("https://shop.example#part", "https://shop.example/"),
        ):
            with self.subTest(url=url):
                headers = AgentSigner(PASSPORT, KEY).headers("POST", url)
                signed = headers["signature-input"].removeprefix("sig1=")
                base = "\n".join(
                    [
                        '"@method": POST',
                        '"@authority": shop.example',
                        f'"@target-uri": {sent}',
                        f'"authorization": Passport {PASSPORT}',
                        f'"@signature-params": {signed}',
                    ]
                )
                signature = base64.b64decode(headers["signature"].removeprefix("sig1=:").removesuffix(":"))
                self.assertTrue(_ed25519.verify(PUBLIC_KEY, base.encode(), signature))

    def test_a_dpop_proof_names_method_and_url(self) -> None:
        signer = AgentSigner(PASSPORT, KEY, proof="dpop")
        proof = signer.headers("GET", URL, nonce="n-1", has_authorization=True)
        self.assertEqual(proof["x-agent-passport"], PASSPORT)
        head, claims, signature = proof["dpop"].split(".")
        self.assertTrue(_ed25519.verify(PUBLIC_KEY, f"{head}.{claims}".encode(), decode(signature)))
        shown = json.loads(decode(claims))
        self.assertEqual(
            [shown["htm"], shown["htu"], shown["nonce"]], ["GET", "https://shop.example/orders", "n-1"]
        )
        self.assertNotEqual(signer.headers("GET", URL)["dpop"], proof["dpop"])

    def test_another_key_and_what_is_no_key_are_refused(self) -> None:
        other = "ed25519_private:" + base64.urlsafe_b64encode(bytes(32)).rstrip(b"=").decode()
        wrong = [(PASSPORT, other), ("nonsense", KEY), (PASSPORT, "secret"), (PASSPORT, KEY[:-4])]
        for passport, key in wrong:
            with self.subTest(key=key), self.assertRaises(ValueError):
                AgentSigner(passport, key)


class Fetching(unittest.TestCase):
    def test_shows_the_passport_and_follows_no_redirect(self) -> None:
        seen: list[tuple[str, str]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                seen.append((self.path, self.headers.get("authorization", "")))
                self.send_response(302)
                self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_args: Any) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/orders"
            answer = agent_fetch(PASSPORT, KEY)("POST", url, body=b"tea")
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
        self.assertEqual(answer.status, 302)
        self.assertEqual(seen, [("/orders", f"Passport {PASSPORT}")])


class Guarding(unittest.TestCase):
    route = GuardRoute("POST", "/orders", "gate_01m7w8f9hdzbnzm1x73rrwwwpj", "orders:create")

    def proof(
        self,
        headers: dict[str, str],
        origin: str | None = "https://shop.example",
        target: str = "/orders?a=1",
        body: bytes = b"tea",
    ) -> Any:
        guard = Guard("http://127.0.0.1:8080", [self.route], origin)
        shown = {name: [value] for name, value in headers.items()}
        request = GuardedRequest("POST", "/orders", target, shown, {}, body, None)
        question = guard.question(self.route, request, PASSPORT)
        assert isinstance(question, Question)
        return question.request.get("proof")

    def test_passes_on_what_is_signed_and_no_token_twice(self) -> None:
        headers = AgentSigner(PASSPORT, KEY).headers("POST", "https://shop.example/orders?a=1", b"tea")
        proof = self.proof({**headers, "cookie": "secret"})
        self.assertEqual((proof["method"], proof["url"]), ("POST", "https://shop.example/orders?a=1"))
        self.assertEqual(set(proof["headers"]), {"signature-input", "signature", "content-digest"})
        self.assertEqual(proof["content_digest"], headers["content-digest"])
        self.assertEqual(
            self.proof({"dpop": "a.b.c"}),
            {"dpop": "a.b.c", "method": "POST", "url": "https://shop.example/orders?a=1"},
        )

    def test_passes_both_kinds_on_which_are_no_proof_together(self) -> None:
        headers = AgentSigner(PASSPORT, KEY).headers("POST", "https://shop.example/orders?a=1", b"tea")
        proof = self.proof({**headers, "dpop": "a.b.c"})
        self.assertEqual((proof["dpop"], "signature" in proof["headers"]), ("a.b.c", True))

    def test_takes_no_host_from_the_target(self) -> None:
        for target in (".evil.example/orders", "@evil.example/orders", ":81/orders", "https://evil.example/"):
            with self.subTest(target=target):
                proof = self.proof({"dpop": "a.b.c"}, target=target)
                self.assertTrue(proof["url"].startswith("https://shop.example/"))

    def test_says_that_a_body_which_was_signed_is_gone(self) -> None:
        signer = AgentSigner(PASSPORT, KEY)
        signed = signer.headers("POST", "https://shop.example/orders?a=1", b"tea")
        empty = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"
        self.assertEqual(self.proof(signed, body=b"")["content_digest"], empty)
        signed = signer.headers("POST", "https://shop.example/orders?a=1")
        self.assertNotIn("content_digest", self.proof(signed, body=b""))

    def test_reads_a_tag_after_a_blank(self) -> None:
        headers = AgentSigner(PASSPORT, KEY).headers("POST", "https://shop.example/orders?a=1", b"tea")
        headers["signature-input"] = headers["signature-input"].replace(";", "; ")
        self.assertIn("signature-input", self.proof(headers)["headers"])

    def test_passes_none_on_without_an_origin(self) -> None:
        self.assertIsNone(self.proof({"dpop": "a.b.c"}, None))
        self.assertIsNone(self.proof({}))
        with self.assertRaises(ValueError):
            self.proof({}, "shop.example")


if __name__ == "__main__":
    unittest.main()
