import { must } from '../../shared/errors/assert.ts';
import type { ArrivedSettlement, SettlementAnswer } from '../../shared/wire/settlement.ts';
import { findBoundApproval } from '../approvals/approval-store.ts';
import { type OpenedApproval, openApproval } from '../approvals/open-approval.ts';
import type { RecordSender } from '../attestations/judge-records.ts';
import type { Deps, Transaction } from '../deps.ts';
import { findClaim } from '../enforcement/permit-claims.ts';
import { holdPolicy } from '../gates/gate-store.ts';
import { heldUnits } from '../leases/held-units.ts';
import { transferFromHolder } from '../leases/hold.ts';
import { refusal } from './nothing-settled.ts';
import { readParties } from './read-parties.ts';
import { answerEarlier, bindingTo, keyOf } from './settled-request.ts';

type SuspendCall = Extract<ArrivedSettlement, { kind: 'suspend' }>;

/**
 * Opens an approval with the money that the sidecar took for it, or finds the one that waits for the same request already: the money of this
 * call then stays the sidecar's. A repeat of the call that opened it is answered as the first time, whatever has happened since: its money is
 * the approval's, and must never be used besides.
 *
 * A request whose key belongs to a PERMIT is no new one and needs nobody's word: the first answer is given again. One too many is answered
 * `pending_exceeded`, and the sidecar blocks it.
 */
export async function settleSuspend(
  tx: Transaction,
  deps: Pick<Deps, 'random'>,
  call: SuspendCall,
  { accountId, nowMs }: RecordSender,
): Promise<SettlementAnswer> {
  const own = await findBoundApproval(tx, call.approval_id, bindingTo(call));
  if (own !== null && own.gateAccountId === accountId) return suspended({ ...own, isNew: true });
  const { passport, gate: named } = await readParties(tx, accountId, call);
  const gate = must(named, 'a suspend names a gate');
  const key = keyOf(call, accountId);
  const earlier = key === null ? null : await findClaim(tx, key, nowMs);
  if (earlier !== null) return answerEarlier(earlier, call);
  const decidedOn = { gateId: gate.gateId, policyVersion: call.gate_version };
  if (!(await holdPolicy(tx, decidedOn))) throw refusal('the gate has changed since this was decided');

  const opened = await openApproval(tx, deps, {
    approvalId: call.approval_id,
    passport,
    gate,
    requestHash: call.request_hash,
    permissionKey: call.permission_key,
    amountMicroUsd: call.amount_micro_usd,
    constraintsEvaluated: call.constraints_evaluated,
    pii: call.pii,
    expiresInMs: call.expires_in_ms,
    holds: call.held.map(heldUnits),
    nowMs,
  });
  if (opened === null) return { kind: 'pending_exceeded' };
  // A repeat that waited for the first call to commit finds that the money was handed over by it.
  if (opened.isNew && !opened.isRepeat) await takeOver(tx, call);
  return suspended(opened);
}

const suspended = ({
  approvalId,
  expiresAtMs,
  isNew,
}: Pick<OpenedApproval, 'approvalId' | 'expiresAtMs' | 'isNew'>): SettlementAnswer => ({
  kind: 'suspended',
  approval_id: approvalId,
  expires_at_ms: expiresAtMs,
  is_new: isNew,
});

/** An approval stands on money that really was the sidecar's: what was never leased to it, it cannot hand over. */
async function takeOver(tx: Transaction, call: SuspendCall): Promise<void> {
  if (call.held.length === 0) return;
  const from = { holder: call.holder, sidecarId: call.sidecar_id };
  const taken = await transferFromHolder(tx, from, call.held);
  const isWhole = call.held.every(({ units }, place) => taken[place]?.units === units);
  if (!isWhole) throw refusal('held is not leased to this holder');
}
