import { isDeepStrictEqual } from 'node:util';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { namedIssuers } from '../../shared/model/constraints.ts';
import type { Gate } from '../../shared/model/gate.ts';
import { type GateId, type IssuerId, isId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { GateConstraints } from '../../shared/wire/api/constraints.ts';
import { applyGatePatch, type GatePatch, gateReadOnly, renderGate } from '../../shared/wire/api/gate.ts';
import { refuseChanges } from '../../shared/wire/api/read-only.ts';
import { expireVoided, voidApprovals } from '../approvals/void-approvals.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { indexGates } from '../discovery/index-gates.ts';
import type { Caller } from '../http/caller.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import { holdTrusted, tellTrusted } from '../issuers/trust-issuers.ts';
import { endShadow } from './end-shadow.ts';
import { lockGate, updateGateRow } from './gate-store.ts';
import { gateTag } from './gate-tag.ts';
import { keepPolicy } from './policy-store.ts';
import { putGate } from './put-gate.ts';
import { refuseUnanswerable } from './refuse-unanswerable.ts';

/**
 * Applies a merge patch (contract §4). The gate is locked between read and write, so that concurrent patches
 * are not lost. A patch without effect keeps the version, and so the entity tags of readers. A change of
 * trust level, constraints or routes voids the gate's open approvals (contract §8), and ends its shadow.
 */
export const updateGate = (
  deps: AppendingDeps,
  caller: Caller,
  {
    gateId,
    patch,
    ifMatch,
  }: { readonly gateId: GateId; readonly patch: Static<typeof GatePatch>; readonly ifMatch: TagCondition },
): Promise<Gate> =>
  changeGate(deps, caller, {
    gateId,
    ifMatch,
    operation: 'updateGate',
    issuers: issuersIn(patch),
    patched: (current) => {
      refuseChanges(patch, renderGate(current, deps.gateHost), gateReadOnly);
      return { ...current, ...applyGatePatch(patch, current) };
    },
  });

/** How a gate is changed. */
interface GateChange {
  readonly gateId: GateId;
  readonly ifMatch: TagCondition;
  readonly operation: 'updateGate' | 'promoteShadow';
  /** That the gate may begin to trust. */
  readonly issuers: readonly IssuerId[];
  /** The gate as it is to be. Throws where it must not be. */
  readonly patched: (current: Gate, nowMs: UnixMillis) => Gate;
  /** In the same transaction, once the gate is written. */
  readonly onChanged?: (tx: Transaction, nowMs: UnixMillis) => Promise<void>;
}

export async function changeGate(
  deps: AppendingDeps,
  caller: Caller,
  { gateId, ifMatch, operation, issuers, patched: patch, onChanged }: GateChange,
): Promise<Gate> {
  const { gate, voided } = await administer(deps, caller, async (tx, change) => {
    const trusted = await holdTrusted(tx, caller, issuers);
    const current = await lockGate(tx, caller, gateId);
    if (current === null) throw new ApiError('gate_not_found');
    if (!ifMatch(gateTag(current))) throw new ApiError('precondition_failed');
    const nowMs = deps.clock.now();
    const patched = patch(current, nowMs);
    if (isDeepStrictEqual(patched, current)) return { result: { gate: current, voided: 0 }, audited: null };
    const { accountId } = caller;
    await refuseUnanswerable(tx, deps, {
      accountId,
      after: patched.constraints,
      before: current.constraints,
    });
    const version = current.version + 1;
    const policyVersion = hasSamePolicy(patched, current) ? current.policyVersion : version;
    const begun: Gate = {
      ...patched,
      version,
      policyVersion,
      updatedAtMs: nowMs,
      lastChangedBy: caller.actor,
    };
    await updateGateRow(tx, begun);
    const hasChanged = policyVersion !== current.policyVersion;
    const shadow = hasChanged ? null : current.shadow;
    const gate: Gate = { ...begun, policyHash: await keepPolicy(tx, deps, begun), shadow };
    const reason = operation === 'promoteShadow' ? 'promoted' : 'policy_changed';
    if (hasChanged) await endShadow(tx, deps, current, { reason, nowMs });
    const voided = await voidApprovals(tx, { ...gate, isDeleted: false }, nowMs);
    if (gate.trustLevel !== current.trustLevel) await indexGates(tx, [gateId]);
    const known = new Set(namedIssuers(current.constraints));
    const issuerIds = trusted.issuerIds.filter((id) => !known.has(id));
    await tellTrusted(tx, change, { ...trusted, issuerIds });
    await putGate(tx, change, gate, nowMs);
    await onChanged?.(tx, nowMs);
    const render = (each: Gate) => renderGate(each, deps.gateHost);
    return {
      result: { gate, voided },
      audited: { operation, target: gateId, before: render(current), after: render(gate) },
    };
  });
  await expireVoided(deps, voided);
  return gate;
}

/** Ids in a patch that has not been read yet. */
function issuersIn({ constraints }: Static<typeof GatePatch>): readonly IssuerId[] {
  const named = (constraints as GateConstraints | null | undefined)?.trusted_issuers ?? [];
  return named.filter((id): id is IssuerId => isId('iss', id));
}

const hasSamePolicy = (one: Gate, other: Gate): boolean =>
  one.trustLevel === other.trustLevel &&
  isDeepStrictEqual(one.constraints, other.constraints) &&
  isDeepStrictEqual(one.routes, other.routes);
