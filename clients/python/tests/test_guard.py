"""The guards without a service: which route a request is of, and what may reach the program behind."""

from __future__ import annotations

import asyncio
import io
import unittest
from decimal import Decimal
from typing import Any

from agent_trust import AsyncSidecar, GuardASGI, GuardRoute, GuardWSGI, OpenRoute, Sidecar
from agent_trust.guard import Guard, GuardedRequest, Refusal

GATE = "gate_01m7w8f9hdzbnzm1x73rrwwwpj"
KEY = "at_live_secretsecretsecretsecret01"
PERMIT: Any = {"decision": "PERMIT", "reason": None, "attestation_id": "att_1", "constraints_evaluated": []}


def route(methods: Any, path: str, **options: Any) -> GuardRoute:
    return GuardRoute(methods, path, GATE, "orders:create", **options)


class Suspended(unittest.TestCase):
    def test_is_told_of_the_page_that_the_service_names(self) -> None:
        page = "https://trust.example.com/console/approvals/appr_1"
        waiting: Any = {"decision": "SUSPEND", "reason": "approval_required", "approval_id": "appr_1"}
        guard = Guard("http://control-plane.internal:8080", [])
        for named in ({"approval_url": page}, {}):
            decision = {**waiting, **named, "expires_at": "2026-11-30T00:00:00.000Z"}
            refusal: Any = guard.verdict(route("POST", "/"), decision)
            self.assertEqual(refusal.body["approval_url"], named.get("approval_url"))


class Routes(unittest.TestCase):
    guard = Guard(
        "http://127.0.0.1:8080/v1/",
        [
            route("POST", "/orders"),
            route(["GET", "DELETE"], "/orders/{order_id}"),
            OpenRoute("GET", "/public/*"),
            OpenRoute("GET", "/"),
        ],
    )

    def found(self, method: str, path: str, raw: str | None = None) -> Any:
        found = self.guard.route_for(method, path, raw)
        return found.status if isinstance(found, Refusal) else (type(found[0]).__name__, dict(found[1]))

    def test_match_whole_paths_by_method(self) -> None:
        self.assertEqual(self.found("POST", "/orders"), ("GuardRoute", {}))
        self.assertEqual(self.found("DELETE", "/orders/7"), ("GuardRoute", {"order_id": "7"}))
        self.assertEqual(self.found("GET", "/public/a/b.css"), ("OpenRoute", {}))
        self.assertEqual(self.found("GET", "/"), ("OpenRoute", {}))

    def test_what_no_route_names_is_refused(self) -> None:
        for method, path in [
            ("GET", "/orders"),
            ("HEAD", "/orders/7"),
            ("post", "/orders"),
            ("POST", "/orders/"),
            ("POST", "/Orders"),
            ("POST", "/orders/7"),
            ("GET", "/orders/7/items"),
            ("GET", "/orders/"),
            ("GET", "/public"),
            ("GET", "/public/"),
            ("GET", ""),
            ("POST", "/orders\n"),
        ]:
            with self.subTest(method=method, path=path):
                self.assertEqual(self.found(method, path), 403)

    def test_a_path_that_two_readers_may_read_differently_is_refused(self) -> None:
        paths = ["/public/../orders", "/public/./a", "//public/a", "/public//a", "/public\\a", "/public/.."]
        others = ["/public/\ud800", "/public/\ufffd", "/public/a;b", "/public/a%2fb", "/public/\x85", "/\x00"]
        look_alikes = ["/public/\uff0e\uff0e/orders", "/public/a\uff0fb", "/public/\u2100"]
        letters = ["\uff41dmin", "adm\u0131n", "ad\u00admin", "ad\u200bmin", "admin\ufe0f", "o\ufb03ce"]
        ends = ["/public/admin.", "/public/admin ", "/public/ admin", "/public/admin./x", "/public/a\u00a0"]
        own = [f"/public/{each}" for each in letters]
        for path in [*paths, *others, *look_alikes, *own, *ends]:
            with self.subTest(path=path):
                self.assertEqual(self.found("GET", path), 403)
        raws = ["%2e%2e%2Forders", "a%5Cb", "%", "%zz", "%252e", "a%00", "%3b"]
        for raw in [f"/public/{each}" for each in raws]:
            with self.subTest(raw=raw):
                self.assertEqual(self.found("GET", "/public/a", raw), 403)
        self.assertEqual(self.found("GET", "/public/ä b", "/public/%C3%A4%20b")[0], "OpenRoute")

    def test_other_letters_are_read_alike(self) -> None:
        for name in ("caf\u00e9", "cafe\u0301", "stra\u00dfe", "\u65e5\u672c", "a.b", "a b"):
            self.assertEqual(self.found("GET", f"/public/{name}"), ("OpenRoute", {}))

    def test_a_later_route_does_not_open_what_an_earlier_one_guards(self) -> None:
        guard = Guard("http://a", [route("GET", "/Admin/{name}"), OpenRoute(["GET", "HEAD", "PUT"], "/*")])
        for method, path, expected in [
            ("GET", "/Admin/a", "GuardRoute"),
            ("GET", "/admin/a", None),
            ("GET", "/ADMIN/A", None),
            ("GET", "/Admin/a/", None),
            ("HEAD", "/Admin/a", None),
            ("HEAD", "/admin/a/", None),
            ("PUT", "/admin/a", "OpenRoute"),
            ("GET", "/admin", "OpenRoute"),
            ("HEAD", "/other", "OpenRoute"),
        ]:
            with self.subTest(method=method, path=path):
                found = guard.route_for(method, path, None)
                self.assertEqual(None if isinstance(found, Refusal) else type(found[0]).__name__, expected)

    def test_of_which_none_can_be_made(self) -> None:
        for path in ["orders", "/a/../b", "/*/a", "/a*", "//a", ""]:
            with self.subTest(path=path), self.assertRaises(ValueError):
                route("GET", path)
        with self.assertRaises(ValueError):
            GuardRoute("GET", "/a", "gate_1/../x", "orders:create")
        for permission in ["orders", "orders:*", "orders:create\r\nX: 1", "Orders:create", ""]:
            with self.subTest(permission=permission), self.assertRaises(ValueError):
                GuardRoute("GET", "/a", GATE, permission)
        with self.assertRaises(ValueError):
            Guard("javascript:alert(1)", [])


