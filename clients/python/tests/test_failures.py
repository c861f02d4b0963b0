"""What goes wrong between the client and the service: never a PERMIT, within the deadline."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import socket
import threading
import time
import traceback
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import agent_trust
from agent_trust import AgentTrust, AsyncSidecar, Sidecar
from agent_trust import _transport as transport

from .scripted_server import ScriptedServer, error_body, http

KEY = "at_live_secretsecretsecretsecret01"
GATE = "gate_01m7w8f9hdzbnzm1x73rrwwwpj"
PERMIT = {
    "decision": "PERMIT",
    "reason": None,
    "attestation_id": "att_01m7w8f9hxqrdyfq7vmqreqg36",
    "constraints_evaluated": ["passport"],
}
PLAIN = {"permission_key": "orders:create"}
KEYED = {"permission_key": "orders:create", "idempotency_key": "order-1"}
# Long enough for a busy machine where the test is not about the deadline.
PATIENCE_MS = 30_000


def writes(data: bytes) -> Callable[[socket.socket, int], None]:
    return lambda connection, _: connection.sendall(data)


def closes_after(data: bytes) -> Callable[[socket.socket, int], None]:
    def answer(connection: socket.socket, _: int) -> None:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_RDWR)

    return answer


class Case(unittest.TestCase):
    def serve(self, answer: Callable[[socket.socket, int], None]) -> ScriptedServer:
        server = ScriptedServer(answer)
        self.addCleanup(server.close)
        return server

    def sidecar(self, url: str, deadline_ms: float = PATIENCE_MS) -> Sidecar:
        sidecar = Sidecar(url, KEY, deadline_ms=deadline_ms)
        self.addCleanup(sidecar.close)
        return sidecar

    def free_port(self) -> int:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return int(listener.getsockname()[1])

    def assert_unavailable(self, decision: Any, reason: str) -> None:
        self.assertEqual((decision["decision"], decision["reason"]), ("UNAVAILABLE", reason))
        self.assertIsNone(decision["attestation_id"])


class WhateverGoesWrong(Case):
    def test_no_service(self) -> None:
        decision = self.sidecar(f"http://127.0.0.1:{self.free_port()}").check(GATE, "a.b.c", PLAIN)
        self.assert_unavailable(decision, "connection_failed")

    def test_informational_answers_are_none(self) -> None:
        hints = b"HTTP/1.1 100 Continue\r\n\r\n"
        hints += b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 3\r\n\r\n"
        sidecar = self.sidecar(self.serve(writes(hints + http(200, PERMIT))).url)
        for _ in range(3):
            self.assertEqual(sidecar.check(GATE, "a.b.c", PLAIN), PERMIT)
        endless = self.serve(lambda connection, _: connection.sendall(hints * 1_000))
        self.assert_unavailable(self.sidecar(endless.url, 1_000).check(GATE, "a.b.c", PLAIN), "timeout")
        other = self.serve(writes(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n"))
        decision = self.sidecar(other.url, 1_000).check(GATE, "a.b.c", PLAIN)
        self.assertEqual(decision["decision"], "UNAVAILABLE")

    def test_a_trace_is_sent_where_it_is_valid_and_fails_no_call(self) -> None:
        server = self.serve(writes(http(200, PERMIT)))
        sidecar = self.sidecar(server.url)
        valid = f"00-{'a' * 32}-{'b' * 16}-01"
        for traceparent in (valid, None, valid.upper(), f"{valid}\r\nX-Forged: 1", f"{valid}\n", "\u20ac"):
            trace = {"traceparent": traceparent, "tracestate": "a=1"}
            self.assertEqual(sidecar.check(GATE, "a.b.c", PLAIN, **trace), PERMIT)
        heads = [head.lower() for head, _ in server.arrived]
        self.assertEqual(["traceparent: " + valid in head for head in heads], [True] + 5 * [False])
        self.assertEqual(["tracestate: a=1" in head for head in heads], [True] + 5 * [False])
        self.assertEqual(["traceparent" in head or "forged" in head for head in heads[1:]], 5 * [False])
        for tracestate in ("", "x" * 513, "a=1\r\nX-Forged: 1", "\u20ac"):
            sidecar.check(GATE, "a.b.c", PLAIN, traceparent=valid, tracestate=tracestate)
        last = [head.lower() for head, _ in server.arrived[-4:]]
        self.assertEqual(["traceparent" in head and "tracestate" not in head for head in last], 4 * [True])

    def test_no_answer_within_the_deadline_of_500_ms(self) -> None:
        arrived = threading.Event()
        server = self.serve(lambda connection, number: arrived.set())
        with Sidecar(server.url, KEY) as sidecar:
            started = time.monotonic()
            self.assert_unavailable(sidecar.check(GATE, "a.b.c", PLAIN), "timeout")
            self.assertGreaterEqual(time.monotonic() - started, 0.499)
        self.assertTrue(arrived.wait(30))
        self.assertEqual(len(server.arrived), 1)

    def test_a_connection_that_is_never_accepted(self) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
            # Fill the queue of the listener: further connections get no answer at all.
            filling = []
            for _ in range(4):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex(listener.getsockname())
                filling.append(each)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.assert_unavailable(self.sidecar(url, 100).check(GATE, "a.b.c", PLAIN), "timeout")
            for each in filling:
                each.close()

    def test_a_trickle_of_bytes_does_not_move_the_deadline(self) -> None:
        stopped = threading.Event()
        self.addCleanup(stopped.set)

        def trickle(connection: socket.socket, _: int) -> None:
            for byte in http(200, PERMIT):
                if stopped.wait(0.01):
                    return
                connection.sendall(bytes([byte]))

        # The answer would take more than two seconds, each of its bytes far less than the deadline.
        decision = self.sidecar(self.serve(trickle).url, 200).check(GATE, "a.b.c", PLAIN)
        self.assert_unavailable(decision, "timeout")

    def test_a_reader_that_takes_nothing_does_not_move_the_deadline(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            request = {"permission_key": "orders:create", "note": "x" * 20_000_000}
            self.assert_unavailable(self.sidecar(url, 300).check(GATE, "a.b.c", request), "timeout")

    def test_a_name_that_is_not_looked_up_in_time(self) -> None:
        is_asked, may_end = threading.Event(), threading.Event()
        self.addCleanup(may_end.set)

        def look_up(*_: Any, **__: Any) -> Any:
            is_asked.set()
            may_end.wait()
            raise socket.gaierror("no such name")

        with mock.patch.object(transport.socket, "getaddrinfo", look_up):
            sidecar = self.sidecar("http://sidecar.internal:8090", 100)
            threads = threading.active_count()
            for _ in range(3):
                self.assert_unavailable(sidecar.check(GATE, "a.b.c", PLAIN), "timeout")
            self.assertTrue(is_asked.wait(30))
            self.assertLessEqual(threading.active_count(), threads + 1, "one look-up for all callers")
            may_end.set()

    def test_a_late_permit_is_not_the_answer_of_the_next_question(self) -> None:
        late: list[socket.socket] = []
        is_held = threading.Event()

        def answer(connection: socket.socket, number: int) -> None:
            if number == 1:
                late.append(connection)
                is_held.set()
            else:
                connection.sendall(http(200, {**PERMIT, "attestation_id": f"att_of_question_{number}"}))

        sidecar = self.sidecar(self.serve(answer).url)
        self.assert_unavailable(sidecar.check(GATE, "a.b.c", PLAIN, deadline_ms=1_000), "timeout")
        self.assertTrue(is_held.wait(30))
        try:
            late[0].sendall(http(200, PERMIT))
        except OSError:
            pass  # The client has closed it.
        self.assertEqual(sidecar.check(GATE, "a.b.c", PLAIN)["attestation_id"], "att_of_question_2")

    def test_an_answer_that_nobody_has_asked_for(self) -> None:
        answers = [http(200, PERMIT) + http(200, {**PERMIT, "attestation_id": "att_forged"})]
        server = self.serve(lambda c, n: c.sendall(answers[0] if n == 1 else http(200, PERMIT)))
        sidecar = self.sidecar(server.url)
        for _ in range(2):
            self.assertEqual(sidecar.check(GATE, "a.b.c", PLAIN), PERMIT)
        self.assertEqual(server.connections, 2)

    def test_a_permit_that_a_stopped_process_finds_after_its_deadline(self) -> None:
        arrived, may_answer = threading.Event(), threading.Event()

        def answer(connection: socket.socket, _: int) -> None:
            arrived.set()
            may_answer.wait()
            connection.sendall(http(200, PERMIT))
            answered.set()

        answered = threading.Event()
        server = self.serve(answer)
        child = os.fork()
        if child == 0:
            decision = Sidecar(server.url, KEY, deadline_ms=1_000).check(GATE, "a.b.c", PLAIN)
            os._exit(0 if decision["decision"] == "UNAVAILABLE" else 1)
        # A deadline that is over by the time the child would be stopped would say nothing: the answer must
        # arrive before it.
        self.assertTrue(arrived.wait(30))
        os.kill(child, signal.SIGSTOP)
        stopped = time.monotonic()
        may_answer.set()
        self.assertTrue(answered.wait(30))
        while time.monotonic() < stopped + 1.1:  # Nothing but time ends a deadline.
            time.sleep(0.05)
        os.kill(child, signal.SIGCONT)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_connection_that_closes(self) -> None:
        table = [
            (b"", "connection_failed"),
            # To http.client, headers that break off are headers that end.
            (http(200, PERMIT)[:30], "bad_answer"),
            (http(200, PERMIT)[:-5], "connection_failed"),
        ]
        for data, reason in table:
            with self.subTest(data=data):
                server = self.serve(closes_after(data))
                decision = self.sidecar(server.url).check(GATE, "a.b.c", PLAIN)
                self.assert_unavailable(decision, reason)
                self.assertEqual(len(server.arrived), 1, "without a key it could charge twice")

    def test_answers_that_are_no_decision(self) -> None:
        without_record = {**PERMIT, "attestation_id": None}
        length = {"content-length": "99999999999"}
        table: list[tuple[str, bytes, str]] = [
            ("500", http(500, error_body("internal_error", 500)), "internal_error"),
            ("429", http(429, error_body("rate_limited", 429)), "rate_limited"),
            ("HTML of a proxy", http(502, b"<h1>Bad Gateway</h1>"), "bad_answer"),
            ("404 of another program", http(404, b"not here"), "bad_answer"),
            ("no content", b"HTTP/1.1 204 No Content\r\n\r\n", "bad_answer"),
            ("no JSON", http(200, b"PERMIT"), "bad_answer"),
            ("no UTF-8", http(200, b'{"decision":"\xff"}'), "bad_answer"),
            ("null", http(200, None), "bad_answer"),
            ("a list", http(200, [PERMIT]), "bad_answer"),
            ("nested too deep", http(200, b"[" * 200_000), "bad_answer"),
            ("another decision", http(200, {**PERMIT, "decision": "permit"}), "bad_answer"),
            ("a decision of another type", http(200, {**PERMIT, "decision": ["PERMIT"]}), "bad_answer"),
            ("no record", http(200, without_record), "bad_answer"),
            ("a body beyond the bound", http(200, b"{", length), "bad_answer"),
            ("no HTTP", b"SSH-2.0-OpenSSH\r\n", "connection_failed"),
            ("too many headers", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, "connection_failed"),
            ("a header without end", b"HTTP/1.1 200 OK\r\na: " + b"b" * 100_000, "connection_failed"),
        ]
        for name, data, reason in table:
            with self.subTest(name):
                decision = self.sidecar(self.serve(writes(data)).url).check(GATE, "a.b.c", PLAIN)
                self.assert_unavailable(decision, reason)

    def test_a_huge_answer_in_chunks_is_not_kept(self) -> None:
        def answer(connection: socket.socket, _: int) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
            for _ in range(40):
                connection.sendall(chunk)

        decision = self.sidecar(self.serve(answer).url).check(GATE, "a.b.c", PLAIN)
        self.assert_unavailable(decision, "bad_answer")

    def test_a_redirect_is_not_followed(self) -> None:
        other = self.serve(writes(http(200, PERMIT)))
        for status in (301, 302, 307, 308):
            redirect = http(status, b"", {"location": f"{other.url}/v1/gates/{GATE}/check"})
            server = self.serve(writes(redirect))
            self.assert_unavailable(self.sidecar(server.url).check(GATE, "a.b.c", PLAIN), "bad_answer")
        self.assertEqual(other.connections, 0)

    def test_503_with_the_time_after_which_to_ask_again(self) -> None:
        server = self.serve(writes(http(503, error_body("overloaded", 503), {"retry-after": "60"})))
        self.assertEqual(
            self.sidecar(server.url, 30_000).check(GATE, "a.b.c", PLAIN),
            {
                "decision": "UNAVAILABLE",
                "reason": "overloaded",
                "attestation_id": None,
                "detail": "overloaded happened",
                "retry": {"retryable": True, "after_ms": 60_000},
                "request_id": "req_01m7w73a5pffzt5jwz6hbpmzxj",
            },
        )
        self.assertEqual(len(server.arrived), 1)

    def test_close_ends_what_is_under_way(self) -> None:
        arrived = threading.Event()
        server = self.serve(lambda connection, number: arrived.set())
        sidecar = self.sidecar(server.url)
        found: list[Any] = []
        asking = threading.Thread(target=lambda: found.append(sidecar.check(GATE, "a.b.c", PLAIN)))
        asking.start()
        self.assertTrue(arrived.wait(30))
        sidecar.close()
        asking.join()
        self.assert_unavailable(found[0], "connection_failed")


class Batch(Case):
    checks: Any = [{"passport": "a.b.c", "request": PLAIN}] * 2

    def test_unavailable_in_every_place(self) -> None:
        for data in (b"", http(200, {"results": [PERMIT]}), http(200, {})):
            with self.subTest(data=data):
                server = self.serve(closes_after(data))
                results = self.sidecar(server.url).check_batch(GATE, self.checks)
                self.assertEqual([each["decision"] for each in results], ["UNAVAILABLE"] * 2)  # type: ignore

    def test_what_is_wrong_with_one_check_is_in_its_place(self) -> None:
        wrong = error_body("invalid_request", 400)
        body = {"results": [PERMIT, error_body("overloaded", 503), {"decision": "permit"}, None, wrong]}
        server = self.serve(writes(http(200, body)))
        checks: Any = [{"passport": "a.b.c", "request": PLAIN}] * 5
        results: Any = self.sidecar(server.url).check_batch(GATE, checks)
        self.assertEqual(results[0], PERMIT)
        reasons = [each["reason"] for each in results[1:4]]
        self.assertEqual(reasons, ["overloaded", "bad_answer", "bad_answer"])
        self.assertIsInstance(results[4], agent_trust.InvalidRequestError)


class Repetition(Case):
    def test_with_an_idempotency_key_after_a_lost_answer_word_by_word(self) -> None:
        def answer(connection: socket.socket, number: int) -> None:
            (closes_after(b"") if number == 1 else writes(http(200, PERMIT)))(connection, number)

        server = self.serve(answer)
        self.assertEqual(self.sidecar(server.url).check(GATE, "a.b.c", KEYED), PERMIT)
        self.assertEqual(len(server.arrived), 2)
        self.assertEqual(server.arrived[0], server.arrived[1])

    def test_after_503_at_most_twice(self) -> None:
        overloaded = http(503, error_body("overloaded", 503), {"retry-after": "0"})
        server = self.serve(writes(overloaded))
        self.assert_unavailable(self.sidecar(server.url).check(GATE, "a.b.c", PLAIN), "overloaded")
        self.assertEqual(len(server.arrived), 3)

    def test_never_with_a_proof_that_the_first_copy_may_have_used_up(self) -> None:
        overloaded = http(503, error_body("overloaded", 503), {"retry-after": "0"})
        proven = {**KEYED, "proof": {"dpop": "a.b.c"}}
        for answer, reason in ((writes(overloaded), "overloaded"), (closes_after(b""), "connection_failed")):
            with self.subTest(reason=reason):
                server = self.serve(answer)
                sidecar = self.sidecar(server.url)
                self.assert_unavailable(sidecar.check(GATE, "a.b.c", proven), reason)
                self.assertEqual(len(server.arrived), 1)
                batch: Any = [{"passport": "a.b.c", "request": each} for each in (proven, KEYED)]
                self.assertEqual([each["reason"] for each in sidecar.check_batch(GATE, batch)], [reason] * 2)
                self.assertEqual(len(server.arrived), 2)

    def test_never_after_the_deadline(self) -> None:
        arrived = threading.Event()
        server = self.serve(lambda connection, number: arrived.set())
        self.assert_unavailable(self.sidecar(server.url, 1_000).check(GATE, "a.b.c", KEYED), "timeout")
        self.assertTrue(arrived.wait(30))
        self.assertEqual(len(server.arrived), 1)

    def test_a_creation_is_repeated_with_its_key_and_a_change_is_not(self) -> None:
        def answer(connection: socket.socket, number: int) -> None:
            closing = http(503, error_body("overloaded", 503), {"retry-after": "0"})
            (writes(closing) if number == 1 else writes(http(201, {"gate_id": GATE})))(connection, number)

        server = self.serve(answer)
        with AgentTrust(server.url, KEY) as client:
            client.create_gate({"name": "Orders"})  # type: ignore[typeddict-item]
        keys = [line for head, _ in server.arrived for line in head.split("\r\n") if "idempotency" in line]
        self.assertEqual((len(keys), len(set(keys))), (2, 1))

        server = self.serve(closes_after(b""))
        with AgentTrust(server.url, KEY) as client:
            with self.assertRaises(agent_trust.ConnectionError) as raised:
                client.update_gate(GATE, {"name": "Orders"})
        self.assertEqual((raised.exception.code, len(server.arrived)), ("connection_failed", 1))


class Raised(Case):
    def test_what_a_repetition_cannot_cure(self) -> None:
        for status, code, error_class in (
            (400, "invalid_request", agent_trust.InvalidRequestError),
            (401, "unauthorized", agent_trust.AuthenticationError),
            (403, "insufficient_scope", agent_trust.ForbiddenError),
            (404, "gate_not_found", agent_trust.NotFoundError),
            (409, "idempotency_conflict", agent_trust.ConflictError),
        ):
            server = self.serve(writes(http(status, error_body(code, status))))
            with self.subTest(code), self.assertRaises(error_class) as raised:
                self.sidecar(server.url).check(GATE, "a.b.c", PLAIN)
            error = raised.exception
            self.assertEqual((error.code, error.http_status), (code, status))
            self.assertEqual(error.request_id, "req_01m7w73a5pffzt5jwz6hbpmzxj")
            self.assertEqual(len(server.arrived), 1)

    def test_ids_permissions_and_keys_that_would_write_into_the_request(self) -> None:
        server = self.serve(writes(http(200, PERMIT)))
        sidecar, client = self.sidecar(server.url), AgentTrust(server.url, KEY)
        self.addCleanup(client.close)
        bad = ["../enforce", "", "a b", "gate_1\r\nX-Evil: 1", "gate_1\n", "gäte", "a/b", "a" * 129, None]
        for gate in bad:
            with self.subTest(gate=gate), self.assertRaises(ValueError):
                sidecar.check(gate, "a.b.c", PLAIN)  # type: ignore[arg-type]
            with self.subTest(gate=gate), self.assertRaises(ValueError):
                client.get_gate(gate)  # type: ignore[arg-type]
        for key in ["a\r\nX-Evil: 1", "ä", ""]:
            with self.subTest(key=key), self.assertRaises(ValueError):
                client.create_gate({"name": "a"}, idempotency_key=key)  # type: ignore[typeddict-item]
        for value in [float("nan"), float("inf"), object(), {1, 2}]:
            with self.subTest(value=value), self.assertRaises(ValueError):
                sidecar.check(GATE, "a.b.c", {"amount": value})
        self.assertEqual(server.connections, 0)
        # In the body they are text like any other.
        sidecar.check(GATE, "a\r\nb", {"permission_key": "a:b\r\nX-Evil: 1", "note": "Größe 🍵 \ud800"})
        head, body = server.arrived[0]
        self.assertNotIn("evil", head.lower())
        self.assertEqual(json.loads(body)["request"]["note"], "Größe 🍵 \ud800")

    def test_options_that_cannot_be_used(self) -> None:
        for url in ["", "localhost:8090", "ftp://127.0.0.1", "http://user:word@127.0.0.1"]:
            with self.subTest(url=url), self.assertRaisesRegex(ValueError, "url must be"):
                Sidecar(url, KEY)
        for url in ["http://127.0.0.1/other", "http://127.0.0.1:99999", "http://a b", "http://a?x"]:
            with self.subTest(url=url), self.assertRaisesRegex(ValueError, "url must be"):
                AgentTrust(url, KEY)
        for key in ["", "at_live_with a space", "at_live_line\nbreak", "at_live_ümlaut", "at_live_1\n"]:
            with self.subTest(key=key), self.assertRaisesRegex(ValueError, "api_key must be") as raised:
                Sidecar("http://127.0.0.1", key)
            self.assertNotIn(key or "none", str(raised.exception))
        deadlines: list[Any] = [0, -1, float("nan"), float("inf"), "5", True, None]
        for deadline_ms in deadlines:
            with self.subTest(deadline_ms=deadline_ms), self.assertRaisesRegex(ValueError, "deadline_ms"):
                Sidecar("http://127.0.0.1", KEY, deadline_ms=deadline_ms)


class ApiKey(Case):
    def test_no_proxy_of_the_environment_gets_it(self) -> None:
        proxy, server = self.serve(writes(http(200, PERMIT))), self.serve(writes(http(200, PERMIT)))
        names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        with mock.patch.dict(os.environ, {**dict.fromkeys(names, proxy.url), "no_proxy": ""}):
            self.assertEqual(self.sidecar(server.url).check(GATE, "a.b.c", PLAIN), PERMIT)
            # TLS to a server that speaks none: no connection, and above all none to the proxy.
            tls = f"https://127.0.0.1:{server.port}"
            self.assert_unavailable(self.sidecar(tls, 200).check(GATE, "a.b.c", PLAIN), "timeout")
        self.assertEqual(proxy.connections, 0)
        self.assertFalse(any(KEY in head and "HTTP/1.1" not in head for head, _ in server.arrived))

    def test_shown_by_no_error_and_no_representation(self) -> None:
        server = self.serve(writes(http(401, error_body("unauthorized", 401))))
        sidecar = self.sidecar(server.url)
        passport = ".".join("abc")  # Tracebacks show the text of the program.
        try:
            sidecar.check(GATE, passport, PLAIN)
            self.fail("nothing was raised")
        except agent_trust.AuthenticationError as error:
            shown = repr(error) + str(vars(error)) + traceback.format_exc()
        shown += repr(sidecar) + repr(sidecar._transport)
        self.assertIn("AuthenticationError", shown)
        self.assertNotIn(KEY[8:], shown)
        self.assertNotIn(passport, shown)
        with self.assertRaises(TypeError):
            pickle.dumps(sidecar)


class Connections(Case):
    def test_one_is_kept(self) -> None:
        server = self.serve(writes(http(200, PERMIT)))
        sidecar = self.sidecar(f"{server.url}/v1")
        for _ in range(5):
            self.assertEqual(sidecar.check(GATE, "a.b.c", {"note": "Größe"}), PERMIT)
        self.assertEqual(server.connections, 1)
        head, body = server.arrived[0]
        self.assertTrue(head.startswith(f"POST /v1/gates/{GATE}/check HTTP/1.1\r\n"))
        self.assertEqual(head.lower().count("content-length"), 1)
        self.assertNotIn("transfer-encoding", head.lower())
        self.assertIn(f"Authorization: Bearer {KEY}", head)
        self.assertEqual(json.loads(body), {"passport": "a.b.c", "request": {"note": "Größe"}})

    def test_none_that_the_server_has_closed(self) -> None:
        closed = threading.Event()

        def answer(connection: socket.socket, number: int) -> None:
            closes_after(http(200, PERMIT))(connection, number)
            closed.set()

        sidecar = self.sidecar(self.serve(answer).url)
        for _ in range(5):
            self.assertEqual(sidecar.check(GATE, "a.b.c", PLAIN), PERMIT)
            self.assertTrue(closed.wait(30))
            closed.clear()

    def test_none_that_was_idle_for_longer_than_the_server_keeps_it(self) -> None:
        server = self.serve(writes(http(200, PERMIT)))
        sidecar = self.sidecar(server.url)
        sidecar.check(GATE, "a.b.c", PLAIN)
        sidecar._transport._idle[0].idle_since -= 5
        sidecar.check(GATE, "a.b.c", PLAIN)
        self.assertEqual(server.connections, 2)

    def test_none_of_before_a_fork(self) -> None:
        server = self.serve(writes(http(200, PERMIT)))
        sidecar = self.sidecar(server.url)
        sidecar.check(GATE, "a.b.c", PLAIN)
        child = os.fork()
        if child == 0:
            is_right = sidecar.check(GATE, "a.b.c", PLAIN) == PERMIT
            os._exit(0 if is_right else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(server.connections, 2)
        sidecar.check(GATE, "a.b.c", PLAIN)
        self.assertEqual(server.connections, 2, "the parent keeps its own")

    def test_at_most_128_for_any_number_of_threads_and_each_gets_its_own_answer(self) -> None:
        """Ten times the usual load, at once: threads share connections and never an answer."""

        def answer(connection: socket.socket, number: int) -> None:
            with server._changed:
                asked = [json.loads(body) for _, body in server.arrived]
            # Named by the question of this very request.
            connection.sendall(http(200, {**PERMIT, "attestation_id": asked[number - 1]["passport"]}))

        server = self.serve(answer)
        sidecar = self.sidecar(server.url)
        wrong: list[Any] = []

        def ask(name: int) -> None:
            for turn in range(3):
                passport = f"{name}-{turn}"
                decision = sidecar.check(GATE, passport, PLAIN)
                if decision["attestation_id"] != passport:
                    wrong.append((passport, decision))

        threads = [threading.Thread(target=ask, args=[name]) for name in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(len(server.arrived), 600)
        self.assertLessEqual(server.connections, 128)


class Asyncio(Case):
    def test_the_same_decisions_and_errors(self) -> None:
        server = self.serve(
            lambda c, n: c.sendall(
                http(200, PERMIT) if n < 3 else http(401, error_body("unauthorized", 401))
            )
        )

        async def run() -> None:
            async with AsyncSidecar(server.url, KEY, deadline_ms=PATIENCE_MS) as sidecar:
                self.assertEqual(await sidecar.check(GATE, "a.b.c", PLAIN), PERMIT)
                self.assertEqual(await sidecar.enforce("a.b.c", PLAIN), PERMIT)
                with self.assertRaises(agent_trust.AuthenticationError):
                    await sidecar.check(GATE, "a.b.c", PLAIN)

        asyncio.run(run())

    def test_the_deadline_holds_for_those_that_wait_for_a_thread(self) -> None:
        server = self.serve(lambda connection, number: None)

        async def run() -> float:
            async with AsyncSidecar(server.url, KEY, deadline_ms=300, threads=2) as sidecar:
                started = time.monotonic()
                asked = [sidecar.check(GATE, "a.b.c", PLAIN) for _ in range(400)]
                for decision in await asyncio.gather(*asked):
                    self.assert_unavailable(decision, "timeout")
                return time.monotonic() - started

        # One after another, two at a time, they would take a minute.
        took_s = asyncio.run(run())
        self.assertLess(took_s, 20)
        # A thread asks the next question when the deadline of the last one is over. The calls begin within
        # a fraction of a deadline of each other, so hardly any has time left by then.
        self.assertLess(len(server.arrived), 200)

    def test_beyond_its_bound_the_answer_comes_at_once_and_it_recovers(self) -> None:
        waiting = threading.Event()
        self.addCleanup(waiting.set)

        def answer(connection: socket.socket, _: int) -> None:
            waiting.wait()
            connection.sendall(http(200, PERMIT))

        server = self.serve(answer)

        async def run() -> None:
            async with AsyncSidecar(server.url, KEY, deadline_ms=10 * PATIENCE_MS, threads=1) as sidecar:
                asked = [asyncio.ensure_future(sidecar.check(GATE, "a", PLAIN)) for _ in range(1_125)]
                first, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                for each in first:
                    self.assert_unavailable(each.result(), "overloaded")
                waiting.set()
                decisions = [each["decision"] for each in await asyncio.gather(*asked)]
                self.assertEqual(decisions.count("PERMIT"), 1_025)
                self.assertEqual(decisions.count("UNAVAILABLE"), 100)
                self.assertEqual(await sidecar.check(GATE, "a", PLAIN), PERMIT)

        asyncio.run(run())

    def test_a_cancelled_caller_is_released_at_once(self) -> None:
        arrived = threading.Event()
        server = self.serve(lambda connection, number: arrived.set())

        async def run() -> None:
            async with AsyncSidecar(server.url, KEY, deadline_ms=PATIENCE_MS) as sidecar:
                asked = asyncio.ensure_future(sidecar.check(GATE, "a", PLAIN))
                await asyncio.get_running_loop().run_in_executor(None, arrived.wait)
                asked.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await asked

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
