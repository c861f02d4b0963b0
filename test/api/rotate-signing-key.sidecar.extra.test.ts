import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { KeyPurpose } from '../../shared/model/signing-key.ts';
import { feedChannel, globalFeed } from '../../shared/wire/sync/sync.ts';
import { signChange } from '../../shared/wire/sync/sync-signature.ts';
import { expectWithin, timeUntil } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { startTestSidecar, type TestSidecar, type TestSidecarOptions } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let gate: Reply['body'];
beforeAll(async () => {
  gate = await api.createGate();
});

const start = async (options: Omit<TestSidecarOptions, 'api'> = {}): Promise<TestSidecar> => {
  const sidecar = await startTestSidecar({ api, ...options });
  if (options.isCutOff !== true) await sidecar.caughtUp();
  return sidecar;
};
const rotate = async (purpose: KeyPurpose, compromised = false): Promise<Reply['body']> => {
  const { status, body } = await api.call({ url: '/v1/signing-keys/rotate', body: { purpose, compromised } });
  expect(status).toBe(201);
  return body;
};
/** No earlier rotation is in progress, and the sidecar knows the time. */
const pass = (sidecar: TestSidecar) => {
  api.advance(limits.signingKeyLeadMs);
  return sidecar.caughtUp();
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
  const sidecar = useSidecar(() => ({ api, ...(bus === undefined ? {} : { bus }) }));

  it('permits passports of the old and of the new key after an ordinary rotation', async () => {
    await pass(sidecar);
    const old = await api.issuePassport();
    await rotate('passport');
    await pass(sidecar);
    const fresh = await api.issuePassport();
    for (const passport of [old, fresh])
      expect(await check(sidecar, passport)).toMatchObject({ decision: 'PERMIT' });
  });

  it(`blocks every passport of a compromised key within ${boundMs} ms, also cached ones, and permits new ones`, async () => {
    const isBlocked = async (passport: Reply['body']) =>
      (await check(sidecar, passport)).reason === 'passport_unknown_key';
    let known: Reply['body'];
    let unknown: Reply['body'];
    await expectWithin(boundMs, 'what it knew is blocked', async () => {
      await pass(sidecar);
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

describe('a rotation of the key of the feeds themselves', () => {
  let first: TestSidecar;
  let sidecar: TestSidecar;
  beforeEach(async () => {
    api.advance(limits.signingKeyLeadMs);
    first = await start();
    sidecar = first;
  });
  afterEach(async () => {
    await sidecar.close();
    for (const each of new Set([first, sidecar])) each.removeFolder();
  });

  it.each([{ compromised: false }, { compromised: true }])(
    'carries over to a sidecar that follows, to its next start, and to one that was away: $compromised',
    async ({ compromised }) => {
      const rotateSync = async () => {
        const { kid } = await rotate('sync', compromised);
        api.advance(limits.signingKeyLeadMs);
        expect(api.deps.signingKeys.current('sync').kid).toBe(kid);
        return kid;
      };
      const revoked: Reply['body'][] = [];
      const expectRevoked = async () => {
        for (const passport of revoked)
          expect(await check(sidecar, passport)).toMatchObject({ reason: 'passport_revoked' });
        await until(async () => (await lastProblem(sidecar)) === null, { what: 'no problem is left' });
      };
      const kid = await rotateSync();
      const other = await api.issuePassport();
      revoked.push(await api.issuePassport());
      await revoke(revoked[0]);
      await sidecar.caughtUp();
      await expectRevoked();
      const [change] = await api.deps.sql`
        SELECT signing_key_id FROM changes WHERE feed_id = 'global' ORDER BY revision DESC LIMIT 1`;
      expect(change?.['signing_key_id']).toBe(kid);

      // The state on disk is accepted without the control plane.
      const file = join(first.folder, 'snapshot.json');
      // The first one is written a while after the start.
      const signedBy = () =>
        existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).signatures[0].signing_key_id;
      if (compromised) await until(() => signedBy() === kid, { what: 'a snapshot by the new key on disk' });
      await sidecar.close();
      sidecar = await start({ folder: first.folder, isCutOff: true });
      await until(async () => (await check(sidecar, other)).decision === 'PERMIT', {
        what: 'a decision on the last known state',
      });
      sidecar.resume();
      await sidecar.caughtUp();
      await expectRevoked();

      // The old key has signed the new one, so that it reaches who was offline meanwhile.
      await sidecar.close();
      await rotateSync();
      await revoke(other);
      revoked.push(other);
      sidecar = await start({ folder: first.folder });
      await expectRevoked();
    },
  );

  it('has it accept no change that is signed with a compromised key', async () => {
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
});
