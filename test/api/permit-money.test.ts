import { beforeAll, expect, it } from 'vitest';
import { appendRecords } from '../../control-plane/attestations/append-records.ts';
import { keepBook } from '../../control-plane/book/post.ts';
import { voidSettlements } from '../../control-plane/decisions/void-settlements.ts';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { AttestationId, GateId } from '../../shared/model/ids.ts';
import { type Chance, chance } from '../support/base/chance.ts';
import { runs } from '../support/base/runs.ts';
import { type Api, type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { type LeaseHolder, leaseHolder, ofGate, wish } from '../support/service/lease-holder.ts';
import { type SecondControlPlane, secondControlPlane } from '../support/service/second-control-plane.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import {
  connectSidecar,
  expectSoundStore,
  recordOf,
  settlementCall,
} from '../support/service/test-sidecar.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

/**
 * The money of one PERMIT, while two control planes change it at once in every way there is: whatever the
 * order, the windows of its gate count what its chain says that it counts, no cent more and none less.
 */
const api = useApi(startOwnApi);
const other = useStarted(() => secondControlPlane(api));
beforeAll(() => {
  goToNoon(api);
  api.stopClock();
});

const usd = 1_000_000;
const held = 10;
const sources = ['control plane', 'approval', 'spool', 'settlement'] as const;
type Source = (typeof sources)[number];

interface Rules {
  readonly onExpiry: 'settle' | 'release';
  readonly overrun: 'refuse' | 'charge';
}

interface Permit {
  readonly id: string;
  readonly gateId: string;
  readonly passportId: string;
  /** What its sidecar, its process or the control plane itself may do to it. */
  readonly ends: readonly (() => Promise<unknown>)[];
  readonly report: (outcome: { readonly outcome: string; readonly amount: number }) => Promise<unknown>;
}

const open = async (source: Source, { onExpiry, overrun }: Rules) => {
  const gate = await api.createGate({
    constraints: {
      spend_limits: { daily_usd: 100, monthly_usd: 100 },
      holds: { on_expiry: onExpiry, overrun },
      ...(source === 'approval' ? { approvals: { above_usd: 5 } } : {}),
    },
  });
  return { gate, passport: await api.issuePassport({ permissions: ['orders:create'] }) };
};
type Shop = Awaited<ReturnType<typeof open>>;

async function permit(source: Source, shop: Shop, isHeld: boolean): Promise<Permit> {
  return source === 'spool' || source === 'settlement'
    ? permitOfSidecar(source, shop, isHeld)
    : permitOfControlPlane(source, shop, isHeld);
}

async function permitOfControlPlane(source: Source, shop: Shop, isHeld: boolean): Promise<Permit> {
  const { gate_id: gateId } = shop.gate;
  const check = async (more: object) => {
    const request = { permission_key: 'orders:create', amount: held, ...more };
    const body = { passport: shop.passport.jwt, request };
    return (await api.call({ url: `/v1/gates/${gateId}/check`, body })).body;
  };
  const asked = isHeld ? { hold: { expires_in_s: 60 } } : {};
  const first = await check(asked);
  if (source === 'approval') await api.call({ url: `/v1/approvals/${first.approval_id}/approve`, body: {} });
  const permitted = source === 'approval' ? await check({ ...asked, approval_id: first.approval_id }) : first;
  expect(permitted).toMatchObject({ decision: 'PERMIT' });
  const id = permitted.attestation_id;
  const voidIt = () =>
    other.deps.sql.begin(async (tx) => {
      const nowMs = api.deps.clock.now();
      const unknown = [{ id: id as AttestationId, took: [], amountMicroUsd: null }];
      const by = { source: 'control-plane', sourceAccount: null, nowMs } as const;
      await keepBook(tx, nowMs, async (book) => {
        await appendRecords(tx, other.deps, await voidSettlements(tx, other.deps, book, unknown, by));
      });
    });
  const { passport_id: passportId } = shop.passport;
  return { id, gateId, passportId, ends: [voidIt], report: (outcome) => post(api, id, 'outcome', outcome) };
}

