"""The client against a real control plane and a real sidecar, which test/clients/python.test.ts starts."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import json
import os
import threading
import unittest
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import agent_trust
from agent_trust import (
    AgentTrust,
    AsyncSidecar,
    GuardASGI,
    GuardError,
    GuardRoute,
    GuardWSGI,
    Sidecar,
    response_of,
)
from agent_trust._operations import Operations
from agent_trust.verify import verify_attestations

_given = json.loads(os.environ["AGENT_TRUST_SERVICE"])
URL, SIDECAR_URL, KEY, GATE, LIMITED = (
    _given[name] for name in ("url", "sidecarUrl", "key", "gate", "limitedGate")
)
# Waiting for an answer is no part of these tests: a busy machine may take long.
DEADLINE_MS = 60_000
PERMISSION = "orders:create"

client = AgentTrust(URL, KEY, deadline_ms=DEADLINE_MS)
sidecar = Sidecar(SIDECAR_URL, KEY, deadline_ms=DEADLINE_MS)
_serial = iter(range(1_000_000))


def tearDownModule() -> None:
    client.close()
    sidecar.close()


def new_passport() -> str:
    agent_id = f"python-{os.getpid()}-{next(_serial)}"
    return client.issue_passport({"agent_id": agent_id, "permissions": [PERMISSION]})["jwt"]


class Decisions(unittest.TestCase):
    def test_each_kind(self) -> None:
        passport = new_passport()
        permit = sidecar.check(GATE, passport, {"permission_key": PERMISSION, "amount": 5})
        self.assertEqual(permit["decision"], "PERMIT")
        block = sidecar.check(GATE, passport, {"permission_key": PERMISSION, "amount": 501})
        self.assertEqual((block["decision"], block["reason"]), ("BLOCK", "spend_limit_exceeded"))
        suspend: Any = sidecar.check(GATE, passport, {"permission_key": PERMISSION, "amount": 200})
        self.assertEqual((suspend["decision"], suspend["approval_id"][:5]), ("SUSPEND", "appr_"))
        without_gate = sidecar.enforce(passport, {"permission_key": PERMISSION})
        self.assertEqual(without_gate["decision"], "PERMIT")
        keyed: Any = {"permission_key": PERMISSION, "amount": 5, "idempotency_key": "python-1"}
        first, second = (sidecar.check(GATE, passport, keyed) for _ in range(2))
        self.assertEqual(first["attestation_id"], second["attestation_id"])

    def test_a_batch(self) -> None:
        passport = new_passport()
        requests: list[Any] = [
            {"permission_key": PERMISSION, "amount": 5},
            {"permission_key": PERMISSION, "amount": -5},
            {"permission_key": "other:thing"},
        ]
        results: Any = sidecar.check_batch(
            GATE, [{"passport": passport, "request": request} for request in requests]
        )
        self.assertEqual(results[0]["decision"], "PERMIT")
        self.assertIsInstance(results[1], agent_trust.InvalidRequestError)
        self.assertEqual(results[2]["reason"], "permission_not_granted")

    def test_what_a_repetition_cannot_cure_is_raised(self) -> None:
        with self.assertRaises(agent_trust.NotFoundError) as raised:
            sidecar.check("gate_" + "0" * 26, "a.b.c", {})
        self.assertRegex(raised.exception.request_id or "", "^req_")
        with Sidecar(SIDECAR_URL, "at_live_" + "0" * 36, deadline_ms=DEADLINE_MS) as other:
            with self.assertRaises(agent_trust.AuthenticationError):
                other.check(GATE, "a.b.c", {})

    def test_of_a_control_plane_too_and_asynchronously(self) -> None:
        passport = new_passport()

        async def run() -> None:
            async with AsyncSidecar(URL, KEY, deadline_ms=DEADLINE_MS) as other:
                decision = await other.check(GATE, passport, {"permission_key": PERMISSION, "amount": 5})
                self.assertEqual(decision["decision"], "PERMIT")
                self.assertEqual((await other.enforce(passport, {}))["decision"], "PERMIT")
                batch = await other.check_batch(GATE, [{"passport": passport, "request": {}}])
                self.assertEqual(batch[0]["reason"], "permission_missing")  # type: ignore[index]

        asyncio.run(run())


class ControlPlane(unittest.TestCase):
    def test_every_operation_of_the_document_is_a_method_by_its_operation_id(self) -> None:
        names = {name for name, _ in inspect.getmembers(Operations, inspect.isfunction) if name[0] != "_"}
        self.assertEqual(names, set(_given["operations"]))
        for name in names:
            self.assertTrue(getattr(Operations, name).__doc__, name)

    def test_creations_changes_and_what_came_with_an_answer(self) -> None:
        key = f"python-{os.getpid()}"
        new: Any = {"name": "Orders of Python", "trust_level": "L1"}
        gate, again = (client.create_gate(new, idempotency_key=key) for _ in range(2))
        self.assertEqual(gate["gate_id"], again["gate_id"])
        self.assertEqual(response_of(again).headers["idempotent-replayed"], "true")
        self.assertEqual(response_of(gate).status, 201)
        self.assertRegex(response_of(gate).request_id or "", "^req_")
        with self.assertRaises(agent_trust.PreconditionFailedError):
            client.update_gate(gate["gate_id"], {"name": "Other"}, if_match='"wrong"')
        changed = client.update_gate(gate["gate_id"], {"name": "Other"})
        self.assertEqual(changed["name"], "Other")
        client.delete_gate(gate["gate_id"])
        with self.assertRaises(agent_trust.NotFoundError):
            client.get_gate(gate["gate_id"])
        with self.assertRaises(TypeError):
            response_of({})

    def test_all_pages_by_offset_and_by_cursor(self) -> None:
        new: Any = [{"name": f"t{number}", "trust_level": "L1"} for number in range(3)]
        made = {client.create_template(each)["template_id"] for each in new}
        listed = [each["template_id"] for each in client.items(client.list_templates, limit=2)]
        self.assertTrue(made <= set(listed))
        pages = list(client.pages(client.list_audit_entries, operation="createTemplate", limit=2))
        targets = [entry["target"] for page in pages for entry in page["entries"]]
        self.assertTrue(made <= set(targets))
        # A cursor, unlike an offset, does not shift with what another program creates meanwhile.
        self.assertEqual(len(targets), len(set(targets)))
        self.assertGreater(len(pages), 1)

    def test_texts_reports_and_cached_answers(self) -> None:
        self.assertIn("agent_trust_", client.get_metrics())
        self.assertEqual(client.get_readiness()["status"], "ready")
        permissions: Any = [{"key": PERMISSION}]
        client.publish_catalog(GATE, {"permissions": permissions})
        etag = response_of(client.get_catalog(GATE)).headers["etag"]
        self.assertIsNone(client.get_catalog(GATE, if_none_match=etag))

    def test_an_export_verifies_as_it_arrives_and_one_changed_record_is_found(self) -> None:
        passport = new_passport()
        for amount in (1, 501, 2):
            request: Any = {"permission_key": PERMISSION, "amount": amount}
            client.check_gate(GATE, {"passport": passport, "request": request})
        jwks = client.get_jwks()
        formats: list[Any] = [None, "jsonl", "json"]
        for form in formats:
            with client.export_attestations(format=form) as export:
                verdict = verify_attestations(export, jwks)
            self.assertTrue(verdict, verdict)
            self.assertGreaterEqual(verdict.records, 3)
        with client.export_attestations() as export:
            lines = export.read().splitlines(keepends=True)
        place = next(n for n, line in enumerate(lines) if b'"spend_limit_exceeded"' in line)
        forged = lines[place].replace(b'"decision":"BLOCK"', b'"decision":"PERMIT"')
        self.assertNotEqual(forged, lines[place])
        found = verify_attestations(b"".join([*lines[:place], forged, *lines[place + 1 :]]), jwks)
        record = json.loads(lines[place])
        self.assertEqual(found.fault, "the hash does not match the record")
        self.assertEqual(
            (found.line, found.chain_id, found.sequence), (place + 1, record["chain_id"], record["sequence"])
        )
        with self.assertRaises(agent_trust.InvalidRequestError):
            client.export_attestations(since="yesterday")


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        return


class Guards:
    """What agents get, in both forms of the guard (docs/integrations/guards.md)."""

    def open(self, gate: str = GATE, url: str = SIDECAR_URL, key: str = KEY, **options: Any) -> Any:
        """A program with `POST /orders` behind a guard; answers what sends an order to it."""
        raise NotImplementedError

    handled: list[Any]

    def route(self, gate: str, **options: Any) -> GuardRoute:
        return GuardRoute(
            "POST", "/orders", gate, PERMISSION, amount=lambda request: request.json["amount"], **options
        )

    def test_serves_on_permit_with_the_decision_on_the_request(self: Any) -> None:
        order, passport = self.open(), new_passport()
        for headers in ({"x-agent-passport": passport}, {"authorization": f"Passport {passport}"}):
            self.assertEqual(order(5, headers)[0], 201)
        self.assertEqual([each["decision"] for each in self.handled], ["PERMIT", "PERMIT"])
        self.assertRegex(self.handled[0]["attestation_id"], "^att_")

    def test_401_without_a_passport_that_verifies(self: Any) -> None:
        order, passport = self.open(), new_passport()
        for reason, headers in [
            ("passport_missing", {}),
            ("passport_missing", {"authorization": "Bearer other"}),
            ("passport_ambiguous", {"x-agent-passport": passport, "authorization": "Passport other"}),
            ("passport_malformed", {"x-agent-passport": "other"}),
            ("passport_signature_invalid", {"x-agent-passport": passport[:-4] + "AAAA"}),
        ]:
            status, answered, body = order(5, headers)
            self.assertEqual((status, body["reason"]), (401, reason))
            self.assertEqual(answered["www-authenticate"], "Passport")
        self.assertEqual(self.handled, [])

    def test_403_with_reason_and_figures(self: Any) -> None:
        status, headers, body = self.open()(501, {"x-agent-passport": new_passport()})
        self.assertEqual((status, body["decision"], body["reason"]), (403, "BLOCK", "spend_limit_exceeded"))
        self.assertEqual((body["limit"], headers["cache-control"]), (500, "no-store"))
        self.assertEqual(self.handled, [])

    def test_retry_after_says_when_a_limit_is_over(self: Any) -> None:
        order, own = self.open(LIMITED), {"x-agent-passport": new_passport()}
        self.assertEqual(order(5, own)[0], 201)
        status, headers, body = order(5, own)
        self.assertEqual((status, body["reason"]), (403, "rate_limit_exceeded"))
        self.assertEqual(int(headers["retry-after"]), -(-body["retry"]["after_ms"] // 1_000))

    def test_202_with_the_approval_and_the_same_request_is_served_once_it_is_approved(self: Any) -> None:
        lines = [{"label": "Supplier", "value": "Nordwind"}]
        order = self.open(display=lambda _: {"title": "Order 20 chairs", "lines": lines})
        own = {"x-agent-passport": new_passport()}
        status, headers, body = order(200, own)
        self.assertEqual((status, body["decision"], self.handled), (202, "SUSPEND", []))
        self.assertEqual(headers["location"], f"{URL}/v1/approvals/{body['approval_id']}")
        self.assertEqual(body["approval_api_url"], headers["location"])
        approval = client.get_approval(body["approval_id"])
        self.assertEqual(body["approval_url"], approval["approval_url"])
        self.assertEqual(approval["display"], {"title": "Order 20 chairs", "lines": lines, "url": None})
        approved = {**own, "x-agent-approval": body["approval_id"]}
        self.assertEqual(order(200, approved)[0], 202)
        client.approve_approval(body["approval_id"])
        status, _, other = order(200, approved, "gold")
        self.assertEqual((status, other["reason"]), (403, "approval_mismatch"))
        self.assertEqual(order(200, approved)[0], 201)
        status, _, other = order(200, approved)
        self.assertEqual((status, other["reason"]), (403, "approval_used"))
        self.assertEqual(len(self.handled), 1)

    def test_400_to_an_amount_that_is_none(self: Any) -> None:
        order, own = self.open(), {"x-agent-passport": new_passport()}
        for amount in ("12 USD", True, -1, [], {"a": 1}):
            status, _, body = order(amount, own)
            self.assertEqual((status, body["error"]["code"]), (400, "invalid_request"), amount)
        self.assertEqual(self.handled, [])

    def test_503_without_a_decision_unless_serving_was_asked_for_by_name(self: Any) -> None:
        away, own = "http://127.0.0.1:1", {"x-agent-passport": new_passport()}
        status, headers, body = self.open(url=away)(5, own)
        self.assertEqual((status, body["decision"], headers["retry-after"]), (503, "UNAVAILABLE", "1"))
        self.assertEqual(self.handled, [])
        order = self.open(url=away, dangerously_serve_without_decision=True)
        self.assertEqual(order(5, own)[0], 201)
        self.assertEqual(self.handled[0]["reason"], "connection_failed")
        self.assertEqual(order(5, {})[0], 401, "a passport has to be shown all the same")
        # A BLOCK is not a failure.
        self.assertEqual(self.open(dangerously_serve_without_decision=True)(501, own)[0], 403)

    def test_500_where_the_key_or_the_gate_is_wrong(self: Any) -> None:
        own = {"x-agent-passport": new_passport()}
        for options in ({"key": "at_live_" + "0" * 36}, {"gate": "gate_" + "0" * 26}):
            order = self.open(**options, dangerously_serve_without_decision=True)
            self.assertEqual(order(5, own)[0], 500)
        self.assertEqual(self.handled, [])


class Wsgi(Guards, unittest.TestCase):
    """On a real server: wsgiref."""

    def open(self, gate: str = GATE, url: str = SIDECAR_URL, key: str = KEY, **options: Any) -> Any:
        self.handled = handled = []

        def app(environ: Any, start_response: Any) -> list[bytes]:
            handled.append(environ["agent_trust"])
            body = environ["wsgi.input"].read()
            start_response("201 Created", [("content-type", "application/json")])
            return [body]

        own = Sidecar(url, key, deadline_ms=DEADLINE_MS)
        self.addCleanup(own.close)
        routes = [self.route(gate, **options)]
        guard = GuardWSGI(app, sidecar=own, control_plane_url=URL, routes=routes)

        def guarded(environ: Any, start_response: Any) -> Any:
            try:
                return guard(environ, start_response)
            except GuardError:  # As the frameworks do; wsgiref prints it as well.
                start_response("500 Internal Server Error", [])
                return [b"{}"]

        server = make_server("127.0.0.1", 0, guarded, handler_class=QuietHandler)
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()

        def stop() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        self.addCleanup(stop)

        def order(amount: Any, headers: dict[str, str], item: str = "tea") -> Any:
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
            body = json.dumps({"amount": amount, "item": item})
            connection.request("POST", f"/orders?item={item}", body, headers)
            response = connection.getresponse()
            answered = {name.lower(): value for name, value in response.getheaders()}
            data = json.loads(response.read())
            connection.close()
            return response.status, answered, data

        return order


class Asgi(Guards, unittest.TestCase):
    """Called as a server calls it; examples/fastapi_app.py runs on a real one."""

    def open(self, gate: str = GATE, url: str = SIDECAR_URL, key: str = KEY, **options: Any) -> Any:
        self.handled = handled = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            handled.append(scope["state"]["agent_trust"])
            body = (await receive())["body"]
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": body})

        def order(amount: Any, headers: dict[str, str], item: str = "tea") -> Any:
            return asyncio.run(self.ask(app, gate, url, key, options, amount, headers, item))

        return order

    async def ask(
        self, app: Any, gate: str, url: str, key: str, options: Any, amount: Any, headers: Any, item: str
    ) -> Any:
        async with AsyncSidecar(url, key, deadline_ms=DEADLINE_MS) as own:
            routes = [self.route(gate, **options)]
            guard = GuardASGI(app, sidecar=own, control_plane_url=URL, routes=routes)
            body = json.dumps({"amount": amount, "item": item}).encode()
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": body, "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {
                "type": "http",
                "method": "POST",
                "path": "/orders",
                "raw_path": b"/orders",
                "query_string": f"item={item}".encode(),
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            }
            try:
                await guard(scope, receive, send)
            except GuardError:
                return 500, {}, {}
            answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
            return sent[0]["status"], answered, json.loads(sent[1]["body"])


if __name__ == "__main__":
    unittest.main()
