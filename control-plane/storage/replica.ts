import { Counter, Gauge, type Registry } from 'prom-client';
import { secondMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseFailure } from './database-away.ts';
import { storageLimits } from './limits.ts';
import { isRefusedParameter, passesThroughPooler, passThroughPooler } from './session-settings.ts';

/** Why reads go to the primary. */
export type PassedOver =
  | 'away'
  /** It has not replayed what the primary had `storageLimits.readStalenessMsMax` ago. */
  | 'behind'
  /** It receives nothing from a primary: promoted, cut off, or of a history that was given up. */
  | 'not_following'
  | 'another_cluster';

/** A position in the log of the primary, in bytes since its start (`pg_lsn`); all before it is in force. */
type LogPlace = number;

/** At `askedAtMs` (monotonic) everything committed was before `place`. */
interface Sample {
  readonly askedAtMs: number;
  readonly place: LogPlace;
}

/** Thrown inside a transaction at the replica: it may not answer this read. */
export class ReplicaPassedOver extends Error {
  readonly reason: PassedOver;
  constructor(reason: PassedOver) {
    super(`the replica is passed over: ${reason}`);
    this.reason = reason;
  }
}

export interface ReplicaOptions {
  readonly primary: Database;
  /** A pool on DATABASE_READ_URL. Called again when its connections lead to a server that was promoted. */
  readonly connect: () => Database;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

/**
 * A streaming replica (or several behind one address) that serves reads which may be some seconds old. How
 * old is measured by the log and not by clocks: once a second the primary says how far its log is, and each
 * transaction at the replica begins with a look at how far that very connection's server has replayed it. A
 * server that has passed what the primary had at a moment has all that was committed before that moment.
 */
export class Replica {
  readonly #options: ReplicaOptions;
  #pool: Database;
  /** Of the last `readStalenessMsMax`, the oldest first. */
  #samples: Sample[] = [];
  #cluster: string | null = null;
  /** Null: in use. */
  #passedOver: PassedOver | null = 'away';
  #hasLooked = false;
  #stalenessMs: number | null = null;
  /** A look that the replica has not answered yet. */
  #isLooking = false;
  #isPromoted = false;
  /** When accounts last changed something, monotonic; the oldest first. */
  readonly #changes = new Map<string, number>();
  /** Changes at or before this time are no longer known by account. */
  #forgottenMs = Number.NEGATIVE_INFINITY;
  readonly counts = { replica: 0, primary: 0 };

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.#pool = options.connect();
  }

  get pool(): Database {
    return this.#pool;
  }

  get passedOver(): PassedOver | null {
    return this.#passedOver;
  }

  /** How old an answer of the replica may be. Null: unknown. */
  get stalenessMs(): number | null {
    return this.#passedOver === null ? this.#stalenessMs : null;
  }

  /** Its caller reads the change from now on, here or at the primary. */
  noteChange(accountId: string): void {
    const nowMs = this.#options.clock.monotonic();
    this.#changes.delete(accountId);
    this.#changes.set(accountId, nowMs);
    if (this.#changes.size <= storageLimits.changedAccountsMax) return;
    const [oldest] = this.#changes;
    if (oldest === undefined) return;
    this.#changes.delete(oldest[0]);
    this.#forgottenMs = oldest[1];
  }

  /** See noteChange. */
  #changedAtMs(owner: string | null): number {
    return (owner === null ? undefined : this.#changes.get(owner)) ?? this.#forgottenMs;
  }

  /**
   * The first statement of a transaction at the replica. Throws ReplicaPassedOver where its server has not
   * replayed what `owner` changed, what was committed `readStalenessMsMax` ago, or the log up to `from`.
   */
  async check(tx: Transaction, { owner, from }: { owner: string | null; from: LogPlace }): Promise<void> {
    const [row] = await tx<Standing[]>`SELECT ${standing(tx)}`;
    const needed = this.#needed(owner);
    if (row?.place == null || !row.isFollowing) {
      this.#isPromoted ||= row?.isStandby === false;
      throw new ReplicaPassedOver('not_following');
    }
    if (needed === null || row.place < needed || row.place < from) throw new ReplicaPassedOver('behind');
  }

  /** The place that a server has to have replayed; null: none is known, so none has. */
  #needed(owner: string | null): LogPlace | null {
    const sinceMs = Math.max(
      this.#options.clock.monotonic() - storageLimits.readStalenessMsMax,
      this.#changedAtMs(owner),
    );
    return this.#samples.find(({ askedAtMs }) => askedAtMs >= sinceMs)?.place ?? null;
  }

  /** A read at the replica failed. Until the next look reads spare themselves a server that is gone. */
  noteFailure(error: unknown): void {
    if (databaseFailure(error) === 'service_unavailable') this.#tell('away', error);
  }

