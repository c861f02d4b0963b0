import type { Static } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { GateShadow } from '../../shared/model/gate.ts';
import type { GateId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import {
  applyShadowPatch,
  renderShadow,
  type ShadowPatch,
  shadowLifeMs,
} from '../../shared/wire/api/shadow.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { endShadow } from './end-shadow.ts';
import { lockGate } from './gate-store.ts';
import { keepPolicy, keepShadowPolicy } from './policy-store.ts';
import { putGate } from './put-gate.ts';
import { refuseUnanswerable } from './refuse-unanswerable.ts';
import { shadowAt } from './shadow-at.ts';
import { writeShadow } from './shadow-store.ts';

/**
 * Tries a policy beside the live one of the gate (contract §4), in the place of the shadow before it. The
 * same policy again goes on for longer. Changes nothing that decides, so the version of the gate stays.
 */
export async function putShadow(
  deps: AppendingDeps,
  caller: Caller,
  { gateId, patch }: { readonly gateId: GateId; readonly patch: Static<typeof ShadowPatch> },
): Promise<GateShadow> {
  return administer(deps, caller, async (tx, change) => {
    const gate = await lockGate(tx, caller, gateId);
    if (gate === null) throw new ApiError('gate_not_found');
    const policy = applyShadowPatch(patch, gate);
    const wanted = { accountId: caller.accountId, after: policy.constraints, before: gate.constraints };
    await refuseUnanswerable(tx, deps, wanted);
    const nowMs = deps.clock.now();
    const before = shadowAt(gate, nowMs);
    const basePolicyHash = gate.policyHash ?? (await keepPolicy(tx, deps, gate));
    const policyHash = await keepShadowPolicy(tx, deps, { ...policy, gateId });
    if (policyHash === basePolicyHash)
      throw invalidRequest(
        'constraints',
        'The shadow is the policy that the gate has. Change something in it.',
      );
    const goesOn = before?.policyHash === policyHash;
    const shadow: GateShadow = {
      ...policy,
      policyHash,
      basePolicyHash,
      createdAtMs: goesOn ? before.createdAtMs : nowMs,
      expiresAtMs: (nowMs + shadowLifeMs(patch)) as UnixMillis,
    };
    if (!goesOn) await endShadow(tx, deps, gate, { reason: 'replaced', nowMs });
    await writeShadow(tx, gate, shadow);
    await putGate(tx, change, { ...gate, policyHash: basePolicyHash, shadow }, nowMs);
    return {
      result: shadow,
      audited: {
        operation: 'putShadow',
        target: gateId,
        before: before === null ? null : renderShadow(gateId, before),
        after: renderShadow(gateId, shadow),
      },
    };
  });
}
