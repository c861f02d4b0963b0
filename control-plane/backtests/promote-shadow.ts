import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { namedIssuers } from '../../shared/model/constraints.ts';
import type { Outcome } from '../../shared/model/decision.ts';
import type { Gate } from '../../shared/model/gate.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { Prediction } from '../../shared/replay/prediction.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { findGate } from '../gates/gate-store.ts';
import { shadowAt } from '../gates/shadow-at.ts';
import { findNewestShadow, writePromotion } from '../gates/shadow-store.ts';
import { changeGate } from '../gates/update-gate.ts';
import type { Caller } from '../http/caller.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import { readShadow } from './shadow-report.ts';

/**
 * Makes the shadow of a gate its policy (contract §4), as a change of the gate does. What it is expected to
 * decide is kept, to be compared with what it does.
 */
export async function promoteShadow(
  deps: AppendingDeps,
  caller: Caller,
  { gateId, ifMatch }: { readonly gateId: GateId; readonly ifMatch: TagCondition | null },
): Promise<Gate> {
  const gate = await findGate(deps.sql, caller, gateId);
  if (gate === null) throw new ApiError('gate_not_found');
  if (ifMatch === null)
    throw invalidRequest('If-Match', 'Send If-Match with the ETag of the gate that you have seen.');
  const nowMs = deps.clock.now();
  const shadow = shadowAt(gate, nowMs);
  const newest = await findNewestShadow(deps.sql, gateId);
  if (shadow === null || newest === null) {
    // What it was made of is not the policy of the gate any more.
    const isOfAnother = newest !== null && newest.basePolicyHash !== gate.policyHash;
    throw new ApiError(isOfAnother ? 'precondition_failed' : 'shadow_not_found');
  }
  const { policyHash, createdAtMs } = shadow;
  const prediction = new Prediction(createdAtMs, nowMs);
  const asked = { policyHash, policy: newest.policy, gateId, sinceMs: createdAtMs, untilMs: nowMs };
  const isWhole = createdAtMs < nowMs && (await isReadWhole(deps, caller, asked, prediction));
  return changeGate(deps, caller, {
    gateId,
    ifMatch,
    operation: 'promoteShadow',
    issuers: namedIssuers(shadow.constraints),
    patched: (current, atMs) => {
      if (shadowAt(current, atMs)?.policyHash !== policyHash) throw new ApiError('precondition_failed');
      const { trustLevel, constraints, routes } = shadow;
      return { ...current, trustLevel, constraints, routes };
    },
    onChanged: (tx, atMs) =>
      writePromotion(tx, gateId, { atMs, policyHash, predicted: isWhole ? prediction.counts() : null }),
  });
}

/** False: there was too much to read. */
async function isReadWhole(
  deps: AppendingDeps,
  caller: Caller,
  asked: Parameters<typeof readShadow>[2],
  prediction: Prediction,
): Promise<boolean> {
  const add = (atMs: UnixMillis, outcome: Outcome) => prediction.add(atMs, outcome);
  const { until } = await readShadow(deps, caller, asked, add);
  return until === renderTime(asked.untilMs);
}
