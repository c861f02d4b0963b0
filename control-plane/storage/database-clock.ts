import { Gauge } from 'prom-client';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import type { CarriedClock } from '../../shared/runtime/carried-clock.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { PulsePart } from './pulse.ts';
import { leaveServer } from './session-settings.ts';

/**
 * The time at the database, in Unix milliseconds, for a comparison with what another replica has written: all
 * of them share this one clock, and no other. It stands still within a transaction.
 */
export const databaseNowMs = (sql: Database | Transaction) => sql`(extract(epoch FROM now()) * 1000)::bigint`;

/**
 * Readings at the start: the first one pays for a connection, and the quickest of the others makes the time
 * exact.
 */
const firstReadings = 4;

/** From here on `clock` gives PostgreSQL's time, to within half of the quickest answer (contract §6). */
export async function readDatabaseClock(sql: Database, clock: CarriedClock): Promise<void> {
  for (let reading = 1; reading <= firstReadings; reading++) await noteReading(sql, clock);
}

/**
 * Keeps `clock` at PostgreSQL's time: read with every pulse, so that a clock there which is set, or another
 * database after a failover, is followed within a second. While the database is away the time goes on.
 */
export function clockPart(
  deps: Pick<BaseDeps, 'sql' | 'logger' | 'metrics'> & { readonly clock: CarriedClock },
): PulsePart<ReadClock> {
  const { sql, clock, logger, metrics } = deps;
  let isOff = false;
  new Gauge({
    name: 'agent_trust_clock_offset_seconds',
    help: 'The clock of this machine minus that of the database. Decisions use the latter.',
    registers: [metrics],
    collect() {
      this.set((clock.offsetMs ?? 0) / 1_000);
    },
  });

  const note = (jumpMs: number) => {
    if (Math.abs(jumpMs) > limits.clockOffsetMsMax) {
      logger.error({ jump_ms: jumpMs }, 'the clock of the database has jumped; this program adopts it');
    }
    const offsetMs = clock.offsetMs ?? 0;
    const wasOff = isOff;
    isOff = Math.abs(offsetMs) > limits.clockOffsetMsMax;
    if (isOff && !wasOff) {
      logger.warn(
        { offset_ms: offsetMs },
        'the clock of this machine and that of the database differ; decisions use that of the database',
      );
    }
    if (!isOff && wasOff) logger.info({}, 'the clock of this machine and that of the database agree again');
  };

  return {
    ask: (at) => at`SELECT json_build_object('nowMs', ${clockNowMs(at)}, 'isStandby', pg_is_in_recovery())`,
    hear: (read, { monotonicMs }) => note(noteTime(sql, clock, read, monotonicMs)),
  };
}

interface ReadClock {
  readonly nowMs: UnixMillis;
  readonly isStandby: boolean;
}

/** Not now(), which is the start of the statement's transaction; and cut to the millisecond, not rounded. */
const clockNowMs = (sql: Database) => sql`floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`;

async function noteReading(sql: Database, clock: CarriedClock): Promise<number> {
  const askedAtMs = clock.monotonic();
  const [row] = await sql<[ReadClock]>`
    SELECT ${clockNowMs(sql)} AS "nowMs", pg_is_in_recovery() AS "isStandby"`;
  return noteTime(sql, clock, row, askedAtMs);
}

function noteTime(
  sql: Database,
  clock: CarriedClock,
  { nowMs, isStandby }: ReadClock,
  askedAtMs: MonotonicMillis,
): number {
  // A control plane that writes nothing would go on reading there.
  if (isStandby) leaveServer(sql);
  return clock.note({ nowMs, askedAtMs });
}
