import { must } from '../../shared/errors/assert.ts';
import type { ApprovalId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SettlementAnswer, SuspendSettlement } from '../../shared/wire/settlement.ts';
import { findBoundApproval } from '../approvals/approval-store.ts';
import { type OpenedApproval, openApproval } from '../approvals/open-approval.ts';
import { type KnownThings, type Told, whyNotTold } from '../attestations/judge-records.ts';
import type { Transaction } from '../base/database.ts';
import { holdPolicy } from '../gates/gate-store.ts';
import { heldUnits } from '../quota/held-units.ts';
import { lockHeld, transferFromHolder } from '../quota/hold.ts';
import type { DecisionDeps } from './deps.ts';
import { findWaiting, holdWaiting } from './look-up.ts';
import { type Parties, passed, refused } from './read-parties.ts';
import { answerEarlier, bindingTo, questionOf, type SettlementSender } from './settled-request.ts';
import {
  closeSettlements,
  dropReadings,
  dropSettlements,
  findClaims,
  findVoids,
  insertSettlements,
  readSettlements,
} from './settlement-store.ts';

/** A suspend of a sidecar, and what it is about. */
export interface AdmittedSuspend {
  readonly suspend: SuspendSettlement;
  readonly parties: Parties;
}

/**
 * Opens an approval for each with the money that the sidecar took for it, or finds the one that waits for the
 * same request already: the money of this settlement then stays the sidecar's. A repeat of the settlement
 * that opened it is answered as the first time, whatever has happened to the approval since: its money is the
 * approval's, and must never be used besides. One that has found another approval opens none where its call
 * comes again, also when that approval is over: its money has been the sidecar's since, and may be used.
 *
 * A request whose key belongs to a PERMIT is no new one and needs no approval: the first answer is given
 * again, but for a repeat of a settlement that has opened one before. Answers are in the order of the
 * suspends.
 */
export async function settleSuspends(
  tx: Transaction,
  deps: Pick<DecisionDeps, 'random'>,
  { admitted, known }: { readonly admitted: readonly AdmittedSuspend[]; readonly known: KnownThings },
  sender: SettlementSender,
): Promise<readonly SettlementAnswer[]> {
  if (admitted.length === 0) return [];
  const answers = new Map<AdmittedSuspend, SettlementAnswer>();
  for (const each of admitted) {
    const fault =
      whyNotTold(toldOf(each.suspend, sender), sender, known) ?? findLackingHold(each.suspend, known);
    if (fault !== null) answers.set(each, refused(fault));
  }
  const credible = admitted.filter((each) => !answers.has(each));
  await insertOrFindEarlier(tx, credible, sender, answers);
  const opening = credible.filter((each) => !answers.has(each)).sort(inOrderOfLocks);
  for (const each of opening) answers.set(each, await open(tx, deps, each, sender));
  const answerTo = (each: AdmittedSuspend) => must(answers.get(each), 'each suspend is answered');
  const idsWhere = (is: (answer: SettlementAnswer) => boolean): ApprovalId[] =>
    opening.filter((each) => is(answerTo(each))).map(({ suspend }) => suspend.approval_id);
  await closeSettlements(
    tx,
    idsWhere((answer) => answer.kind === 'suspended' && !answer.is_new),
  );
  await dropSettlements(
    tx,
    idsWhere((answer) => answer.kind !== 'suspended'),
  );
  return admitted.map(answerTo);
}

/**
 * As it would stand on record. It does not say when it was decided: before its call was sent, and not longer
 * ago than a call is wanted.
 */
const toldOf = (suspend: SuspendSettlement, { nowMs }: SettlementSender): Told => ({
  told: {
    decision: 'SUSPEND',
    reason: 'approval_required',
    timestampMs: (nowMs - limits.decisionDeadlineMs) as UnixMillis,
    passportId: suspend.passport_id,
    gateId: suspend.gate_id,
    permissionKey: suspend.permission_key,
    amountMicroUsd: suspend.amount_micro_usd,
    constraintsEvaluated: suspend.constraints_evaluated,
  },
  tokenHash: suspend.token_hash,
  // It is at a gate, which has a mode.
  callerMode: 'live',
  isApproved: false,
});

/** The money of an approval counts in each window of the passport's own limits, or they would be passed. */
function findLackingHold(
  { held, amount_micro_usd: amount, passport_id: passportId }: SuspendSettlement,
  { passports }: KnownThings,
): string | null {
  if ((amount ?? 0) === 0) return null;
  const own = passports.get(passportId)?.own?.limits ?? [];
  return own.every(
    ({ kind, window }) =>
      kind !== 'passport_spend' || held.some((each) => each.kind === kind && each.window === window),
  )
    ? null
    : 'held lacks the money of a limit of passport_id';
}