async function permitOfSidecar(source: Source, { gate, passport }: Shop, isHeld: boolean): Promise<Permit> {
  const gateId: GateId = gate.gate_id;
  const by = await leaseHolder(api);
  const took = await lease(by, gateId);
  const nowMs = api.deps.clock.now();
  const record = recordOf(
    api,
    { gateId, passport },
    {
      ...{ took, amount_micro_usd: held * usd, state_age_ms: 0, policy_hash: null, trust_level: null },
      extras: isHeld ? { hold_expires_at_ms: nowMs + 60_000 } : null,
    },
  );
  const { id } = record;
  let seq = 1;
  const ship = async (items: readonly object[], change: object = {}) => {
    const first = seq;
    seq += items.length;
    const reply = await by.sidecar.send(first, items, change);
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  };
  const end = () => ship([], { end: { nothing_lost: true, torn_bytes: 0 } });
  const voidIt = () =>
    ship([{ voids: id, took, amount_micro_usd: held * usd, timestamp_ms: api.deps.clock.now() }]);
  if (source === 'spool') await ship([record]);
  else await settle(by, gate, passport, record);
  const { passport_id: passportId } = passport;
  return { id, gateId, passportId, ends: source === 'spool' ? [end] : [voidIt], report: await reporter(id) };
}

/** Another sidecar of the account, which ships one outcome after the other. */
async function reporter(id: string): Promise<Permit['report']> {
  const by = await connectSidecar(api);
  let seq = 1;
  let last: Promise<unknown> = Promise.resolve();
  return ({ outcome, amount }) => {
    const item = {
      ...{ outcome, attestation_id: id, amount_micro_usd: amount * usd, detail: null },
      ...{ caller_mode: 'live', timestamp_ms: api.deps.clock.now() },
    };
    last = last.then(async () => {
      const reply = await by.send(seq++, [item]);
      expect(reply.status, JSON.stringify(reply.body)).toBe(200);
      await Promise.all([applyReported(api.deps), applyReported(other.deps)]);
    });
    return last;
  };
}

/** More than the PERMIT takes: the rest goes back when the process ends. */
async function lease(by: LeaseHolder, gateId: GateId): Promise<number[]> {
  const windows = (['day', 'month'] as const).map((window) =>
    wish(ofGate('gate_spend', gateId), window, (held + 3) * usd),
  );
  const reply = await by.call(windows, [], { epoch: by.sidecar.epoch });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body.grants.map(({ lease_id }: { lease_id: number }) => lease_id);
}

async function settle(by: LeaseHolder, gate: Reply['body'], passport: Reply['body'], record: object) {
  const reply = await api.call({
    url: '/v1/sync/settlements',
    key: by.sidecar.key,
    body: settlementCall({
      ...{ sidecar_id: by.sidecar.sidecarId, connection_id: by.sidecar.connectionId, holder: by.holder },
      ...{ kind: 'permit', passport_id: passport.passport_id, token_hash: sha256Hex(passport.jwt) },
      ...{ gate_id: gate.gate_id, gate_version: 1, idempotency_key: 'once', approval_id: null, record },
      request_hash: 'request_hash' in record ? record.request_hash : null,
    }),
  });
  expect(reply.body.answers, JSON.stringify(reply.body)).toEqual([{ kind: 'committed' }]);
}

const post = (at: Api | SecondControlPlane, id: string, path: string, body: object): Promise<Reply> =>
  at === api
    ? api.call({ url: `/v1/attestations/${id}/${path}`, body })
    : other.call(`/v1/attestations/${id}/${path}`, body);

/** What a window of the gate counts as used, in dollars: given out, less what a sidecar can return. */
const used = async (gateId: string): Promise<readonly number[]> => {
  const rows = await api.deps.sql<{ used: number }[]>`
    SELECT (q.leased - coalesce((SELECT sum(l.units - coalesce(
        (SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0))
      FROM quota_leases l WHERE (l.counter, l.window_name, l.starts_at_ms) = (q.counter, q.window_name, q.starts_at_ms)
      ), 0))::bigint AS used
    FROM quota_windows q WHERE counter = ${`gate_spend:${gateId}`} ORDER BY window_name`;
  return rows.map((row) => row.used / usd);
};

const aboutOf = async ({ id, passportId }: Permit): Promise<readonly Reply['body'][]> => {
  const { body } = await api.call({ url: `/v1/attestations?passport_id=${passportId}&limit=100` });
  return body.attestations.filter((each: Reply['body']) => each.refers_to === id).toReversed();
};

/** Any change of the PERMIT, at either control plane. */
function anything(by: Chance, { id, ends, report }: Permit): () => Promise<unknown> {
  const at = by.pick([api, other]);
  const amount = () => by.pick([0.000001, 1, 2.5, 4, 9.999999, 10.5, 15, 200]);
  return by.pick([
    () => report({ outcome: 'served', amount: amount() }),
    () => post(at, id, 'outcome', { outcome: 'served', amount: amount() }),
    () => post(at, id, 'outcome', { outcome: 'served' }),
    () => post(at, id, 'outcome', { outcome: 'failed' }),
    () => post(at, id, 'refund', { amount: amount() }),
    () => post(at, id, 'refund', {}),
    () => post(at, id, 'hold/extend', { expires_in_s: 60 }),
    () => expireHolds(at.deps),
    by.pick(ends),
  ]);
}

