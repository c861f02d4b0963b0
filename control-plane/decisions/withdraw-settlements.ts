import type { AttestationId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import { together } from '../storage/together.ts';
import { removeOldSettlements } from './claim-settlements.ts';
import { decisionsLimits } from './limits.ts';
import type { SettlementId, SettlementSource } from './settlement.ts';

/** Those of these settlements that are void. */
export async function findVoids(
  tx: Transaction,
  ids: readonly SettlementId[],
): Promise<ReadonlySet<SettlementId>> {
  if (ids.length === 0) return new Set();
  const rows = await tx<{ id: SettlementId }[]>`
    SELECT settlement_id AS id FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[]) AND is_void`;
  return new Set(rows.map(({ id }) => id));
}

/** A settlement that was refused, and its reading where it has read nothing. */
export interface RefusedSettlement {
  readonly id: SettlementId;
  readonly readerId: AttestationId | null;
}

/**
 * Closes settlements that were refused, as `closeSettlements` does, and voids their readings. Returns those
 * that are closed: another delivery of the call may have made one true. In a transaction of its own: such a
 * delivery may be under way, and hold rows that come first in the order of locks.
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
  /** Whether it had been committed. */
  readonly wasTrue: boolean;
  /** Who had settled it. */
  readonly source: SettlementSource;
  readonly took: readonly number[];
  readonly held: readonly HeldUnits[];
}

/**
 * Withdraws settlements and readings of this source: what comes later under these ids finds that. Returns all
 * that are void from here on, not those that were void before. Two cases differ from the ids given: a
 * settlement that is read stays true for now, and one that was withdrawn earlier becomes void with the last
 * of its readings.
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
  /** Nothing was known under this id. */
  readonly isNew: boolean;
}

/**
 * What these ids read is locked with them, before anything is written: only the last look can tell whether
 * its last reader goes here. A reading that is committed after the lock, and before it is withdrawn, has
 * hidden what it reads; then all is undone and done again, in the order of locks. Each round sees at least
 * one more of the ids.
 */
async function withdraw(
  tx: Transaction,
  source: SettlementSource,
  ids: readonly SettlementId[],
  nowMs: UnixMillis,
): Promise<readonly Withdrawn[]> {
  for (;;) {
    const [, locked] = await together([
      () => tx`SAVEPOINT before_withdrawal`,
      () => lockWithWhatTheyRead(tx, ids),
    ]);
    const withdrawn = await tx<Withdrawn[]>`
      INSERT INTO settlements AS s (settlement_id, source, is_void, is_withdrawn, is_answered, expires_at_ms)
      SELECT id, ${source}, true, true, false, ${nowMs + decisionsLimits.permitKeyKeptMs}::bigint
      FROM unnest(${[...ids]}::text[]) AS void (id)
      ORDER BY id
      ON CONFLICT (settlement_id) DO UPDATE SET is_withdrawn = true
      WHERE NOT s.is_void AND s.source = excluded.source
      RETURNING s.settlement_id AS id, s.reads, s.is_void AS "isNew"`;
    if (withdrawn.every(({ id, reads }) => reads === null || locked.has(id))) return withdrawn;
    await tx`ROLLBACK TO SAVEPOINT before_withdrawal`;
  }
}

/** In the order in which claims are locked. Returns what was there. */
async function lockWithWhatTheyRead(
  tx: Transaction,
  ids: readonly SettlementId[],
): Promise<ReadonlySet<SettlementId>> {
  const rows = await tx<{ id: SettlementId }[]>`
    SELECT settlement_id AS id FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[])
      OR settlement_id = ANY (ARRAY(SELECT reads FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[])))
    ORDER BY passport_id, scope_id, key_hash, settlement_id FOR UPDATE`;
  return new Set(rows.map(({ id }) => id));
}
