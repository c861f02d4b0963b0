import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import type { Cap } from '../race/caps.ts';
import { startNaiveGates } from '../race/naive.ts';
import { call } from '../support/http-client.ts';
import { ownRedis } from '../support/redis.ts';
import { sharedService } from '../support/shared-services.ts';

it('a naive gate outlives a client that leaves in the middle of its request', async () => {
  // Without caps it asks nobody.
  const gates = await startNaiveGates(1, { redisUrl: 'redis://127.0.0.1:1', caps: [], isAtomic: false });
  onTestFinished(() => gates.stop());
  const [origin = ''] = gates.origins;
  const check = () => call(`${origin}/v1/gates/gate_1/check`, { body: { passport: 'pass_1', request: {} } });
  expect((await check()).body.decision).toBe('PERMIT');

  const socket = connect(Number(new URL(origin).port), '127.0.0.1');
  await once(socket, 'connect');
  const head = 'POST /v1/gates/gate_1/check HTTP/1.1\r\nhost: gate\r\ncontent-length: 100\r\n\r\n{"passport"';
  await new Promise((resolve) => socket.write(head, resolve));
  // Answered after those bytes: they have been read by then.
  expect((await check()).body.decision).toBe('PERMIT');
  socket.resetAndDestroy();
  await once(socket, 'close');
  for (let n = 0; n < 10; n++) expect((await check()).body.decision).toBe('PERMIT');
});

it('a naive gate that has ended is noticed', async () => {
  const gates = await startNaiveGates(1, { redisUrl: 'redis://127.0.0.1:1', caps: [], isAtomic: false });
  for (const gate of gates.processes) {
    gate.kill('SIGKILL');
    await once(gate, 'exit');
  }
  await expect(gates.stop()).rejects.toThrow('a naive gate ended by itself: SIGKILL');
});

it('naive gates count each cap for itself, also where two have one name', async () => {
  const redis = await ownRedis(await sharedService('redis-server'));
  onTestFinished(() => redis.stop());
  const capOf = (gateId: string): Cap => ({
    name: 'requests of a gate',
    kind: 'gate_rate',
    window: 'day',
    limit: 1,
    gateId,
    passportId: null,
  });
  const gates = await startNaiveGates(1, {
    redisUrl: redis.url,
    caps: [capOf('gate_1'), capOf('gate_2')],
    isAtomic: false,
  });
  onTestFinished(() => gates.stop());
  const [origin = ''] = gates.origins;
  const check = async (gateId: string) =>
    (await call(`${origin}/v1/gates/${gateId}/check`, { body: { passport: 'pass_1', request: {} } })).body
      .decision;
  const told = [await check('gate_1'), await check('gate_1'), await check('gate_2'), await check('gate_2')];
  expect(told).toEqual(['PERMIT', 'BLOCK', 'PERMIT', 'BLOCK']);
});
