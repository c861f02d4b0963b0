import { ApiError } from '../../shared/errors/api-error.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderGate } from '../../shared/wire/api/gate.ts';
import { expireVoided, voidApprovals } from '../approvals/void-approvals.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { administer } from '../audit/administer.ts';
import { indexGates } from '../discovery/index-gates.ts';
import type { Caller } from '../http/caller.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import { deletePins } from '../mcp-pins/pin-store.ts';
import { endShadow } from './end-shadow.ts';
import { lockGate, markGateDeleted } from './gate-store.ts';
import { gateTag } from './gate-tag.ts';

/**
 * Deletes a gate for good, and voids its open approvals; its records and the versions of its catalog stay.
 * Resolves to the time of deletion.
 */
export async function deleteGate(
  deps: AppendingDeps,
  caller: Caller,
  { gateId, ifMatch }: { readonly gateId: GateId; readonly ifMatch: TagCondition },
): Promise<UnixMillis> {
  const { nowMs, voided } = await administer(deps, caller, async (tx, change) => {
    const gate = await lockGate(tx, caller, gateId);
    if (gate === null) throw new ApiError('gate_not_found');
    if (!ifMatch(gateTag(gate))) throw new ApiError('precondition_failed');
    const nowMs = deps.clock.now();
    await markGateDeleted(tx, gateId, nowMs);
    await deletePins(tx, gateId);
    await endShadow(tx, deps, gate, { reason: 'gate_deleted', nowMs });
    const voided = await voidApprovals(tx, { ...gate, isDeleted: true }, nowMs);
    await indexGates(tx, [gateId]);
    await change(gate.accountId, { kind: 'gate.delete', body: { gate_id: gateId } });
    const before = renderGate(gate, deps.gateHost);
    return {
      result: { nowMs, voided },
      audited: { operation: 'deleteGate', target: gateId, before, after: null },
    };
  });
  await expireVoided(deps, voided);
  return nowMs;
}