class Fixed(Sidecar):
    """Answers PERMIT without a service."""

    asked: list[Any]
    options: dict[str, Any]

    def check(self, gate_id: str, passport: str, request: Any, **options: Any) -> Any:
        self.asked.append((passport, request))
        self.options = options
        return PERMIT


class AsyncFixed(AsyncSidecar):
    asked: list[Any]
    options: dict[str, Any]

    async def check(self, gate_id: str, passport: str, request: Any, **options: Any) -> Any:
        self.asked.append((passport, request))
        self.options = options
        return PERMIT


ROUTES = [
    route("POST", "/orders", amount=lambda request: request.json["amount"]),
    route("GET", "/orders/{order_id}", context=lambda request: {"order": request.params["order_id"]}),
    OpenRoute("GET", "/open"),
]


class Wsgi(unittest.TestCase):
    def ask(self, **environ: Any) -> tuple[str, list[Any]]:
        passed: list[Any] = []

        def app(environ: Any, start_response: Any) -> list[bytes]:
            passed.append((environ, environ["wsgi.input"].read()))
            start_response("204 No Content", [])
            return []

        self.sidecar = Fixed("http://127.0.0.1:1", KEY)
        self.sidecar.asked = []
        guard = GuardWSGI(
            app,
            sidecar=self.sidecar,
            control_plane_url="http://127.0.0.1:8080",
            routes=ROUTES,
            body_bytes_max=100,
        )
        base = {"REQUEST_METHOD": "POST", "PATH_INFO": "/orders", "wsgi.input": io.BytesIO(b"")}
        statuses: list[str] = []
        guard({**base, **environ}, lambda status, headers: statuses.append(status))
        return statuses[0][:3], passed

    def body(self, data: bytes, **others: Any) -> dict[str, Any]:
        sent = {"wsgi.input": io.BytesIO(data), "CONTENT_LENGTH": str(len(data))}
        return {**sent, "HTTP_X_AGENT_PASSPORT": "a", **others}

    def test_the_body_reaches_the_question_and_the_program(self) -> None:
        status, passed = self.ask(**self.body(b'{"amount":5}'))
        self.assertEqual((status, passed[0][1]), ("204", b'{"amount":5}'))
        self.assertEqual(passed[0][0]["agent_trust"], PERMIT)
        [(passport, request)] = self.sidecar.asked
        self.assertEqual((passport, request["amount"], request["path"]), ("a", 5, "/orders"))
        self.assertEqual(request["permission_key"], "orders:create")

    def test_the_trace_of_the_request_is_that_of_the_check(self) -> None:
        self.ask(**self.body(b'{"amount":5}', HTTP_TRACEPARENT="00-a"))
        self.assertEqual(self.sidecar.options["traceparent"], "00-a")
        self.ask(**self.body(b'{"amount":5}'))
        self.assertIsNone(self.sidecar.options["traceparent"])

    def test_what_a_client_says_of_itself_does_not_reach_the_program(self) -> None:
        forged = {
            "HTTP_X_GATE_DECISION": "PERMIT",
            "HTTP_X_GATE_PERMISSION": "free:all",
            "HTTP_X_ATTESTATION_ID": "att_forged",
            "HTTP_X_PASSPORT_ID": "pass_forged",
            "HTTP_X_HTTP_METHOD_OVERRIDE": "DELETE",
            "HTTP_X_HTTP_METHOD": "DELETE",
            "HTTP_X_METHOD_OVERRIDE": "DELETE",
            "agent_trust": {"decision": "PERMIT"},
        }
        status, passed = self.ask(**self.body(b'{"amount":5}', **forged))
        self.assertEqual((status, passed[0][0]["agent_trust"]), ("204", PERMIT))
        self.assertFalse((set(forged) - {"agent_trust"}) & set(passed[0][0]))
        self.assertEqual(self.sidecar.asked[0][1]["permission_key"], "orders:create")
        status, passed = self.ask(REQUEST_METHOD="GET", PATH_INFO="/open", **forged)
        self.assertEqual(status, "204")
        self.assertFalse(set(forged) & set(passed[0][0]))

    def test_bodies_that_are_refused(self) -> None:
        table: list[tuple[str, dict[str, Any]]] = [
            ("413", self.body(b'{"amount":5}' + b" " * 100)),
            ("413", self.body(b"", CONTENT_LENGTH="9" * 4_000)),
            ("411", self.body(b"{}", CONTENT_LENGTH="", HTTP_TRANSFER_ENCODING="chunked")),
            ("411", self.body(b"{}", CONTENT_LENGTH="-1")),
            ("413", self.body(b" " * 101, CONTENT_LENGTH="", **{"wsgi.input_terminated": True})),
            ("400", self.body(b"")),
            ("400", self.body(b"[]")),
            ("400", self.body(b"{")),
            ("400", self.body(b'{"amount":"5"}')),
            ("400", self.body(b'{"amount":true}')),
            ("400", self.body(b'{"amount":NaN}')),
            ("400", self.body(b'{"amount":1' + b"0" * 80 + b"e400}")),
        ]
        for expected, environ in table:
            with self.subTest(environ=environ):
                status, passed = self.ask(**environ)
                self.assertEqual((status, passed, self.sidecar.asked), (expected, [], []))

    def test_a_path_is_what_the_program_routes(self) -> None:
        get = {"REQUEST_METHOD": "GET", "HTTP_X_AGENT_PASSPORT": "a"}
        status, _ = self.ask(PATH_INFO="/orders/\u00c3\u00a4", QUERY_STRING="b=%20", **get)
        self.assertEqual(status, "204")
        request = self.sidecar.asked[0][1]
        self.assertEqual((request["path"], request["order"]), ("/orders/%C3%A4?b=%20", "ä"))
        for path in ["/orders/\u00ff", "/x/../orders/1", "/orders//1"]:
            with self.subTest(path=path):
                self.assertEqual(self.ask(PATH_INFO=path, **get)[0], "403")
        raw = {"PATH_INFO": "/orders/a/b", "RAW_URI": "http://host/orders/a%2Fb?c"}
        self.assertEqual(self.ask(**raw, **get)[0], "403")

    def test_the_passport_comes_before_the_body(self) -> None:
        class Untouched:
            def read(self, *_: Any) -> bytes:
                raise AssertionError("the body of who shows no passport was read")

        self.assertEqual(self.ask(**{"wsgi.input": Untouched(), "CONTENT_LENGTH": "5"})[0], "401")
        two = self.body(b'{"amount":5}', HTTP_AUTHORIZATION="Passport b")
        self.assertEqual(self.ask(**two)[0], "401")


    def test_an_approval_is_bound_to_what_the_bytes_are_read_as(self) -> None:
        form = "application/x-www-form-urlencoded"
        asked = []
        for others in (
            {"CONTENT_TYPE": "application/json"},
            {"CONTENT_TYPE": form},
            {"CONTENT_TYPE": f"{form}; charset=utf-16"},
            {"CONTENT_TYPE": "multipart/form-data; boundary=A"},
            {"CONTENT_TYPE": "multipart/form-data; boundary=B"},
            {"CONTENT_TYPE": "application/json", "HTTP_CONTENT_ENCODING": "gzip"},
            {},
        ):
            self.assertEqual(self.ask(**self.body(b'{"amount":5}', **others))[0], "204")
            asked.append(repr(self.sidecar.asked[0][1]))
        self.assertEqual(len(set(asked)), len(asked))

    def test_a_body_that_breaks_off_is_refused(self) -> None:
        status, passed = self.ask(**self.body(b'{"amount":5}', CONTENT_LENGTH="13"))
        self.assertEqual((status, passed, self.sidecar.asked), ("400", [], []))


