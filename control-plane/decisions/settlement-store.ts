import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import type { FirstPermit } from '../../shared/decision/run.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PiiFinding } from '../../shared/model/attestation.ts';
import type { CheckName } from '../../shared/model/decision.ts';
import type {
  AccountId,
  ApprovalId,
  AttestationId,
  GateId,
  PassportId,
  SidecarId,
} from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import { together } from '../storage/together.ts';
import { decisionsLimits } from './limits.ts';

/** An idempotency key with what it is scoped to (contract §5). */
export interface PermitKey {
  readonly passportId: PassportId;
  /**
   * The gate, or without one the account that asks: a passport goes to many, and what it may do at one of
   * them must neither be paid for at another nor kept from it.
   */
  readonly scopeId: GateId | AccountId;
  readonly idempotencyKey: string;
}

export type SettlementId = AttestationId | ApprovalId;
export type SettlementSource = SidecarId | 'control-plane';

/** A settlement that this transaction makes true. */
export interface NewSettlement {
  readonly id: SettlementId;
  /** Null: the request has none. */
  readonly key: PermitKey | null;
  readonly requestHash: string;
  /** How a PERMIT is answered, now and to each copy of its request. */
  readonly answer: Pick<FirstPermit, 'constraintsEvaluated' | 'pii'>;
  readonly source: SettlementSource;
  /** As in `ClaimQuestion`, for the case that its key is claimed. */
  readonly readerId: AttestationId;
  readonly askedAtMs: UnixMillis;
  /** What its void frees: leases of the sidecar, or units that the control plane took from the ledger. */
  readonly took: readonly number[];
  readonly held: readonly HeldUnits[];
}

/** What a request asks of the settlements of others. */
export interface ClaimQuestion extends Pick<NewSettlement, 'key' | 'requestHash' | 'source'> {
  /**
   * Under which it reads what it finds: an id that it has used for nothing else, and that voids the reading.
   */
  readonly readerId: AttestationId;
  /**
   * When it was decided that the key is asked for: a key that ends later is not free for it. What was on its
   * way before the end, and comes after it, would otherwise be permitted beside its first answer.
   */
  readonly askedAtMs: UnixMillis;
}

/** The PERMIT to which a key belongs. */
export interface ClaimedPermit extends FirstPermit {
  readonly requestHash: string;
}

export type SettlementVerdict =
  /** It is true with the commit of this transaction. */
  | { readonly kind: 'new' }
  /** It came before, and is true. */
  | { readonly kind: 'repeated' }
  | { readonly kind: 'voided' }
  /** It came before, and was closed (`closeSettlements`). */
  | { readonly kind: 'closed' }
  /** The key belongs to an earlier PERMIT. Nothing was changed. */
  | { readonly kind: 'claimed'; readonly by: ClaimedPermit };

/**
 * Inserts settlements, and with them takes their keys: `new` ones take effect with the commit. Of any number
 * of takers of one key at once one wins: the others wait here until it is committed, and find it, or until it
 * is rolled back, and then the next one wins. Of a settlement and its void at once the second waits for the
 * first in the same way. Also two of one call may have one key. Verdicts are in the order of the settlements.
 *
 * A row counts for `limits.permitClaimKeptMs` and by time, so that it makes room also where nobody has
 * removed it yet. Rows are locked in the order of keys and ids, before leases, approvals, chains and quota
 * windows. A copy that finds its first PERMIT reads it (`readSettlements`).
 */
export async function insertSettlements(
  tx: Transaction,
  settlements: readonly NewSettlement[],
  nowMs: UnixMillis,
): Promise<readonly SettlementVerdict[]> {
  const verdicts = await claimSettlements(tx, settlements, nowMs);
  await removeOldSettlements(tx, settlements.length, nowMs);
  return verdicts;
}

