import os
from typing import Any
from wsgiref.simple_server import make_server

from agent_trust import GuardRoute, GuardWSGI, OpenRoute, Sidecar
from flask import Flask, request

sidecar = Sidecar(
    os.environ.get("SIDECAR_URL", "http://127.0.0.1:8090"),
    os.environ["AGENT_TRUST_API_KEY"],
    deadline_ms=float(os.environ.get("DEADLINE_MS", "500")),
)
app = Flask(__name__)


@app.post("/orders")
def order() -> tuple[dict[str, Any], int]:
    body = request.get_json(force=True)
    return {"ordered": body["item"], "record": request.environ["agent_trust"]["attestation_id"]}, 201


@app.get("/health")
def health() -> dict[str, bool]:
    return {"ok": True}


gate = os.environ["GATE_ID"]
guarded = GuardWSGI(
    app,
    sidecar=sidecar,
    control_plane_url=os.environ.get("CONTROL_PLANE_URL", "http://127.0.0.1:8080"),
    routes=[
        GuardRoute("POST", "/orders", gate, "orders:create", amount=lambda request: request.json["amount"]),
        OpenRoute("GET", "/health"),
    ],
)

if __name__ == "__main__":
    make_server("127.0.0.1", int(os.environ.get("PORT", "3000")), guarded).serve_forever()
