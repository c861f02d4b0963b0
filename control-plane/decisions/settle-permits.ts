import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import { readAmounts } from '../approvals/approval-store.ts';
import { consumeApproval } from '../approvals/consume-approval.ts';
import {
  appendRecords,
  type LockedChains,
  lockChains,
  type NewRecord,
} from '../attestations/append-records.ts';
import type { Transaction } from '../base/database.ts';
import {
  type HeldLeases,
  holdLeases,
  judgeTakes,
  moneyLeases,
  standingApprovalHasEnded,
  type Take,
} from '../quota/judge-takes.ts';
import { together } from '../storage/together.ts';
import {
  claimSettlements,
  dropSettlements,
  insertFree,
  removeOldSettlements,
  type SettlementVerdict,
} from './claim-settlements.ts';
import type { DecisionDeps } from './deps.ts';
import { passed, refused } from './read-parties.ts';
import { answerEarlier, type NewPermit } from './settled-request.ts';
import type { SettlementId } from './settlement.ts';

type Settling = Pick<DecisionDeps, 'sql' | 'random' | 'signingKeys' | 'appending'>;
type Answers = Map<NewPermit, SettlementAnswer>;

/**
 * Settles PERMITs independently of each other. For each, claiming the key, using the approval and appending
 * the record are committed together. If two PERMITs share a key or an approval, one is committed; the other
 * waits for it and is answered by the result.
 *
 * The settlement makes this idempotent: a repeated permit gets its first answer, whatever has happened since.
 * Answers are in the order of the permits. Each step drops the records that it refuses or does not need; the
 * rest is appended together.
 *
 * `beside`: records without a settlement, appended with those of the permits.
 */
export async function settlePermits(
  tx: Transaction,
  deps: Settling,
  {
    permits,
    beside = [],
  }: { readonly permits: readonly NewPermit[]; readonly beside?: readonly NewRecord[] },
  nowMs: UnixMillis,
): Promise<readonly SettlementAnswer[]> {
  if (permits.length + beside.length === 0) return [];
  const answers: Answers = new Map();
  const { inserted, held } = await insertOrFindEarlier(tx, deps, { permits, beside, nowMs }, answers);
  for (const [place, fault] of judgeTakes(held.leases, held.takes, 'refuse').entries())
    if (fault !== null)
      answers.set(
        must(held.taking[place], 'each take is of a permit'),
        fault === standingApprovalHasEnded ? passed(fault) : refused(fault),
      );
  await consume(tx, inserted, nowMs, answers);
  const dropped = inserted.filter((each) => answers.has(each)).map(idOf);
  await dropSettlements(tx, dropped);
  withdrawCopies(dropped, answers);
  const records = inserted.flatMap((each) => (answers.has(each) ? [] : [withMoney(each, held)]));
  await appendRecords(tx, deps, [...records, ...beside], null, held.chains);
  return permits.map((each) => answers.get(each) ?? committed);
}

const committed: SettlementAnswer = { kind: 'committed' };
const idOf = ({ record }: NewPermit): SettlementId => record.record.id;

/** The control plane's own say it themselves. */
function withMoney(each: NewPermit, { taking, takes, leases }: HeldTakes): NewRecord {
  const take = takes[taking.indexOf(each)];
  return take === undefined ? each.record : { ...each.record, moneyFrom: moneyLeases(leases, take) };
}

interface Settled {
  readonly permits: readonly NewPermit[];
  readonly beside: readonly NewRecord[];
  readonly nowMs: UnixMillis;
}

/**
 * Inserted permits have no answer yet. Usually all keys are free, so the locks that follow are sent along; if
 * a key is taken, a savepoint releases them, which preserves the lock order.
 */
