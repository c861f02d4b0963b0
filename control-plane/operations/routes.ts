/** Room `control-plane/operations`: `/livez`, `/readyz` and `/metrics`. */

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { type Static, Type } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
import { nullable } from '../../shared/wire/api/fields.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { historyOf } from '../history/history.ts';
import { operationsOf } from '../http/operation.ts';
import { LogReadiness, logReadiness } from '../log/log-readiness.ts';
import { masterKeyState } from '../master-key/follow-master-keys.ts';
import { refusedConnections } from '../storage/connection-room.ts';
import { databaseFailure } from '../storage/database-away.ts';
import type { Replica } from '../storage/replica.ts';
import { replicaOf } from '../storage/replica-reads.ts';

const api = operationsOf('Operations', {
  getLiveness: { scope: null, summary: 'Ask whether this process answers' },
  getReadiness: {
    scope: null,
    summary: 'Ask whether this process can serve',
    description:
      'Answers 503 where it cannot: the database cannot be reached, or is not migrated, or a chain of records was inconsistent.',
  },
  getMetrics: {
    scope: null,
    summary: 'Get the metrics as Prometheus text',
    contents: { 'text/plain': Type.String() },
  },
});

/**
 * What the people and programs that run this one ask, without a key and outside `/v1` (contract §1).
 * `/livez`: this process answers. `/readyz`: it can serve, 503 if not. `/metrics`: Prometheus text.
 */
export function operationsRoutes(deps: AppendingDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/livez',
      { config: api.getLiveness, schema: { response: { 200: LivenessAnswer } } },
      async () => ({
        status: 'live' as const,
      }),
    );
    const readyz = {
      config: api.getReadiness,
      schema: { response: { 200: ReadinessAnswer, 503: ReadinessAnswer } },
    };
    const tell = tellChanges(deps);
    app.get('/readyz', readyz, async (_request, reply) => {
      const readiness = await readReadiness(deps);
      tell(readiness);
      return reply.code(readiness.status === 'ready' ? 200 : 503).send(readiness);
    });
    app.get('/metrics', { config: api.getMetrics }, async (_request, reply) =>
      reply.type(deps.metrics.contentType).send(await deps.metrics.metrics()),
    );
  };
}

const LivenessAnswer = Type.Object({ status: Type.Literal('live') });

export const ReadinessAnswer = Type.Object({
  status: Type.Enum(['ready', 'not_ready']),
  /** It was told to stop and still answers for DRAIN_GRACE_MS: send nothing new. */
  draining: Type.Boolean(),
  database: Type.Enum(['reachable', 'unreachable', 'not_migrated']),
  /** DATABASE_CONNECTIONS, and how many the server has refused since the start (53300). */
  database_connections_max: Type.Integer(),
  database_connections_refused: Type.Integer(),
  /** `stopped`: a chain was not as it should be, and this process appends to none until it is restarted. */
  /** The replica of DATABASE_READ_URL; null: none is set. Not in use: reads go to the primary. */
  replica: nullable(
    Type.Object({
      in_use: Type.Boolean(),
      reason: nullable(Type.Enum(['away', 'behind', 'not_following', 'another_cluster'])),
      /** How old what it answers may be. */
      staleness_ms: nullable(Type.Integer()),
    }),
  ),
  appending: Type.Enum(['working', 'stopped']),
  /** The push to the sidecars. Without it they pull, so it never makes this program unready. */
  push: Type.Enum(['connected', 'disconnected']),
  push_lost: Type.Integer(),
  /**
   * Rows of `signing_keys` that nobody with MASTER_KEY wrote. They are published nowhere, so they make this
   * program no less ready; the log names them.
   */
  bad_signing_keys: Type.Integer(),
  /**
   * `settled`: one master key seals everything, and fallbacks can go. `changing`: secrets are sealed with the
   * new one. `waiting`: not all control planes have it yet. `missing`: one is in use that is not given here,
   * so this program is not ready.
   */
  master_key: Type.Enum(['settled', 'waiting', 'changing', 'missing']),
  /**
   * `regressed`: the database lacks what sidecars were told (contract §17). Decisions, reads and revocations
   * go on, so it makes this program no less ready.
   */
  history: Type.Object({
    state: Type.Enum(['whole', 'regressed']),
    /** Revisions of feeds, records at the ends of so many chains, entries of the log. Null: nothing. */
    missing: nullable(
      Type.Object({
        changes: Type.Integer(),
        chains: Type.Integer(),
        records: Type.Integer(),
        entries: Type.Integer(),
      }),
    ),
  }),
  /** The transparency log, as this program knows it (docs/log.md). It makes this program no less ready. */
  log: LogReadiness,
  /** Null: unknown, because the database is unreachable. */
  sidecars: nullable(Type.Object({ connected: Type.Integer(), clock_offset_ms_max: Type.Integer() })),
});
type Readiness = Static<typeof ReadinessAnswer>;

