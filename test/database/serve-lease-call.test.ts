import { beforeAll, describe, expect, it } from 'vitest';
import { entriesOf } from '../../control-plane/book/entry.ts';
import { transferFromHolder } from '../../control-plane/book/hold.ts';
import { quotaLimits } from '../../control-plane/book/limits.ts';
import { keepBook } from '../../control-plane/book/post.ts';
import { readWindows } from '../../control-plane/book/read-windows.ts';
import { takeUnits } from '../../control-plane/book/take-units.ts';
import { serveLeaseCall } from '../../control-plane/quota/serve-lease-call.ts';
import { must } from '../../shared/errors/assert.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { dayMs, minuteMs, parseTime, type UnixMillis } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { counterOfLease, type LeaseCall, type LeaseReturn } from '../../shared/wire/sync/lease-call.ts';
import { until } from '../support/base/until.ts';
import { type LeaseDatabase, leaseDatabase } from '../support/database/lease-database.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { useDatabase } from '../support/database/use-database.ts';
import { ofGate, wish } from '../support/service/lease-holder.ts';

const database = useDatabase();
let world: LeaseDatabase;
let sidecar: Awaited<ReturnType<LeaseDatabase['connectSidecar']>>;
beforeAll(async () => {
  world = await leaseDatabase(database.sql);
  sidecar = await world.connectSidecar();
});

const nowMs = parseTime('2096-02-29T23:59:30Z') as UnixMillis;
const { startsAtMs } = windowAt('day', nowMs);
let names = 0;
const newHolder = () => (++names).toString(16).padStart(32, '0');

async function lease(
  holder: string,
  seq: number,
  call: Partial<Pick<LeaseCall, 'asks' | 'returns'>>,
  atMs = nowMs,
): Promise<ReturnType<typeof serveLeaseCall>> {
  const { sidecarId, connectionId } = sidecar;
  const whole = {
    sidecar_id: sidecarId,
    connection_id: connectionId,
    holder,
    seq,
    asks: [],
    returns: [],
    ...call,
  };
  return serveLeaseCall(database.sql, world.accountId, whole, atMs);
}

/** A holder with that many dollars of a gate's day. */
async function holderOf(usd: number): Promise<{ readonly holder: string; readonly gateId: GateId }> {
  const gateId = await world.createGate({ spend_limits: { daily_usd: 10 } });
  const holder = newHolder();
  await lease(holder, 1, { asks: [wish(ofGate('gate_spend', gateId), 'day', usd * 1e6)] });
  return { holder, gateId };
}

const day = (gateId: GateId, usd: number): LeaseReturn => ({
  ...ofGate('gate_spend', gateId),
  window: 'day',
  starts_at_ms: startsAtMs,
  units: usd * 1e6,
});
const keyOf = (gateId: GateId) => counterKey(counterOfLease(ofGate('gate_spend', gateId)));

async function leasedOf(gateId: GateId): Promise<number | undefined> {
  const [read] = await readWindows(database.sql, [{ counter: keyOf(gateId), window: 'day' }], nowMs);
  return read === undefined ? undefined : read.leased / 1e6;
}

const transfer = (holder: string, held: readonly LeaseReturn[], sidecarId = sidecar.sidecarId) =>
  database.sql.begin((tx) => transferFromHolder(tx, { holder, sidecarId }, held));

describe('a call of another sidecar that names the holder', () => {
  it('locks none of its leases: it waits for none, and holds none up', async () => {
    const { holder, gateId } = await holderOf(5);
    const { sidecarId, connectionId } = await world.connectSidecar();
    const foreign = (seq: number) =>
      serveLeaseCall(
        database.sql,
        world.accountId,
        {
          sidecar_id: sidecarId,
          connection_id: connectionId,
          holder,
          seq,
          asks: [wish(ofGate('gate_spend', gateId), 'day', 1)],
          returns: [day(gateId, 1)],
        },
        nowMs,
      );
    const answers: unknown[] = [];
    const calls = [2, quotaLimits.leaseCallsPerFold];
    const done = await database.sql.begin(async (tx) => {
      await tx`SELECT FROM quota_leases WHERE holder = ${holder} FOR UPDATE`;
      const asked = calls.map(async (seq) => void answers.push(await foreign(seq)));
      const isSettled = async () =>
        answers.length === calls.length || (await waitingForLocks(database.sql)) > 0;
      await until(isSettled, { what: 'both are answered, or one waits' });
      return { asked, answered: answers.length };
    });
    expect(done.answered).toBe(calls.length);
    expect(answers).toEqual(calls.map(() => ({ kind: 'holder_unknown' })));
    expect(await leasedOf(gateId)).toBe(5);
  });
});

