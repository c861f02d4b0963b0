import type { Gate } from '../../shared/model/gate.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderGateForSidecars } from '../../shared/wire/api/gate.ts';
import { standingApprovalsAt } from '../approvals/standing-approval-store.ts';
import type { Transaction } from '../base/database.ts';
import type { WriteChange } from '../sync/change-transaction.ts';

/**
 * Announces the gate to its sidecars as it is now, with its standing approvals. This transaction has locked
 * or inserted the gate, and written it.
 */
export async function putGate(
  tx: Transaction,
  change: WriteChange,
  gate: Gate,
  nowMs: UnixMillis,
): Promise<void> {
  const standingApprovals = await standingApprovalsAt(tx, gate.gateId, nowMs);
  await change(gate.accountId, { kind: 'gate.put', body: renderGateForSidecars(gate, standingApprovals) });
}