/** The same, for a caller that removes old ones by itself, because it has more to send with that. */
export async function claimSettlements(
  tx: Transaction,
  settlements: readonly NewSettlement[],
  nowMs: UnixMillis,
): Promise<readonly SettlementVerdict[]> {
  const verdicts = new Map<SettlementId, SettlementVerdict>();
  const waiting = () => settlements.filter(({ id }) => !verdicts.has(id));
  // Each further round is needed only if a conflicting row was removed meanwhile.
  for (let round = 0; waiting().length > 0; round++) {
    must(
      round < roundsMax ? round : null,
      'a settlement that cannot be inserted finds what stands in its way',
    );
    for (const id of await insertFree(tx, waiting(), nowMs)) verdicts.set(id, { kind: 'new' });
    const rest = waiting();
    if (rest.length === 0) break;
    const known = await tx<{ id: SettlementId; kind: 'voided' | 'closed' | 'repeated' }[]>`
      SELECT settlement_id AS id,
        CASE WHEN is_void THEN 'voided' WHEN request_hash IS NULL THEN 'closed' ELSE 'repeated' END AS kind
      FROM settlements WHERE settlement_id = ANY(${rest.map(({ id }) => id)}::text[])`;
    for (const { id, kind } of known) verdicts.set(id, { kind });
    const unknown = waiting();
    const claims = await findClaims(tx, unknown, nowMs);
    unknown.forEach(({ id }, place) => {
      const by = claims[place];
      if (by !== null && by !== undefined) verdicts.set(id, { kind: 'claimed', by });
    });
    await freeOldKeys(tx, waiting());
  }
  return settlements.map(({ id }) => must(verdicts.get(id), 'each settlement has a verdict'));
}

const roundsMax = 5;

async function insertFree(
  tx: Transaction,
  settlements: readonly NewSettlement[],
  nowMs: UnixMillis,
): Promise<readonly SettlementId[]> {
  if (settlements.length === 0) return [];
  const rows = await tx<{ id: SettlementId }[]>`
    INSERT INTO settlements (settlement_id, passport_id, scope_id, key_hash, request_hash, answer, source, took, held,
      is_answered, expires_at_ms)
    SELECT id, passport_id, scope_id, key_hash, request_hash, answer::jsonb, source,
      ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(took::jsonb)), held::jsonb,
      false, ${nowMs + decisionsLimits.permitKeyKeptMs}::bigint
    FROM unnest(
      ${settlements.map(({ id }) => id)}::text[],
      ${settlements.map(({ key }) => key?.passportId ?? null)}::text[],
      ${settlements.map(({ key }) => key?.scopeId ?? null)}::text[],
      ${settlements.map(({ key }) => (key === null ? null : sha256Hex(key.idempotencyKey)))}::text[],
      ${settlements.map(({ requestHash }) => requestHash)}::text[],
      ${settlements.map(({ answer }) => JSON.stringify({ constraints_evaluated: answer.constraintsEvaluated, pii: answer.pii }))}::text[],
      ${settlements.map(({ source }) => source)}::text[],
      ${settlements.map(({ took }) => JSON.stringify(took))}::text[],
      ${settlements.map(({ held }) => JSON.stringify(held))}::text[]
    ) AS new (id, passport_id, scope_id, key_hash, request_hash, answer, source, took, held)
    ORDER BY passport_id, scope_id, key_hash COLLATE "C", id
    ON CONFLICT DO NOTHING
    RETURNING settlement_id AS id`;
  return rows.map(({ id }) => id);
}

/** The keys of PERMITs that are over are free. */
async function freeOldKeys(tx: Transaction, settlements: readonly NewSettlement[]): Promise<void> {
  const keys = settlements.flatMap(({ key, askedAtMs }) => (key === null ? [] : [{ key, askedAtMs }]));
  if (keys.length === 0) return;
  await tx`
    DELETE FROM settlements WHERE ctid = ANY (ARRAY(
      SELECT s.ctid FROM settlements s JOIN ${asRows(tx, keys)} USING (passport_id, scope_id, key_hash)
      WHERE expires_at_ms + 0 <= asked_at_ms
      ORDER BY passport_id, scope_id, key_hash FOR UPDATE OF s))`;
}

