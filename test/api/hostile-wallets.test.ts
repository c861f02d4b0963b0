import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { limits } from '../../shared/model/limits.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { leaseHolder, ofPassport, wish } from '../support/service/lease-holder.ts';
import type { TestSidecar } from '../support/service/sidecar.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { makeWallet, moveToWallet, putWallet, setFrozen, walletOf } from '../support/service/wallets.ts';

/** Wallets, where sidecars are cut off, late, stopped or dead. */
const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));
/** The second one is told nothing by push, so that nothing reaches it while its link is cut. */
const sidecars = [
  useSidecar(() => ({ api, quotaWaitMs: 1_000 })),
  useSidecar(() => ({ api, quotaWaitMs: 1_000, bus: null })),
] as const;
afterAll(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});

const usd = 1_000_000;
const buy = (amount: number, rest: object = {}) => ({ permission_key: 'orders:create', amount, ...rest });
const caughtUp = async () => {
  for (const sidecar of sidecars) await sidecar.caughtUp();
};
const isForAMoment = ({ body }: Reply): boolean =>
  body.retry?.after_ms != null && body.retry.after_ms <= limits.lentUnitsMsMax;
/** An answer that stays: nothing has to be asked for, and nothing is only lent to another. */
const ask = (sidecar: TestSidecar, gateId: string, jwt: string, request: object): Promise<Reply> =>
  untilAnswer(
    () => sidecar.check(gateId, jwt, request),
    (reply) => !isPassing(reply) && !isForAMoment(reply),
    { what: 'an answer that stays' },
  );
async function newGate(): Promise<string> {
  const { gate_id: gateId } = await api.createGate({ trust_level: 'L1' });
  await caughtUp();
  return gateId;
}
/** What is used of its day, once nothing is leased any more. */
async function usedOf(id: string): Promise<number> {
  await until(async () => (await walletOf(api, id)).usage.daily_usd.leased === 0, {
    what: 'every unit back or on record',
  });
  return (await walletOf(api, id)).usage.daily_usd.used;
}
/** What the records of this day say that it has spent. */
async function stated(id: string): Promise<number> {
  const dayOf = (days: number) => new Date(api.deps.clock.now() + days * 86_400_000).toISOString();
  const url = `/v1/wallets/${id}/statement?since=${dayOf(-1)}&until=${dayOf(1)}`;
  return (await api.call({ url })).body.total_usd;
}
/** The record of a PERMIT, once the control plane has it. */
const recordOf = async (attestationId: string): Promise<Reply['body']> => {
  const read = () => api.call({ url: `/v1/attestations/${attestationId}` });
  return (await untilAnswer(read, ({ status }) => status === 200, { what: 'its record' })).body;
};
const poolOf = (id: string) => ({ wallet: `${idDigest(id)}:pot` });

it.each(['to another tree', 'below its wallet'])(
  'a passport that is moved while a sidecar is cut off %s draws on exactly one wallet and those above each time, and its record names that one',
  async (to) => {
    const one = await makeWallet(api, { limits: { daily_usd: 1_000 } });
    const parent = to === 'below its wallet' ? { parent_wallet_id: one.wallet_id } : {};
    const other = await makeWallet(api, { limits: { daily_usd: 1_000 }, ...parent });
    const gateId = await newGate();
    const { jwt, passport_id: id } = await api.issuePassport({ wallet_id: one.wallet_id });
    let spent = 0;
    const buyAt = async (sidecar: TestSidecar) => {
      const { body } = await sidecar.check(gateId, jwt, buy(0.25));
      if (body.decision === 'PERMIT') spent += 0.25;
    };
    for (const { wallet_id: next } of [other, one]) {
      for (const sidecar of sidecars) await buyAt(sidecar);
      // The second sidecar goes on by what it knew.
      sidecars[1].link.cut();
      await moveToWallet(api, id, next);
      await sidecars[0].caughtUp();
      for (const sidecar of sidecars) await buyAt(sidecar);
      sidecars[1].resume();
      await caughtUp();
    }
    const used = [await usedOf(one.wallet_id), await usedOf(other.wallet_id)];
    expect([await stated(one.wallet_id), await stated(other.wallet_id)]).toEqual(used);
    const [atOne = 0, atOther = 0] = used;
    expect(Math.min(atOne, atOther)).toBeGreaterThan(0);
    expect(to === 'below its wallet' ? atOne : atOne + atOther).toBe(spent);
  },
);

