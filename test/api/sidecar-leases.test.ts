import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Reply } from '../support/api.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { isPassing, type SidecarPair, startSidecarPair, tally } from '../support/sidecar-pair.ts';
import { expectWithin, timeUntil } from '../support/time-promise.ts';
import { until, untilAnswer } from '../support/until.ts';

const order = { permission_key: 'orders:create' };

describe('the leases of a sidecar', () => {
  let pair: SidecarPair;
  beforeAll(async () => {
    pair = await startSidecarPair();
  });
  afterAll(async () => {
    await pair?.close();
  });

  /** Units that nobody else can have. */
  const leasedOf = async (gateId: string): Promise<number> => {
    const [row] = await pair.api.deps.sql<{ leased: number }[]>`
      SELECT coalesce(sum(leased), 0)::bigint AS leased FROM quota_windows WHERE counter = ${`gate_rate:${gateId}`}`;
    return row?.leased ?? 0;
  };

  const calls = async (sidecar: TestSidecar): Promise<number> => {
    const { body } = await sidecar.call({ path: '/metrics', key: null });
    return Number(/^agent_trust_sidecar_lease_calls_total (\d+)$/m.exec(String(body))?.[1]);
  };

  /**
   * Requests from so many clients, each one after the other, and again while the answer may be another in a
   * moment, as on a busy machine it may be.
   */
  async function load(
    sidecar: TestSidecar,
    { gateId, token }: { readonly gateId: string; readonly token: string },
    size: { readonly clients: number; readonly requestsEach: number },
  ) {
    const clients = Array.from({ length: size.clients }, async () => {
      const replies: Reply[] = [];
      while (replies.length < size.requestsEach) {
        const ask = () => sidecar.check(gateId, token, order);
        replies.push(await untilAnswer(ask, (reply) => !isPassing(reply), { what: 'an answer that stays' }));
      }
      return replies;
    });
    return tally((await Promise.all(clients)).flat());
  }

  it('are taken from without a call each at a busy gate, and idle units come back within two seconds', async () => {
    const [sidecar] = pair.sidecars;
    await expectWithin(2_000, 'idle units are back', async () => {
      const at = await pair.setUp({ gate: { rate_limits: { requests_per_hour: 1_000_000 } } });
      const before = await calls(sidecar);
      const startedMs = performance.now();
      expect(await load(sidecar, at, { clients: 8, requestsEach: 100 })).toEqual({ PERMIT: 800 });
      // A call leases for a while: the slower the machine, the fewer requests come in it.
      const tookMs = performance.now() - startedMs;
      expect((await calls(sidecar)) - before).toBeLessThan(80 + tookMs / 80);
      expect(await leasedOf(at.gateId)).toBeGreaterThan(800);
      return timeUntil(async () => (await leasedOf(at.gateId)) === 800, 'idle units back in the ledger');
    });
  });

  it('go back when the sidecar is closed', async () => {
    const at = await pair.setUp({ gate: { rate_limits: { requests_per_hour: 1_000_000 } } });
    const sidecar = await startTestSidecar({ api: pair.api });
    let permitted = 0;
    // Again, where what it held had gone back before it was looked at.
    const holdsSome = async () => {
      permitted += (await load(sidecar, at, { clients: 8, requestsEach: 50 }))['PERMIT'] ?? 0;
      return (await leasedOf(at.gateId)) > permitted;
    };
    await until(holdsSome, { what: 'units ahead of need' });
    await sidecar.close();
    expect(await leasedOf(at.gateId)).toBe(permitted);
    sidecar.removeFolder();
  });

  it('mean nothing any more where the control plane has forgotten them, and new ones are had at once', async () => {
    const [sidecar, other] = pair.sidecars;
    const at = await pair.setUp({ gate: { rate_limits: { requests_per_hour: 300 } } });
    expect(await load(sidecar, at, { clients: 4, requestsEach: 25 })).toEqual({ PERMIT: 100 });
    await pair.api.deps.sql`DELETE FROM lease_holders`;
    const counts = await load(sidecar, at, { clients: 4, requestsEach: 100 });
    const others = await load(other, at, { clients: 4, requestsEach: 25 });
    const permitted = 100 + (counts['PERMIT'] ?? 0) + (others['PERMIT'] ?? 0);
    expect(permitted).toBeLessThanOrEqual(300);
    // What was held when it was forgotten, at most a sixteenth of what was left, stays counted.
    expect(permitted).toBeGreaterThan(300 - 300 / 8);
    expect(await leasedOf(at.gateId)).toBeLessThanOrEqual(300);
  });

  it('go on over a connection that breaks again and again, and no unit is used twice or lost', async () => {
    const [sidecar] = pair.sidecars;
    const at = await pair.setUp({ gate: { rate_limits: { requests_per_hour: 1_000_000 } } });
    let isOver = false;
    // At any moment of a call, after at least one that was answered since the last time: where the machine is
    // slow too.
    const breaking = (async () => {
      for (let pauseMs = 0; !isOver; pauseMs = (pauseMs + 7) % 20) {
        const before = await calls(sidecar);
        await until(async () => isOver || (await calls(sidecar)) > before, {
          what: 'a call that is answered',
        });
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
        sidecar.link.cut();
        sidecar.link.restore();
      }
    })();
    const counts = await load(sidecar, at, { clients: 4, requestsEach: 150 });
    isOver = true;
    await breaking;
    const permitted = counts['PERMIT'] ?? 0;
    expect(permitted).toBeGreaterThan(300);
    await until(async () => (await leasedOf(at.gateId)) === permitted, {
      what: 'each unit taken by a PERMIT or back in the ledger',
    });
  });
});
