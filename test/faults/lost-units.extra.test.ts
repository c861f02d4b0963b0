import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { removeFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { type SidecarPair, startSidecarPair } from '../support/service/sidecar-pair.ts';

let pair: SidecarPair;
beforeAll(async () => {
  pair = await startSidecarPair();
});
afterAll(() => pair?.close());

const order = { permission_key: 'orders:create' };

it('units whose record a sidecar has lost are used: nothing waits for them, and none comes back', async () => {
  const { gateId, token } = await pair.setUp({ gate: { rate_limits: { requests_per_hour: 3 } } });
  const [losing] = pair.sidecars;
  expect((await pair.check(0, gateId, token, order)).body.decision).toBe('PERMIT');
  removeFolder(join(losing.folder, 'spool'));
  expect((await losing.check(gateId, token, order)).body.error.code).toBe('overloaded');
  await until(async () => (await losing.call({ path: '/readyz' })).status === 200, { what: 'a new spool' });
  // One unit is used, and one lost, unless the sidecar had noticed before that its folder was gone.
  let permits = 1;
  for (; ; permits++) {
    const { decision, reason } = (await pair.check(1, gateId, token, order)).body;
    if (decision === 'PERMIT') continue;
    expect(reason).toBe('rate_limit_exceeded');
    break;
  }
  expect(permits).toBeLessThanOrEqual(3);
  for (const i of [0, 1]) {
    const keyed = { ...order, idempotency_key: `key-${i}` };
    expect((await pair.check(i, gateId, token, keyed)).body.reason).toBe('rate_limit_exceeded');
  }
});