async function readReadiness(deps: AppendingDeps): Promise<Readiness> {
  const push = deps.bus.isConnected ? 'connected' : 'disconnected';
  const push_lost = deps.bus.lost;
  const bad_signing_keys = deps.signingKeys.bad().length;
  const draining = deps.draining.isDraining;
  const connections = {
    database_connections_max: deps.sql.options.max,
    database_connections_refused: refusedConnections(deps.sql),
  };
  const replica = replicaReadiness(replicaOf(deps.sql));
  const master_key = masterKeyState(deps.sql);
  const appending = deps.appending.isStopped ? 'stopped' : 'working';
  const { missing } = historyOf(deps.sql);
  const log = logReadiness(deps.sql);
  const history = { state: missing === null ? ('whole' as const) : ('regressed' as const), missing };
  try {
    const sidecars = await inTime(readSidecars(deps));
    const isSound = appending === 'working' && master_key !== 'missing';
    const status = isSound && !draining ? 'ready' : 'not_ready';
    return {
      status,
      draining,
      database: 'reachable',
      ...connections,
      replica,
      appending,
      push,
      push_lost,
      bad_signing_keys,
      master_key,
      history,
      log,
      sidecars,
    };
  } catch (error) {
    const database = error === isLate || databaseFailure(error) !== null ? 'unreachable' : 'not_migrated';
    return {
      status: 'not_ready',
      draining,
      database,
      ...connections,
      replica,
      appending,
      push,
      push_lost,
      bad_signing_keys,
      master_key,
      history,
      log,
      sidecars: null,
    };
  }
}

const replicaReadiness = (replica: Replica | null): Readiness['replica'] =>
  replica === null
    ? null
    : {
        in_use: replica.passedOver === null,
        reason: replica.passedOver,
        staleness_ms: replica.stalenessMs === null ? null : Math.round(replica.stalenessMs),
      };

/** Each change once, and not at every probe: there are as many as probers like. */
function tellChanges({ logger }: Pick<AppendingDeps, 'logger'>): (readiness: Readiness) => void {
  let told = 'ready';
  return ({ status, draining, database, appending, master_key }) => {
    const facts = { draining, database, appending, master_key };
    const state = status === 'ready' ? status : JSON.stringify(facts);
    if (state === told) return;
    told = state;
    if (status === 'ready') logger.info({}, 'ready again');
    else logger.warn(facts, 'not ready');
  };
}

const isLate = Symbol('the database has not answered in time');

/** What it gives up on ends by itself: the pool has a deadline of its own, which is too long for a prober. */
async function inTime<T>(asked: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(isLate), limits.readinessMsMax);
  });
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Fails as well where the tables are missing: one query shows both that the database is there and that it is
 * ours.
 */
async function readSidecars({ sql, clock }: AppendingDeps): Promise<NonNullable<Readiness['sidecars']>> {
  const [row] = await sql<{ connected: number; clock_offset_ms_max: number }[]>`
    SELECT count(*) AS connected, coalesce(max(abs(clock_offset_ms)), 0) AS clock_offset_ms_max
    FROM sidecars
    WHERE stopped_at_ms IS NULL AND last_seen_at_ms > ${clock.now() - limits.sidecarConnectedMs}`;
  return { connected: row?.connected ?? 0, clock_offset_ms_max: row?.clock_offset_ms_max ?? 0 };
}
