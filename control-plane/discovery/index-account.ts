import type { AccountId, GateId } from '../../shared/model/ids.ts';
import type { Database, Transaction } from '../base/database.ts';
import { indexGates } from './index-gates.ts';
import { discoveryLimits } from './limits.ts';

/**
 * Makes discovery forget the gates of an account that has been suspended, and answer them again when it is
 * active (contract §10). To be called after the commit of that: however many gates there are, a suspension
 * waits for none of this. Whoever publishes meanwhile has either seen the new status, or is waited for here
 * at the lock of the gate. Called twice it does no harm, and what a crash has left undone is done by the next
 * call.
 */
export async function indexAccount(sql: Database, accountId: AccountId): Promise<void> {
  let after: string | null = '';
  while (after !== null) {
    const from: string = after;
    after = await sql.begin((tx) => indexNextGates(tx, accountId, from));
  }
}

/** Resolves to the last of them; null: there are no more. */
async function indexNextGates(tx: Transaction, accountId: AccountId, after: string): Promise<GateId | null> {
  const gates = await tx<{ gateId: GateId }[]>`
    SELECT gate_id AS "gateId" FROM gates
    WHERE account_id = ${accountId} AND mode = 'live' AND gate_id > ${after} AND deleted_at_ms IS NULL
    ORDER BY gate_id LIMIT ${discoveryLimits.discoveryGatesPerStepMax} FOR NO KEY UPDATE`;
  const gateIds = gates.map(({ gateId }) => gateId);
  if (gateIds.length > 0) await indexGates(tx, gateIds);
  return gateIds.at(-1) ?? null;
}
