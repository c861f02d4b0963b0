import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { takeShipped } from '../../control-plane/outcomes/reported-store.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { isLockTimeout } from '../../control-plane/storage/database-away.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationId, SidecarId } from '../../shared/model/ids.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { standingStill } from '../support/database/standing-still.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { operatorOf } from '../support/service/exports.ts';
import { leaseHolder } from '../support/service/lease-holder.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { connectSidecar, expectSoundStore, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';
import { untilServed, type WalletTree, walletTree } from '../support/service/wallet-tree.ts';

/** Transactions of every kind that lock the window of a root wallet, and how long others wait for them. */
const api = useApi(startOwnApi);
let other: Database;
/** Of the control plane that stands still. */
let stoppedSql: Database;
beforeAll(async () => {
  goToNoon(api);
  other = connect({ url: api.databaseUrl, connectionsMax: 2 });
  stoppedSql = connect({ url: api.databaseUrl });
});
afterAll(async () => {
  await stoppedSql?.end({ timeout: 1 });
  await other?.end({ timeout: 1 });
});
afterEach(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});

const usd = 1_000_000;
type Call = (url: string, body: unknown, key?: string) => Promise<Reply>;
/** At the control plane that goes on. */
const here: Call = (url, body, key) => api.call({ url, body, ...(key === undefined ? {} : { key }) });

/** A tree of wallets, whose passport asks at a gate of its own. */
async function branch(constraints: object = {}) {
  const tree = await walletTree(api, other, 100);
  const { gate_id: gateId } = await api.createGate({ constraints });
  const request = (more: object) => ({
    passport: tree.passport.jwt,
    request: { permission_key: 'orders:create', ...more },
  });
  const url = `/v1/gates/${gateId}/check`;
  return {
    tree,
    check: async (call: Call, more: object): Promise<Reply> => call(url, request(more)),
    /** The id of the PERMIT, or of the approval. */
    ask: async (more: object): Promise<string> => {
      const { body } = await here(url, request(more));
      return body.approval_id ?? body.attestation_id;
    },
  };
}

/** As a batch of a sidecar brings it. */
async function reportFailed(id: string): Promise<void> {
  const nowMs = api.deps.clock.now();
  const { accountId: sourceAccount } = await operatorOf(api);
  const source: SidecarId = api.deps.random.newId('side', nowMs);
  const outcome = {
    kind: 'outcome' as const,
    attestationId: id as AttestationId,
    given: { outcome: 'failed' as const, amountMicroUsd: null, detail: null },
    callerMode: 'live' as const,
    reportedAtMs: nowMs,
  };
  await api.deps.sql.begin((tx) => takeShipped(api.deps)(tx, [outcome], { source, sourceAccount, nowMs }));
}

/** What is done with the window of a root, by which control plane it may be. */
interface Deed {
  readonly tree: WalletTree;
  /** What counts of the root before it and after it, in USD. */
  readonly counts: readonly [before: number, after: number];
  /** Resolves to the status of an answer; null: a sweep, which has no caller. */
  doIt(call: Call, sql: Database): Promise<number | null>;
  /** The status of the answer when it is done. */
  readonly done: number | null;
}