describe('transferFromHolder', () => {
  it('passes units on, which the ledger counts as before and the holder cannot give back', async () => {
    const { holder, gateId } = await holderOf(5);
    expect(await transfer(holder, [day(gateId, 3)])).toEqual([
      { counter: keyOf(gateId), window: 'day', startsAtMs, units: 3e6 },
    ]);
    expect(await leasedOf(gateId)).toBe(5);
    await lease(holder, 2, { returns: [day(gateId, 5)] });
    expect(await leasedOf(gateId)).toBe(3);
  });

  it('says how much of it was not the holder’s', async () => {
    const { holder, gateId } = await holderOf(5);
    const other = await holderOf(5);
    const units = async (...call: Parameters<typeof transfer>) =>
      (await transfer(...call)).map((each) => each.units / 1e6);
    expect(await units(holder, [day(gateId, 6)])).toEqual([5]);
    expect(await units(holder, [day(gateId, 1), day(other.gateId, 1)])).toEqual([0, 0]);
    expect(await units(newHolder(), [day(gateId, 1)])).toEqual([0]);
    const { sidecarId } = await world.connectSidecar();
    expect(await units(other.holder, [day(other.gateId, 1)], sidecarId)).toEqual([0]);
    expect(await units(other.holder, [day(other.gateId, 1)])).toEqual([1]);
  });
});

describe('a void beside a lease call of the same window', () => {
  it('waits for it or is waited for, and never both', async () => {
    const { holder, gateId } = await holderOf(5);
    const ask = wish(ofGate('gate_spend', gateId), 'day', 1e6);
    const [held] = await database.sql<{ leaseId: number }[]>`
      SELECT lease_id AS "leaseId" FROM quota_leases WHERE holder = ${holder}`;
    const took = [must(held, 'the holder has a lease').leaseId];
    const isWaiting = async () => (await waitingForLocks(database.sql)) === 1;
    let call: ReturnType<typeof lease> | undefined;
    await database.sql.begin(async (tx) => {
      const entries = entriesOf({ kind: 'unsettled', money: 2e6 });
      const posting = { source: sidecar.sidecarId, from: took, approvalId: null, entries, atMs: nowMs };
      await keepBook(tx, nowMs, async (book) => {
        await book.draw([posting]);
        call = lease(holder, 2, { asks: [ask] });
        await until(isWaiting, { what: 'the lease call waits' });
      });
    });
    expect(await call).toMatchObject({ kind: 'answered', answer: { grants: [{ granted: 1e6 }] } });
    expect(await leasedOf(gateId)).toBe(4);
  });
});

describe('readWindows', () => {
  it('answers the units given out, in the order of the asks, and creates no window', async () => {
    const { gateId } = await holderOf(5);
    const other = await holderOf(2);
    const never = await world.createGate({});
    const asked = [never, other.gateId, gateId].map((id) => ({ counter: keyOf(id), window: 'day' as const }));
    const window = windowAt('day', nowMs);
    const read = [0, 2e6, 5e6].map((leased) => ({ window, leased }));
    expect(await readWindows(database.sql, asked, nowMs)).toEqual(read);
    expect(await readWindows(database.sql, [], nowMs)).toEqual([]);
    const rows = await database.sql`SELECT FROM quota_windows WHERE counter = ${keyOf(never)}`;
    expect(rows).toHaveLength(0);
  });

  it('does not wait for a concurrent take', async () => {
    const { gateId } = await holderOf(5);
    await database.sql.begin(async (tx) => {
      const ask = {
        counter: keyOf(gateId),
        window: 'day' as const,
        limit: 1e7,
        unitsMin: 1e6,
        unitsMax: 1e6,
      };
      await takeUnits(tx, [[ask]], nowMs);
      expect(await leasedOf(gateId)).toBe(5);
    });
    expect(await leasedOf(gateId)).toBe(6);
  });
});

