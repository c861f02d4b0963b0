import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import type { TestSidecar } from '../support/service/sidecar.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { makeWallet, moveToWallet, putWallet, setFrozen, walletOf } from '../support/service/wallets.ts';

const api = useApi(startOwnApi);
let stranger: string;
beforeAll(async () => {
  goToNoon(api);
  stranger = (await api.createAccount()).key;
});
const sidecars = [1, 2].map(() => useSidecar(() => ({ api, quotaWaitMs: 1_000 })));
const foreign = useSidecar(() => ({ api, quotaWaitMs: 1_000, accountKey: stranger }));
afterAll(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});

const all = () => [...sidecars, foreign];
const caughtUp = async () => {
  for (const sidecar of all()) await sidecar.caughtUp();
};
const at = (i: number) => sidecars[i % sidecars.length] as TestSidecar;
const buy = (amount: number, rest: object = {}) => ({ permission_key: 'orders:create', amount, ...rest });
/** The units are lent to another sidecar, and come back. */
const isForAMoment = ({ body }: Reply): boolean =>
  body.retry?.after_ms != null && body.retry.after_ms <= limits.lentUnitsMsMax;
const ask = (sidecar: TestSidecar, gateId: string, jwt: string, request: object): Promise<Reply> =>
  untilAnswer(
    () => sidecar.check(gateId, jwt, request, sidecar === foreign ? stranger : api.adminKey),
    (reply) => !isPassing(reply) && !isForAMoment(reply),
    { what: 'an answer that stays' },
  );

async function newGate(): Promise<string> {
  const { gate_id: gateId } = await api.createGate();
  await caughtUp();
  return gateId;
}

/** Once every record has arrived. */
const settled = (id: string, limit: string, used: number) =>
  until(
    async () => {
      const now = (await walletOf(api, id)).usage[limit];
      return now.used === used && now.leased === 0;
    },
    { what: `${used} used of ${limit} and nothing leased` },
  );

