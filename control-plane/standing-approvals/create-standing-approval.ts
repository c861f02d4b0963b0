/**
 * Room `control-plane/standing-approvals`: requests that a person approves ahead (contract §8). Made here,
 * then `end-standing-approval.ts`; their SQL is with that of approvals, because gates carry them to sidecars.
 * What they permit is decided in `shared/decision/find-standing-approval.ts`, and counted by the ledger.
 */

import { demandsApproval } from '../../shared/decision/check-approval.ts';
import { compileApprovals } from '../../shared/decision/compile-approvals.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { Constraints } from '../../shared/model/constraints.ts';
import type { Gate } from '../../shared/model/gate.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { StandingApproval } from '../../shared/model/standing-approval.ts';
import type {
  CountedStandingApproval,
  NewStandingApproval,
} from '../../shared/wire/api/standing-approval.ts';
import { approvalsLimits } from '../approvals/limits.ts';
import {
  countInForce,
  findPassportAtGate,
  insertStandingApproval,
  standingApprovalsAt,
} from '../approvals/standing-approval-store.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';
import { lockGate } from '../gates/gate-store.ts';
import { putGate } from '../gates/put-gate.ts';
import type { Caller } from '../http/caller.ts';
import { tryStoredConstraints } from '../storage/stored-constraints.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { refuseNonApprover } from './refuse-non-approver.ts';

/**
 * Approves requests ahead; sidecars know it from the push on. Bound to the policy that the gate has now. The
 * passport is one of the caller's account, or one that has asked for an approval at the gate; an owner may
 * have passports later.
 */
export async function createStandingApproval(
  tx: Transaction,
  change: WriteChange,
  { random, clock }: Pick<AppendingDeps, 'random' | 'clock'>,
  { caller, wanted }: { readonly caller: Caller; readonly wanted: NewStandingApproval },
): Promise<CountedStandingApproval> {
  const { gateId, passportId, owner, ...terms } = wanted;
  const gate = gateId === null ? null : await lockGate(tx, caller, gateId);
  if (gate === null) throw new ApiError('gate_not_found', { param: 'gate_id' });
  const passport =
    passportId === null ? null : await findPassportAtGate(tx, caller, { passportId, gateId: gate.gateId });
  if (passport === null && owner === null) throw new ApiError('passport_not_found', { param: 'passport_id' });
  const nowMs = clock.now();
  await refuseNonApprover(tx, caller, { gate, passportId, owner, nowMs });
  const own = passport === null ? null : tryStoredConstraints(passport.constraints, 'passport');
  refuseUselessOne(gate, own, wanted);
  if (terms.expiresAtMs <= nowMs) throw invalidRequest('expires_at', 'expires_at must be in the future.');
  if (
    (await standingApprovalsAt(tx, gate.gateId, nowMs)).length >= approvalsLimits.standingApprovalsPerGateMax
  )
    throw tooMany('gate', approvalsLimits.standingApprovalsPerGateMax);
  const made: StandingApproval = {
    ...terms,
    standingApprovalId: random.newId('sappr', nowMs),
    gateId: gate.gateId,
    gateVersion: gate.policyVersion,
    passportId,
    owner,
    agentId: passport?.agentId ?? null,
    createdAtMs: nowMs,
    createdBy: caller.actor.id,
    endedAtMs: null,
    endedBy: null,
  };
  await insertStandingApproval(tx, caller, made);
  await putGate(tx, change, gate, nowMs);
  // Counted under the head of the feed, which all changes of the account share.
  if ((await countInForce(tx, caller, nowMs)) > approvalsLimits.standingApprovalsPerAccountMax)
    throw tooMany('account', approvalsLimits.standingApprovalsPerAccountMax);
  return { ...made, status: 'active', usedMicroUsd: nothing, leasedMicroUsd: nothing };
}

const nothing = 0 as MicroUsd;

const tooMany = (of: 'gate' | 'account', max: number): ApiError =>
  invalidRequest(
    'gate_id',
    `This ${of} has ${max} standing approvals in force, which is the maximum. End one that is not needed.`,
  );

/** One that could never apply would look as if it did. */
function refuseUselessOne(
  { constraints, catalogTerms }: Gate,
  own: Constraints | null,
  { permissionKey, eachMicroUsd }: NewStandingApproval,
): void {
  const offer = catalogTerms?.get(permissionKey);
  if (catalogTerms !== null && offer === undefined)
    throw invalidRequest('permission_key', 'permission_key is not in the catalog of the gate.');
  const isDemandedBy = (of: Constraints | null): boolean => {
    const rule = of === null ? null : compileApprovals(of);
    return rule !== null && demandsApproval(rule, permissionKey, eachMicroUsd);
  };
  if (offer?.requiresApproval !== true && !isDemandedBy(constraints) && !isDemandedBy(own))
    throw invalidRequest(
      'permission_key',
      'No request for this permission of up to each_usd waits for an approval at this gate.',
    );
}
