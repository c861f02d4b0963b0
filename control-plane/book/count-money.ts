import { compileSpendWindows } from '../../shared/decision/compile-windows.ts';
import { type DrawnWindow, windowsOf } from '../../shared/decision/windows-of.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { GateId, PassportId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { partOfGate } from '../../shared/quota/counter.ts';
import { windowAt, windowKey } from '../../shared/quota/window.ts';
import type { WindowLimit } from '../../shared/quota/window-limit.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { distinct } from '../storage/distinct.ts';
import { tryStoredConstraints } from '../storage/stored-constraints.ts';
import { type AlertTerms, alertWhereDue, type ChangedSum, isOfWallet, sumOfLanes } from './alert-on-spend.ts';
import { changeOf, entriesOf } from './entry.ts';
import { findSources, type MoneySource, nameOfSource } from './find-sources.ts';
import type { UnitsSource } from './held-units.ts';
import { approvalOf, type Posting } from './post.ts';
import { addToSums, type SumChange, spentMax } from './spend-sums.ts';

/** A record that is being appended, and the money that moves with it. */
export interface MoneyRecord {
  readonly attestation: AttestationRecord;
  /** Whether it counts for its passport and gate (contract §9); wallets count it in any case. */
  readonly counts: boolean;
  /** Its passport is in a wallet, also where a record in form 1 does not say so. */
  readonly isInWallet: boolean;
  /** Where a PERMIT took its money. */
  readonly moneyFrom: readonly UnitsSource[];
  /** Of a record that says what became of a PERMIT. */
  readonly postings: readonly Posting[];
}

/** Looks up the limits that these records may count for. The result counts those that are appended. */
export async function prepareSums(
  tx: Transaction,
  records: readonly AttestationRecord[],
): Promise<
  (tx: Transaction, deps: Pick<BaseDeps, 'random'>, appended: readonly MoneyRecord[]) => Promise<void>
> {
  const policies = await findSpendLimits(tx, records.filter(mayMoveMoney));
  return (inTx, deps, appended) => countMoney(inTx, deps, { appended, policies });
}

/**
 * Sums what PERMITs count in each window of money with a limit: of gates and passports in the windows of the
 * decision's time, of wallets in those that the PERMIT took from, so a wallet that was moved since then keeps
 * what was taken from it (contract §6 and §19). A PERMIT that counts more or less than before changes the
 * same sums. Alerts the owner of a limit, once per window and counter, where a sum that grew has reached
 * `alert_at` of it (contract §14: `spend_limit.approaching`); less money takes no alert back. No decision
 * depends on these sums.
 *
 * Costs one look-up if a wallet is concerned, one statement if money moved, else nothing. The sums are hot
 * rows, locked until the transaction ends; only quota windows may be locked after them. Called once per
 * transaction.
 */
async function countMoney(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  { appended, policies }: { readonly appended: readonly MoneyRecord[]; readonly policies: FoundLimits },
): Promise<void> {
  const moved = appended.map((each) => ({ ...each, postings: postingsOf(each) }));
  const sums = new Map<string, Sum>();
  for (const each of moved) addToPolicies(sums, policies, each);
  const bySource = moved.filter(
    (each) => each.isInWallet || each.attestation.resolution !== null || perUserOf(policies, each).length > 0,
  );
  const sources = new Map<string, MoneySource[]>();
  const postings = bySource.flatMap((each) => each.postings);
  const asked = {
    moneyFrom: postings.flatMap(({ from }) => from),
    approvals: postings.map(({ approvalId }) => approvalId),
  };
  for (const each of await findSources(tx, asked))
    sources.set(each.name, [...(sources.get(each.name) ?? []), each]);
  for (const each of bySource) addBySource(sums, sources, each, perUserOf(policies, each));
  const changes = [...sums.values()].filter(({ spent, held }) => spent !== 0 || held !== 0);
  const unalerted = await addToSums(tx, changes);
  await alertWhereDue(tx, deps, unalerted, sums);
}

