import { createServer } from 'node:http';
import { Sidecar } from '@agent-trust/node';
import { httpGuard } from '@agent-trust/node/http';

const { AGENT_TRUST_API_KEY = '', GATE_ID = '', PORT = '3000' } = process.env;
const { SIDECAR_URL = 'http://127.0.0.1:8090', CONTROL_PLANE_URL = 'http://127.0.0.1:8080' } = process.env;

const sidecar = new Sidecar({ url: SIDECAR_URL, apiKey: AGENT_TRUST_API_KEY });
const guard = httpGuard({ sidecar, controlPlaneUrl: CONTROL_PLANE_URL });

/** `POST /orders?item=tea&amount=5`: the body has not been read when a guard asks. */
const queryOf = (request) => new URL(request.url, 'http://localhost').searchParams;
const amountOf = (request) => Number(queryOf(request).get('amount') ?? Number.NaN);

const buy = guard({ gate: GATE_ID, permission: 'orders:create', amount: amountOf }, (request, response) => {
  response.writeHead(201, { 'content-type': 'application/json' });
  const ordered = queryOf(request).get('item');
  response.end(JSON.stringify({ ordered, record: request.agentTrust.attestation_id }));
});
createServer(buy).listen(Number(PORT), '127.0.0.1', () => console.log(`listening on ${PORT}`));
