import { Sidecar } from '@agent-trust/node';
import { expressGuard } from '@agent-trust/node/express';
import express from 'express';

const { AGENT_TRUST_API_KEY = '', GATE_ID = '', PORT = '3000' } = process.env;
const { SIDECAR_URL = 'http://127.0.0.1:8090', CONTROL_PLANE_URL = 'http://127.0.0.1:8080' } = process.env;

const sidecar = new Sidecar({ url: SIDECAR_URL, apiKey: AGENT_TRUST_API_KEY });
const guard = expressGuard({ sidecar, controlPlaneUrl: CONTROL_PLANE_URL });

const app = express();
app.use(express.json());
const buy = guard({ gate: GATE_ID, permission: 'orders:create', amount: (req) => req.body.amount });
app.post('/orders', buy, (req, res) => {
  res.status(201).json({ ordered: req.body.item, record: req.agentTrust.attestation_id });
});
app.listen(Number(PORT), '127.0.0.1', () => console.log(`listening on ${PORT}`));