it('a passport that is moved twice before a sidecar hears of it was in no wallet for what it is permitted there, and no statement has it', async () => {
  const wallets = [
    await makeWallet(api, { limits: { daily_usd: 1_000 } }),
    await makeWallet(api, { limits: { daily_usd: 1_000 } }),
  ];
  const gateId = await newGate();
  const { jwt, passport_id: id } = await api.issuePassport();
  const [, cut] = sidecars;
  expect((await ask(cut, gateId, jwt, buy(1))).body.decision).toBe('PERMIT');
  let attestationId = '';
  cut.link.cut();
  try {
    for (const { wallet_id: next } of wallets) await moveToWallet(api, id, next);
    const { body } = await ask(cut, gateId, jwt, buy(2));
    expect(body.decision).toBe('PERMIT');
    attestationId = body.attestation_id;
  } finally {
    cut.resume();
  }
  const record = await recordOf(attestationId);
  expect(record).toMatchObject({
    decision: 'PERMIT',
    amount_micro_usd: 2_000_000,
    wallet_id: null,
    wallet_path: [],
  });
  for (const { wallet_id: each } of wallets) expect(await stated(each)).toBe(0);
});

it('a passport that is moved into a frozen wallet without limits before a sidecar hears of it takes from the one before, and its record names that one', async () => {
  // Without limits it needs no units while it is cut off, and took the same of both: nothing.
  const [before, frozen] = [await makeWallet(api, {}), await makeWallet(api, {})];
  await setFrozen(api, frozen.wallet_id, 'freeze');
  const gateId = await newGate();
  const { jwt, passport_id: id } = await api.issuePassport({ wallet_id: before.wallet_id });
  const [, cut] = sidecars;
  const first = await ask(cut, gateId, jwt, buy(1));
  expect(first.body.decision).toBe('PERMIT');
  let last = first;
  cut.link.cut();
  try {
    await moveToWallet(api, id, frozen.wallet_id);
    last = await ask(cut, gateId, jwt, buy(2));
    expect(last.body.decision).toBe('PERMIT');
  } finally {
    cut.resume();
  }
  for (const { body } of [first, last])
    expect(await recordOf(body.attestation_id)).toMatchObject({
      ...{ wallet_id: before.wallet_id, wallet_path: [idDigest(before.wallet_id)] },
    });
  expect(await stated(frozen.wallet_id)).toBe(0);
  expect(await stated(before.wallet_id)).toBe(3);
  await cut.caughtUp();
  expect((await ask(cut, gateId, jwt, buy(1))).body.reason).toBe('wallet_frozen');
});

