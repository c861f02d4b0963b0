import { ApiError } from '../../shared/errors/api-error.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { expireVoided, voidApprovals } from '../approvals/void-approvals.ts';
import type { Deps } from '../deps.ts';
import { indexGates } from '../discovery/index-gates.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { lockGate, markGateDeleted } from './gate-store.ts';
import { gateTag } from './gate-tag.ts';

/** Deletes a gate for good, and voids its open approvals; its records and the versions of its catalog stay. Resolves to the moment of it. */
export async function deleteGate(
  deps: Deps,
  owner: Owner,
  { gateId, ifMatch }: { readonly gateId: GateId; readonly ifMatch: TagCondition },
): Promise<UnixMillis> {
  const { nowMs, voided } = await changeTransaction(deps, async (tx, change) => {
    const gate = await lockGate(tx, owner, gateId);
    if (gate === null) throw new ApiError('gate_not_found');
    if (!ifMatch(gateTag(gate))) throw new ApiError('precondition_failed');
    const nowMs = deps.clock.now();
    await markGateDeleted(tx, gateId, nowMs);
    const voided = await voidApprovals(tx, { ...gate, isDeleted: true }, nowMs);
    await indexGates(tx, [gateId]);
    await change(gate.accountId, { kind: 'gate.delete', body: { gate_id: gateId } });
    return { nowMs, voided };
  });
  await expireVoided(deps, voided);
  return nowMs;
}
