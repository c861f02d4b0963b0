import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SettlementAnswer } from '../../shared/wire/settlement.ts';
import { findBoundApproval } from '../approvals/approval-store.ts';
import { type OpenedApproval, openApproval } from '../approvals/open-approval.ts';
import type { Transaction } from '../base/database.ts';
import { holdPolicy } from '../gates/gate-store.ts';
import { lockHeld, transferFromHolder } from '../quota/hold.ts';
import { closeSettlements, dropSettlements, findClaims, insertSettlements } from './claim-settlements.ts';
import type { DecisionDeps } from './deps.ts';
import { findWaiting, holdWaiting } from './look-up.ts';
import { passed, refused } from './read-parties.ts';
import { dropReadings, readSettlements } from './read-settlements.ts';
import { answerEarlier, type NewSuspend } from './settled-request.ts';
import { findVoids } from './withdraw-settlements.ts';

type Answers = Map<NewSuspend, SettlementAnswer>;

/**
 * Opens an approval for each with the money that its sidecar took for it, or finds the one that waits for the
 * same request already: the money of this settlement then stays the sidecar's. A repeat of the settlement
 * that opened it is answered as the first time, whatever has happened to the approval since: its money is the
 * approval's, and must never be used besides. One that has found another approval opens none where its call
 * comes again, also when that approval is over: its money has been the sidecar's since, and may be used.
 *
 * Of a SUSPEND of this program the caller takes the money from the ledger, where the approval is new.
 *
 * A request whose key belongs to a PERMIT is no new one and needs no approval: the first answer is given
 * again, but for a repeat of a settlement that has opened one before. Answers are in the order of the
 * suspends.
 */
export async function settleSuspends(
  tx: Transaction,
  deps: Pick<DecisionDeps, 'random'>,
  suspends: readonly NewSuspend[],
  nowMs: UnixMillis,
): Promise<readonly SettlementAnswer[]> {
  if (suspends.length === 0) return [];
  const answers: Answers = new Map();
  await insertOrFindEarlier(tx, suspends, nowMs, answers);
  const opening = suspends.filter((each) => !answers.has(each)).sort(inOrderOfLocks);
  for (const each of opening) answers.set(each, await open(tx, deps, each, nowMs));
  const answerTo = (each: NewSuspend) => must(answers.get(each), 'each suspend is answered');
  const found = opening.filter((each) => {
    const answer = answerTo(each);
    return answer.kind === 'suspended' && !answer.is_new;
  });
  const unopened = opening.filter((each) => answerTo(each).kind !== 'suspended');
  // Calls of sidecars may come again. This program never repeats an id.
  const [ofSidecars, own] = [found.filter(isOfSidecar), found.filter((each) => !isOfSidecar(each))];
  await closeSettlements(tx, ofSidecars.map(idOf));
  await dropSettlements(tx, [...unopened, ...own].map(idOf));
  return suspends.map(answerTo);
}

const idOf = ({ approvalId }: NewSuspend) => approvalId;
const isOfSidecar = ({ from }: NewSuspend): boolean => from !== null;

/** Those that have an answer already: of the first PERMIT of their key, or of their own approval. */
async function insertOrFindEarlier(
  tx: Transaction,
  suspends: readonly NewSuspend[],
  nowMs: UnixMillis,
  answers: Answers,
): Promise<void> {
  const claims = await findClaims(tx, suspends, nowMs);
  for (const [place, each] of suspends.entries()) {
    const earlier = claims[place] ?? null;
    if (earlier !== null) answers.set(each, (await answerAsBefore(tx, each)) ?? answerEarlier(earlier, each));
  }
  const inserting = suspends.filter((each) => !answers.has(each));
  await holdWaiting(
    tx,
    inserting.map(({ binding }) => binding),
  );
  const verdicts = await insertSettlements(
    tx,
    inserting.map((each) => ({
      ...each,
      id: each.approvalId,
      key: null,
      answer: each,
      took: [],
      // An approval frees what it holds itself.
      held: [],
    })),
    nowMs,
  );
  for (const [place, each] of inserting.entries()) {
    const verdict = must(verdicts[place], 'each settlement has a verdict');
    if (verdict.kind === 'voided') answers.set(each, { kind: 'voided' });
    if (verdict.kind === 'closed') answers.set(each, await findAgain(tx, each, nowMs));
    if (verdict.kind !== 'repeated') continue;
    const own = await findBoundApproval(tx, each.approvalId, each.binding);
    if (own !== null) answers.set(each, suspended({ ...own, isNew: true }));
  }
}

/**
 * One that has opened its approval before its key went to a PERMIT. Null: it has not. Its sidecar may have
 * had its answer long ago: a reading that this delivery leaves behind would keep true for good what it told
 * no client.
 */
async function answerAsBefore(
  tx: Transaction,
  { approvalId, binding, readerId }: NewSuspend,
): Promise<SettlementAnswer | null> {
  const own = await findBoundApproval(tx, approvalId, binding);
  if (own === null || (await findVoids(tx, [approvalId])).size > 0) return null;
  await dropReadings(tx, [readerId]);
  return suspended({ ...own, isNew: true });
}

/** One that had found another approval, which may be over by now. */
async function findAgain(tx: Transaction, suspend: NewSuspend, nowMs: UnixMillis): Promise<SettlementAnswer> {
  const waiting = await findWaiting(tx, { binding: suspend.binding, reader: suspend }, nowMs);
  return waiting === null ? { kind: 'voided' } : suspended({ ...waiting, isNew: false });
}

/**
 * The same order in every call: to open an approval is to wait while another transaction opens one for the
 * same request. Those with the money of a holder come first, because the holder is locked before approvals.
 */
function inOrderOfLocks(one: NewSuspend, other: NewSuspend): number {
  const [first, second] = [placeOf(one), placeOf(other)];
  return first < second ? -1 : Number(first > second);
}

const placeOf = ({ from, binding: { gateId, passportId, requestHash } }: NewSuspend): string =>
  `${(from?.held.length ?? 0) > 0 ? 1 : 2} ${gateId} ${passportId} ${requestHash}`;

async function open(
  tx: Transaction,
  deps: Pick<DecisionDeps, 'random'>,
  suspend: NewSuspend,
  nowMs: UnixMillis,
): Promise<SettlementAnswer> {
  const { from, binding } = suspend;
  const { gateId, gateVersion: policyVersion } = binding;
  if (!(await holdPolicy(tx, { gateId, policyVersion })))
    return passed('the gate has changed since this was decided');
  // An approval holds money that really was the sidecar's: what was never leased to it, it cannot hand over.
  if (from !== null && !(await lockHeld(tx, from, from.held)))
    return refused('held is not leased to this holder');
  const gate = { ...suspend.gate, policyVersion };
  const opened = await openApproval(tx, deps, { ...suspend, gate, nowMs });
  if (opened === null) return { kind: 'blocked', reason: 'approvals_pending_exceeded' };
  if (from !== null && opened.isNew && !opened.isRepeat) await transferFromHolder(tx, from, from.held);
  if (opened.isNew) return suspended(opened);
  const { readerId, source } = suspend;
  if ((await readSettlements(tx, [{ reads: opened.approvalId, readerId, source }], nowMs)).size > 0)
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
