import { beforeAll, describe, expect, it } from 'vitest';
import { quotaLimits } from '../../control-plane/book/limits.ts';
import { dayMs } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import {
  type ConnectedSidecar,
  connectSidecar,
  predatePassport,
  recordOf,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let sidecar: ConnectedSidecar;
let passport: Reply['body'];
beforeAll(async () => {
  // The tests of a file take seconds, and none of them is to meet the end of a day or a month.
  const nowMs = api.deps.clock.now();
  api.advance(windowAt('month', nowMs).endsAtMs - nowMs + dayMs / 2);
  sidecar = await connectSidecar(api);
  passport = await api.issuePassport();
  await predatePassport(api, passport.passport_id, 62 * dayMs);
  await subscribe();
});

/** Nothing is sent where there is no address: the events wait. */
async function subscribe(key = api.adminKey): Promise<string> {
  const reply = await api.call({
    url: '/v1/webhooks',
    key,
    body: { url: null, events: ['spend_limit.approaching'] },
  });
  expect(reply.status).toBe(201);
  return reply.body.webhook_id;
}

const gateOf = async (spendLimits: object) =>
  (await api.createGate({ constraints: { spend_limits: spendLimits } })).gate_id;
const permit = (gateId: string | null, usd: number, change: object = {}) =>
  recordOf(api, { gateId, passport }, { amount_micro_usd: Math.round(usd * 1e6), ...change });

let nextSeq = 1;
async function ship(...records: object[]): Promise<void> {
  const reply = await sidecar.send(nextSeq, records);
  expect(reply.status).toBe(200);
  nextSeq += records.length;
}

/** What was told about a gate or passport, in order. */
async function alertsAbout(id: string): Promise<Reply['body'][]> {
  const rows = await api.deps.sql<{ body: string }[]>`
    SELECT body FROM webhook_events WHERE event = 'spend_limit.approaching' ORDER BY event_id`;
  return rows
    .map(({ body }) => JSON.parse(body).data)
    .filter((data) => data.gate_id === id || data.passport_id === id);
}

describe('spend_limit.approaching', () => {
  it('is sent once, when the spend of PERMITs reaches four fifths of a limit', async () => {
    const gateId = await gateOf({ daily_usd: 10 });
    await ship(permit(gateId, 7.999999));
    expect(await alertsAbout(gateId)).toEqual([]);
    await ship(permit(gateId, 0.000001));
    const alert = {
      gate_id: gateId,
      passport_id: null,
      wallet_id: null,
      window: 'day',
      limit_usd: 10,
      spent_usd: 8,
      fraction: 0.8,
    };
    expect(await alertsAbout(gateId)).toEqual([alert]);
    await ship(permit(gateId, 1), permit(gateId, 1));
    expect(await alertsAbout(gateId)).toEqual([alert]);
  });

  it('counts records that no limit has let through as far as numbers are exact, and goes on', async () => {
    const gateId = await gateOf({ daily_usd: 10 });
    const most = { amount_micro_usd: 1e15 };
    for (let batch = 0; batch < 3; batch++)
      await ship(...Array.from({ length: 6 }, () => permit(gateId, 0, most)));
    expect(await alertsAbout(gateId)).toMatchObject([{ spent_usd: 6e9 }]);
    const elsewhere = await gateOf({ daily_usd: 10 });
    await ship(permit(elsewhere, 9));
    expect(await alertsAbout(elsewhere)).toMatchObject([{ spent_usd: 9 }]);
  });

  it('is sent once for each window, at the fraction that the gate sets', async () => {
    const gateId = await gateOf({ daily_usd: 10, monthly_usd: 20, alert_at: 0.5 });
    await ship(permit(gateId, 4), permit(gateId, 2));
    await ship(permit(gateId, 4.5));
    expect(await alertsAbout(gateId)).toMatchObject([
      { window: 'day', spent_usd: 6, fraction: 0.6 },
      { window: 'month', spent_usd: 10.5, fraction: 0.525 },
    ]);
  });

  it('is sent again in the next window', async () => {
    const gateId = await gateOf({ daily_usd: 10 });
    const nowMs = api.deps.clock.now();
    await ship(permit(gateId, 9, { timestamp_ms: nowMs - dayMs }));
    await ship(permit(gateId, 9));
    await ship(permit(gateId, 1, { timestamp_ms: nowMs - dayMs }));
    expect(await alertsAbout(gateId)).toMatchObject([{ spent_usd: 9 }, { spent_usd: 9 }]);
  });

  it('names the passport where the gate counts each for itself', async () => {
    const gateId = await gateOf({ daily_usd: 10, per: 'passport' });
    const other = await api.issuePassport();
    await ship(
      permit(gateId, 6),
      recordOf(api, { gateId, passport: other }, { amount_micro_usd: 6_000_000 }),
      permit(gateId, 2),
    );
    expect(await alertsAbout(gateId)).toMatchObject([{ passport_id: passport.passport_id, spent_usd: 8 }]);
  });

  /** The number of a lease that went with its holder. */
  const leaseGone = 999_999;

  it('is sent to the passport’s account for its own limit, across all gates', async () => {
    const stranger = await api.createAccount();
    const webhookId = await subscribe(stranger.key);
    const visitor = await api.issuePassport(
      { agent_id: 'visitor', constraints: { spend_limits: { monthly_usd: 10 } } },
      stranger.key,
    );
    const gateIds = [
      await gateOf({ per_transaction_usd: 9 }),
      await gateOf({ per_transaction_usd: 9 }),
      await gateOf({ per_transaction_usd: 9 }),
    ];
    for (const gateId of gateIds) {
      await ship(
        recordOf(api, { gateId, passport: visitor }, { amount_micro_usd: 3_000_000, took: [leaseGone] }),
      );
    }
    expect(await alertsAbout(visitor.passport_id)).toEqual([
      {
        gate_id: null,
        passport_id: visitor.passport_id,
        wallet_id: null,
        window: 'month',
        limit_usd: 10,
        spent_usd: 9,
        fraction: 0.9,
      },
    ]);
    const [told] = await api.deps.sql`
      SELECT array_agg(DISTINCT webhook_id) AS by FROM webhook_deliveries JOIN webhook_events USING (event_id)
      WHERE body LIKE ${`%${visitor.passport_id}%`}`;
    expect(told?.['by']).toEqual([webhookId]);
  });

  it('does not count a BLOCK, a SUSPEND, or a PERMIT that moved no money', async () => {
    const gateId = await gateOf({ daily_usd: 10 });
    await ship(
      permit(gateId, 9, { decision: 'BLOCK', reason: 'spend_limit_exceeded' }),
      permit(gateId, 0),
      permit(gateId, 1, { amount_micro_usd: null }),
    );
    expect(await alertsAbout(gateId)).toEqual([]);
    const rows = await api.deps.sql`SELECT FROM quota_spend WHERE counter LIKE ${`%${gateId}%`}`;
    expect(rows).toHaveLength(0);
  });

  it('is given once however often the limit changes in a window', async () => {
    const gateId = await gateOf({ daily_usd: 10 });
    const change = (dailyUsd: number) =>
      api.call({
        method: 'PUT',
        url: `/v1/gates/${gateId}`,
        body: { constraints: { spend_limits: { daily_usd: dailyUsd } } },
      });
    await ship(permit(gateId, 8));
    await change(100);
    await ship(permit(gateId, 1));
    await change(10);
    await ship(permit(gateId, 1));
    await change(0);
    await ship(permit(gateId, 1));
    expect(await alertsAbout(gateId)).toHaveLength(1);
  });

  it('is not sent for a record that arrives long after its window has ended', async () => {
    const gateId = await gateOf({ daily_usd: 10 });
    const databaseNowMs = Date.now();
    await ship(permit(gateId, 9, { timestamp_ms: databaseNowMs - quotaLimits.spendCountedMs - 2 * dayMs }));
    expect(await alertsAbout(gateId)).toEqual([]);
    await ship(permit(gateId, 9, { timestamp_ms: databaseNowMs - quotaLimits.spendCountedMs + dayMs }));
    expect(await alertsAbout(gateId)).toHaveLength(1);
  });

  it('is given once where many sidecars ship at the same time, and not one micro-dollar is lost', async () => {
    const gateIds = await Promise.all(
      Array.from({ length: 3 }, () => gateOf({ daily_usd: 100, monthly_usd: 100 })),
    );
    const sidecars = await Promise.all(Array.from({ length: 5 }, () => connectSidecar(api)));
    const visitors = await Promise.all(
      Array.from({ length: 5 }, () =>
        api.issuePassport({ constraints: { spend_limits: { daily_usd: 24 } } }),
      ),
    );
    await Promise.all(
      sidecars.map(async (each, turn) => {
        const inTurn = turn % 2 === 0 ? gateIds : [...gateIds].reverse();
        for (let batch = 0; batch < 4; batch++) {
          const records = inTurn.map((gateId, place) =>
            recordOf(
              api,
              { gateId, passport: visitors[(turn + place) % 5] },
              { amount_micro_usd: 5_000_000 - 1 },
            ),
          );
          const replies = await Promise.all([1, 2].map(() => each.send(1 + 3 * batch, records)));
          expect(replies.map(({ status }) => status)).toEqual([200, 200]);
        }
      }),
    );
    for (const gateId of gateIds) {
      const told = (await alertsAbout(gateId)).map((alert) => alert.window);
      expect(told.toSorted()).toEqual(['day', 'month']);
      const rows = await api.deps.sql<
        { spent: number }[]
      >`SELECT spent FROM quota_spend WHERE counter LIKE ${`%${gateId}%`}`;
      expect(rows.map(({ spent }) => spent)).toEqual([20 * 4_999_999, 20 * 4_999_999]);
    }
    for (const { passport_id } of visitors) expect(await alertsAbout(passport_id)).toHaveLength(1);
  });
});
