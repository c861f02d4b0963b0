import type { Bus } from '../../shared/bus/bus.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { type AccountId, isId } from '../../shared/model/ids.ts';
import type { Share } from '../base/connection-shares.ts';
import type { Database, Transaction } from '../base/database.ts';
import { type FairShare, fairShare } from './fair-share.ts';
import { storageLimits } from './limits.ts';
import type { Replica } from './replica.ts';

/** Reads that may be `storageLimits.readStalenessMsMax` old, of a pool with DATABASE_READ_URL. */
interface ReplicaReads {
  readonly replica: Replica;
  /** What the replica cannot answer, at the primary: no more at once than it can bear. */
  readonly passedOver: FairShare<string>;
}

const readsOfPools = new WeakMap<Database, ReplicaReads>();

/** From now on the functions below read at the replica, as long as it is good. */
export function readAtReplicaOf(primary: Database, replica: Replica, share: Share): void {
  const passedOver = fairShare<string>({
    ...share,
    waitingPerOwnerMax: storageLimits.passedOverWaitingMax,
    waitMsMax: storageLimits.passedOverTurnMsMax,
  });
  readsOfPools.set(primary, { replica, passedOver });
}

/** Of all control planes: an account has changed something. */
const changesChannel = 'agent-trust:changes';

/** What an account has changed it reads at once, at every control plane that the bus reaches. */
export function noteChange(
  { sql, bus }: { readonly sql: Database; readonly bus: Bus },
  accountId: AccountId,
): void {
  const reads = readsOfPools.get(sql);
  if (reads === undefined) return;
  reads.replica.noteChange(accountId);
  bus.publish(changesChannel, accountId);
}

export const followChanges = (bus: Bus, replica: Replica): Promise<() => Promise<void>> =>
  bus.subscribe(changesChannel, (text) => {
    if (isId('acct', text)) replica.noteChange(text);
  });

/** Null: there is none. */
export const replicaOf = (primary: Database): Replica | null => readsOfPools.get(primary)?.replica ?? null;

/** Null: everybody, without a key. */
type ReadOwner = AccountId | null;
type Work<T> = (sql: Database | Transaction) => Promise<T>;

/**
 * A read that may be some seconds old, but never older than what its owner changed here. It is done again at
 * the primary where the replica fails or is passed over, so `work` only reads.
 */
export const readStale = <T>(primary: Database, owner: ReadOwner, work: Work<T>): Promise<T> =>
  read(primary, { owner, from: 0 }, work, async (_sql, value) => value);

/**
 * A page of a list, in the same way. Its cursor also says how far the log was: no server that is further
 * behind answers the next page, so a walk over several of them neither skips nor repeats a row.
 */
export function readStalePage<
  Query extends { readonly cursor?: string | undefined },
  Answer extends { readonly next_cursor: string | null },
>(
  primary: Database,
  { owner, query }: { readonly owner: ReadOwner; readonly query: Query },
  work: (sql: Database | Transaction, query: Query) => Promise<Answer>,
): Promise<Answer> {
  const { cursor, from } = splitCursor(query.cursor);
  const asked = cursor === query.cursor ? query : { ...query, cursor };
  return read(
    primary,
    { owner, from },
    (sql) => work(sql, asked),
    async (sql, answer) =>
      answer.next_cursor === null
        ? answer
        : { ...answer, next_cursor: `${answer.next_cursor}.${(await readLogPlace(sql)).toString(36)}` },
  );
}

/** Cursors are base64url, without a dot. */
const markedCursor = /^(?<cursor>[^.]*)\.(?<place>[0-9a-z]{1,10})$/;

function splitCursor(text: string | undefined): { cursor: string | undefined; from: number } {
  const parts = text === undefined ? undefined : markedCursor.exec(text)?.groups;
  return parts === undefined
    ? { cursor: text, from: 0 }
    : { cursor: parts['cursor'], from: Number.parseInt(parts['place'] ?? '', 36) };
}

/** After everything that this connection's server has shown so far. */
async function readLogPlace(sql: Database | Transaction): Promise<number> {
  const [row] = await sql<{ place: number }[]>`
    SELECT ((CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END)
      - '0/0'::pg_lsn)::bigint AS place`;
  return row?.place ?? 0;
}

async function read<T>(
  primary: Database,
  asked: { readonly owner: ReadOwner; readonly from: number },
  work: Work<T>,
  finish: (sql: Database | Transaction, value: T) => Promise<T>,
): Promise<T> {
  const reads = readsOfPools.get(primary);
  if (reads === undefined) return work(primary);
  const { replica, passedOver } = reads;
  return atReplicaOr(
    replica,
    () => readOnly(replica, asked, async (tx) => finish(tx, await work(tx))),
    () => passedOver(asked.owner ?? '', async () => finish(primary, await work(primary))),
  );
}

const readOnly = async <T>(
  replica: Replica,
  asked: { readonly owner: ReadOwner; readonly from: number },
  work: (tx: Transaction) => Promise<T>,
): Promise<T> => {
  // In an object, because the driver awaits the elements of an array.
  const { value } = (await replica.pool.begin('READ ONLY', async (tx) => {
    await replica.check(tx, asked);
    return { value: await work(tx) };
  })) as { value: T };
  return value;
};

/** `there` at the replica while it is good, and where that fails `here`, at the primary. */
export async function atReplicaOr<T>(
  replica: Replica,
  there: () => Promise<T>,
  here: () => Promise<T>,
): Promise<T> {
  if (replica.passedOver === null) {
    try {
      const value = await there();
      replica.counts.replica += 1;
      return value;
    } catch (error) {
      if (error instanceof ApiError || isTooSlow(error)) throw error;
      replica.noteFailure(error);
    }
  }
  replica.counts.primary += 1;
  return here();
}

/** A statement that was ended after 30 s would take as long at the primary, beside all that it decides. */
const isTooSlow = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '57014';