/** Those that have an answer already: of the first PERMIT of their key, or of their own approval. */
async function insertOrFindEarlier(
  tx: Transaction,
  admitted: readonly AdmittedSuspend[],
  sender: SettlementSender,
  answers: Map<AdmittedSuspend, SettlementAnswer>,
): Promise<void> {
  const { nowMs } = sender;
  const questions = admitted.map(({ suspend }) => questionOf(suspend, sender));
  const claims = await findClaims(tx, questions, nowMs);
  for (const [place, each] of admitted.entries()) {
    const earlier = claims[place] ?? null;
    if (earlier !== null)
      answers.set(each, (await answerAsBefore(tx, each)) ?? answerEarlier(earlier, each.suspend));
  }
  const inserting = admitted.filter((each) => !answers.has(each));
  await holdWaiting(
    tx,
    inserting.map(({ suspend }) => bindingTo(suspend)),
  );
  const verdicts = await insertSettlements(
    tx,
    inserting.map(({ suspend }) => ({
      id: suspend.approval_id,
      ...questionOf(suspend, sender),
      key: null,
      answer: { constraintsEvaluated: suspend.constraints_evaluated, pii: suspend.pii },
      took: [],
      held: [],
    })),
    nowMs,
  );
  for (const [place, each] of inserting.entries()) {
    const verdict = must(verdicts[place], 'each settlement has a verdict');
    const { suspend } = each;
    if (verdict.kind === 'voided') answers.set(each, { kind: 'voided' });
    if (verdict.kind === 'closed') answers.set(each, await findAgain(tx, suspend, sender));
    if (verdict.kind !== 'repeated') continue;
    const own = await findBoundApproval(tx, suspend.approval_id, bindingTo(suspend));
    if (own !== null) answers.set(each, suspended({ ...own, isNew: true }));
  }
}

/**
 * One that has opened its approval before its key went to a PERMIT. Null: it has not. Its sidecar may have
 * had its answer long ago: a reading that this delivery leaves behind would keep true for good what nobody
 * was told of.
 */
async function answerAsBefore(
  tx: Transaction,
  { suspend }: AdmittedSuspend,
): Promise<SettlementAnswer | null> {
  const own = await findBoundApproval(tx, suspend.approval_id, bindingTo(suspend));
  if (own === null || (await findVoids(tx, [suspend.approval_id])).size > 0) return null;
  await dropReadings(tx, [suspend.reader_id]);
  return suspended({ ...own, isNew: true });
}

/** One that had found another approval, which may be over by now. */
async function findAgain(
  tx: Transaction,
  suspend: SuspendSettlement,
  { sidecarId, nowMs }: SettlementSender,
): Promise<SettlementAnswer> {
  const reader = { readerId: suspend.reader_id, source: sidecarId };
  const waiting = await findWaiting(tx, { binding: bindingTo(suspend), reader }, nowMs);
  return waiting === null ? { kind: 'voided' } : suspended({ ...waiting, isNew: false });
}

/**
 * The same order in every call: whoever opens an approval waits while another transaction opens one of the
 * same request. Those with money come first, because the holder is locked before approvals.
 */
function inOrderOfLocks(one: AdmittedSuspend, other: AdmittedSuspend): number {
  const [first, second] = [placeOf(one), placeOf(other)];
  return first < second ? -1 : Number(first > second);
}

const placeOf = ({ suspend: { held, gate_id, passport_id, request_hash } }: AdmittedSuspend): string =>
  `${held.length > 0 ? 1 : 2} ${gate_id} ${passport_id} ${request_hash}`;

async function open(
  tx: Transaction,
  deps: Pick<DecisionDeps, 'random'>,
  { suspend, parties }: AdmittedSuspend,
  sender: SettlementSender,
): Promise<SettlementAnswer> {
  const gate = must(parties.gate, 'a suspend names a gate');
  const decidedOn = { gateId: gate.gateId, policyVersion: suspend.gate_version };
  if (!(await holdPolicy(tx, decidedOn))) return passed('the gate has changed since this was decided');
  // An approval holds money that really was the sidecar's: what was never leased to it, it cannot hand over.
  if (!(await lockHeld(tx, sender, suspend.held))) return refused('held is not leased to this holder');
  const opened = await openApproval(tx, deps, {
    approvalId: suspend.approval_id,
    passport: parties.passport,
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
    return passed('the approval of the same request was just voided');
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
