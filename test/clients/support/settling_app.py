"""A program behind a guard with `settle`, for test/clients/python-outcomes.test.ts: `asgi` or `wsgi`."""

import asyncio
import os
import signal
import sys
import time
from wsgiref.simple_server import make_server

from agent_trust import AsyncSidecar, GuardASGI, GuardRoute, GuardWSGI, Settlement, Sidecar

KEY, ORIGIN, GATE = os.environ["KEY"], os.environ["SIDECAR_URL"], os.environ["GATE_ID"]
LEFT = os.environ.get("CLIENT_LEFT", "served")


def spent(request, answer):
    cost = answer.header("x-cost")
    return None if cost is None else float(cost)


ROUTES = [
    GuardRoute(
        "GET",
        "/{what}",
        GATE,
        "orders:create",
        amount=5,
        settle=Settlement(expires_in_s=60, amount=spent, client_left=LEFT),
    )
]


def own(error):
    print(f"not reported: {error}", file=sys.stderr, flush=True)


OPTIONS = {"control_plane_url": "http://127.0.0.1:8080", "routes": ROUTES, "on_report_error": own}


def headers_of(decision, what):
    headers = [("x-permit", decision["attestation_id"])]
    costs = {"ok": "1.5", "odd": "nan"}
    return headers + ([("x-cost", costs[what])] if what in costs else [])


def act(what):
    if what == "throws":
        raise RuntimeError("out of chairs")
    if what == "dies":
        os.kill(os.getpid(), signal.SIGKILL)


def wsgi():
    from flask import Flask, Response, request

    app = Flask("settling")

    @app.get("/<what>")
    def handle(what):
        act(what)

        def chunks():
            yield b"x"
            while what == "hangs":
                time.sleep(0.01)
                yield b"x" * 65_536

        headers = headers_of(request.environ["agent_trust"], what)
        return Response(chunks(), 502 if what == "fails" else 200, headers)

    app.config["PROPAGATE_EXCEPTIONS"] = True
    sidecar = Sidecar(ORIGIN, KEY, deadline_ms=60_000)
    server = make_server("127.0.0.1", int(os.environ["PORT"]), GuardWSGI(app, sidecar=sidecar, **OPTIONS))
    server.serve_forever()


def asgi():
    import uvicorn
    from fastapi import FastAPI, Request
    from fastapi.responses import StreamingResponse

    app = FastAPI()

    @app.get("/{what}")
    async def handle(what: str, request: Request):
        act(what)

        async def chunks():
            yield b"x"
            if what == "hangs":
                await asyncio.Event().wait()

        headers = dict(headers_of(request.state.agent_trust, what))
        return StreamingResponse(chunks(), 502 if what == "fails" else 200, headers)

    sidecar = AsyncSidecar(ORIGIN, KEY, deadline_ms=60_000)
    guarded = GuardASGI(app, sidecar=sidecar, **OPTIONS)
    uvicorn.run(guarded, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")


{"asgi": asgi, "wsgi": wsgi}[sys.argv[1]]()