describe('wallets at sidecars', () => {
  it('are met to the cent over two sidecars by many passports', async () => {
    const root = await makeWallet(api, { limits: { daily_usd: 40 } });
    const share = await makeWallet(api, {
      parent_wallet_id: root.wallet_id,
      limits: { daily_usd: 15 },
      share: 'reserved',
    });
    const gateId = await newGate();
    const pots = await Promise.all([1, 2, 3, 4].map(() => api.issuePassport({ wallet_id: root.wallet_id })));
    const owner = await api.issuePassport({ wallet_id: share.wallet_id });
    const replies = await Promise.all(
      Array.from({ length: 80 }, (_, i) =>
        ask(at(i), gateId, (i % 2 === 0 ? pots[i % 4] : owner).jwt, buy(1, { n: i })),
      ),
    );
    const permits = (of: number) =>
      replies.filter(({ body }, i) => i % 2 === of && body.decision === 'PERMIT').length;
    expect([permits(0), permits(1)]).toEqual([25, 15]);
    const block = replies.find(({ body }, i) => i % 2 === 0 && body.decision === 'BLOCK')?.body;
    expect(block).toMatchObject({ reason: 'wallet_limit_exceeded', wallet_id: root.wallet_id, limit: 25 });
    await settled(root.wallet_id, 'daily_usd', 40);
    await settled(share.wallet_id, 'daily_usd', 15);
  });

  it('bind a passport that came into one after it was issued', async () => {
    const wallet = await makeWallet(api, { limits: { total_usd: 5 } });
    const gateId = await newGate();
    const passport = await api.issuePassport();
    expect((await ask(at(0), gateId, passport.jwt, buy(9))).body.decision).toBe('PERMIT');
    await moveToWallet(api, passport.passport_id, wallet.wallet_id);
    await caughtUp();
    expect((await ask(at(0), gateId, passport.jwt, buy(9))).body.reason).toBe('wallet_limit_exceeded');
    expect((await ask(at(1), gateId, passport.jwt, buy(5))).body.decision).toBe('PERMIT');
    await settled(wallet.wallet_id, 'total_usd', 5);
    await moveToWallet(api, passport.passport_id, null);
    await caughtUp();
    expect((await ask(at(0), gateId, passport.jwt, buy(9))).body.decision).toBe('PERMIT');
  });

  it('freeze and go on, and are moved', async () => {
    const root = await makeWallet(api, {});
    const leaf = await makeWallet(api, { parent_wallet_id: root.wallet_id, limits: { daily_usd: 100 } });
    const other = await makeWallet(api, { limits: { daily_usd: 2 } });
    const gateId = await newGate();
    const { jwt } = await api.issuePassport({ wallet_id: leaf.wallet_id });
    for (let i = 0; i < 3; i++)
      expect((await ask(at(i), gateId, jwt, buy(1, { i }))).body.decision).toBe('PERMIT');
    await setFrozen(api, root.wallet_id, 'freeze');
    await caughtUp();
    for (let i = 0; i < 3; i++)
      expect((await ask(at(i), gateId, jwt, buy(1))).body.reason).toBe('wallet_frozen');
    await setFrozen(api, root.wallet_id, 'unfreeze');
    await caughtUp();
    expect((await ask(at(1), gateId, jwt, buy(1))).body.decision).toBe('PERMIT');
    await putWallet(api, leaf.wallet_id, { parent_wallet_id: other.wallet_id });
    await caughtUp();
    const moved = await Promise.all([0, 1, 2, 3].map((i) => ask(at(i), gateId, jwt, buy(1, { m: i }))));
    expect(moved.filter(({ body }) => body.decision === 'PERMIT')).toHaveLength(2);
    await settled(other.wallet_id, 'daily_usd', 2);
    await settled(leaf.wallet_id, 'daily_usd', 6);
  });

  it('hold what waits for a person at a sidecar, in each wallet, and give it back', async () => {
    const root = await makeWallet(api, { limits: { daily_usd: 20 } });
    const share = await makeWallet(api, {
      parent_wallet_id: root.wallet_id,
      limits: { daily_usd: 15, total_usd: 30 },
      share: 'reserved',
    });
    const approvals = { above_usd: 5 };
    const { gate_id: own } = await api.createGate({ constraints: { approvals } });
    const constraints = { approvals, trusted_issuers: ['*'] };
    const { gate_id: theirs } = await api.createGate({ constraints }, stranger);
    await caughtUp();
    const { jwt } = await api.issuePassport({ wallet_id: share.wallet_id });
    const heldIn = async ({ wallet_id: id }: Reply['body']) => (await walletOf(api, id)).usage.daily_usd.held;
    const asked: readonly (readonly [TestSidecar, string, string])[] = [
      [at(0), own, api.adminKey],
      [foreign, theirs, stranger],
    ];
    for (const [sidecar, gateId, key] of asked) {
      const { body } = await ask(sidecar, gateId, jwt, buy(6));
      expect(body).toMatchObject({ decision: 'SUSPEND' });
      expect([await heldIn(root), await heldIn(share)]).toEqual([6, 6]);
      const denied = await api.call({ url: `/v1/approvals/${body.approval_id}/deny`, key, body: {} });
      expect(denied.status).toBe(200);
      expect([await heldIn(root), await heldIn(share)]).toEqual([0, 0]);
    }
    const { body: kept } = await ask(at(0), own, jwt, buy(10));
    await api.call({ url: `/v1/approvals/${kept.approval_id}/approve`, body: {} });
    const used = await ask(at(1), own, jwt, buy(10, { approval_id: kept.approval_id }));
    expect(used.body).toMatchObject({ decision: 'PERMIT' });
    expect((await ask(at(0), own, jwt, buy(6))).body.reason).toBe('wallet_limit_exceeded');
    await settled(share.wallet_id, 'total_usd', 10);
    await settled(root.wallet_id, 'daily_usd', 10);
  });

  it('are enforced by a sidecar of strangers, which learns neither names nor numbers', async () => {
    const wallet = await makeWallet(api, { limits: { daily_usd: 6 } });
    const { gate_id: gateId } = await api.createGate({ constraints: { trusted_issuers: ['*'] } }, stranger);
    await caughtUp();
    const { jwt } = await api.issuePassport({ wallet_id: wallet.wallet_id });
    const replies = await Promise.all(
      Array.from({ length: 10 }, (_, i) => ask(foreign, gateId, jwt, buy(1, { n: i }))),
    );
    expect(replies.filter(({ body }) => body.decision === 'PERMIT')).toHaveLength(6);
    // What is final is answered so, under a key too, though this sidecar does not know the limit.
    const keyed = await ask(foreign, gateId, jwt, buy(1, { idempotency_key: 'final' }));
    expect(keyed.body).toMatchObject({ decision: 'BLOCK', reason: 'wallet_limit_exceeded' });
    const block = replies.find(({ body }) => body.decision === 'BLOCK')?.body;
    expect(block.reason).toBe('wallet_limit_exceeded');
    for (const name of ['limit', 'used', 'wallet_id', 'reset_at']) expect(block).not.toHaveProperty(name);
    await settled(wallet.wallet_id, 'daily_usd', 6);
  });

  it('say what is final under a key where a child has set aside what is used already', async () => {
    const root = await makeWallet(api, { limits: { daily_usd: 40 } });
    const child = await makeWallet(api, { parent_wallet_id: root.wallet_id, limits: { daily_usd: 20 } });
    const gateId = await newGate();
    const ofRoot = await api.issuePassport({ wallet_id: root.wallet_id });
    const ofChild = await api.issuePassport({ wallet_id: child.wallet_id });
    expect((await ask(at(0), gateId, ofRoot.jwt, buy(30))).body.decision).toBe('PERMIT');
    await settled(root.wallet_id, 'daily_usd', 30);
    await putWallet(api, child.wallet_id, { share: 'reserved' });
    await caughtUp();
    const request = buy(15, { idempotency_key: 'of the child' });
    const refusal = { decision: 'BLOCK', reason: 'wallet_limit_exceeded' };
    expect((await ask(at(0), gateId, ofChild.jwt, request)).body).toMatchObject(refusal);
    const atControlPlane = await api.call({
      url: `/v1/gates/${gateId}/check`,
      body: { passport: ofChild.jwt, request },
    });
    expect(atControlPlane.body).toMatchObject(refusal);
    expect((await ask(at(1), gateId, ofChild.jwt, buy(10, { idempotency_key: 'less' }))).body).toMatchObject({
      decision: 'PERMIT',
    });
  });
});