const deeds = {
  check: async (): Promise<Deed> => {
    const { tree, check } = await branch();
    return {
      ...{ tree, counts: [0, 1], done: 200 },
      doIt: async (call) => (await check(call, { amount: 1 })).status,
    };
  },
  refund: async (): Promise<Deed> => {
    const { tree, ask } = await branch();
    const id = await ask({ amount: 3 });
    return {
      ...{ tree, counts: [3, 0], done: 201 },
      doIt: async (call) => (await call(`/v1/attestations/${id}/refund`, {})).status,
    };
  },
  outcome: async (): Promise<Deed> => {
    const { tree, ask } = await branch();
    const id = await ask({ amount: 3, hold: { expires_in_s: 3_600 } });
    return {
      ...{ tree, counts: [3, 1], done: 200 },
      doIt: async (call) =>
        (await call(`/v1/attestations/${id}/outcome`, { outcome: 'served', amount: 1 })).status,
    };
  },
  denial: async (): Promise<Deed> => {
    const { tree, ask } = await branch({ approvals: { above_usd: 10, expires_in_s: 3_600 } });
    const id = await ask({ amount: 20 });
    return {
      ...{ tree, counts: [20, 0], done: 200 },
      doIt: async (call) => (await call(`/v1/approvals/${id}/deny`, {})).status,
    };
  },
  'expiry of an approval': async (): Promise<Deed> => {
    const { tree, ask } = await branch({ approvals: { above_usd: 10, expires_in_s: 60 } });
    await ask({ amount: 20 });
    return {
      ...{ tree, counts: [20, 0], done: null },
      doIt: async (_, sql) => expireApprovals({ ...api.deps, sql }).then(() => null),
    };
  },
  'expiry of a hold': async (): Promise<Deed> => {
    const { tree, ask } = await branch({ holds: { on_expiry: 'release' } });
    await ask({ amount: 5, hold: { expires_in_s: 60 } });
    return {
      ...{ tree, counts: [5, 0], done: null },
      doIt: async (_, sql) => expireHolds({ ...api.deps, sql }).then(() => null),
    };
  },
  'reported outcome': async (): Promise<Deed> => {
    const { tree, ask } = await branch();
    await reportFailed(await ask({ amount: 5, hold: { expires_in_s: 3_600 } }));
    return {
      ...{ tree, counts: [5, 0], done: null },
      doIt: async (_, sql) => applyReported({ ...api.deps, sql }).then(() => null),
    };
  },
  'end of an epoch': async (): Promise<Deed> => {
    const { tree } = await branch();
    const sidecar = await connectSidecar(api);
    const { sidecarId, connectionId, epoch, key } = sidecar;
    const leased = await (await leaseHolder(api, { sidecar })).call(tree.asks(10 * usd), [], { epoch });
    expect(leased.status).toBe(200);
    const body = {
      ...{ sidecar_id: sidecarId, connection_id: connectionId, epoch, first_seq: 1, records: [] },
      end: { nothing_lost: true, torn_bytes: 0 },
    };
    return {
      ...{ tree, counts: [10, 0], done: 200 },
      doIt: async (call) => (await call('/v1/sync/attestations', body, key)).status,
    };
  },
} satisfies Record<string, () => Promise<Deed>>;

const setUpAll = async (
  names: readonly (keyof typeof deeds)[],
): Promise<readonly (Deed & { readonly name: string })[]> => {
  const all: (Deed & { readonly name: string })[] = [];
  for (const name of names) all.push({ name, ...(await deeds[name]()) });
  // What may expire does; the day goes on.
  api.advance(10 * minuteMs);
  return all;
};
/** USD that each wallet of a tree has given out, where it is the same. */
const countedBy = async ({ tree }: Deed): Promise<number | readonly number[]> => {
  const [first = Number.NaN, ...others] = (await tree.leased()).map((units) => units / usd);
  return others.every((each) => each === first) ? first : [first, ...others];
};
const counted = async (all: readonly (Deed & { readonly name: string })[]) =>
  Object.fromEntries(await Promise.all(all.map(async (each) => [each.name, await countedBy(each)])));
const expected = (all: readonly (Deed & { readonly name: string })[], of: (deed: Deed) => number) =>
  Object.fromEntries(all.map((each) => [each.name, of(each)]));

