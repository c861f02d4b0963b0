import type { AttestationId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../book/held-units.ts';
import { together } from '../storage/together.ts';
import { removeOldSettlements } from './claim-settlements.ts';
import { decisionsLimits } from './limits.ts';
import type { SettlementId, SettlementSource } from './settlement.ts';

/** The void ones among these settlements. */
export async function findVoids(
  tx: Transaction,
  ids: readonly SettlementId[],
): Promise<ReadonlySet<SettlementId>> {
  if (ids.length === 0) return new Set();
  const rows = await tx<{ id: SettlementId }[]>`
    SELECT settlement_id AS id FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[]) AND is_void`;
  return new Set(rows.map(({ id }) => id));
}

/** A refused settlement, and its reading if that read nothing. */
export interface RefusedSettlement {
  readonly id: SettlementId;
  readonly readerId: AttestationId | null;
}

/**
 * Closes refused settlements, as `closeSettlements` does, and voids their readings. Returns the closed ones:
 * another delivery of the call may have settled the rest. Needs its own transaction, because such a delivery
 * may be in flight and hold rows that come first in the lock order.
 */
export async function closeRefused(
  tx: Transaction,
  source: SettlementSource,
  refused: readonly RefusedSettlement[],
  nowMs: UnixMillis,
): Promise<ReadonlySet<SettlementId>> {
  const rows = refused.flatMap(({ id, readerId }) => [
    { id, isReader: 0 },
    ...(readerId === null ? [] : [{ id: readerId, isReader: 1 }]),
  ]);
  const [closed] = await together([
    () => tx<{ id: string }[]>`
      INSERT INTO settlements (settlement_id, source, is_void, is_withdrawn, is_answered, expires_at_ms)
      SELECT id, ${source}, is_reader = 1, is_reader = 1, false, ${nowMs + decisionsLimits.permitKeyKeptMs}::bigint
      FROM unnest(${rows.map(({ id }) => id)}::text[], ${rows.map(({ isReader }) => isReader)}::int[])
        AS new (id, is_reader)
      ORDER BY id
      ON CONFLICT DO NOTHING
      RETURNING settlement_id AS id`,
    () => removeOldSettlements(tx, rows.length, nowMs),
  ]);
  const ids = new Set<string>(closed.map(({ id }) => id));
  const isClosed = ({ id, readerId }: RefusedSettlement) =>
    ids.has(id) && (readerId === null || ids.has(readerId));
  return new Set(refused.filter(isClosed).map(({ id }) => id));
}

export interface VoidedSettlement {
  readonly id: SettlementId;
  /** Whether the settlement had been committed. */
  readonly wasTrue: boolean;
  /** The source that settled it. */
  readonly source: SettlementSource;
  readonly took: readonly number[];
  readonly held: readonly HeldUnits[];
}

/**
 * Withdraws settlements and readings of this source, so that a later delivery of these ids fails. Returns the
 * newly void ones. These can differ from the ids given: a settlement with readers stays in effect for now,
 * and one withdrawn earlier becomes void with its last reading.
 */
export async function writeVoids(
  tx: Transaction,
  source: SettlementSource,
  ids: readonly SettlementId[],
  nowMs: UnixMillis,
): Promise<readonly VoidedSettlement[]> {
  const withdrawn = await withdraw(tx, source, [...ids].sort(), nowMs);
  await removeOldSettlements(tx, ids.length, nowMs);
  const unknown = withdrawn
    .filter(({ isNew }) => isNew)
    .map(({ id }): VoidedSettlement => ({ id, source, ...nothing }));
  const known = withdrawn.filter(({ isNew }) => !isNew);
  if (known.length === 0) return unknown;
  const maybe = known.flatMap(({ id, reads }) => (reads === null ? [id] : [id, reads]));
  const voided = await tx<VoidedSettlement[]>`
    UPDATE settlements s SET is_void = true, passport_id = NULL, scope_id = NULL, key_hash = NULL
    WHERE settlement_id = ANY(${maybe}::text[]) AND is_withdrawn AND NOT is_void AND NOT is_answered
      AND NOT EXISTS (SELECT FROM settlements r WHERE r.reads = s.settlement_id AND NOT r.is_withdrawn)
    RETURNING settlement_id AS id, request_hash IS NOT NULL AS "wasTrue", source, took, held`;
  return [...unknown, ...voided];
}

const nothing = { wasTrue: false, took: [], held: [] };

interface Withdrawn {
  readonly id: SettlementId;
  readonly reads: SettlementId | null;
  /** The id was unknown. */
  readonly isNew: boolean;
}

/**
 * Locks the ids and the settlements they read before any of them changes, because whether a settlement loses
 * its last reader here shows only under the lock. The insert comes first: it waits for what is being settled
 * at this moment, so all ids are there when they are locked.
 *
 * A batch reads settlements one after the other, in an order that no void can know. So a void holds none
 * while it waits for one: it takes all that are free, or lets go, waits and begins again.
 */
async function withdraw(
  tx: Transaction,
  source: SettlementSource,
  ids: readonly SettlementId[],
  nowMs: UnixMillis,
): Promise<readonly Withdrawn[]> {
  await tx`SAVEPOINT before_withdrawal`;
  for (;;) {
    const [made, locked, known] = await together([
      () => insertVoids(tx, source, ids, nowMs),
      () => tx<Withdrawable[]>`${withWhatTheyRead(tx, ids)} FOR UPDATE SKIP LOCKED`,
      () => tx<Withdrawable[]>`${withWhatTheyRead(tx, ids)}`,
    ]);
    const isLocked = new Set(locked.map(({ id }) => id));
    const busy = known.find(({ id }) => !isLocked.has(id));
    if (busy === undefined) return [...made, ...(await markWithdrawn(tx, source, ids))];
    await together([
      () => tx`ROLLBACK TO SAVEPOINT before_withdrawal`,
      () => tx`SELECT FROM settlements WHERE settlement_id = ${busy.id} FOR UPDATE`,
      () => tx`ROLLBACK TO SAVEPOINT before_withdrawal`,
    ]);
  }
}

type Withdrawable = Pick<Withdrawn, 'id'>;

const withWhatTheyRead = (tx: Transaction, ids: readonly SettlementId[]) => tx`
  -- One list: for two joined by OR, PostgreSQL 15 may keep a plan that walks all of the table.
  SELECT settlement_id AS id FROM settlements WHERE settlement_id = ANY (ARRAY(
    SELECT unnest(${[...ids]}::text[])
    UNION ALL SELECT reads FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[])))`;

const insertVoids = (
  tx: Transaction,
  source: SettlementSource,
  ids: readonly SettlementId[],
  nowMs: UnixMillis,
) => tx<Withdrawn[]>`
  INSERT INTO settlements (settlement_id, source, is_void, is_withdrawn, is_answered, expires_at_ms)
  SELECT id, ${source}, true, true, false, ${nowMs + decisionsLimits.permitKeyKeptMs}::bigint
  FROM unnest(${[...ids]}::text[]) AS void (id)
  ORDER BY id
  ON CONFLICT (settlement_id) DO NOTHING
  RETURNING settlement_id AS id, reads, true AS "isNew"`;

const markWithdrawn = (tx: Transaction, source: SettlementSource, ids: readonly SettlementId[]) =>
  tx<Withdrawn[]>`
    UPDATE settlements SET is_withdrawn = true
    WHERE settlement_id = ANY(${[...ids]}::text[]) AND NOT is_void AND source = ${source}
    RETURNING settlement_id AS id, reads, false AS "isNew"`;
