import { createServer } from 'node:http';
import { Sidecar } from '@agent-trust/node';
import { httpGuard } from '@agent-trust/node/http';

const { AGENT_TRUST_API_KEY = '', GATE_ID = '', PORT = '3000' } = process.env;
const { SIDECAR_URL = 'http://127.0.0.1:8090', CONTROL_PLANE_URL = 'http://127.0.0.1:8080' } = process.env;

// Each check is a frame over one WebSocket.
const sidecar = new Sidecar({ url: SIDECAR_URL, apiKey: AGENT_TRUST_API_KEY, transport: 'stream' });
const guard = httpGuard({ sidecar, controlPlaneUrl: CONTROL_PLANE_URL });

const amount = (request) => Number(new URL(request.url, 'http://localhost').searchParams.get('amount'));
const buy = guard({ gate: GATE_ID, permission: 'orders:create', amount }, (request, response) => {
  const item = new URL(request.url, 'http://localhost').searchParams.get('item');
  response.writeHead(201, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ ordered: item, record: request.agentTrust.attestation_id }));
});
createServer(buy).listen(Number(PORT), '127.0.0.1', () => console.log(`listening on ${PORT}`));