describe('ended holders and windows', () => {
  const longAgo = dayMs * 40;

  /** A holder that last called so long ago, with a lease that ended then. */
  async function oldHolder(agoMs: number): Promise<string> {
    const holder = newHolder();
    const atMs = Date.now() - agoMs;
    await database.sql`
      INSERT INTO lease_holders (holder, sidecar_id, account_id, last_seq, last_answer, last_call_at_ms)
      VALUES (${holder}, ${sidecar.sidecarId}, ${world.accountId}, 1, '[]', ${atMs})`;
    await database.sql`
      INSERT INTO quota_leases (holder, counter, window_name, starts_at_ms, ends_at_ms, units)
      VALUES (${holder}, 'gate_rate:old', 'minute', ${atMs - minuteMs}, ${atMs}, 3)`;
    return holder;
  }

  const isKnown = async (holder: string) =>
    (await database.sql`SELECT FROM lease_holders WHERE holder = ${holder}`).length === 1;
  const leasesOf = async (holder: string) =>
    (await database.sql`SELECT FROM quota_leases WHERE holder = ${holder}`).length;

  it('goes when new leases and new holders come: first the lease, then a holder that has none', async () => {
    const [silent, recent] = [await oldHolder(longAgo), await oldHolder(quotaLimits.leaseHolderKeptMs / 2)];
    await holderOf(1);
    expect([await leasesOf(silent), await leasesOf(recent)]).toEqual([0, 0]);
    expect(await isKnown(silent)).toBe(true);
    await holderOf(1);
    expect([await isKnown(silent), await isKnown(recent)]).toEqual([false, true]);
  });

  it('stays where a window lasts, however long its holder has been silent', async () => {
    const { holder } = await holderOf(1);
    await database.sql`UPDATE lease_holders SET last_call_at_ms = ${Date.now() - longAgo} WHERE holder = ${holder}`;
    await holderOf(1);
    await holderOf(1);
    expect([await isKnown(holder), await leasesOf(holder)]).toEqual([true, 1]);
  });

  it('stays where this control plane’s clock alone says that it is over', async () => {
    const { holder } = await holderOf(1);
    const gateId = await world.createGate({ spend_limits: { daily_usd: 10 } });
    const ask = wish(ofGate('gate_spend', gateId), 'day', 1);
    await lease(newHolder(), 1, { asks: [ask] }, (nowMs + 400 * dayMs) as UnixMillis);
    expect([await isKnown(holder), await leasesOf(holder)]).toEqual([true, 1]);
  });

  it("is removed beyond the maximum of a sidecar's holders, the longest silent first; its units stay counted", async () => {
    const former = sidecar;
    sidecar = await world.connectSidecar();
    const { holder: oldest, gateId } = await holderOf(4);
    const holders = [oldest];
    const { leaseHoldersPerSidecarMax } = quotaLimits;
    const later = (minutes: number) => (nowMs + minutes * minuteMs) as UnixMillis;
    const begin = async (minutes: number): Promise<string> => {
      const holder = newHolder();
      await lease(holder, 1, {}, later(minutes));
      holders.push(holder);
      return holder;
    };
    while (holders.length < leaseHoldersPerSidecarMax) await begin(holders.length);
    const known = async () => {
      const rows = await database.sql<{ holder: string }[]>`
        SELECT holder FROM lease_holders WHERE sidecar_id = ${sidecar.sidecarId}`;
      return new Set(rows.map(({ holder }) => holder));
    };
    expect(await known()).toEqual(new Set(holders));
    // The oldest calls again, hours later: another one is the longest silent.
    await lease(oldest, 2, {}, later(200));
    await begin(201);
    expect(await known()).toEqual(new Set(holders.filter((holder) => holder !== holders[1])));

    await database.sql`UPDATE lease_holders SET last_call_at_ms = 0 WHERE holder = ${oldest}`;
    const newest = await begin(202);
    expect((await known()).has(oldest)).toBe(false);
    expect(await lease(oldest, 3, { returns: [day(gateId, 4)] }, later(203))).toEqual({
      kind: 'holder_unknown',
    });
    expect(await leasedOf(gateId)).toBe(4);
    expect(await lease(newest, 2, {}, later(203))).toMatchObject({ kind: 'answered' });
    sidecar = former;
  });

  it('does not wait for a call of a holder beyond the bound', async () => {
    const former = sidecar;
    sidecar = await world.connectSidecar();
    const { holder: busy } = await holderOf(1);
    for (let count = 1; count < quotaLimits.leaseHoldersPerSidecarMax; count++)
      await lease(newHolder(), 1, {});
    await database.sql`UPDATE lease_holders SET last_call_at_ms = 0 WHERE holder = ${busy}`;
    await database.sql.begin(async (tx) => {
      await tx`SELECT FROM lease_holders WHERE holder = ${busy} FOR UPDATE`;
      await lease(newHolder(), 1, {});
    });
    expect(await isKnown(busy)).toBe(true);
    await lease(newHolder(), 1, {});
    expect(await isKnown(busy)).toBe(false);
    sidecar = former;
  });

  it('says when a holder last called, to the hour', async () => {
    const { holder } = await holderOf(1);
    const calledAt = async () =>
      (await database.sql`SELECT last_call_at_ms AS at FROM lease_holders WHERE holder = ${holder}`)[0]?.[
        'at'
      ];
    await lease(holder, 2, {}, (nowMs + 59 * minuteMs) as UnixMillis);
    expect(await calledAt()).toBe(nowMs);
    await lease(holder, 3, {}, (nowMs + 60 * minuteMs) as UnixMillis);
    expect(await calledAt()).toBe(nowMs + 60 * minuteMs);
  });
});