/** Those that stand still beside each other. */
const groups: readonly { readonly names: readonly (keyof typeof deeds)[] }[] = [
  { names: ['check', 'refund', 'outcome', 'expiry of a hold', 'reported outcome', 'end of an epoch'] },
  { names: ['expiry of an approval'] },
  { names: ['denial'] },
];
it.each(groups)(
  'a control plane that stands still in $names gives the root up, and has done nothing',
  async ({ names }) => {
    const all = await setUpAll(names);
    const still = standingStill(stoppedSql, ['UPDATE quota_windows']);
    const stopped = await secondControlPlane(api, still.sql);
    const late = all.map(({ doIt }) => doIt(stopped.call, still.sql).catch(() => null));
    await until(() => still.stood.length === all.length, { what: 'all stand still with a root' });
    expect(new Set(still.stood.map(({ pause }) => pause))).toEqual(new Set(['6s']));
    expect(still.stood.map(({ lock }) => lock)).not.toContain('0');
    // Others lease of each root as soon as PostgreSQL has ended the session.
    const holder = await leaseHolder(api);
    for (const [place, { tree, name }] of all.entries()) {
      const { status, body } = await untilServed(() => holder.call(tree.asks(usd), [], { seq: place + 1 }));
      expect(status, `${name}: ${JSON.stringify(body)}`).toBe(200);
    }
    expect(await counted(all)).toEqual(expected(all, ({ counts }) => counts[0] + 1));
    still.goOn();
    for (const [place, status] of (await Promise.all(late)).entries())
      expect([all[place]?.name, status]).toEqual([all[place]?.name, all[place]?.done === null ? null : 503]);
    // Once more, as clients, sidecars and sweeps do; what a sweep has repeated by itself it does not find.
    for (const { name, doIt, done } of all)
      expect([name, await doIt(here, api.deps.sql)]).toEqual([name, done]);
    expect(await counted(all)).toEqual(expected(all, ({ counts }) => counts[1] + 1));
    await stopped.close();
  },
);

it('a control plane that stands still in a batch of records gives its chain up, and the batch is taken once', async () => {
  const { gate_id: gateId } = await api.createGate();
  const passport = await api.issuePassport();
  const { sidecarId, connectionId, epoch, key } = await connectSidecar(api);
  const record = recordOf(api, { gateId, passport });
  const body = {
    ...{ sidecar_id: sidecarId, connection_id: connectionId, epoch, first_seq: 1 },
    records: [record],
  };
  const still = standingStill(stoppedSql, ['UPDATE sidecar_epochs']);
  const stopped = await secondControlPlane(api, still.sql);
  const send = (call: Call) => call('/v1/sync/attestations', body, key);
  const late = send(stopped.call);
  await until(() => still.stood.length === 1, { what: 'it stands still with the chain' });
  expect(still.stood).toEqual([{ pause: '6s', lock: '3s' }]);
  expect(await untilServed(() => send(here))).toMatchObject({ status: 200, body: { next_seq: 2 } });
  still.goOn();
  expect((await late).status).toBe(503);
  expect((await send(here)).body.next_seq).toBe(2);
  const stored = await expectSoundStore(api);
  expect(stored.filter((id) => id === record.id)).toEqual([record.id]);
  await stopped.close();
});

it('sweeps do what others do not hold up, and the rest with the next one', async () => {
  const held = [await deeds['expiry of a hold'](), await deeds['expiry of an approval']()];
  const free = [await deeds['expiry of a hold'](), await deeds['expiry of an approval']()];
  api.advance(10 * minuteMs);
  const sweep = async ({ doIt }: Deed): Promise<unknown> =>
    doIt(here, api.deps.sql).then(
      () => null,
      (error: unknown) => error,
    );
  for (const [place, deed] of held.entries()) {
    const beside = must(free[place], 'there is one of each kind');
    await deed.tree.whileHeld(async () => {
      expect(isLockTimeout(await sweep(deed))).toBe(true);
      expect([await countedBy(deed), await countedBy(beside)]).toEqual([deed.counts[0], 0]);
    });
    expect(await sweep(deed)).toBe(null);
    expect(await countedBy(deed)).toBe(0);
  }
});

it('outcomes of one PERMIT keep their order while others hold its window', async () => {
  const { tree, ask } = await branch();
  const id = await ask({ amount: 5, hold: { expires_in_s: 3_600 } });
  await reportFailed(id);
  await tree.whileHeld(async () => {
    const held = await applyReported(api.deps).then(
      () => null,
      (error: unknown) => error,
    );
    expect(isLockTimeout(held)).toBe(true);
  });
  expect(await applyReported(api.deps)).toBe(1);
  expect(await tree.leased()).toEqual([0, 0, 0, 0]);
  const { body } = await api.call({ url: `/v1/attestations/${id}/outcome` });
  expect(body).toMatchObject({ outcome: 'failed', counts_usd: 0 });
});