type MovingRecord = AttestationRecord & { readonly passportId: PassportId };

const mayMoveMoney = (record: AttestationRecord): record is MovingRecord =>
  record.passportId !== null &&
  (isSpending(record) || (record.decision === 'PERMIT' && record.resolution !== null));

const isSpending = ({ decision, resolution, test, amountMicroUsd }: AttestationRecord): boolean =>
  decision === 'PERMIT' && resolution === null && !test && amountMicroUsd !== null && amountMicroUsd > 0;

/** A new PERMIT counts all of its amount. */
function postingsOf({ attestation, moneyFrom, postings }: MoneyRecord): readonly Posting[] {
  if (!isSpending(attestation)) return postings;
  const { amountMicroUsd, holdExpiresAtMs, approvalId, source, timestampMs } = attestation;
  const paidBy = approvalOf(approvalId);
  const counts = { own: amountMicroUsd ?? 0, isHeld: holdExpiresAtMs !== null, overrun: 0 };
  const from = paidBy !== null ? 'approval' : source === 'control-plane' ? 'free' : 'lease';
  const entries = entriesOf({ kind: 'recorded', from, counts });
  return [{ source, from: moneyFrom, approvalId: paidBy, entries, atMs: timestampMs }];
}

/** What this transaction changes in one window. */
interface Sum extends SumChange, ChangedSum {
  spent: number;
  held: number;
  latestMs: UnixMillis;
}

function addUp(
  sums: Map<string, Sum>,
  new_: Omit<Sum, 'spent' | 'held'>,
  change: ReturnType<typeof changeOf>,
) {
  const name = windowKey(new_.counter, new_.window);
  const sum = sums.get(name) ?? { ...new_, spent: 0, held: 0 };
  sum.spent = Math.max(-spentMax, Math.min(sum.spent + change.spent, spentMax));
  sum.held += change.held;
  if (new_.latestMs > sum.latestMs) sum.latestMs = new_.latestMs;
  sums.set(name, sum);
}

function addToPolicies(
  sums: Map<string, Sum>,
  policies: FoundLimits,
  { attestation, counts, postings }: MoneyRecord,
): void {
  const { gateId, passportId, timestampMs: latestMs } = attestation;
  if (passportId === null || !counts) return;
  for (const { drawn, by } of countedWindows({ gateId, passportId }, policies)) {
    const { counter, of: owned } = drawn;
    const of = {
      gate_id: 'gateId' in owned ? owned.gateId : null,
      passport_id: 'passportId' in owned ? owned.passportId : null,
      wallet_id: null,
    };
    const terms = { limit: drawn.limit, alertAt: by.alertAt, owner: by.owner, of };
    for (const { entries, atMs } of postings) {
      const window = windowAt(drawn.window, atMs);
      addUp(sums, { counter, window, isExact: false, terms, latestMs }, { ...changeOf(entries), held: 0 });
    }
  }
}

/**
 * What a posting moves in windows that only its sources tell: those of wallets, and of the gate's limits per
 * user, whose record does not say for whom its agent acted.
 */
function addBySource(
  sums: Map<string, Sum>,
  sources: ReadonlyMap<string, readonly MoneySource[]>,
  { attestation: { gateId, passportId, timestampMs: latestMs }, counts, postings }: MoneyRecord,
  perUser: readonly PolicyWindow[],
): void {
  for (const posting of postings) {
    const names = [
      ...posting.from.map(nameOfSource),
      ...(posting.approvalId === null ? [] : [posting.approvalId]),
    ];
    const drawn = new Set(names.flatMap((name) => sources.get(name) ?? []));
    const change = changeOf(posting.entries);
    for (const { counter, window: name, startsAtMs } of drawn) {
      const window = windowAt(name, startsAtMs);
      if (isOfWallet(counter)) {
        addUp(sums, { counter: sumOfLanes(counter), window, isExact: true, terms: null, latestMs }, change);
        continue;
      }
      const isCounted = counts && gateId !== null && partOfGate(counter, gateId) !== null;
      const found = isCounted ? perUser.find(({ limit }) => limit.window === name) : undefined;
      if (found === undefined) continue;
      const of = { gate_id: gateId, passport_id: passportId, wallet_id: null };
      const terms = { limit: found.limit.limit, alertAt: found.by.alertAt, owner: found.by.owner, of };
      addUp(sums, { counter, window, isExact: false, terms, latestMs }, { ...change, held: 0 });
    }
  }
}

