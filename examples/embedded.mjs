import { expressGuard } from '@agent-trust/node/express';
import { startEmbedded } from 'agent-trust/embedded';
import express from 'express';

const { SIDECAR_API_KEY = '', GATE_ID = '', DATA_DIR = '.data/orders', PORT = '3000' } = process.env;
const { CONTROL_PLANE_URL = 'http://127.0.0.1:8080' } = process.env;

const trust = await startEmbedded({
  controlPlaneUrl: CONTROL_PLANE_URL,
  apiKey: SIDECAR_API_KEY,
  dataDir: DATA_DIR,
});
const guard = expressGuard({ sidecar: trust, controlPlaneUrl: CONTROL_PLANE_URL });

const app = express();
app.use(express.json());
app.get('/readyz', (_req, res) => res.status(trust.isReady() ? 200 : 503).end());
const buy = guard({ gate: GATE_ID, permission: 'orders:create', amount: (req) => req.body.amount });
app.post('/orders', buy, (req, res) => {
  res.status(201).json({ ordered: req.body.item, record: req.agentTrust.attestation_id });
});
const server = app.listen(Number(PORT), '127.0.0.1', () => console.log(`listening on ${PORT}`));
process.once('SIGTERM', () => server.close(() => trust.stop()));
