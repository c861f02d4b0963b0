import type { AccountId, GateId } from '../../shared/model/ids.ts';
import type { Database, Transaction } from '../base/database.ts';
import { indexGates } from './index-gates.ts';
import { discoveryLimits } from './limits.ts';

/**
 * Removes the gates of a suspended account from discovery, and adds them again once it is active (contract
 * §10). Called after the commit of the status, so that a suspension does not wait for many gates. A
 * concurrent publication has either seen the new status, or this waits at its gate's lock. Idempotent: a call
 * after a crash finishes the work.
 */
export async function indexAccount(sql: Database, accountId: AccountId): Promise<void> {
  let after: string | null = '';
  while (after !== null) {
    const from: string = after;
    after = await sql.begin((tx) => indexNextGates(tx, accountId, from));
  }
}

/** Resolves to the last gate; null: none left. */
async function indexNextGates(tx: Transaction, accountId: AccountId, after: string): Promise<GateId | null> {
  const gates = await tx<{ gateId: GateId }[]>`
    SELECT gate_id AS "gateId" FROM gates
    WHERE account_id = ${accountId} AND mode = 'live' AND gate_id > ${after} AND deleted_at_ms IS NULL
    ORDER BY gate_id LIMIT ${discoveryLimits.discoveryGatesPerStepMax} FOR NO KEY UPDATE`;
  const gateIds = gates.map(({ gateId }) => gateId);
  if (gateIds.length > 0) await indexGates(tx, gateIds);
  return gateIds.at(-1) ?? null;
}