  /** How far primary and replica are; once a second. Never throws. */
  async look(): Promise<void> {
    await this.#sample().catch(() => undefined);
    if (this.#isPromoted) this.#renew();
    if (this.#isLooking) return this.#tell('away', null);
    this.#isLooking = true;
    const looked = this.#lookAtReplica()
      .then(
        (found) => this.#tell(found, null),
        (error: unknown) => this.#tell('away', error),
      )
      .finally(() => {
        this.#isLooking = false;
      });
    await atMost(storageLimits.replicaLookMsMax, looked);
    if (this.#isLooking) this.#tell('away', null);
  }

  async #sample(): Promise<void> {
    const askedAtMs = this.#options.clock.monotonic();
    const [row] = await this.#options.primary<{ place: LogPlace; cluster: string }[]>`
      SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint AS place,
        (SELECT system_identifier::text FROM pg_control_system()) AS cluster`;
    if (row === undefined) return;
    this.#cluster = row.cluster;
    const oldestMs = this.#options.clock.monotonic() - storageLimits.readStalenessMsMax;
    this.#samples = [...this.#samples.filter((one) => one.askedAtMs >= oldestMs), { ...row, askedAtMs }];
    for (const [account, atMs] of this.#changes) {
      if (atMs >= oldestMs) break;
      this.#changes.delete(account);
    }
  }

  async #lookAtReplica(): Promise<PassedOver | null> {
    const pool = this.#pool;
    const [row] = await readStanding(pool).catch((error: unknown) => {
      if (!isRefusedParameter(error) || passesThroughPooler(pool)) throw error;
      passThroughPooler(pool);
      return readStanding(pool);
    });
    const nowMs = this.#options.clock.monotonic();
    if (row?.place == null || !row.isFollowing) {
      this.#isPromoted ||= row?.isStandby === false;
      return 'not_following';
    }
    if (this.#cluster !== null && row.cluster !== this.#cluster) return 'another_cluster';
    const { place } = row;
    const replayed = this.#samples.findLast((sample) => sample.place <= place);
    this.#stalenessMs = replayed === undefined ? null : nowMs - replayed.askedAtMs;
    return this.#stalenessMs === null || this.#stalenessMs > storageLimits.readStalenessMsMax
      ? 'behind'
      : null;
  }

  /** Of several servers behind the address another one follows now. */
  #renew(): void {
    this.#isPromoted = false;
    this.#end(this.#pool);
    this.#pool = this.#options.connect();
  }

  #end(pool: Database): void {
    pool.end({ timeout: storageLimits.replicaEndMsMax / secondMs }).catch(() => undefined);
  }

  /** Each change once. */
  #tell(found: PassedOver | null, error: unknown): void {
    const isKnown = this.#hasLooked && found === this.#passedOver;
    this.#hasLooked = true;
    this.#passedOver = found;
    if (isKnown) return;
    const { logger } = this.#options;
    if (found === null)
      logger.info({}, 'lists, exports, discovery and statistics are read at DATABASE_READ_URL');
    else logger.warn({ reason: found, ...(error === null ? {} : { err: error }) }, passedOverMessages[found]);
  }

  async close(): Promise<void> {
    await this.#pool.end({ timeout: storageLimits.replicaEndMsMax / secondMs });
  }
}

const passedOverMessages: Readonly<Record<PassedOver, string>> = {
  away: 'the replica of DATABASE_READ_URL does not answer: reads go to the primary',
  behind: 'the replica of DATABASE_READ_URL is too far behind: reads go to the primary',
  not_following:
    'the server of DATABASE_READ_URL follows no primary: reads go to the primary; name a streaming replica',
  another_cluster:
    'the server of DATABASE_READ_URL is no replica of the one of DATABASE_URL: reads go to the primary',
};

interface Standing {
  readonly isStandby: boolean;
  /** Every role sees whether there is a receiver, and nothing else of it. */
  readonly isFollowing: boolean;
  readonly place: LogPlace | null;
}

const standing = (sql: Database | Transaction) => sql`
  pg_is_in_recovery() AS "isStandby",
  pg_is_in_recovery() AND EXISTS (SELECT FROM pg_stat_wal_receiver) AS "isFollowing",
  (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint AS place`;

const readStanding = (pool: Database) => pool<(Standing & { readonly cluster: string })[]>`
  SELECT ${standing(pool)}, (SELECT system_identifier::text FROM pg_control_system()) AS cluster`;

/** Resolves with the work or after the time, whichever is first. `work` never rejects. */
async function atMost(timeMs: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeMs);
  });
  await Promise.race([work, over]);
  clearTimeout(timer);
}

/** Looks once a second, and registers what is seen. */
export function followReplica(replica: Replica, metrics: Registry): Repetition {
  new Gauge({
    name: 'agent_trust_read_staleness_seconds',
    help: 'How old an answer of DATABASE_READ_URL may be; NaN while reads go to the primary.',
    registers: [metrics],
    collect() {
      const { stalenessMs } = replica;
      this.set(stalenessMs === null ? Number.NaN : stalenessMs / secondMs);
    },
  });
  new Counter({
    name: 'agent_trust_reads_total',
    help: 'Lists, exports, searches and statistics, by the database that answered them.',
    labelNames: ['database'],
    registers: [metrics],
    collect() {
      this.reset();
      for (const [database, count] of Object.entries(replica.counts)) this.inc({ database }, count);
    },
  });
  return repeat(async () => {
    await replica.look();
    return storageLimits.replicaLookIntervalMs;
  });
}
