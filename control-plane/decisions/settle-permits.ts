import { must } from '../../shared/errors/assert.ts';
import type { ArrivedPermit, SettlementAnswer } from '../../shared/wire/settlement.ts';
import { readAmounts } from '../approvals/approval-store.ts';
import { consumeApproval } from '../approvals/consume-approval.ts';
import {
  appendRecords,
  type LockedChains,
  lockChains,
  type NewRecord,
} from '../attestations/append-records.ts';
import { judgeAmong, type KnownThings } from '../attestations/judge-records.ts';
import type { Transaction } from '../base/database.ts';
import { holdLeases, judgeTakes, type Take } from '../quota/judge-takes.ts';
import { together } from '../storage/together.ts';
import type { DecisionDeps } from './deps.ts';
import { decisionsLimits } from './limits.ts';
import { type Parties, passed, refused } from './read-parties.ts';
import { answerEarlier, bindingNow, questionOf, type SettlementSender } from './settled-request.ts';
import {
  claimSettlements,
  dropSettlements,
  findVoids,
  removeOldSettlements,
  type SettlementId,
  type SettlementVerdict,
} from './settlement-store.ts';

/** A permit of a sidecar, and what it is about. */
export interface AdmittedPermit {
  readonly permit: ArrivedPermit;
  readonly parties: Parties;
}

type Deciding = Pick<DecisionDeps, 'random' | 'signingKeys' | 'appending'>;

/**
 * Makes PERMITs of a sidecar true, each for itself: its key is claimed, its approval used and its record in
 * its chain, all with the commit or none of it. Of two at once with one key, or with one approval, one is
 * committed; the other waits for it, and is answered with what it finds then.
 *
 * The settlement is the memory: a permit that comes again is answered as the first time, whatever has
 * happened since. Answers are in the order of the permits. Records that need not or must not become true are
 * dropped from one step to the next, and what is left is appended at once.
 */
export async function settlePermits(
  tx: Transaction,
  deps: Deciding,
  { admitted, known }: { readonly admitted: readonly AdmittedPermit[]; readonly known: KnownThings },
  sender: SettlementSender,
): Promise<readonly SettlementAnswer[]> {
  if (admitted.length === 0) return [];
  const answers = new Map<AdmittedPermit, SettlementAnswer>();
  const records = await judge(tx, { admitted, known }, sender, answers);
  const inserted = await insertOrFindEarlier(tx, records, sender, answers);
  const locked = await refuseUntrueTakes(tx, deps, inserted, { records, sender }, answers);
  await consume(tx, inserted, sender, answers);
  const dropped = inserted.filter((each) => answers.has(each)).map(idOf);
  await dropSettlements(tx, dropped);
  withdrawCopies(dropped, answers);
  await appendRecords(
    tx,
    deps,
    [...records].flatMap(([each, record]) => (answers.has(each) ? [] : [record])),
    null,
    locked,
  );
  return admitted.map((each) => answers.get(each) ?? committed);
}

const committed: SettlementAnswer = { kind: 'committed' };
const idOf = ({ permit }: AdmittedPermit): SettlementId => permit.shipped.record.id;

/** Those whose record may be taken from this sidecar, with it. */
async function judge(
  tx: Transaction,
  { admitted, known }: { readonly admitted: readonly AdmittedPermit[]; readonly known: KnownThings },
  sender: SettlementSender,
  answers: Map<AdmittedPermit, SettlementAnswer>,
): Promise<ReadonlyMap<AdmittedPermit, NewRecord>> {
  const verdicts = judgeAmong(
    known,
    sender,
    admitted.map(({ permit }) => ({ ...permit.shipped, isApproved: permit.approval_id !== null })),
  );
  const records = new Map<AdmittedPermit, NewRecord>();
  const stored: AdmittedPermit[] = [];
  admitted.forEach((each, place) => {
    const verdict = must(verdicts[place], 'a record has a verdict');
    const ageMs = sender.nowMs - each.permit.shipped.record.timestampMs;
    if (verdict.kind === 'refused') answers.set(each, refused(verdict.message));
    else if (verdict.kind === 'stored') stored.push(each);
    else if (ageMs > decisionsLimits.settlementAgeMsMax)
      answers.set(each, refused('timestamp_ms is too old to be settled'));
    else records.set(each, verdict.record);
  });
  const voids = await findVoids(tx, stored.map(idOf));
  for (const each of stored) answers.set(each, voids.has(idOf(each)) ? { kind: 'voided' } : committed);
  return records;
}

