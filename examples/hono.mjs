import { Sidecar } from '@agent-trust/node';
import { honoGuard } from '@agent-trust/node/hono';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';

const { AGENT_TRUST_API_KEY = '', GATE_ID = '', PORT = '3000' } = process.env;
const { SIDECAR_URL = 'http://127.0.0.1:8090', CONTROL_PLANE_URL = 'http://127.0.0.1:8080' } = process.env;

const sidecar = new Sidecar({ url: SIDECAR_URL, apiKey: AGENT_TRUST_API_KEY });
const guard = honoGuard({ sidecar, controlPlaneUrl: CONTROL_PLANE_URL });

const app = new Hono();
const buy = guard({ gate: GATE_ID, permission: 'orders:create', amount: ({ body }) => body.amount });
app.post('/orders', buy, async (c) => {
  const { item } = await c.req.json();
  return c.json({ ordered: item, record: c.get('agentTrust').attestation_id }, 201);
});
const address = { fetch: app.fetch, port: Number(PORT), hostname: '127.0.0.1' };
serve(address, () => console.log(`listening on ${PORT}`));