class Options(unittest.TestCase):
    """A function that does not find what it reads, whatever it raises or returns, is a fault of the agent."""

    def refusal(self, **options: Any) -> Any:
        asked: Any = {"method": "POST", "path": "/", "target": "/", "headers": {}, "params": {}}
        request = GuardedRequest(**asked, body=b"{}", raw=None)
        guard, own = Guard("http://127.0.0.1:8080", []), route("POST", "/", **options)
        passport = guard.passport_of(own, request) if "passport_from" in options else "a"
        return passport if isinstance(passport, Refusal) else guard.question(own, request, passport)

    def test_what_they_raise_is_400(self) -> None:
        raised = [
            lambda _: {}["a"],
            lambda _: Decimal("five"),
            lambda _: 1 / 0,
            lambda _: next(iter(())),
            lambda request: request.nothing,
        ]
        for name in ("amount", "domain", "idempotency_key", "context", "passport_from"):
            for read in raised:
                with self.subTest(name=name):
                    refusal = self.refusal(**{name: read})
                    self.assertEqual(refusal.status, 400)
                    self.assertEqual(refusal.body["error"]["param"], name.removesuffix("_from"))

    def test_what_they_return_is_400_where_it_is_of_no_use(self) -> None:
        returned = [
            ("amount", "5"),
            ("amount", float("nan")),
            ("amount", Decimal("sNaN")),
            ("domain", ["a.example"]),
            ("idempotency_key", 5),
            ("context", "text"),
            ("context", [("a", 1)]),
            ("passport_from", b"token"),
        ]
        for name, value in returned:
            with self.subTest(name=name, value=value):
                refusal = self.refusal(**{name: lambda _, value=value: value})
                self.assertEqual(refusal.status, 400)
                self.assertEqual(refusal.body["error"]["param"], name.removesuffix("_from"))