interface AskedKey extends Pick<ClaimQuestion, 'askedAtMs'> {
  readonly key: PermitKey;
}

const asRows = (tx: Transaction, asked: readonly AskedKey[]) => tx`
  unnest(
    ${asked.map(({ key }) => key.passportId)}::text[],
    ${asked.map(({ key }) => key.scopeId)}::text[],
    ${asked.map(({ key }) => sha256Hex(key.idempotencyKey))}::text[],
    ${asked.map(({ askedAtMs }) => askedAtMs)}::bigint[],
    ${asked.map((_, place) => place)}::bigint[]
  ) AS k (passport_id, scope_id, key_hash, asked_at_ms, place)`;

/**
 * The PERMITs to which these keys belong now, in their order; null where there is none, and without a key.
 * One that is being claimed at this moment is not seen. One of the same request is read under the `readerId`
 * of the question.
 */
export async function findClaims(
  tx: Transaction,
  of: readonly ClaimQuestion[],
  nowMs: UnixMillis,
): Promise<readonly (ClaimedPermit | null)[]> {
  const keyed = of.flatMap(({ key, ...rest }) => (key === null ? [] : [{ key, ...rest }]));
  if (keyed.length === 0) return of.map(() => null);
  const rows = await tx<ClaimRow[]>`
    SELECT place, settlement_id AS id, request_hash AS "requestHash", answer, is_answered AS "isAnswered"
    FROM settlements JOIN ${asRows(tx, keyed)} USING (passport_id, scope_id, key_hash)
    -- Added to, so that nobody looks through all that are not over yet for the one with the key.
    WHERE expires_at_ms + 0 > asked_at_ms`;
  const readings = rows.flatMap(({ place, id, requestHash, isAnswered }): Reading[] => {
    const asked = keyed[place];
    if (isAnswered || asked === undefined || asked.requestHash !== requestHash) return [];
    return [{ reads: id, readerId: asked.readerId, source: asked.source }];
  });
  const gone = await readSettlements(tx, readings, nowMs);
  const isGone = ({ place }: ClaimRow) => gone.has(keyed[place]?.readerId ?? '');
  const atPlace = new Map(rows.filter((row) => !isGone(row)).map((row) => [row.place, claimedPermit(row)]));
  let place = 0;
  return of.map(({ key }) => (key === null ? null : (atPlace.get(place++) ?? null)));
}

/** A settlement that another request may be answered with. */
export interface Reading {
  readonly reads: SettlementId;
  readonly readerId: AttestationId;
  readonly source: SettlementSource;
}

/**
 * From here on these settlements are voided only after their readers; any number may read at once. Returns
 * the readers that may not read: the settlement was voided before, or the reading was. A settlement that has
 * no row cannot be voided. One with `readersMax` readers is never voided any more, because a row for each
 * further reader would have no end.
 */
export async function readSettlements(
  tx: Transaction,
  readings: readonly Reading[],
  nowMs: UnixMillis,
): Promise<ReadonlySet<string>> {
  if (readings.length === 0) return new Set();
  const found = await tx<{ id: SettlementId; isVoid: boolean; isAnswered: boolean }[]>`
    SELECT settlement_id AS id, is_void AS "isVoid", is_answered AS "isAnswered" FROM settlements
    WHERE settlement_id = ANY(${readings.map(({ reads }) => reads)}::text[])
    ORDER BY passport_id, scope_id, key_hash, settlement_id FOR SHARE`;
  const known = new Map(found.map((row) => [row.id, row]));
  const gone = new Set<string>();
  const open: Reading[] = [];
  for (const reading of readings) {
    const row = known.get(reading.reads);
    if (row?.isVoid === true) gone.add(reading.readerId);
    else if (row?.isAnswered === false) open.push(reading);
  }
  if (open.length === 0) return gone;
  const rows = await tx<{ readerId: string }[]>`
    INSERT INTO settlements AS s (settlement_id, reads, source, is_answered, expires_at_ms)
    SELECT reader, read, source, false, ${nowMs + decisionsLimits.permitKeyKeptMs}::bigint
    FROM unnest(
      ${open.map(({ readerId }) => readerId)}::text[],
      ${open.map(({ reads }) => reads)}::text[],
      ${open.map(({ source }) => source)}::text[]
    ) AS new (reader, read, source)
    ORDER BY reader
    ON CONFLICT (settlement_id) DO UPDATE SET reads = s.reads
    WHERE s.reads = excluded.reads AND s.source = excluded.source AND NOT s.is_void
    RETURNING settlement_id AS "readerId"`;
  const reading = new Set(rows.map(({ readerId }) => readerId));
  for (const { readerId } of open) if (!reading.has(readerId)) gone.add(readerId);
  // Not where others read it at this moment: two that share a row must not both wait to change it.
  await tx`
    UPDATE settlements SET is_answered = true WHERE settlement_id = ANY (ARRAY(
      SELECT settlement_id FROM settlements s WHERE settlement_id = ANY(${open.map(({ reads }) => reads)}::text[])
        AND ${readersMax} <= (SELECT count(*) FROM settlements r WHERE r.reads = s.settlement_id AND NOT r.is_void)
      FOR UPDATE SKIP LOCKED))`;
  return gone;
}

