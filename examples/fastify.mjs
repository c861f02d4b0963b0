import { Sidecar } from '@agent-trust/node';
import { fastifyGuard } from '@agent-trust/node/fastify';
import fastify from 'fastify';

const { AGENT_TRUST_API_KEY = '', GATE_ID = '', PORT = '3000' } = process.env;
const { SIDECAR_URL = 'http://127.0.0.1:8090', CONTROL_PLANE_URL = 'http://127.0.0.1:8080' } = process.env;

const sidecar = new Sidecar({ url: SIDECAR_URL, apiKey: AGENT_TRUST_API_KEY });
const guard = fastifyGuard({ sidecar, controlPlaneUrl: CONTROL_PLANE_URL });

const app = fastify();
const buy = guard({ gate: GATE_ID, permission: 'orders:create', amount: (request) => request.body.amount });
app.post('/orders', { preHandler: buy }, async (request, reply) => {
  reply.code(201);
  return { ordered: request.body.item, record: request.agentTrust.attestation_id };
});
await app.listen({ port: Number(PORT), host: '127.0.0.1' });
console.log(`listening on ${PORT}`);
