import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { type HeldUnits, heldUnits } from '../../control-plane/book/held-units.ts';
import { transferFromHolder } from '../../control-plane/book/hold.ts';
import { freeUnits } from '../../control-plane/book/post.ts';
import { takeUnits } from '../../control-plane/book/take-units.ts';
import { serveLeaseCall } from '../../control-plane/quota/serve-lease-call.ts';
import type { GateId, PassportId, SidecarId, StandingApprovalId } from '../../shared/model/ids.ts';
import { dayMs, hourMs, minuteMs, parseTime, type UnixMillis } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { type WindowName, windowAt } from '../../shared/quota/window.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import {
  counterOfLease,
  type LeaseAnswer,
  type LeaseCall,
  type LeaseCounter,
  type LeaseReturn,
} from '../../shared/wire/sync/lease-call.ts';
import { runs } from '../support/base/runs.ts';
import { type LeaseDatabase, leaseDatabase } from '../support/database/lease-database.ts';
import { useDatabase, usePool } from '../support/database/use-database.ts';

const database = useDatabase();
const other = usePool(database, 4);
let world: LeaseDatabase;
interface Sidecar {
  readonly sidecarId: SidecarId;
  readonly connectionId: string;
}
const sidecars: Sidecar[] = [];
beforeAll(async () => {
  world = await leaseDatabase(database.sql);
  for (let i = 0; i < 3; i++) sidecars.push(await world.connectSidecar());
});

/** Two minutes before a year, and with it every kind of window, ends. */
const startMs = parseTime('2096-12-31T23:58:00Z') as UnixMillis;

/** A limit that changes, on a counter of each shape: in requests and in micro-dollars. */
interface Kind {
  readonly counter: LeaseCounter;
  readonly window: WindowName;
}

/** Everything that is in nobody's database: what the holders believe, and what was really used. */
class Round {
  readonly kinds: readonly Kind[];
  readonly holders: Holder[];
  readonly approvals: { readonly held: HeldUnits; isResolved: boolean }[] = [];
  /**
   * By window: what PERMITs have used, whoever gave them; of that, what no holder was leased; and the highest
   * limit in force while it lasted.
   */
  readonly posted = new Map<string, number>();
  readonly postedOutside = new Map<string, number>();
  readonly highest = new Map<string, number>();
  nowMs = startMs;

  readonly gateId: GateId;
  readonly passportId: PassportId;
  /** Of the gate. */
  limit: number;
  /** Of the passport, and the total of a standing approval. */
  readonly ownLimit: number;

  constructor(
    gateId: GateId,
    passportId: PassportId,
    standingApprovalId: StandingApprovalId,
    limit: number,
    ownLimit: number,
  ) {
    this.gateId = gateId;
    this.passportId = passportId;
    this.limit = limit;
    this.ownLimit = ownLimit;
    const ofGate = { gate_id: gateId, passport_id: null, token_hash: null };
    const ofPassport = { gate_id: null, passport_id: passportId, token_hash: world.tokenHash };
    this.kinds = [
      { counter: { kind: 'gate_rate', ...ofGate }, window: 'minute' },
      { counter: { kind: 'gate_rate', ...ofGate }, window: 'day' },
      { counter: { kind: 'gate_spend', ...ofPassport, gate_id: gateId }, window: 'month' },
      { counter: { kind: 'passport_spend', ...ofPassport }, window: 'day' },
      {
        counter: { kind: 'standing_approval', ...ofGate, standing_approval_id: standingApprovalId },
        window: 'total',
      },
    ];
    this.holders = sidecars.map((sidecar) => new Holder(sidecar));
    this.noteLimits();
  }

  limitOf({ counter }: Kind): number {
    const isOwn = counter.kind === 'passport_spend' || counter.kind === 'standing_approval';
    return isOwn ? this.ownLimit : this.limit;
  }

  noteLimits(): void {
    for (const kind of this.kinds) {
      const name = nameOf(kind, this.nowMs);
      this.highest.set(name, Math.max(this.highest.get(name) ?? 0, this.limitOf(kind)));
    }
  }
}

let holders = 0;

/** One process of a sidecar, as simple as can be. */
class Holder {
  readonly name = (++holders).toString(16).padStart(32, '0');
  seq = 0;
  /** Units at hand. */
  readonly available = new Map<
    string,
    { readonly kind: Kind; readonly startsAtMs: UnixMillis; units: number }
  >();
  /** Units that it used. */
  readonly used = new Map<string, number>();
  /** Sent, and not answered yet as far as it knows. */
  pending: LeaseCall | null = null;
  readonly sent: LeaseCall[] = [];

  readonly sidecar: Sidecar;

  constructor(sidecar: Sidecar) {
    this.sidecar = sidecar;
  }
}