/** Follows the chain by the rules of the contract, §19. Fails where a step was not open. */
function follow(about: readonly Reply['body'][], isHeld: boolean, { onExpiry, overrun }: Rules) {
  let counts = held;
  let hold = isHeld ? 'open' : 'none';
  let isReported = false;
  let beforeVoid = held;
  for (const [place, { resolution, amount_micro_usd }] of about.entries()) {
    const amount = amount_micro_usd / usd;
    if (resolution === 'voided') {
      expect(place, 'a void is the end').toBe(about.length - 1);
      beforeVoid = counts;
      return { counts: 0, beforeVoid, isVoid: true };
    }
    if (resolution === 'refunded') {
      expect(hold).not.toBe('open');
      expect(amount).toBeLessThan(counts);
    } else if (resolution === 'reported') {
      expect([hold, isReported, amount]).toEqual(['none', false, counts]);
    } else {
      expect(hold, resolution).toBe('open');
      if (resolution === 'settled') expect(amount).toBeLessThanOrEqual(overrun === 'charge' ? 100 : held);
      if (resolution === 'released') expect(amount).toBe(0);
      if (resolution === 'expired') expect(amount).toBe(onExpiry === 'settle' ? held : 0);
      if (resolution === 'extended') expect(amount).toBe(held);
      else hold = resolution;
    }
    isReported ||= resolution === 'reported';
    counts = amount;
  }
  return { counts, beforeVoid, isVoid: false };
}

async function expectTrueMoney(of: Permit, source: Source, isHeld: boolean, rules: Rules): Promise<string> {
  const about = await aboutOf(of);
  const { counts, beforeVoid, isVoid } = follow(about, isHeld, rules);
  const state = (await api.call({ url: `/v1/attestations/${of.id}/outcome` })).body;
  expect(state.counts_usd).toBe(counts);
  expect(state.record_id).toBe(about.findLast(({ resolution }) => resolution !== 'voided')?.id ?? null);
  // The money of an approval stays with it when its PERMIT is voided, unless a part went back before.
  const counted = isVoid && source === 'approval' && beforeVoid >= held ? held : counts;
  expect(await used(of.gateId)).toEqual([counted, counted]);
  const spent = await api.deps.sql<{ spent: number }[]>`
    SELECT spent FROM quota_spend WHERE counter = ${`gate_spend:${of.gateId}`}`;
  for (const row of spent) expect(row.spent / usd).toBe(isVoid ? 0 : counts);
  return about.map(({ resolution }) => resolution).join();
}

const rounds = runs({ short: 2, long: 200 });

it(
  'the money of a PERMIT counts what its chain says, whatever is done to it at once',
  async () => {
    const stories = new Set<string>();
    for (const source of sources) {
      const by = chance(19).branch(source);
      for (let round = 0; round < rounds; round++)
        for (const story of await play(by, source)) stories.add(story);
    }
    expect(stories.size, 'otherwise the rounds say little').toBeGreaterThan(4);
    await expectSoundStore(api);
    expect(await brokenRules(api.deps.sql)).toEqual({});
  },
  60_000 * rounds,
);

async function play(by: Chance, source: Source): Promise<readonly string[]> {
  const rules: Rules = { onExpiry: by.pick(['settle', 'release']), overrun: by.pick(['refuse', 'charge']) };
  const isHeld = by.happens(0.8);
  const of = await permit(source, await open(source, rules), isHeld);
  const stories: string[] = [];
  for (let wave = 0; wave < 2; wave++) {
    if (by.happens(0.4)) api.advance(60_000);
    const all = Array.from({ length: 6 }, () => anything(by, of));
    const replies = await Promise.all(all.map((each) => each()));
    for (const reply of replies.filter(isReply))
      if (reply.body.error?.code !== 'hold_not_found')
        expect([200, 201, 400, 409], JSON.stringify(reply.body)).toContain(reply.status);
    stories.push(await expectTrueMoney(of, source, isHeld, rules));
  }
  return stories;
}

const isReply = (value: unknown): value is Reply =>
  typeof value === 'object' && value !== null && 'status' in value;
