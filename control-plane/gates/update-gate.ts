import { isDeepStrictEqual } from 'node:util';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Gate } from '../../shared/model/gate.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { applyGatePatch, type GatePatch, renderGateForSidecars } from '../../shared/wire/gate.ts';
import type { Deps } from '../deps.ts';
import { indexGates } from '../discovery/index-gates.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import { changeTransaction } from '../sync/change-transaction.ts';
import { lockGate, updateGateRow } from './gate-store.ts';
import { gateTag } from './gate-tag.ts';

/**
 * Applies a merge patch (decisions §4). The gate is locked while it is read and written, so that of two patches at once none
 * is lost. A patch that changes nothing leaves the version as it is, and so the tags that others hold
 * and the approvals that wait at the gate.
 */
export async function updateGate(
  deps: Deps,
  owner: Owner,
  {
    gateId,
    patch,
    ifMatch,
  }: { readonly gateId: GateId; readonly patch: Static<typeof GatePatch>; readonly ifMatch: TagCondition },
): Promise<Gate> {
  return changeTransaction(deps, async (tx, change) => {
    const current = await lockGate(tx, owner, gateId);
    if (current === null) throw new ApiError('gate_not_found');
    if (!ifMatch(gateTag(current))) throw new ApiError('precondition_failed');
    const patched: Gate = { ...current, ...applyGatePatch(patch, current) };
    if (isDeepStrictEqual(patched, current)) return current;
    const gate = { ...patched, version: current.version + 1, updatedAtMs: deps.clock.now() };
    await updateGateRow(tx, gate);
    if (gate.trustLevel !== current.trustLevel) await indexGates(tx, [gateId]);
    await change(gate.accountId, { kind: 'gate.put', body: renderGateForSidecars(gate) });
    return gate;
  });
}
