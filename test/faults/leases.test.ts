import { beforeAll, describe, expect, it } from 'vitest';
import { serveLeaseCall } from '../../control-plane/quota/serve-lease-call.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { LeaseCall } from '../../shared/wire/sync/lease-call.ts';
import { faultyDatabase } from '../support/database/faulty-sql.ts';
import { type LeaseDatabase, leaseDatabase } from '../support/database/lease-database.ts';
import { useDatabase } from '../support/database/use-database.ts';
import { ofGate, wish } from '../support/service/lease-holder.ts';

const database = useDatabase();
let world: LeaseDatabase;
beforeAll(async () => {
  world = await leaseDatabase(database.sql);
});

const nowMs = Date.UTC(2096, 1, 29, 12) as UnixMillis;

/** What the ledger counts, and what of it is leased to holders. */
async function counted(): Promise<readonly [number, number]> {
  const [sums] = await database.sql<{ windows: number; leases: number }[]>`
    SELECT (SELECT coalesce(sum(leased), 0)::bigint FROM quota_windows) AS windows,
      (SELECT coalesce(sum(units), 0)::bigint FROM quota_leases) AS leases`;
  return [sums?.windows ?? -1, sums?.leases ?? -1];
}

describe('a lease call', () => {
  it('counts once, whichever statement or the answer to the commit fails the first time', async () => {
    const { sidecarId, connectionId } = await world.connectSidecar();
    let leased = 0;
    for (let failAt = 0; ; failAt++) {
      expect(failAt).toBeLessThan(40);
      const holder = failAt.toString(16).padStart(32, '0');
      const gateIds = [
        await world.createGate({ rate_limits: { requests_per_day: 100 } }),
        await world.createGate({ rate_limits: { requests_per_day: 100 } }),
      ] as const;
      const [old, fresh] = gateIds.map((gateId) => wish(ofGate('gate_rate', gateId), 'day', 10));
      const call = (seq: number, more: Partial<LeaseCall>): LeaseCall => ({
        sidecar_id: sidecarId,
        connection_id: connectionId,
        holder,
        seq,
        asks: [],
        returns: [],
        ...more,
      });
      const asks = [old, fresh].flatMap((each) => each ?? []);
      // A holder's first call, and one that gives back and makes a new window.
      const dayMs = Date.UTC(2096, 1, 29) as UnixMillis;
      const returns = [
        { ...ofGate('gate_rate', gateIds[0]), window: 'day' as const, starts_at_ms: dayMs, units: 4 },
      ];
      const calls = [call(1, { asks: asks.slice(0, 1) }), call(2, { asks: asks.slice(1), returns })];
      let isOver = true;
      for (const [place, each] of calls.entries()) {
        const faulty = faultyDatabase(database.sql, failAt);
        const first = await serveLeaseCall(faulty.sql, world.accountId, each, nowMs).catch(() => null);
        if (first === null) isOver = false;
        const after = leased + (place === 0 ? 10 : 6);
        // The trim comes after the commit, and at 0 the commit itself was made before it failed.
        const [windows, leases] = await counted();
        expect(windows, `failing at ${failAt}`).toBe(leases);
        expect(first === null ? [leased, after] : [after]).toContain(windows);
        const again = await serveLeaseCall(database.sql, world.accountId, each, nowMs);
        expect(again).toMatchObject({ kind: 'answered', answer: { grants: [{ granted: 10, leased: 10 }] } });
        leased = after;
        expect(await counted()).toEqual([leased, leased]);
      }
      if (isOver) break;
    }
  });
});
