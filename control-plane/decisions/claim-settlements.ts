import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PiiFinding } from '../../shared/model/attestation.ts';
import type { CheckName } from '../../shared/model/decision.ts';
import type { PermitHold } from '../../shared/model/hold.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { decisionsLimits } from './limits.ts';
import { type Reading, readSettlements } from './read-settlements.ts';
import type { ClaimedPermit, ClaimQuestion, NewSettlement, PermitKey, SettlementId } from './settlement.ts';

export type SettlementVerdict =
  /** Takes effect with the commit of this transaction. */
  | { readonly kind: 'new' }
  /** Delivered before, and in effect. */
  | { readonly kind: 'repeated' }
  | { readonly kind: 'voided' }
  /** Delivered before, and closed (`closeSettlements`). */
  | { readonly kind: 'closed' }
  /** The key belongs to an earlier PERMIT. Nothing was changed. */
  | { readonly kind: 'claimed'; readonly by: ClaimedPermit };

/**
 * Inserts settlements and claims their keys: `new` ones take effect with the commit. One of several
 * concurrent claims of a key wins. The others wait here: if the winner commits they find it, if it rolls back
 * the next one wins. A settlement and a concurrent void of it wait for each other in the same way. Two
 * settlements of one call may have the same key. Verdicts are in the order of the settlements.
 *
 * A row counts for `decisionsLimits.permitKeyKeptMs`, by time; its key is free after that, even before the
 * row is removed. Rows are locked in the order of keys and ids, before leases, approvals, chains and quota
 * windows. A copy that finds the first PERMIT reads it (`readSettlements`).
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

/** As above, for a caller that removes old settlements itself, together with other statements. */
export async function claimSettlements(
  tx: Transaction,
  settlements: readonly NewSettlement[],
  nowMs: UnixMillis,
): Promise<readonly SettlementVerdict[]> {
  const verdicts = new Map<SettlementId, SettlementVerdict>();
  const waiting = () => settlements.filter(({ id }) => !verdicts.has(id));
  // A further round is needed only if a conflicting row was removed in the meantime.
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
    if (round > 0) for (const id of await findBarred(tx, waiting())) verdicts.set(id, { kind: 'voided' });
  }
  return settlements.map(({ id }) => must(verdicts.get(id), 'each settlement has a verdict'));
}

const roundsMax = 5;

/**
 * Those that may not read what has their key, because their reading is void or another one: they come once
 * more, after their sidecar gave its answer up.
 */
async function findBarred(
  tx: Transaction,
  settlements: readonly NewSettlement[],
): Promise<readonly SettlementId[]> {
  if (settlements.length === 0) return [];
  const rows = await tx<{ id: AttestationId }[]>`
    SELECT settlement_id AS id FROM settlements
    WHERE settlement_id = ANY(${settlements.map(({ readerId }) => readerId)}::text[])`;
  const readers = new Set(rows.map((row) => row.id));
  return settlements.filter(({ readerId }) => readers.has(readerId)).map(({ id }) => id);
}

/** Inserts settlements with free ids and keys, as `insertSettlements` does, and returns their ids. */
export async function insertFree(
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
      ${settlements.map(({ answer }) => JSON.stringify(storedAnswer(answer)))}::text[],
      ${settlements.map(({ source }) => source)}::text[],
      ${settlements.map(({ took }) => JSON.stringify(took))}::text[],
      ${settlements.map(({ held }) => JSON.stringify(held))}::text[]
    ) AS new (id, passport_id, scope_id, key_hash, request_hash, answer, source, took, held)
    ORDER BY passport_id, scope_id, key_hash COLLATE "C", id
    ON CONFLICT DO NOTHING
    RETURNING settlement_id AS id`;
  return rows.map(({ id }) => id);
}

/** Frees the keys of expired PERMITs. */
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
 * The PERMITs that own these keys now, in the order of the keys; null for a free key, or without a key. Does
 * not see uncommitted claims. A PERMIT of the same request is read under the question's `readerId`.
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
    -- Adding 0 keeps the planner from the index by time, which would walk all that are not over yet.
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

interface ClaimRow {
  readonly place: number;
  readonly id: AttestationId;
  readonly requestHash: string;
  readonly isAnswered: boolean;
  readonly answer: {
    readonly constraints_evaluated: readonly CheckName[];
    readonly pii: readonly PiiFinding[];
    readonly hold?: PermitHold;
  };
}

const storedAnswer = ({
  constraintsEvaluated,
  pii,
  amountMicroUsd,
  holdExpiresAtMs,
}: NewSettlement['answer']): ClaimRow['answer'] => ({
  constraints_evaluated: constraintsEvaluated,
  pii,
  ...(amountMicroUsd === null || holdExpiresAtMs === null
    ? {}
    : { hold: { amountMicroUsd, expiresAtMs: holdExpiresAtMs } }),
});

const claimedPermit = ({ id, requestHash, answer }: ClaimRow): ClaimedPermit => ({
  attestationId: id,
  requestHash,
  constraintsEvaluated: answer.constraints_evaluated,
  // Restores the order of the answer, which jsonb does not preserve.
  pii: answer.pii.map(({ pointer, type }) => ({ pointer, type })),
  hold: answer.hold ?? null,
});

/** Removes settlements that this transaction made and gave up, with the readings it made for them. */
export async function dropSettlements(tx: Transaction, ids: readonly SettlementId[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`
    DELETE FROM settlements WHERE settlement_id = ANY (ARRAY(
      SELECT unnest(${[...ids]}::text[])
      UNION ALL SELECT settlement_id FROM settlements WHERE reads = ANY(${[...ids]}::text[])))`;
}

/**
 * Closes settlements that this transaction gave up, so that a later delivery fails too. They may still be
 * voided: that returns the units of a sidecar that does not know that they failed.
 */
export async function closeSettlements(tx: Transaction, ids: readonly SettlementId[]): Promise<void> {
  if (ids.length === 0) return;
  await tx`UPDATE settlements SET request_hash = NULL WHERE settlement_id = ANY(${[...ids]}::text[])`;
}

/** Each insert removes a larger number of expired rows, so the table stays bounded. Skips locked rows. */
export async function removeOldSettlements(tx: Transaction, added: number, nowMs: UnixMillis): Promise<void> {
  const max = Math.max(limits.permitClaimsPerTrimMax, 2 * added);
  await tx`
    DELETE FROM settlements WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM settlements
      WHERE expires_at_ms <= ${nowMs - decisionsLimits.permitClaimTrimAfterMs}
      ORDER BY expires_at_ms LIMIT ${max} FOR UPDATE SKIP LOCKED))`;
}
