import os
from typing import Any

import uvicorn
from agent_trust import AsyncSidecar, GuardASGI, GuardRoute, OpenRoute
from fastapi import FastAPI, Request

sidecar = AsyncSidecar(
    os.environ.get("SIDECAR_URL", "http://127.0.0.1:8090"),
    os.environ["AGENT_TRUST_API_KEY"],
    deadline_ms=float(os.environ.get("DEADLINE_MS", "500")),
)
app = FastAPI()


@app.post("/orders", status_code=201)
async def order(request: Request, body: dict[str, Any]) -> dict[str, Any]:
    return {"ordered": body["item"], "record": request.state.agent_trust["attestation_id"]}


@app.get("/health")
async def health() -> dict[str, bool]:
    return {"ok": True}


gate = os.environ["GATE_ID"]
guarded = GuardASGI(
    app,
    sidecar=sidecar,
    control_plane_url=os.environ.get("CONTROL_PLANE_URL", "http://127.0.0.1:8080"),
    routes=[
        GuardRoute("POST", "/orders", gate, "orders:create", amount=lambda request: request.json["amount"]),
        OpenRoute("GET", "/health"),
    ],
)

if __name__ == "__main__":
    uvicorn.run(guarded, host="127.0.0.1", port=int(os.environ.get("PORT", "3000")))
