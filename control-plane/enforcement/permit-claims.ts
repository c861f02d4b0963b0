import type { PendingQuery, Row } from 'postgres';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationRecord, PiiFinding } from '../../shared/model/attestation.ts';
import type { CheckName } from '../../shared/model/decision.ts';
import type { AccountId, AttestationId, GateId, PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../deps.ts';

/** An idempotency key with what it is scoped to (decisions §5). */
export interface PermitKey {
  readonly passportId: PassportId;
  /**
   * The gate, or without one the account that asks: a passport goes to many, and what it may do at one of them must neither be paid for at
   * another nor kept from it.
   */
  readonly scopeId: GateId | AccountId;
  readonly idempotencyKey: string;
}

/** The first PERMIT under a key, as it was answered. */
export interface ClaimedPermit {
  readonly attestationId: AttestationId;
  readonly requestHash: string;
  readonly constraintsEvaluated: readonly CheckName[];
  readonly pii: readonly PiiFinding[];
}

/**
 * Claims the key for a PERMIT whose record this transaction stores: null, and the claim stands with the commit. Otherwise the PERMIT to which the key
 * belongs already, and nothing was changed. Of any number of claims at once one wins: the others wait here until it is
 * committed, and find it, or until it is rolled back, and then the next one wins. Only a PERMIT is ever kept.
 *
 * A claim counts for `limits.permitClaimKeptMs` and by time, so that it makes room also where nobody has removed it yet. Who wins locks the row of
 * the key: it comes before approvals, chains and quota windows. Who finds a PERMIT there locks nothing, so that many copies of a request wait for the
 * first of them and not for each other. Whoever adds a claim removes some that are over.
 */
export async function claimKey(
  tx: Transaction,
  key: PermitKey,
  permit: Pick<AttestationRecord, 'id' | 'requestHash' | 'constraintsEvaluated' | 'pii'>,
  nowMs: UnixMillis,
): Promise<ClaimedPermit | null> {
  const answer = { constraints_evaluated: permit.constraintsEvaluated, pii: permit.pii };
  const insert = async (whereTaken: PendingQuery<Row[]>): Promise<boolean> => {
    const inserted = await tx`
      INSERT INTO permit_claims
        (passport_id, scope_id, key_hash, request_hash, attestation_id, answer, expires_at_ms)
      VALUES (${key.passportId}, ${key.scopeId}, ${sha256Hex(key.idempotencyKey)}, ${permit.requestHash},
        ${permit.id}, ${JSON.stringify(answer)}::text::jsonb, ${nowMs + limits.permitClaimKeptMs})
      ON CONFLICT (passport_id, scope_id, key_hash) ${whereTaken}`;
    return inserted.count > 0;
  };
  if (!(await insert(tx`DO NOTHING`))) {
    const earlier = await findClaim(tx, key, nowMs);
    if (earlier !== null) return earlier;
    const isRenewed = await insert(
      tx`DO UPDATE SET request_hash = excluded.request_hash, attestation_id = excluded.attestation_id,
        answer = excluded.answer, expires_at_ms = excluded.expires_at_ms
      WHERE permit_claims.expires_at_ms <= ${nowMs}`,
    );
    // Somebody else was first to renew it; this statement has locked the row, so that it is still there.
    if (!isRenewed) {
      return must(await findClaim(tx, key, nowMs), 'a key that cannot be claimed belongs to a PERMIT');
    }
  }
  await removeOldClaims(tx, nowMs);
  return null;
}

/** A number that nothing else in the database uses: sets these locks apart from others that are made of a hash. */
const keySeed = 5_302_119;

const keyHash = (tx: Transaction, { passportId, scopeId, idempotencyKey }: PermitKey) =>
  tx`hashtextextended(${`${passportId} ${scopeId} ${idempotencyKey}`}, ${keySeed})`;

/**
 * Says that this transaction is about to claim the key, with units that it has taken elsewhere before: whoever wants to know what stands behind the key
 * waits for its outcome.
 */
export const lockKey = (tx: Transaction, key: PermitKey) =>
  tx`SELECT pg_advisory_xact_lock(${keyHash(tx, key)})`;

/** Waits for who is about to claim the key. Before `findClaim`, where a limit refuses the request: the claim may be what has used it up. */
export const awaitKey = (tx: Transaction, key: PermitKey) =>
  tx`SELECT pg_advisory_xact_lock_shared(${keyHash(tx, key)})`;

/** The PERMIT to which the key belongs now; null where there is none. One that is being claimed at this moment is not seen. */
export async function findClaim(
  tx: Transaction,
  { passportId, scopeId, idempotencyKey }: PermitKey,
  nowMs: UnixMillis,
): Promise<ClaimedPermit | null> {
  const [row] = await tx<ClaimRow[]>`
    SELECT attestation_id, request_hash, answer FROM permit_claims
    WHERE passport_id = ${passportId} AND scope_id = ${scopeId} AND key_hash = ${sha256Hex(idempotencyKey)}
      AND expires_at_ms > ${nowMs}`;
  if (row === undefined) return null;
  return {
    attestationId: row.attestation_id,
    requestHash: row.request_hash,
    constraintsEvaluated: row.answer.constraints_evaluated,
    // In the order in which they were answered: jsonb keeps its own.
    pii: row.answer.pii.map(({ pointer, type }) => ({ pointer, type })),
  };
}

interface ClaimRow {
  readonly attestation_id: AttestationId;
  readonly request_hash: string;
  readonly answer: {
    readonly constraints_evaluated: readonly CheckName[];
    readonly pii: readonly PiiFinding[];
  };
}

async function removeOldClaims(tx: Transaction, nowMs: UnixMillis): Promise<void> {
  await tx`
    DELETE FROM permit_claims WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM permit_claims
      WHERE expires_at_ms <= ${nowMs - limits.permitClaimTrimAfterMs}
      ORDER BY expires_at_ms LIMIT ${limits.permitClaimsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}