class Ours(unittest.TestCase):
    def test_troubles_of_the_service_are_503(self) -> None:
        guard = Guard("http://127.0.0.1:8080", [])
        for reason, after_ms, seconds in (("quota_unavailable", None, "1"), ("state_stale", 2_500, "3")):
            retry = {"retryable": True, "after_ms": after_ms}
            decision: Any = {"decision": "BLOCK", "reason": reason, "detail": "", "retry": retry}
            refusal: Any = guard.verdict(route("POST", "/"), decision)
            self.assertEqual((refusal.status, refusal.headers), (503, {"retry-after": seconds}))
            self.assertEqual(refusal.body["reason"], reason)
        spent: Any = {"decision": "BLOCK", "reason": "spend_limit_exceeded", "retry": {"after_ms": 5}}
        self.assertEqual(guard.verdict(route("POST", "/"), spent).status, 403)  # type: ignore[union-attr]


class Unsendable(unittest.TestCase):
    """What Python reads as JSON and nobody can write as JSON is a fault of the agent, not of the program."""

    options: Any = {
        "control_plane_url": "http://127.0.0.1:8080",
        "routes": [route("POST", "/orders", context=lambda request: {"sent": request.json})],
    }
    bodies = (b'{"a":1e999}', b'{"a":NaN}', b'{"a":' * 400 + b"-Infinity" + b"}" * 400)

    def test_with_wsgi(self) -> None:
        sidecar = Sidecar("http://127.0.0.1:1", KEY)
        guard = GuardWSGI(lambda *_: [], sidecar=sidecar, **self.options)
        for body in self.bodies:
            statuses: list[str] = []
            environ = {
                "REQUEST_METHOD": "POST",
                "PATH_INFO": "/orders",
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_X_AGENT_PASSPORT": "a",
                "wsgi.input": io.BytesIO(body),
            }
            guard(environ, lambda status, _: statuses.append(status))
            self.assertEqual(statuses, ["400 Bad Request"])

    def test_with_asgi(self) -> None:
        async def run(body: bytes) -> Any:
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": body}

            async def send(message: Any) -> None:
                sent.append(message)

            async with AsyncSidecar("http://127.0.0.1:1", KEY) as sidecar:
                guard = GuardASGI(None, sidecar=sidecar, **self.options)  # type: ignore[arg-type]
                headers = [(b"x-agent-passport", b"a")]
                scope = {"type": "http", "method": "POST", "path": "/orders", "headers": headers}
                await guard(scope, receive, send)
            return sent[0]["status"]

        for body in self.bodies:
            self.assertEqual(asyncio.run(run(body)), 400)


