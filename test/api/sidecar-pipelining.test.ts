import { afterEach, expect, it } from 'vitest';
import { nodeServer } from '../../sidecar/http/node-server.ts';
import { startApi } from '../support/api.ts';
import { RawConnection } from '../support/raw-http.ts';
import { adapters, request } from '../support/server-under-test.ts';
import { startTestSidecar } from '../support/sidecar.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** A sidecar on that server, and a client that has sent these `check` bodies in one packet. */
async function pipelined(
  adapter: (typeof adapters)[number],
  bodiesOf: (token: () => Promise<string>) => Promise<unknown[]>,
) {
  const api = await startApi();
  closing.push(() => api.close());
  const sidecar = await startTestSidecar({ api, adapter, quotaWaitMs: 10_000 });
  closing.push(() => sidecar.close());
  const { gate_id: gateId } = await api.createGate({
    constraints: { rate_limits: { requests_per_day: 100 } },
  });
  const bodies = await bodiesOf(async () => (await api.issuePassport()).jwt);
  await sidecar.caughtUp();
  const client = await RawConnection.open(Number(new URL(sidecar.origin).port));
  closing.push(() => client.leave());
  const texts = bodies.map((body) =>
    request(`POST /v1/gates/${gateId}/check`, {
      headers: [`Authorization: Bearer ${api.adminKey}`, 'Content-Type: application/json'],
      body: JSON.stringify(body),
    }),
  );
  await client.send(texts.join(''));
  return client;
}

const order = { permission_key: 'orders:create' };

it('answers pipelined requests in order on node:http while each waits for a worker and a lease', async () => {
  const client = await pipelined(nodeServer(null), async (token) => [
    { passport: await token(), request: order },
    { passport: await token(), request: { permission_key: 'orders:delete' } },
    { passport: await token(), request: order },
    { passport: 'no token', request: order },
  ]);
  const reasons: string[] = [];
  for (let count = 0; count < 4; count += 1) {
    const answer = await client.next();
    const { decision, reason } = JSON.parse(answer?.body ?? '{}');
    reasons.push(reason ?? decision);
  }
  expect(reasons).toEqual(['PERMIT', 'permission_not_granted', 'PERMIT', 'passport_malformed']);
});

it.each(adapters)('answers pipelined requests in order on $name where none is decided', async (adapter) => {
  const client = await pipelined(adapter, async () => [
    { request: order },
    { passport: 7 },
    { request: order },
  ]);
  for (let count = 0; count < 3; count += 1) expect((await client.next())?.status).toBe(400);
});