const nameOf = ({ counter, window }: Kind, atMs: UnixMillis): string =>
  `${counterKey(counterOfLease(counter))} ${window} ${windowAt(window, atMs).startsAtMs}`;
const add = (sums: Map<string, number>, name: string, units: number): void => {
  sums.set(name, (sums.get(name) ?? 0) + units);
};

const wish = fc.record({
  kind: fc.nat({ max: 4 }),
  unitsMin: fc.nat({ max: 3 }),
  more: fc.nat({ max: 4 }),
  ahead: fc.nat({ max: 9 }),
});
const nth = fc.nat({ max: 30 });
const message = fc.record({
  holder: fc.nat({ max: 2 }),
  wishes: fc.uniqueArray(wish, { selector: ({ kind }) => kind, maxLength: 5 }),
  returned: fc.array(fc.nat({ max: 4 }), { minLength: 4, maxLength: 4 }),
  fate: fc.constantFrom('answered', 'answered', 'answered', 'answer lost', 'late'),
});

const command = fc.oneof(
  { weight: 6, arbitrary: message.map((sent) => ({ kind: 'lease' as const, ...sent })) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('repeat' as const), holder: fc.nat({ max: 2 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('late' as const), holder: fc.nat({ max: 20 }), nth }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('use' as const),
      holder: fc.nat({ max: 2 }),
      nth,
      units: fc.nat({ max: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('hold' as const),
      holder: fc.nat({ max: 2 }),
      nth,
      units: fc.nat({ max: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('resolve' as const), nth, isPermit: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('take' as const),
      of: fc.nat({ max: 4 }),
      units: fc.nat({ max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('crash' as const), holder: fc.nat({ max: 2 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('limit' as const), limit: fc.nat({ max: 40 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      durationMs: fc.constantFrom(1, 20_000, minuteMs, hourMs),
    }),
  },
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;

const crashed: Holder[] = [];

describe('holders of leases', () => {
  it('never use or hold more than a limit, and the ledger accounts for every unit, despite all failures', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        fc.array(command, { minLength: 1, maxLength: 40 }),
        async (limit, ownLimit, commands) => {
          const round = await begin(limit, ownLimit);
          for (const step of commands) {
            await take(round, step);
            await expectWhole(round);
          }
        },
      ),
      { numRuns: runs({ short: 15, long: 4_000 }) },
    );
  });

  it('do so too when they all act at once', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 40 }),
        fc.array(command, { minLength: 10, maxLength: 60 }),
        async (limit, ownLimit, commands) => {
          const round = await begin(limit, ownLimit);
          const turns = [0, 1, 2, 3].map((turn) =>
            commands.filter((step, place) => step.kind !== 'wait' && turnOf(step, place) === turn),
          );
          await Promise.all(
            turns.map(async (steps, turn) => {
              for (const step of steps) await take(round, step, turn % 2 === 0 ? database.sql : other);
            }),
          );
          await expectWhole(round);
        },
      ),
      { numRuns: runs({ short: 10, long: 2_500 }) },
    );
  });
});

/** A process does one thing at a time; what belongs to no process is done beside them. */
const turnOf = (step: Command, place: number): number =>
  'holder' in step && step.kind !== 'late' ? step.holder : step.kind === 'take' ? place % 4 : 3;

async function begin(limit: number, ownLimit: number): Promise<Round> {
  crashed.length = 0;
  // A sidecar has only so many holders: those of earlier rounds are not to drive out one of this.
  await database.sql`DELETE FROM lease_holders`;
  const gateId = await world.createGate(constraintsOf(limit));
  const passportId = await world.issuePassport({ spend_limits: { daily_usd: ownLimit / 1e6 } });
  const standingApprovalId = random.newId('sappr', startMs);
  await database.sql`
    INSERT INTO standing_approvals (standing_approval_id, account_id, mode, gate_id, gate_version, passport_id, agent_id,
      permission_key, each_micro_usd, total_micro_usd, created_at_ms, created_by, expires_at_ms)
    VALUES (${standingApprovalId}, ${world.accountId}, 'live', ${gateId}, 1, ${passportId}, 'agent', 'orders:create', 1,
      ${ownLimit}, ${startMs}, 'key_x', ${totalEndsAtMs})`;
  return new Round(gateId, passportId, standingApprovalId, limit, ownLimit);
}

const random = systemRandom();
/** After every wait of a round. */
const totalEndsAtMs = (startMs + 90 * dayMs) as UnixMillis;

const constraintsOf = (limit: number) => ({
  rate_limits: { requests_per_minute: limit, requests_per_day: limit },
  spend_limits: { monthly_usd: limit / 1e6, per: 'passport' as const },
});

async function take(round: Round, step: Command, sql: Database = database.sql): Promise<void> {
  switch (step.kind) {
    case 'lease':
      return lease(round, step, sql);
    case 'repeat': {
      const holder = round.holders[step.holder] as Holder;
      if (holder.pending !== null) await receive(holder, await send(round, holder.pending, sql));
      return;
    }
    case 'late': {
      // Any message that was ever sent comes once more, and nobody listens to what it is answered.
      const all = [...round.holders, ...crashed];
      const { sent } = all[step.holder % all.length] as Holder;
      const old = sent[step.nth % Math.max(sent.length, 1)];
      if (old !== undefined) await send(round, old, sql);
      return;
    }
    case 'use': {
      const holder = round.holders[step.holder] as Holder;
      const taken = takeAvailable(round, holder, step);
      if (taken === null) return;
      add(holder.used, taken.name, taken.units);
      add(round.posted, taken.name, taken.units);
      return;
    }
    case 'hold':
      return hold(round, step, sql);
    case 'resolve':
      return resolve(round, step, sql);
    case 'take':
      return takeDirectly(round, step, sql);
    case 'crash': {
      const holder = round.holders[step.holder] as Holder;
      crashed.push(holder);
      round.holders[step.holder] = new Holder(holder.sidecar);
      return;
    }
    case 'limit':
      // The higher of the two is in force for whoever asks while it changes.
      round.limit = Math.max(round.limit, step.limit);
      round.noteLimits();
      await world.changeGate(round.gateId, constraintsOf(step.limit));
      round.limit = step.limit;
      return;
    case 'wait':
      round.nowMs = (round.nowMs + step.durationMs) as UnixMillis;
      round.noteLimits();
  }
}

async function lease(round: Round, step: Command & { kind: 'lease' }, sql: Database): Promise<void> {
  const holder = round.holders[step.holder] as Holder;
  if (holder.pending !== null) return;
  const returns = [...holder.available.values()].flatMap((lease, place): LeaseReturn[] => {
    const units = Math.min(lease.units, step.returned[place % 4] ?? 0);
    lease.units -= units;
    const { kind, startsAtMs } = lease;
    return units === 0 ? [] : [{ ...kind.counter, window: kind.window, starts_at_ms: startsAtMs, units }];
  });
  const call: LeaseCall = {
    sidecar_id: holder.sidecar.sidecarId,
    connection_id: holder.sidecar.connectionId,
    holder: holder.name,
    seq: ++holder.seq,
    returns,
    asks: step.wishes.map(({ kind, unitsMin, more, ahead }) => {
      const { counter, window } = round.kinds[kind] as Kind;
      return { ...counter, window, units_min: unitsMin, units_needed: unitsMin + more, units_ahead: ahead };
    }),
  };
  holder.pending = call;
  holder.sent.push(call);
  if (step.fate === 'late') return;
  const answer = await send(round, call, sql);
  if (step.fate === 'answered') await receive(holder, answer);
}

async function send(round: Round, call: LeaseCall, sql: Database): Promise<LeaseAnswer | null> {
  const outcome = await serveLeaseCall(sql, world.accountId, call, round.nowMs);
  return outcome.kind === 'answered' ? outcome.answer : null;
}

async function receive(holder: Holder, answer: LeaseAnswer | null): Promise<void> {
  // A live holder is always known: nothing was restored here.
  expect(answer).not.toBeNull();
  const asks = holder.pending?.asks ?? [];
  holder.pending = null;
  expect(answer?.grants).toHaveLength(asks.length);
  answer?.grants.forEach(({ granted, limit, leased, starts_at_ms, left_ms }, place) => {
    const { units_min, units_needed, units_ahead, window, ...counter } = asks[
      place
    ] as LeaseCall['asks'][number];
    expect(granted === 0 || granted >= units_min).toBe(true);
    expect(granted).toBeLessThanOrEqual(units_needed + units_ahead);
    // Nothing is kept from anybody either: who got less than he needs got all that was left, or nothing where
    // the least was not there.
    const left = Math.max((limit ?? Number.NaN) - leased, 0);
    if (granted < units_needed) expect(granted === 0 ? left < Math.max(units_min, 1) : left === 0).toBe(true);
    if (left_ms === 0 || granted === 0) return;
    const kind = { counter, window };
    const name = nameOf(kind, starts_at_ms);
    const lease = holder.available.get(name) ?? { kind, startsAtMs: starts_at_ms, units: 0 };
    lease.units += granted;
    holder.available.set(name, lease);
  });
}

function takeAvailable(
  round: Round,
  holder: Holder,
  { nth, units }: { readonly nth: number; readonly units: number },
): {
  readonly name: string;
  readonly units: number;
  readonly kind: Kind;
  readonly startsAtMs: UnixMillis;
} | null {
  for (const [name, { kind, startsAtMs }] of holder.available) {
    if (windowAt(kind.window, startsAtMs).endsAtMs <= round.nowMs) holder.available.delete(name);
  }
  const all = [...holder.available];
  const [name, lease] = all[nth % Math.max(all.length, 1)] ?? [];
  if (name === undefined || lease === undefined || lease.units < units || units === 0) return null;
  lease.units -= units;
  return { name, units, kind: lease.kind, startsAtMs: lease.startsAtMs };
}

async function hold(round: Round, step: Command & { kind: 'hold' }, sql: Database): Promise<void> {
  const holder = round.holders[step.holder] as Holder;
  const taken = takeAvailable(round, holder, step);
  if (taken === null) return;
  const { kind, startsAtMs, units } = taken;
  const held = { ...kind.counter, window: kind.window, starts_at_ms: startsAtMs, units };
  const from = { holder: holder.name, sidecarId: holder.sidecar.sidecarId };
  const got = await sql.begin((tx) => transferFromHolder(tx, from, [held]));
  expect(got).toEqual([heldUnits(held)]);
  round.approvals.push({ held: heldUnits(held), isResolved: false });
}

async function resolve(round: Round, step: Command & { kind: 'resolve' }, sql: Database): Promise<void> {
  const waiting = round.approvals.filter(({ isResolved }) => !isResolved);
  const approval = waiting[step.nth % Math.max(waiting.length, 1)];
  if (approval === undefined) return;
  approval.isResolved = true;
  const { counter, window, startsAtMs, units } = approval.held;
  const name = `${counter} ${window} ${startsAtMs}`;
  if (!step.isPermit) return sql.begin((tx) => freeUnits(tx, [approval.held], round.nowMs));
  add(round.posted, name, units);
  add(round.postedOutside, name, units);
}

async function takeDirectly(round: Round, step: Command & { kind: 'take' }, sql: Database): Promise<void> {
  const kind = round.kinds[step.of] as Kind;
  const ask = {
    counter: counterKey(counterOfLease(kind.counter)),
    window: kind.window,
    endsAtMs: kind.window === 'total' ? totalEndsAtMs : null,
    limit: round.limitOf(kind),
    unitsMin: step.units,
    unitsMax: step.units,
  };
  const [grant] = await takeUnits(sql, [[ask]], round.nowMs);
  if (!grant?.isGranted) return;
  add(round.posted, nameOf(kind, round.nowMs), step.units);
  add(round.postedOutside, nameOf(kind, round.nowMs), step.units);
}

/**
 * What is posted and held stays within the limit; of a window that lasts, the ledger counts exactly what is
 * somewhere; and each holder's leases are what it has.
 */
async function expectWhole(round: Round): Promise<void> {
  const held = new Map<string, number>();
  for (const { held: each, isResolved } of round.approvals) {
    if (!isResolved) add(held, `${each.counter} ${each.window} ${each.startsAtMs}`, each.units);
  }
  for (const [name, highest] of round.highest) {
    expect((round.posted.get(name) ?? 0) + (held.get(name) ?? 0), name).toBeLessThanOrEqual(highest);
  }
  const owned = [`%${round.gateId}%`, `%${round.passportId}%`];
  const windows = await database.sql<{ name: string; leased: number; endsAtMs: number }[]>`
    SELECT counter || ' ' || window_name || ' ' || starts_at_ms AS name, leased, ends_at_ms AS "endsAtMs" FROM quota_windows
    WHERE counter LIKE ANY(${owned}::text[])`;
  const leases = await database.sql<{ name: string; holder: string; units: number }[]>`
    SELECT counter || ' ' || window_name || ' ' || starts_at_ms AS name, holder, units FROM quota_leases
    WHERE counter LIKE ANY(${owned}::text[])`;
  const leased = new Map<string, number>();
  for (const each of leases) add(leased, each.name, each.units);
  for (const window of windows) {
    expect(window.leased, window.name).toBeLessThanOrEqual(round.highest.get(window.name) ?? 0);
    if (window.endsAtMs <= round.nowMs) continue;
    const outside = (held.get(window.name) ?? 0) + (round.postedOutside.get(window.name) ?? 0);
    expect(window.leased, window.name).toBe((leased.get(window.name) ?? 0) + outside);
  }
  for (const { name: holder, pending, available, used } of round.holders) {
    if (pending !== null) continue;
    for (const [name, { kind, startsAtMs, units }] of available) {
      if (windowAt(kind.window, startsAtMs).endsAtMs <= round.nowMs) continue;
      const row = leases.find((each) => each.holder === holder && each.name === name);
      expect(row?.units, name).toBe(units + (used.get(name) ?? 0));
    }
  }
}