describe('a sidecar that is cut off while its wallet', () => {
  it.each([
    ['is frozen', async (id: string) => void (await setFrozen(api, id, 'freeze'))],
    [
      'gets a lower limit',
      async (id: string) => void (await putWallet(api, id, { limits: { daily_usd: 1 } })),
    ],
    [
      'loses the passport, and is deleted',
      async (id: string, passportId: string) => {
        await moveToWallet(api, passportId, null);
        expect((await api.call({ method: 'DELETE', url: `/v1/wallets/${id}` })).status).toBe(200);
      },
    ],
  ] as const)('%s permits what it was leased, and then blocks', async (_what, change) => {
    const wallet = await makeWallet(api, { limits: { daily_usd: 100_000 } });
    const gateId = await newGate();
    const { jwt, passport_id: id } = await api.issuePassport({ wallet_id: wallet.wallet_id });
    const [, cut] = sidecars;
    for (let n = 0; n < 12; n++)
      expect((await ask(cut, gateId, jwt, buy(1, { n }))).body.decision).toBe('PERMIT');
    await until(async () => (await leasedAt(wallet.wallet_id)) > 0, { what: 'units that are left' });
    cut.link.cut();
    try {
      await change(wallet.wallet_id, id);
      const leased = await leasedAt(wallet.wallet_id);
      let permitted = 0;
      const last = await untilAnswer(
        async () => {
          const reply = await cut.check(gateId, jwt, buy(1, { m: permitted }));
          if (reply.body.decision === 'PERMIT') permitted++;
          return reply;
        },
        ({ body }) => body.decision !== 'PERMIT',
        { what: 'the end of its leases' },
      );
      expect(last.body).toMatchObject({ decision: 'BLOCK', reason: 'quota_unavailable' });
      expect(permitted).toBeGreaterThan(0);
      expect(permitted * usd).toBeLessThanOrEqual(leased);
    } finally {
      cut.resume();
    }
    await cut.caughtUp();
    // It has shipped its PERMITs, all of which were leased.
    await until(async () => (await leasedAt(wallet.wallet_id)) === 0, { what: 'every unit back' });
  });

  /** Micro-USD that holders have of a wallet, in leases that no record has used. */
  async function leasedAt(id: string): Promise<number> {
    const [row] = await api.deps.sql<{ units: number }[]>`
      SELECT coalesce(sum(l.units - coalesce(
        (SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0)), 0)::bigint AS units
      FROM quota_leases l WHERE counter = ${`wallet_spend:${poolOf(id).wallet}`}`;
    return row?.units ?? 0;
  }

  it('is frozen blocks beyond an age, whatever the gate allows', async () => {
    const wallet = await makeWallet(api, { limits: { daily_usd: 100_000 } });
    const gateId = await newGate();
    const { jwt } = await api.issuePassport({ wallet_id: wallet.wallet_id });
    const [, cut] = sidecars;
    for (let n = 0; n < 12; n++)
      expect((await ask(cut, gateId, jwt, buy(1, { n }))).body.decision).toBe('PERMIT');
    try {
      await cut.ageStateTo(limits.stateAgeL2MsMax);
      await setFrozen(api, wallet.wallet_id, 'freeze');
      expect((await cut.check(gateId, jwt, buy(1))).body.decision).toBe('PERMIT');
      // It may have asked for what it knows of wallets after the last heartbeat.
      await cut.ageStateTo(limits.stateAgeL2MsMax + 10_000);
      expect((await cut.check(gateId, jwt, buy(1))).body).toMatchObject({
        ...{ decision: 'BLOCK', reason: 'quota_unavailable' },
      });
    } finally {
      cut.resume();
    }
    await cut.caughtUp();
    expect((await ask(cut, gateId, jwt, buy(1))).body.reason).toBe('wallet_frozen');
  });
});

it('units of a wallet that a dead sidecar held come back when its epoch ends, and not before', async () => {
  const root = await makeWallet(api, { limits: { daily_usd: 10 } });
  const leaf = await makeWallet(api, { parent_wallet_id: root.wallet_id, limits: { daily_usd: 10 } });
  const gateId = await newGate();
  const passport = await api.issuePassport({ wallet_id: leaf.wallet_id });
  const sibling = await api.issuePassport({ wallet_id: root.wallet_id });
  const dead = await leaseHolder(api);
  const lane = (id: string) => ({ ...ofPassport('wallet_spend', passport), ...poolOf(id) });
  const asks = [leaf, root].map(({ wallet_id: id }) => wish(lane(id), 'day', 8 * usd));
  const leased = await dead.call(asks, [], { epoch: dead.sidecar.epoch });
  expect(leased.body.grants).toMatchObject([{ granted: 8 * usd }, { granted: 8 * usd }]);
  // Where units are lent, the answer is one for a moment: it is not final that the wallet is used up.
  const refused = await sidecars[0].check(gateId, sibling.jwt, buy(5));
  expect(refused.body).toMatchObject({ decision: 'BLOCK', reason: 'wallet_limit_exceeded' });
  expect((await ask(sidecars[0], gateId, sibling.jwt, buy(2))).body.decision).toBe('PERMIT');
  const ended = await dead.sidecar.send(1, [], { end: { nothing_lost: true, torn_bytes: 0 } });
  expect(ended.status).toBe(200);
  expect((await ask(sidecars[0], gateId, sibling.jwt, buy(5))).body.decision).toBe('PERMIT');
  expect((await ask(sidecars[1], gateId, passport.jwt, buy(3))).body.decision).toBe('PERMIT');
  expect(await usedOf(root.wallet_id)).toBe(10);
  expect(await usedOf(leaf.wallet_id)).toBe(3);
});
