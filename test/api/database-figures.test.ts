import { Registry } from 'prom-client';
import { beforeAll, expect, it } from 'vitest';
import { installDatabaseFigures } from '../../control-plane/operations/database-figures.ts';
import { operationsLimits } from '../../control-plane/operations/limits.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
const metrics = new Registry();
let aheadMs = 0;
beforeAll(() => {
  const monotonic = () => (api.deps.clock.monotonic() + aheadMs) as MonotonicMillis;
  installDatabaseFigures({ ...api.deps, metrics, clock: { ...api.deps.clock, monotonic } });
});

const figures = async (): Promise<Readonly<Record<string, number>>> => {
  const lines = (await metrics.metrics()).split('\n').filter((line) => /^agent_trust_[a-z_]+ /.test(line));
  return Object.fromEntries(lines.map((line) => [line.split(' ')[0], Number(line.split(' ')[1])]));
};

it('counts what waits, as far as a limit, and shows the last figures while the database hangs', async () => {
  const { sql } = api.deps;
  const { account_id } = (await api.call({ url: '/v1/accounts' })).body.items[0];
  const nowMs = Date.now();
  const overdueMs = 60_000;
  const webhook = await api.call({
    url: '/v1/webhooks',
    body: { url: null, events: ['gate.created'], description: 'figures' },
  });
  await sql`INSERT INTO webhook_deliveries (delivery_id, webhook_id, event_id, status, attempts, tries, next_attempt_at_ms, created_at_ms)
    SELECT 'dlv_' || n, ${webhook.body.webhook_id}, 'evt_' || n, 'pending', 0, 0, ${nowMs - overdueMs}::bigint, ${nowMs}::bigint
    FROM generate_series(1, ${operationsLimits.countedRowsMax + 5}) n`;
  await sql`INSERT INTO sidecars VALUES ('side_x', ${account_id}, 'c', ${nowMs}, ${nowMs + 600_000}, 0, 0, 0)`;
  await sql`UPDATE feeds SET revision = 7 WHERE feed_id = 'global'`;

  const first = await figures();
  expect(first).toMatchObject({
    agent_trust_connected_sidecars: 1,
    agent_trust_webhook_deliveries_due: operationsLimits.countedRowsMax,
    agent_trust_approvals_pending: 0,
  });
  expect(first['agent_trust_sidecar_lag_revisions']).toBeGreaterThanOrEqual(7);
  expect(first['agent_trust_webhook_delivery_overdue_seconds']).toBeGreaterThanOrEqual(overdueMs / 1_000 - 1);

  const locker = connect({ url: api.databaseUrl, connectionsMax: 1 });
  let release = (): void => undefined;
  const locked = new Promise<void>((resolve) => {
    release = resolve;
  });
  let isLocked = false;
  const holding = locker.begin(async (tx) => {
    await tx`LOCK TABLE approvals IN ACCESS EXCLUSIVE MODE`;
    isLocked = true;
    await locked;
  });
  await until(() => isLocked, { what: 'the lock' });
  aheadMs += operationsLimits.databaseFiguresIntervalMs;
  // A scrape waits for one read at most.
  await expectWithin(2 * operationsLimits.databaseFiguresMsMax, 'a scrape is answered', async () => {
    const { result: last, ...time } = await timed(figures);
    expect(last['agent_trust_webhook_deliveries_due']).toBe(operationsLimits.countedRowsMax);
    expect(last['agent_trust_database_figures_age_seconds']).toBeGreaterThanOrEqual(
      operationsLimits.databaseFiguresIntervalMs / 1_000,
    );
    return time;
  });
  release();
  await holding;
  await locker.end();

  await sql`DELETE FROM webhook_deliveries`;
  // A read that takes too long on a busy machine shows the last figures once more.
  await until(
    async () => {
      aheadMs += operationsLimits.databaseFiguresIntervalMs;
      return (await figures())['agent_trust_webhook_deliveries_due'] === 0;
    },
    { what: 'figures of now' },
  );
});