interface PolicyWindow {
  readonly limit: WindowLimit;
  readonly by: SpendLimits;
}

/** The limits of the record's gate that count money for each user. */
function perUserOf(policies: FoundLimits, { attestation: { gateId } }: MoneyRecord): readonly PolicyWindow[] {
  const by = gateId === null ? undefined : policies.get(gateId);
  if (by === undefined) return [];
  return by.spendWindows.flatMap((limit) => (limit.per === 'user' ? [{ limit, by }] : []));
}

/** The currently configured limits on the money of a gate or a passport. */
interface SpendLimits extends Pick<AlertTerms, 'alertAt' | 'owner'> {
  readonly spendWindows: readonly WindowLimit[];
}

/** By gate and passport. */
type FoundLimits = ReadonlyMap<string, SpendLimits>;

/**
 * The spend limits of gates and passports. A deleted gate has none, and a limit of 0 is skipped because
 * nothing can approach it.
 */
async function findSpendLimits(tx: Transaction, of: readonly MovingRecord[]): Promise<FoundLimits> {
  if (of.length === 0) return new Map();
  const gateIds = distinct(of.map(({ gateId }) => gateId));
  const passportIds = distinct(of.map(({ passportId }) => passportId));
  const hasWindows = tx`constraints->'spend_limits' ?| ARRAY['daily_usd', 'monthly_usd']`;
  const rows = await tx<(Owner & { id: string; of: 'gate' | 'passport'; constraints: unknown })[]>`
    SELECT gate_id AS id, 'gate' AS of, account_id AS "accountId", mode, constraints FROM gates
    WHERE gate_id = ANY(${gateIds}::text[]) AND deleted_at_ms IS NULL AND ${hasWindows}
    UNION ALL
    SELECT passport_id, 'passport', account_id, mode, constraints FROM passports
    WHERE passport_id = ANY(${passportIds}::text[]) AND ${hasWindows}`;
  return new Map(
    rows.flatMap(({ id, of: whose, constraints, ...owner }) => {
      // An unreadable limit raises no alert: it must not keep records out of their chains.
      const spendLimits = tryStoredConstraints(constraints, whose)?.spendLimits ?? null;
      if (spendLimits === null) return [];
      const spendWindows = compileSpendWindows(spendLimits, whose).filter(({ limit }) => limit > 0);
      return [[id, { spendWindows, alertAt: spendLimits.alertAt, owner }] as const];
    }),
  );
}

const isNotPerUser = ({ per }: WindowLimit): boolean => per !== 'user';

/** The windows of these limits that money of the passport at the gate counts in, each with its limits. */
function countedWindows(
  { gateId, passportId }: { readonly gateId: GateId | null; readonly passportId: PassportId },
  limits: FoundLimits,
): readonly { readonly drawn: DrawnWindow; readonly by: SpendLimits }[] {
  const ofGate = gateId === null ? undefined : limits.get(gateId);
  const ofPassport = limits.get(passportId);
  const { spend } = windowsOf({
    // What counts for each user is counted by its sources.
    gate: gateId === null ? null : { gateId, spendWindows: ofGate?.spendWindows.filter(isNotPerUser) ?? [] },
    passport: { passportId, spendWindows: ofPassport?.spendWindows ?? [] },
  });
  return spend.map((drawn) => {
    const by = drawn.of.kind === 'gate_spend' ? ofGate : ofPassport;
    return { drawn, by: must(by, 'a window is of limits that were found') };
  });
}