/** Those that were inserted have no answer yet. */
async function insertOrFindEarlier(
  tx: Transaction,
  records: ReadonlyMap<AdmittedPermit, NewRecord>,
  sender: SettlementSender,
  answers: Map<AdmittedPermit, SettlementAnswer>,
): Promise<readonly AdmittedPermit[]> {
  const claiming = [...records.keys()];
  const verdicts = await claimSettlements(
    tx,
    claiming.map(({ permit }) => ({
      id: permit.shipped.record.id,
      ...questionOf(permit, sender, permit.shipped.record.timestampMs),
      answer: permit.shipped.record,
      took: permit.shipped.took ?? [],
      held: [],
    })),
    sender.nowMs,
  );
  claiming.forEach((each, place) => {
    const answer = answerTo(must(verdicts[place], 'each settlement has a verdict'), each);
    if (answer !== null) answers.set(each, answer);
  });
  return claiming.filter((each) => !answers.has(each));
}

/**
 * A PERMIT takes what its leases have left, and becomes true now: one that a dead process left in flight may
 * name leases that were returned (quota/return-leases.ts), and a sidecar may say of its leases what is not
 * so. On the same journey old settlements make room for the new ones, and where no approval has to be used
 * first, chains are locked: also one whose PERMITs are all refused, which may begin it without a record.
 */
async function refuseUntrueTakes(
  tx: Transaction,
  deps: Deciding,
  inserted: readonly AdmittedPermit[],
  {
    records,
    sender,
  }: { readonly records: ReadonlyMap<AdmittedPermit, NewRecord>; readonly sender: SettlementSender },
  answers: Map<AdmittedPermit, SettlementAnswer>,
): Promise<LockedChains | null> {
  const newRecords = inserted.map((each) => must(records.get(each), 'what is inserted has a record'));
  const takes = inserted.map((each, place): Take => {
    const of = must(newRecords[place], 'each is inserted');
    const { record, passportOwner, took = null, ownLimits = [] } = of;
    const isPaid = each.permit.approval_id !== null;
    return { record, passportOwner, took, ownLimits, holder: sender.holder, isPaid };
  });
  const mayLock = takes.length > 0 && takes.every(({ isPaid }) => !isPaid);
  const [leases, , locked] = await together([
    () => holdLeases(tx, takes),
    () => removeOldSettlements(tx, records.size, sender.nowMs),
    () => (mayLock ? lockChains(tx, deps, newRecords) : null),
  ]);
  for (const [place, fault] of judgeTakes(leases, takes, 'refuse').entries())
    if (fault !== null) answers.set(must(inserted[place], 'each take is of a permit'), refused(fault));
  return locked;
}

function answerTo(verdict: SettlementVerdict, { permit }: AdmittedPermit): SettlementAnswer | null {
  switch (verdict.kind) {
    case 'new':
      return null;
    case 'repeated':
      return committed;
    case 'voided':
    case 'closed':
      return { kind: 'voided' };
    case 'claimed':
      return answerEarlier(verdict.by, permit);
  }
}

/** In the order of the approvals, so that no two transactions wait for each other in a circle. */
async function consume(
  tx: Transaction,
  inserted: readonly AdmittedPermit[],
  { nowMs }: SettlementSender,
  answers: Map<AdmittedPermit, SettlementAnswer>,
): Promise<void> {
  const consuming = inserted
    .flatMap((each) => {
      const { approval_id: approvalId } = each.permit;
      return approvalId === null || answers.has(each) ? [] : [{ each, approvalId }];
    })
    .sort((one, other) => (one.approvalId < other.approvalId ? -1 : 1));
  const amounts = await readAmounts(
    tx,
    consuming.map(({ approvalId }) => approvalId),
  );
  for (const { each, approvalId } of consuming) {
    const { permit, parties } = each;
    const binding = bindingNow(permit, parties.gate);
    // The hash binds the request, which is not here: what a person said yes to is an amount.
    const isItsAmount = amounts.get(approvalId) === permit.shipped.record.amountMicroUsd;
    const used =
      binding === null || !isItsAmount
        ? mismatch
        : await consumeApproval(tx, approvalId, binding, permit.shipped.record.id, nowMs);
    if (used !== 'consumed')
      answers.set(each, { kind: 'approval', standing: used.state, expires_at_ms: used.expiresAtMs });
  }
}

const mismatch = { state: 'mismatch', expiresAtMs: null } as const;

/** A copy in the same call that was answered with a PERMIT that came to nothing has to come again. */
function withdrawCopies(
  dropped: readonly SettlementId[],
  answers: Map<AdmittedPermit, SettlementAnswer>,
): void {
  const ids = new Set<SettlementId>(dropped);
  for (const [each, answer] of answers) {
    if (answer.kind === 'replayed' && ids.has(answer.first.attestation_id))
      answers.set(each, passed('the first PERMIT of this key came to nothing'));
  }
}
