import { Gauge } from 'prom-client';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { BaseDeps } from '../base/deps.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { operationsLimits } from './limits.ts';

type FigureDeps = Pick<BaseDeps, 'sql' | 'clock' | 'logger' | 'metrics'>;

interface Figures {
  readonly sidecars_connected: number;
  readonly sidecar_lag_revisions: number;
  readonly webhook_deliveries_due: number;
  readonly webhook_delivery_overdue_ms: number;
  readonly approvals_pending: number;
  readonly connections: readonly { readonly state: string; readonly count: number }[];
}

/**
 * Gauges that come from the database, the same at every replica. They cost little however full the tables are
 * (each statement reads an index as far as a limit), and never make `/metrics` wait for a database that is
 * slow or away: they are read at most once in `operationsLimits.databaseFiguresIntervalMs`, one read at a
 * time, which the database ends after `operationsLimits.databaseFiguresMsMax`. Until then, and when it fails,
 * the last values are shown; `agent_trust_database_figures_age_seconds` says how old they are, NaN before the
 * first.
 */
export function installDatabaseFigures(deps: FigureDeps): void {
  const { clock, metrics } = deps;
  const refreshed = figureReader(deps);
  const registers = [metrics];
  const gauge = (name: string, help: string, of: (figures: Figures) => number): void => {
    new Gauge({
      name: `agent_trust_${name}`,
      help,
      registers,
      async collect() {
        const last = await refreshed();
        this.set(last === null ? Number.NaN : of(last.figures));
      },
    });
  };
  gauge(
    'connected_sidecars',
    'Connected sidecars: those that have called within the last seconds.',
    (figures) => figures.sidecars_connected,
  );
  gauge(
    'sidecar_lag_revisions',
    'Changes not yet acknowledged by the connected sidecar that is furthest behind.',
    (figures) => figures.sidecar_lag_revisions,
  );
  gauge(
    'webhook_deliveries_due',
    `Webhook deliveries that are due and not in flight, counted up to ${operationsLimits.countedRowsMax}.`,
    (figures) => figures.webhook_deliveries_due,
  );
  gauge(
    'webhook_delivery_overdue_seconds',
    'How long the oldest delivery of an enabled webhook has been due; 0 if none is.',
    (figures) => figures.webhook_delivery_overdue_ms / 1_000,
  );
  gauge(
    'approvals_pending',
    `Pending approvals, counted up to ${operationsLimits.countedRowsMax}.`,
    (figures) => figures.approvals_pending,
  );
  new Gauge({
    name: 'agent_trust_database_connections',
    help: 'Connections of all programs of this service to the database, by state.',
    labelNames: ['state'],
    registers,
    async collect() {
      const last = await refreshed();
      this.reset();
      for (const { state, count } of last?.figures.connections ?? []) this.set({ state }, count);
    },
  });
  new Gauge({
    name: 'agent_trust_database_connections_max',
    help: 'Connections that the pool of this replica may open.',
    registers,
  }).set(deps.sql.options.max);
  new Gauge({
    name: 'agent_trust_database_figures_age_seconds',
    help: 'Age of the figures that come from the database; NaN until they are read for the first time.',
    registers,
    async collect() {
      const last = await refreshed();
      this.set(last === null ? Number.NaN : (clock.monotonic() - last.readAtMs) / 1_000);
    },
  });
}

interface ReadFigures {
  readonly figures: Figures;
  readonly readAtMs: number;
}

/** Reads the figures again if they are old. Null: never read so far. */
function figureReader(deps: FigureDeps): () => Promise<ReadFigures | null> {
  const { clock } = deps;
  let last: ReadFigures | null = null;
  let startedAtMs = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | null = null;
  let isFailing = false;

  const read = async (): Promise<void> => {
    try {
      const readAtMs = clock.monotonic();
      last = { figures: await readFigures(deps), readAtMs };
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        deps.logger.warn({ err: error }, 'the figures of /metrics could not be read from the database');
      isFailing = true;
    } finally {
      reading = null;
    }
  };
  return async () => {
    const isOld = clock.monotonic() - startedAtMs >= operationsLimits.databaseFiguresIntervalMs;
    if (reading === null && isOld) {
      startedAtMs = clock.monotonic();
      reading = read();
    }
    if (reading !== null) await atMost(operationsLimits.databaseFiguresMsMax, reading);
    return last;
  };
}

/** Resolves with the work or after the time, whichever is first. `work` never rejects. */
async function atMost(timeMs: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeMs);
  });
  await Promise.race([work, over]);
  clearTimeout(timer);
}

/**
 * The oldest due delivery is found by walking from endpoint to endpoint, as claiming does: one look at the
 * index for each.
 */
const readFigures = ({ sql }: FigureDeps): Promise<Figures> =>
  sql.begin('READ ONLY', async (tx): Promise<Figures> => {
    await tx`SELECT set_config('statement_timeout', ${String(operationsLimits.databaseFiguresMsMax)}, true)`;
    const nowMs = databaseNowMs(tx);
    const rowsMax = operationsLimits.countedRowsMax;
    const [row] = await tx<Omit<Figures, 'connections'>[]>`
      WITH RECURSIVE connected AS (
        SELECT greatest(account.revision - acked_account_revision, global.revision - acked_global_revision, 0) AS lag
        FROM sidecars
        JOIN feeds account ON account.feed_id = sidecars.account_id
        JOIN feeds global ON global.feed_id = 'global'
        WHERE stopped_at_ms IS NULL AND last_seen_at_ms > ${nowMs} - ${limits.sidecarConnectedMs}::bigint
      ), queues AS (
        (SELECT webhook_id, next_attempt_at_ms, 1 AS n FROM webhook_deliveries
          WHERE next_attempt_at_ms IS NOT NULL ORDER BY webhook_id, next_attempt_at_ms LIMIT 1)
        UNION ALL
        SELECT next.webhook_id, next.next_attempt_at_ms, n + 1 FROM queues, LATERAL (
          SELECT webhook_id, next_attempt_at_ms FROM webhook_deliveries
          WHERE next_attempt_at_ms IS NOT NULL AND webhook_id > queues.webhook_id
          ORDER BY webhook_id, next_attempt_at_ms LIMIT 1) next
        WHERE n < ${operationsLimits.countedQueuesMax}
      )
      SELECT
        (SELECT count(*) FROM connected) AS sidecars_connected,
        (SELECT coalesce(max(lag), 0) FROM connected) AS sidecar_lag_revisions,
        (SELECT count(*) FROM (SELECT 1 FROM webhook_deliveries
          WHERE next_attempt_at_ms IS NOT NULL AND next_attempt_at_ms <= ${nowMs} LIMIT ${rowsMax}) due) AS webhook_deliveries_due,
        (SELECT greatest(coalesce(${nowMs} - min(next_attempt_at_ms), 0), 0)
          FROM queues JOIN webhooks USING (webhook_id) WHERE status = 'enabled') AS webhook_delivery_overdue_ms,
        (SELECT count(*) FROM (SELECT 1 FROM approvals WHERE status = 'pending' LIMIT ${rowsMax}) pending) AS approvals_pending`;
    const connections = await tx<{ state: string; count: number }[]>`
      SELECT coalesce(state, 'unknown') AS state, count(*) AS count FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'agent-trust' GROUP BY 1`;
    return { ...must(row, 'an aggregate has a row'), connections };
  }) as Promise<Figures>;
