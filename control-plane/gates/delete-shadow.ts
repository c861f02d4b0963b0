import { ApiError } from '../../shared/errors/api-error.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { renderShadow } from '../../shared/wire/api/shadow.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { endShadow } from './end-shadow.ts';
import { lockGate } from './gate-store.ts';
import { putGate } from './put-gate.ts';
import { shadowAt } from './shadow-at.ts';

/** Ends the shadow of the gate. What it said stays on record. */
export async function deleteShadow(deps: AppendingDeps, caller: Caller, gateId: GateId): Promise<void> {
  await administer(deps, caller, async (tx, change) => {
    const gate = await lockGate(tx, caller, gateId);
    if (gate === null) throw new ApiError('gate_not_found');
    const nowMs = deps.clock.now();
    const shadow = shadowAt(gate, nowMs);
    if (shadow === null) throw new ApiError('shadow_not_found');
    await endShadow(tx, deps, gate, { reason: 'deleted', nowMs });
    await putGate(tx, change, { ...gate, shadow: null }, nowMs);
    const before = renderShadow(gateId, shadow);
    return {
      result: undefined,
      audited: { operation: 'deleteShadow', target: gateId, before, after: null },
    };
  });
}
