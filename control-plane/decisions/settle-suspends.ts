import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import { findBoundApproval, findPendingIds } from '../approvals/approval-store.ts';
import { type OpenedApproval, openApproval } from '../approvals/open-approval.ts';
import type { Transaction } from '../base/database.ts';
import { lockHeld, transferFromHolder } from '../book/hold.ts';
import { holdPolicy } from '../gates/gate-store.ts';
import { together } from '../storage/together.ts';
import { closeSettlements, dropSettlements, findClaims, insertSettlements } from './claim-settlements.ts';
import type { DecisionDeps } from './deps.ts';
import { findWaiting } from './look-up.ts';
import { passed, refused } from './read-parties.ts';
import { dropReadings, holdSettlements, readSettlements } from './read-settlements.ts';
import { answerEarlier, type NewSuspend } from './settled-request.ts';
import { findVoids } from './withdraw-settlements.ts';

type Answers = Map<NewSuspend, SettlementAnswer>;

/**
 * Opens an approval for each SUSPEND with the money its sidecar took, or finds the pending one of the same
 * request; then the sidecar keeps the money. A repeat of the settlement that opened the approval gets its
 * first answer, whatever has happened to the approval since: the money belongs to the approval and must not
 * be used twice. A repeat of a settlement that found another approval never opens one, even after that
 * approval ended: the sidecar kept the money and may have used it.
 *
 * For the control plane's own SUSPEND, the caller takes the money of a new approval from the ledger.
 *
 * A request whose key belongs to a PERMIT needs no approval and gets that answer again, unless this is a
 * repeat of a settlement that opened an approval. Answers are in the order of the suspends.
 */
export async function settleSuspends(
  tx: Transaction,
  deps: Pick<DecisionDeps, 'random' | 'baseUrl'>,
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
  // Sidecars repeat calls. The control plane never repeats an id.
  const [ofSidecars, own] = [found.filter(isOfSidecar), found.filter((each) => !isOfSidecar(each))];
  await closeSettlements(tx, ofSidecars.map(idOf));
  await dropSettlements(tx, [...unopened, ...own].map(idOf));
  return suspends.map(answerTo);
}

const idOf = ({ approvalId }: NewSuspend) => approvalId;
const isOfSidecar = ({ from }: NewSuspend): boolean => from !== null;

/** Suspends with a known answer: the first PERMIT of their key, or their own approval. */
async function insertOrFindEarlier(
  tx: Transaction,
  suspends: readonly NewSuspend[],
  nowMs: UnixMillis,
  answers: Answers,
): Promise<void> {
  const [claims, pending] = await together([
    () => findClaims(tx, suspends, nowMs),
    () =>
      findPendingIds(
        tx,
        suspends.map(({ binding }) => binding),
      ),
  ]);
  for (const [place, each] of suspends.entries()) {
    const earlier = claims[place] ?? null;
    if (earlier !== null) answers.set(each, (await answerAsBefore(tx, each)) ?? answerEarlier(earlier, each));
  }
  const inserting = suspends.filter((each) => !answers.has(each));
  await holdSettlements(tx, pending);
  const verdicts = await insertSettlements(
    tx,
    inserting.map((each) => ({
      ...each,
      id: each.approvalId,
      key: null,
      answer: { ...each, holdExpiresAtMs: null },
      took: [],
      // An approval frees its own units.
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
 * The approval that this suspend opened before its key went to a PERMIT, or null. The sidecar may have
 * received the answer long ago, so a reading left by this delivery could never be voided and would keep alive
 * a PERMIT that no client got.
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

/** A suspend that had found another approval, which may have ended since. */
async function findAgain(tx: Transaction, suspend: NewSuspend, nowMs: UnixMillis): Promise<SettlementAnswer> {
  const waiting = await findWaiting(tx, { binding: suspend.binding, reader: suspend }, nowMs);
  return waiting === null ? { kind: 'voided' } : suspended({ ...waiting, isNew: false });
}

/**
 * Fixed order, because opening an approval waits for a transaction that opens one for the same request.
 * Suspends with a holder's money come first: holders are locked before approvals.
 */
function inOrderOfLocks(one: NewSuspend, other: NewSuspend): number {
  const [first, second] = [placeOf(one), placeOf(other)];
  return first < second ? -1 : Number(first > second);
}

const placeOf = ({ from, binding: { gateId, passportId, requestHash } }: NewSuspend): string =>
  `${(from?.held.length ?? 0) > 0 ? 1 : 2} ${gateId} ${passportId} ${requestHash}`;

async function open(
  tx: Transaction,
  deps: Pick<DecisionDeps, 'random' | 'baseUrl'>,
  suspend: NewSuspend,
  nowMs: UnixMillis,
): Promise<SettlementAnswer> {
  const { from, binding } = suspend;
  const { gateId, gateVersion: policyVersion } = binding;
  const [policy, isHeld] = await together([
    () => holdPolicy(tx, { gateId, policyVersion }),
    // A sidecar can only hand over money that was leased to it.
    () => from === null || lockHeld(tx, from, from.held),
  ]);
  if (policy === null) return passed('the gate has changed since this was decided');
  if (!isHeld) return refused('held is not leased to this holder');
  const gate = { ...suspend.gate, ...policy, policyVersion };
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
