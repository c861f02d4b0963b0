import { must } from '../../shared/errors/assert.ts';
import type { SettlementAnswer, SuspendSettlement } from '../../shared/wire/settlement.ts';
import { findBoundApproval } from '../approvals/approval-store.ts';
import { type OpenedApproval, openApproval } from '../approvals/open-approval.ts';
import type { Transaction } from '../base/database.ts';
import { holdPolicy } from '../gates/gate-store.ts';
import { heldUnits } from '../quota/held-units.ts';
import { lockHeld, transferFromHolder } from '../quota/hold.ts';
import type { DecisionDeps } from './deps.ts';
import { type Parties, refused } from './read-parties.ts';
import { answerEarlier, bindingTo, questionOf, type SettlementSender } from './settled-request.ts';
import { dropSettlements, findClaims, insertSettlements, readSettlements } from './settlement-store.ts';

/**
 * Opens an approval with the money that the sidecar took for it, or finds the one that waits for the same
 * request already: the money of this settlement then stays the sidecar's. A repeat of the settlement that
 * opened it is answered as the first time, whatever has happened since: its money is the approval's, and must
 * never be used besides.
 *
 * A request whose key belongs to a PERMIT is no new one and needs no approval: the first answer is given
 * again.
 */
export async function settleSuspend(
  tx: Transaction,
  deps: Pick<DecisionDeps, 'random'>,
  {
    suspend,
    parties: { passport, gate: named },
  }: { readonly suspend: SuspendSettlement; readonly parties: Parties },
  sender: SettlementSender,
): Promise<SettlementAnswer> {
  const { nowMs } = sender;
  const gate = must(named, 'a suspend names a gate');
  const asked = questionOf(suspend, sender);
  const [earlier] = await findClaims(tx, [asked], nowMs);
  if (earlier !== null && earlier !== undefined) return answerEarlier(earlier, suspend);

  const settlement = {
    id: suspend.approval_id,
    ...asked,
    key: null,
    answer: { constraintsEvaluated: suspend.constraints_evaluated, pii: suspend.pii },
    took: [],
    held: [],
  };
  const [inserted] = await insertSettlements(tx, [settlement], nowMs);
  if (inserted?.kind === 'voided') return { kind: 'voided' };
  if (inserted?.kind === 'repeated') {
    const own = await findBoundApproval(tx, suspend.approval_id, bindingTo(suspend));
    if (own !== null) return suspended({ ...own, isNew: true });
  }
  const answer = await open(tx, deps, suspend, { passport, gate, sender });
  if (answer.kind !== 'suspended' || !answer.is_new) await dropSettlements(tx, [suspend.approval_id]);
  return answer;
}

async function open(
  tx: Transaction,
  deps: Pick<DecisionDeps, 'random'>,
  suspend: SuspendSettlement,
  {
    passport,
    gate,
    sender,
  }: {
    readonly passport: Parties['passport'];
    readonly gate: NonNullable<Parties['gate']>;
    readonly sender: SettlementSender;
  },
): Promise<SettlementAnswer> {
  const decidedOn = { gateId: gate.gateId, policyVersion: suspend.gate_version };
  if (!(await holdPolicy(tx, decidedOn))) return refused('the gate has changed since this was decided');
  // An approval holds money that really was the sidecar's: what was never leased to it, it cannot hand over.
  if (!(await lockHeld(tx, sender, suspend.held))) return refused('held is not leased to this holder');
  const opened = await openApproval(tx, deps, {
    approvalId: suspend.approval_id,
    passport,
    gate,
    requestHash: suspend.request_hash,
    permissionKey: suspend.permission_key,
    amountMicroUsd: suspend.amount_micro_usd,
    constraintsEvaluated: suspend.constraints_evaluated,
    pii: suspend.pii,
    expiresInMs: suspend.expires_in_ms,
    holds: suspend.held.map(heldUnits),
    nowMs: sender.nowMs,
  });
  if (opened === null) return { kind: 'blocked', reason: 'approvals_pending_exceeded' };
  if (opened.isNew && !opened.isRepeat) await transferFromHolder(tx, sender, suspend.held);
  if (opened.isNew) return suspended(opened);
  const reading = { reads: opened.approvalId, readerId: suspend.reader_id, source: sender.sidecarId };
  if ((await readSettlements(tx, [reading], sender.nowMs)).size > 0)
    return refused('the approval of the same request was just voided');
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