async function insertOrFindEarlier(
  tx: Transaction,
  deps: Settling,
  settled: Settled,
  answers: Answers,
): Promise<{ readonly inserted: readonly NewPermit[]; readonly held: HeldTakes }> {
  const { permits, nowMs } = settled;
  if (permits.length === 0) return { inserted: [], held: await holdTakes(tx, deps, [], settled) };
  const settlements = permits.map((each) => ({
    ...each,
    id: idOf(each),
    answer: each.record.record,
    took: each.record.took ?? [],
  }));
  const [free, , held] = await together([
    () => insertFree(tx, settlements, nowMs),
    () => tx`SAVEPOINT before_takes`,
    () => holdTakes(tx, deps, permits, settled),
  ]);
  if (free.length === permits.length) return { inserted: permits, held };
  await tx`ROLLBACK TO SAVEPOINT before_takes`;
  const isFree = new Set(free);
  const others = settlements.filter(({ id }) => !isFree.has(id));
  const verdicts = await claimSettlements(tx, others, nowMs);
  const verdictOf = new Map(others.map(({ id }, place) => [id, verdicts[place]]));
  for (const each of permits) {
    const verdict = verdictOf.get(idOf(each));
    const answer = verdict === undefined ? null : answerTo(verdict, each);
    if (answer !== null) answers.set(each, answer);
  }
  const inserted = permits.filter((each) => !answers.has(each));
  return { inserted, held: await holdTakes(tx, deps, inserted, settled) };
}

/** Leases that PERMITs take from, locked until the transaction ends. */
interface HeldTakes {
  /** By index in `takes`. */
  readonly taking: readonly NewPermit[];
  readonly takes: readonly Take[];
  readonly leases: HeldLeases;
  /** Null: approvals have to be locked first. */
  readonly chains: LockedChains | null;
}

/**
 * Checks that the leases still cover each PERMIT: a call left in flight by a dead process may name returned
 * leases (quota/return-leases.ts), and a sidecar may lie about its leases. In the same round trip old
 * settlements are trimmed and, if no approval has to be used first, chains are locked. That may create a
 * chain without a record, if all of its PERMITs are refused.
 */
async function holdTakes(
  tx: Transaction,
  deps: Settling,
  inserted: readonly NewPermit[],
  { permits, beside, nowMs }: Settled,
): Promise<HeldTakes> {
  const taking = inserted.filter(({ record }) => record.took !== undefined);
  const takes = taking.map(({ record: of, holder, approvalId }): Take => {
    const { record, passportOwner, took = null, ownWindows, needsApproval = false, walletPath } = of;
    const isPaid = approvalId !== null;
    return { record, passportOwner, took, ownWindows, walletPath, holder, isPaid, needsApproval };
  });
  const records = [...inserted.map(({ record }) => record), ...beside];
  const mayLock = records.length > 0 && inserted.every(({ approvalId }) => approvalId === null);
  const [leases, , chains] = await together([
    () => holdLeases(tx, takes),
    () => (permits.length === 0 ? null : removeOldSettlements(tx, permits.length, nowMs)),
    () => (mayLock ? lockChains(tx, deps, records) : null),
  ]);
  return { taking, takes, leases, chains };
}

function answerTo(verdict: SettlementVerdict, permit: NewPermit): SettlementAnswer | null {
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

/** In the order of the approvals, to prevent deadlocks. */
async function consume(
  tx: Transaction,
  inserted: readonly NewPermit[],
  nowMs: UnixMillis,
  answers: Answers,
): Promise<void> {
  const consuming = inserted
    .flatMap((each) =>
      each.approvalId === null || answers.has(each) ? [] : [{ each, approvalId: each.approvalId }],
    )
    .sort((one, other) => (one.approvalId < other.approvalId ? -1 : 1));
  const amounts = await readAmounts(
    tx,
    consuming.map(({ approvalId }) => approvalId),
  );
  for (const { each, approvalId } of consuming) {
    const { binding } = each;
    const { record } = each.record;
    // The request is not available here, only its hash; what the person approved is the amount.
    const isItsAmount = amounts.get(approvalId) === record.amountMicroUsd;
    const used =
      binding === null || !isItsAmount
        ? mismatch
        : await consumeApproval(tx, approvalId, binding, record.id, nowMs);
    if (used !== 'consumed')
      answers.set(each, { kind: 'approval', standing: used.state, expires_at_ms: used.expiresAtMs });
  }
}

const mismatch = { state: 'mismatch', expiresAtMs: null } as const;

/** A copy in the same call, answered with a PERMIT that then failed, has to be retried. */
function withdrawCopies(dropped: readonly SettlementId[], answers: Answers): void {
  const ids = new Set<SettlementId>(dropped);
  for (const [each, answer] of answers) {
    if (answer.kind === 'replayed' && ids.has(answer.first.attestation_id))
      answers.set(each, passed('the first PERMIT of this key came to nothing'));
  }
}