class Asgi(unittest.TestCase):
    def ask(self, *messages: Any, **scope: Any) -> tuple[list[Any], list[Any]]:
        passed: list[Any] = []
        sent: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            passed.append((scope, await receive(), await receive()))

        async def send(message: Any) -> None:
            sent.append(message)

        waiting = [*messages, {"type": "http.disconnect"}]

        async def receive() -> Any:
            return waiting.pop(0)

        async def run() -> None:
            async with AsyncFixed("http://127.0.0.1:1", KEY) as self.sidecar:
                self.sidecar.asked = []
                guard = GuardASGI(
                    app,
                    sidecar=self.sidecar,
                    control_plane_url="http://127.0.0.1:8080",
                    routes=ROUTES,
                    body_bytes_max=100,
                )
                base = {"type": "http", "method": "POST", "path": "/orders", "headers": []}
                await guard({**base, "query_string": b"", **scope}, receive, send)

        asyncio.run(run())
        return sent, passed

    passport = (b"x-agent-passport", b"a")

    def part(self, body: bytes, more: bool = False) -> Any:
        return {"type": "http.request", "body": body, "more_body": more}

    def test_the_body_reaches_the_question_and_the_program_in_one_piece(self) -> None:
        parts = [self.part(b'{"amo', True), self.part(b'unt":5}')]
        _, [(scope, first, second)] = self.ask(*parts, headers=[self.passport], state={"own": 1})
        self.assertEqual(first, self.part(b'{"amount":5}'))
        self.assertEqual(second, {"type": "http.disconnect"})
        self.assertEqual(scope["state"], {"own": 1, "agent_trust": PERMIT})
        self.assertEqual(self.sidecar.asked[0][1]["amount"], 5)

    def test_the_trace_of_the_request_is_that_of_the_check(self) -> None:
        order = self.part(b'{"amount":5}')
        self.ask(order, headers=[self.passport, (b"traceparent", b"00-a"), (b"tracestate", b"a=1")])
        self.assertEqual(self.sidecar.options["traceparent"], "00-a")
        self.assertEqual(self.sidecar.options["tracestate"], "a=1")
        self.ask(order, headers=[self.passport])
        self.assertIsNone(self.sidecar.options["traceparent"])

    def test_what_a_client_says_of_itself_does_not_reach_the_program(self) -> None:
        forged = [(b"X-Gate-Decision", b"PERMIT"), (b"x_gate_reason", b""), (b"x-passport-id", b"pass_1")]
        forged += [(b"x-http-method-override", b"PUT"), (b"x_method_override", b"PUT")]
        forged += [(b"x-http-method", b"")]
        kept = (b"x-gateway", b"1")
        headers = [*forged, kept, self.passport]
        _, [(scope, _, _)] = self.ask(self.part(b'{"amount":5}'), headers=headers)
        self.assertEqual(scope["headers"], [kept, self.passport])
        _, [(scope, _, _)] = self.ask(
            self.part(b""), method="GET", path="/open", headers=headers, state={"agent_trust": "forged"}
        )
        self.assertEqual((scope["headers"], scope["state"]), ([kept, self.passport], {}))

    def test_what_never_reaches_the_program(self) -> None:
        big = [self.part(b"x" * 60, True), self.part(b"x" * 60)]
        other = (b"x-agent-passport", b"b")
        table: list[tuple[int, list[Any], dict[str, Any]]] = [
            (413, big, {"headers": [self.passport]}),
            (401, [], {}),
            (401, [], {"headers": [self.passport, other]}),
            (401, [], {"headers": [self.passport, (b"authorization", b"Passport b")]}),
            (403, [], {"path": "/other"}),
            (403, [], {"path": "/orders/a/b", "raw_path": b"/orders/a%2fb", "method": "GET"}),
            (400, [self.part(b"{}")], {"headers": [self.passport]}),
        ]
        for status, messages, scope in table:
            with self.subTest(status=status, scope=scope):
                sent, passed = self.ask(*messages, **scope)
                self.assertEqual((sent[0]["status"], passed, self.sidecar.asked), (status, [], []))

    def test_an_approval_is_bound_to_what_the_bytes_are_read_as(self) -> None:
        message = {"type": "http.request", "body": b'{"amount":5}'}
        asked = []
        for others in (
            [(b"content-type", b"application/json")],
            [(b"content-type", b"multipart/form-data; boundary=A")],
            [(b"content-type", b"multipart/form-data; boundary=B")],
            [(b"content-type", b"application/json"), (b"content-encoding", b"br")],
            [],
        ):
            sent, _ = self.ask(message, headers=[self.passport, *others])
            asked.append(repr(self.sidecar.asked[0][1]))
        self.assertEqual(len(set(asked)), len(asked))

    def test_a_client_that_goes_away_gets_nothing_and_costs_nothing(self) -> None:
        sent, passed = self.ask(self.part(b'{"amount":5', True), headers=[self.passport])
        self.assertEqual((sent, passed, self.sidecar.asked), ([], [], []))

    def test_websockets_are_refused(self) -> None:
        sent, passed = self.ask(type="websocket", path="/open")
        self.assertEqual((sent, passed), ([{"type": "websocket.close", "code": 1008}], []))

    def test_takes_no_sidecar_that_would_stop_the_event_loop(self) -> None:
        sidecar: Any = Sidecar("http://127.0.0.1:1", KEY)
        with self.assertRaises(TypeError):
            GuardASGI(None, sidecar=sidecar, control_plane_url="http://a", routes=[])  # type: ignore


if __name__ == "__main__":
    unittest.main()
