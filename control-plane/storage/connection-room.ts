import { minuteMs } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Database } from '../base/database.ts';
import { passesThroughPooler } from './session-settings.ts';

/** What became of the connections that a pool wanted. */
export class Refusals {
  #count = 0;
  /** Connections that were refused because the server has no more, since the start. */
  get count(): number {
    return this.#count;
  }
  note(): void {
    this.#count += 1;
  }
}

const refusalsOfPools = new WeakMap<Database, Refusals>();

export function keepRefusals(sql: Database, refusals: Refusals): void {
  refusalsOfPools.set(sql, refusals);
}

export const refusedConnections = (sql: Database): number => refusalsOfPools.get(sql)?.count ?? 0;

interface Room {
  readonly allowed: number;
  readonly by: string;
}

/** The connection limits of server, role and database; null: unknown behind a pooler. */
async function readRoom(sql: Database): Promise<Room | null> {
  if (passesThroughPooler(sql)) return null;
  const [row] = await sql<{ server: number; role: number | null; database: number | null }[]>`
    SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) AS server,
      (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user) AS role,
      (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()) AS database`;
  const rooms: readonly Room[] = [
    { allowed: row?.server ?? 0, by: 'max_connections' },
    { allowed: row?.role ?? Number.POSITIVE_INFINITY, by: 'CONNECTION LIMIT of the role' },
    { allowed: row?.database ?? Number.POSITIVE_INFINITY, by: 'CONNECTION LIMIT of the database' },
  ];
  return rooms.reduce((least, one) => (one.allowed < least.allowed ? one : least));
}

/** Tells at the start how many connections are needed, and warns where the database allows fewer. */
export async function tellConnectionRoom(
  sql: Database,
  { connections, logger }: { readonly connections: number; readonly logger: Logger },
): Promise<void> {
  const room = await readRoom(sql);
  const facts = { connections, allowed: room?.allowed ?? null };
  if (room === null || room.allowed >= connections) {
    logger.info(facts, 'this control plane opens at most so many connections to the database');
    return;
  }
  logger.warn(
    { ...facts, by: room.by },
    'the database allows fewer connections than DATABASE_CONNECTIONS: requests wait for those that are open; ' +
      'raise the limit that is named, or lower DATABASE_CONNECTIONS',
  );
}

/** For `connect`: counts refusals, and warns once a minute at most. */
export function refusalTeller(refusals: Refusals, logger: Logger): () => void {
  let quietUntilMs = 0;
  return () => {
    refusals.note();
    const nowMs = performance.now();
    if (nowMs < quietUntilMs) return;
    quietUntilMs = nowMs + minuteMs;
    logger.warn(
      { refused: refusals.count },
      'the database refuses more connections (53300): requests wait for those that are open; ' +
        'lower DATABASE_CONNECTIONS, or raise max_connections or the CONNECTION LIMIT',
    );
  };
}
