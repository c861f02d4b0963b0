import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import { decisionsLimits } from './limits.ts';

/** The use of a proof. */
export interface ProofUse {
  readonly proof: IdDigest;
  /** Of whom, and for which request. */
  readonly claim: string;
}

/**
 * Claims the first use of each proof, for good: whether each claim is the first, in their order. A claim that
 * is repeated is answered as before, so a lost answer costs nothing.
 *
 * In one statement and in the order of the proofs, so that no two wait for each other. Of two claims of one
 * proof the first in the list counts.
 */
export async function claimProofs(
  sql: Database,
  uses: readonly ProofUse[],
  nowMs: UnixMillis,
): Promise<readonly boolean[]> {
  const proofs = uses.map(({ proof }) => proof);
  const claims = uses.map(({ claim }) => claim);
  const rows = await sql<ProofUse[]>`
    INSERT INTO used_proofs AS used (proof, claim, used_at_ms)
    SELECT DISTINCT ON (proof COLLATE "C") proof, claim, ${nowMs}::bigint
    FROM unnest(${proofs}::text[], ${claims}::text[]) WITH ORDINALITY AS asked (proof, claim, place)
    ORDER BY proof COLLATE "C", place
    ON CONFLICT (proof) DO UPDATE SET claim = used.claim WHERE used.claim = excluded.claim
    RETURNING proof, claim`;
  const first = new Map(rows.map(({ proof, claim }) => [proof, claim]));
  return uses.map(({ proof, claim }) => first.get(proof) === claim);
}

/** Forgets proofs that no clock accepts any more, in statements that lock few rows each. */
export async function trimProofs(
  sql: Database,
  nowMs: UnixMillis,
  rowsPerStatement: number = decisionsLimits.proofs.rowsPerTrimMax,
): Promise<void> {
  let removed: number;
  do {
    const rows = await sql`
      DELETE FROM used_proofs WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM used_proofs WHERE used_at_ms < ${nowMs - decisionsLimits.proofs.keptMs}
        ORDER BY used_at_ms LIMIT ${rowsPerStatement} FOR UPDATE SKIP LOCKED))`;
    removed = rows.count;
  } while (removed === rowsPerStatement);
}
