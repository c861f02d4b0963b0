import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A service with the decisions in its own process. EMBEDDED: the `agent-trust/embedded` of any build.
 * `GET /run?seconds=S` asks for decisions with IN_FLIGHT calls under way, a closed loop, and answers
 * `{ decisions, seconds }`; 500 where one was no PERMIT. `/metrics` is that of a sidecar.
 */
const { EMBEDDED = '', CONTROL_PLANE_URL = '', SIDECAR_API_KEY = '', DATA_DIR = '' } = process.env;
const { GATE_ID = '', PASSPORT = '', REQUEST = '', IN_FLIGHT = '' } = process.env;
const request = JSON.parse(REQUEST);

type Embedded = typeof import('../../sidecar/embedded/start-embedded.ts');

const { startEmbedded } = (await import(EMBEDDED)) as Embedded;
const trust = await startEmbedded({
  controlPlaneUrl: CONTROL_PLANE_URL,
  apiKey: SIDECAR_API_KEY,
  dataDir: DATA_DIR,
  logLevel: 'warn',
});

async function run(seconds: number): Promise<{ readonly decisions: number; readonly seconds: number }> {
  const startMs = performance.now();
  const endMs = startMs + seconds * 1_000;
  let decisions = 0;
  const caller = async (): Promise<void> => {
    while (performance.now() < endMs) {
      // As a service has it, which reads another one from each of its requests.
      const check = { gate: GATE_ID, passport: PASSPORT, request: { ...request } };
      const { decision } = await trust.check(check);
      if (decision !== 'PERMIT') throw new Error(`a decision was ${decision}`);
      decisions++;
    }
  };
  await Promise.all(Array.from({ length: Number(IN_FLIGHT) }, caller));
  return { decisions, seconds: (performance.now() - startMs) / 1_000 };
}

const server = createServer((incoming, response) => {
  const { pathname, searchParams } = new URL(incoming.url ?? '', 'http://127.0.0.1');
  const answer =
    pathname === '/metrics' ? trust.metrics() : run(Number(searchParams.get('seconds'))).then(JSON.stringify);
  answer.then(
    (text) => response.end(text),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});
server.listen(0, '127.0.0.1', () => console.log(`port ${(server.address() as AddressInfo).port}`));
process.once('SIGTERM', () => {
  void trust.stop().then(() => process.exit(0));
});
