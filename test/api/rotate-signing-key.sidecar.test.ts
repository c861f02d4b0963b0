import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { KeyPurpose } from '../../shared/model/signing-key.ts';
import { feedChannel, globalFeed } from '../../shared/wire/sync.ts';
import { signChange } from '../../shared/wire/sync-signature.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { startTestSidecar, type TestSidecar, type TestSidecarOptions } from '../support/sidecar.ts';
import { expectWithin, timeUntil } from '../support/time-promise.ts';
import { until } from '../support/until.ts';

let api: Api;
let sidecars: TestSidecar[];
let gate: Reply['body'];
beforeEach(async () => {
  api = await startApi();
  sidecars = [];
  gate = await api.createGate();
});
afterEach(async () => {
  for (const sidecar of sidecars) await sidecar.close();
  for (const sidecar of sidecars) sidecar.removeFolder();
  await api.close();
});

async function start(options: Omit<TestSidecarOptions, 'api'> = {}): Promise<TestSidecar> {
  const sidecar = await startTestSidecar({ api, ...options });
  sidecars.push(sidecar);
  await sidecar.caughtUp();
  return sidecar;
}
async function stop(sidecar: TestSidecar): Promise<string> {
  sidecars.splice(sidecars.indexOf(sidecar), 1);
  await sidecar.close();
  return sidecar.folder;
}
const rotate = async (purpose: KeyPurpose, compromised = false): Promise<Reply['body']> => {
  const { status, body } = await api.call({
    url: '/v1/signing-keys/rotate',
    body: { purpose, compromised },
  });
  expect(status).toBe(201);
  return body;
};
const check = async (sidecar: TestSidecar, passport: Reply['body']) =>
  (await sidecar.check(gate.gate_id, passport.jwt, { permission_key: 'orders:create' })).body;
const revoke = (passport: Reply['body']) =>
  api.call({ url: `/v1/passports/${passport.passport_id}/revoke`, body: {} });
const lastProblem = async (sidecar: TestSidecar) =>
  (await sidecar.call({ path: '/readyz', key: null })).body.control_plane.last_problem;

describe.each([
  { push: 'with a push', bus: undefined, boundMs: 100 },
  { push: 'with long polls', bus: null, boundMs: 2_000 },
])('a sidecar that follows $push', ({ bus, boundMs }) => {
  const follow = () => start(bus === undefined ? {} : { bus });

  it('permits passports of the old and of the new key after an ordinary rotation', async () => {
    const sidecar = await follow();
    const old = await api.issuePassport();
    await rotate('passport');
    api.advance(limits.signingKeyLeadMs);
    const fresh = await api.issuePassport();
    await sidecar.caughtUp();
    for (const passport of [old, fresh]) {
      expect(await check(sidecar, passport)).toMatchObject({ decision: 'PERMIT' });
    }
  });

  it(`blocks every passport of a compromised key within ${boundMs} ms, also cached ones, and permits new ones`, async () => {
    const sidecar = await follow();
    const isBlocked = async (passport: Reply['body']) =>
      (await check(sidecar, passport)).reason === 'passport_unknown_key';
    let known: Reply['body'];
    let unknown: Reply['body'];
    await expectWithin(boundMs, 'what it knew is blocked', async () => {
      [known, unknown] = [await api.issuePassport(), await api.issuePassport()];
      for (let i = 0; i < 2; i++) expect(await check(sidecar, known)).toMatchObject({ decision: 'PERMIT' });
      await rotate('passport', true);
      return timeUntil(() => isBlocked(known), 'a block of what it knew');
    });
    expect(await isBlocked(unknown)).toBe(true);
    const blocked = await check(sidecar, known);
    const url = `/v1/attestations/${blocked.attestation_id}`;
    await until(async () => (await api.call({ url })).status === 200, { what: 'the record' });
    expect((await api.call({ url })).body).toMatchObject({ chain_id: gate.gate_id, passport_id: null });
    expect(await check(sidecar, await api.issuePassport())).toMatchObject({ decision: 'PERMIT' });
  });
});

describe.each([{ compromised: false }, { compromised: true }])(
  'a rotation of the key of the feeds themselves, $compromised',
  ({ compromised }) => {
    const rotateSync = async () => {
      const { kid } = await rotate('sync', compromised);
      if (!compromised) api.advance(limits.signingKeyLeadMs);
      expect(api.deps.signingKeys.current('sync').kid).toBe(kid);
      return kid;
    };

    it('carries over to a sidecar that follows, and to its next start', async () => {
      const sidecar = await start();
      const passport = await api.issuePassport();
      const kid = await rotateSync();
      await revoke(passport);
      await sidecar.caughtUp();
      expect(await check(sidecar, passport)).toMatchObject({ reason: 'passport_revoked' });
      expect(await lastProblem(sidecar)).toBeNull();
      const [change] = await api.deps.sql`
        SELECT signing_key_id FROM changes WHERE feed_id = 'global' ORDER BY revision DESC LIMIT 1`;
      expect(change?.['signing_key_id']).toBe(kid);
      const again = await start({ folder: await stop(sidecar) });
      expect(await check(again, passport)).toMatchObject({ reason: 'passport_revoked' });
      expect(await lastProblem(again)).toBeNull();
    });

    it('reaches a sidecar that was offline meanwhile, because the old key signed the new one', async () => {
      const folder = await stop(await start());
      const passport = await api.issuePassport();
      await rotateSync();
      await revoke(passport);
      const again = await start({ folder });
      expect(await check(again, passport)).toMatchObject({ reason: 'passport_revoked' });
      await until(async () => (await lastProblem(again)) === null, { what: 'no problem is left' });
    });

    it('leaves a state on disk that the next start accepts without the control plane', async () => {
      const sidecar = await start();
      const passport = await api.issuePassport();
      const kid = await rotateSync();
      await sidecar.caughtUp();
      const file = join(sidecar.folder, 'snapshot.json');
      // The first one is written a while after the start.
      const signedBy = () =>
        existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).signatures[0].signing_key_id;
      if (compromised) await until(() => signedBy() === kid, { what: 'a snapshot by the new key on disk' });
      const again = await startTestSidecar({ api, folder: await stop(sidecar), isCutOff: true });
      sidecars.push(again);
      await until(async () => (await check(again, passport)).decision === 'PERMIT', {
        what: 'a decision on the last known state',
      });
    });
  },
);

it('a sidecar accepts no change that is signed with a compromised key of the feeds', async () => {
  const sidecar = await start();
  const passport = await api.issuePassport();
  const stolen = api.deps.signingKeys.current('sync');
  await rotate('sync', true);
  await sidecar.caughtUp();
  const [head] = await api.deps.sql<{ revision: number; signature: string }[]>`
    SELECT revision, signature FROM changes WHERE feed_id = ${globalFeed} ORDER BY revision DESC LIMIT 1`;
  const push = (key: typeof stolen) => {
    const body = {
      passport: idDigest(passport.passport_id),
      standing: 'revoked',
      expired_by_day: null,
    } as const;
    const { revision, signature } = must(head, 'the feed has entries');
    const place = { feedId: globalFeed, revision: revision + 1, previous: signature } as const;
    const entry = signChange(key, place, { kind: 'passport.standing', body });
    api.deps.bus.publish(feedChannel(globalFeed), JSON.stringify(entry));
  };
  push(stolen);
  expect(await check(sidecar, passport)).toMatchObject({ decision: 'PERMIT' });
  // The same by the key that took over is believed: nothing else was wrong with it.
  push(api.deps.signingKeys.current('sync'));
  expect(await check(sidecar, passport)).toMatchObject({ reason: 'passport_revoked' });
});