/**
 * Settlements that this transaction will read, all at once and in the order in which claims are locked: read
 * one by one, or behind leases, they would wait in a circle with a void of them.
 */
export async function holdSettlements(tx: Transaction, ids: readonly SettlementId[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`
    SELECT FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[])
    ORDER BY passport_id, scope_id, key_hash, settlement_id FOR SHARE`;
}

const readersMax = 16;

/** Readings of this transaction that no request is answered with after all. */
export async function dropReadings(tx: Transaction, readerIds: readonly AttestationId[]): Promise<void> {
  if (readerIds.length === 0) return;
  await tx`DELETE FROM settlements WHERE settlement_id = ANY(${[...readerIds]}::text[]) AND reads IS NOT NULL`;
}

interface ClaimRow {
  readonly place: number;
  readonly id: AttestationId;
  readonly requestHash: string;
  readonly isAnswered: boolean;
  readonly answer: {
    readonly constraints_evaluated: readonly CheckName[];
    readonly pii: readonly PiiFinding[];
  };
}

const claimedPermit = ({ id, requestHash, answer }: ClaimRow): ClaimedPermit => ({
  attestationId: id,
  requestHash,
  constraintsEvaluated: answer.constraints_evaluated,
  // In the order in which they were answered: jsonb keeps its own.
  pii: answer.pii.map(({ pointer, type }) => ({ pointer, type })),
});

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

/**
 * Settlements of this transaction that come to nothing after all, with their readings of this transaction.
 */
export async function dropSettlements(tx: Transaction, ids: readonly SettlementId[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`DELETE FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[]) OR reads = ANY(${[...ids]}::text[])`;
}

/**
 * Settlements of this transaction that come to nothing, now and whenever they come again. They may be voided
 * all the same: whoever does not know that they came to nothing gets the units back by that.
 */
export async function closeSettlements(tx: Transaction, ids: readonly SettlementId[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`UPDATE settlements SET request_hash = NULL WHERE settlement_id = ANY(${[...ids]}::text[])`;
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
 * What these ids read is locked with them, before anything is written: whether the last of its readers goes
 * here is known only to the last one who looks. A reading that is committed after the lock, and before it is
 * withdrawn, has hidden what it reads; then all is undone and done again, in the order of locks. Each round
 * sees at least one more of the ids.
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

/** Whoever adds some removes more that are over, so that these go faster than they come. Waits for nobody. */
export async function removeOldSettlements(tx: Transaction, added: number, nowMs: UnixMillis): Promise<void> {
  const max = Math.max(limits.permitClaimsPerTrimMax, 2 * added);
  await tx`
    DELETE FROM settlements WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM settlements
      WHERE expires_at_ms <= ${nowMs - decisionsLimits.permitClaimTrimAfterMs}
      ORDER BY expires_at_ms LIMIT ${max} FOR UPDATE SKIP LOCKED))`;
}
