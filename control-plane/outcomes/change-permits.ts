/**
 * Room `control-plane/outcomes`: what becomes of a PERMIT after its answer (contract §19): its hold ends or
 * is extended, its outcome is reported, money is refunded. `permit-change.ts` has the rules, this file the
 * transaction, `expire-holds.ts` the end of a hold by time, `apply-reported.ts` what sidecars have shipped.
 */

import { assert, must } from '../../shared/errors/assert.ts';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import { emptyExtras, type PermitResolution } from '../../shared/model/attestation.ts';
import type { HoldRule } from '../../shared/model/constraints.ts';
import { holdDefaults } from '../../shared/model/hold.ts';
import type { AccountId, AttestationId, GateId, SidecarId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { appendRecords, type NewRecord } from '../attestations/append-records.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { tooEarlyToSettleLater } from '../attestations/record-form.ts';
import { findStoredRecords } from '../attestations/stored-records.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../book/held-units.ts';
import { approvalOf, keepBook, type Posting, postingsOf } from '../book/post.ts';
import { chargeMore } from '../quota/charge-more.ts';
import { distinct } from '../storage/distinct.ts';
import { tryStoredConstraints } from '../storage/stored-constraints.ts';
import { together } from '../storage/together.ts';
import { outcomesLimits } from './limits.ts';
import { beginPermits, lockPermits, type StoredPermit, writePermits } from './outcome-store.ts';
import { changePermit, moneyOf, type PermitChange } from './permit-change.ts';

export interface AskedChange {
  readonly attestationId: AttestationId;
  readonly change: PermitChange;
  /** Null: the service itself, for any PERMIT. Others change PERMITs of their own gates. */
  readonly owner: Owner | null;
  readonly source: SidecarId | 'control-plane';
}

export type ChangeResult =
  | {
      readonly kind: 'changed' | 'repeated';
      readonly permit: StoredPermit;
      readonly before: StoredPermit;
    }
  /** No such record that the owner may change; it may arrive yet. */
  | { readonly kind: 'unknown' }
  /** Of several changes: this one may find no room for an overrun. It has to come alone, nothing was done. */
  | { readonly kind: 'alone' }
  | { readonly kind: 'refused'; readonly code: ErrorCode; readonly message: string };

export type ChangingDeps = Pick<AppendingDeps, 'random' | 'signingKeys' | 'appending' | 'baseUrl'>;

/** Thrown to roll back the only change: a limit has no room for its overrun, as its end has shown. */
export class NoRoomForOverrun extends Error {
  override readonly name = 'NoRoomForOverrun';
}

/**
 * Changes PERMITs in the order given, each as if it came alone, in the caller's transaction. Each change
 * appends its record to the chain, and money goes back into the windows that the PERMIT took it from, where
 * these have not ended. Results are in the order given.
 *
 * Locks the rows of the PERMITs first, so that changes of one PERMIT, and its void, come one after the other;
 * quota windows are last. A single change may throw NoRoomForOverrun; of several, one that would charge an
 * overrun is `alone`, as are all later changes of the same PERMIT.
 */
export async function changePermits(
  tx: Transaction,
  deps: ChangingDeps,
  asked: readonly AskedChange[],
  nowMs: UnixMillis,
): Promise<readonly ChangeResult[]> {
  if (asked.length === 0) return [];
  if (deps.appending.recordForm() === 1) throw tooEarlyToSettleLater();
  const ids = distinct(asked.map(({ attestationId }) => attestationId)).sort();
  const known = await readPermits(tx, ids);
  const states = new Map(known.states);
  const results: ChangeResult[] = [];
  const moves: Move[] = [];
  const alone = new Set<AttestationId>();
  for (const each of asked) {
    const found = known.records.get(each.attestationId);
    const state = states.get(each.attestationId);
    if (found === undefined || !mayChange(found, each.owner)) {
      results.push({ kind: 'unknown' });
      continue;
    }
    const fault = whyNoPermit(found) ?? whyTooOld(found, nowMs);
    if (fault !== null || state === undefined) {
      results.push({ kind: 'refused', code: 'outcome_conflict', message: fault ?? '' });
      continue;
    }
    const verdict = changePermit(state, each.change, termsOf(found, known.rules), nowMs);
    const charges = verdict.kind === 'changed' && verdict.chargeMicroUsd > 0;
    if (asked.length > 1 && (charges || alone.has(each.attestationId))) {
      alone.add(each.attestationId);
      results.push({ kind: 'alone' });
    } else if (verdict.kind === 'refused') results.push(verdict);
    else if (verdict.kind === 'repeated') results.push({ kind: 'repeated', permit: state, before: state });
    else {
      const record = changeRecord(deps, found, { ...verdict, by: each, nowMs });
      const permit: StoredPermit = { ...state, ...verdict.state, recordId: record.record.id };
      states.set(each.attestationId, permit);
      moves.push({ found, before: state, permit, record, chargeMicroUsd: verdict.chargeMicroUsd });
      results.push({ kind: 'changed', permit, before: state });
    }
  }
  await carryOut(tx, deps, moves, nowMs);
  return results;
}

interface Move {
  readonly found: NewRecord;
  readonly before: StoredPermit;
  readonly permit: StoredPermit;
  readonly record: NewRecord;
  readonly chargeMicroUsd: number;
}

interface KnownPermits {
  readonly records: ReadonlyMap<AttestationId, NewRecord>;
  /** Of PERMITs that can change; locked. */
  readonly states: ReadonlyMap<AttestationId, StoredPermit>;
  readonly rules: ReadonlyMap<GateId, HoldRule>;
}

async function readPermits(tx: Transaction, ids: readonly AttestationId[]): Promise<KnownPermits> {
  const records = await findStoredRecords(tx, ids);
  const permits = [...records.values()].filter((found) => whyNoPermit(found) === null);
  // All are there before the first is locked, as where PERMITs are voided: so the two meet in one order.
  await beginPermits(tx, permits, false);
  const [locked, voids, rules] = await together([
    () =>
      lockPermits(
        tx,
        permits.map(({ record }) => record.id),
      ),
    () => findVoids(tx, ids),
    () => findHoldRules(tx, distinct(permits.map(({ record }) => record.gateId))),
  ]);
  const states = new Map(
    [...locked].map(([id, state]) => [id, voids.has(id) ? { ...state, isVoid: true } : state]),
  );
  return { records, states, rules };
}

/** Voided by a replica of the version before, which keeps no row of outcomes. */
async function findVoids(
  tx: Transaction,
  ids: readonly AttestationId[],
): Promise<ReadonlySet<AttestationId>> {
  const rows = await tx<{ id: AttestationId }[]>`
    SELECT settlement_id AS id FROM settlements WHERE settlement_id = ANY(${[...ids]}::text[]) AND is_void`;
  return new Set(rows.map(({ id }) => id));
}

/** Of today: a gate says what becomes of its holds, also of those that are open. */
async function findHoldRules(
  tx: Transaction,
  gateIds: readonly GateId[],
): Promise<ReadonlyMap<GateId, HoldRule>> {
  if (gateIds.length === 0) return new Map();
  const rows = await tx<{ gateId: GateId; constraints: unknown }[]>`
    SELECT gate_id AS "gateId", constraints FROM gates WHERE gate_id = ANY(${[...gateIds]}::text[])`;
  return new Map(
    rows.map(({ gateId, constraints }) => [
      gateId,
      tryStoredConstraints(constraints, 'gate')?.holds ?? holdDefaults,
    ]),
  );
}

const mayChange = ({ record, passportOwner, gateOwner }: NewRecord, owner: Owner | null): boolean => {
  if (owner === null) return true;
  const of = record.gateId === null ? passportOwner : gateOwner;
  return of !== null && of.accountId === owner.accountId && of.mode === owner.mode;
};

function whyNoPermit({ record: { decision, resolution, test } }: NewRecord): string | null {
  if (resolution !== null)
    return 'This record is no decision: it says what became of one. Name the PERMIT in its refers_to.';
  if (decision !== 'PERMIT') return `This record is a ${decision}: only a PERMIT has an outcome.`;
  return test ? 'This record is a gate test, which takes no money and has no outcome.' : null;
}

const whyTooOld = ({ record }: NewRecord, nowMs: UnixMillis): string | null =>
  record.timestampMs + outcomesLimits.permitsChangeMs < nowMs
    ? 'The PERMIT is more than a year old: what it counts does not change any more.'
    : null;

const termsOf = (
  { record, passportOwner, gateOwner }: NewRecord,
  rules: KnownPermits['rules'],
): Parameters<typeof changePermit>[2] => ({
  rule: (record.gateId === null ? undefined : rules.get(record.gateId)) ?? holdDefaults,
  isForeign: record.gateId !== null && passportOwner?.accountId !== gateOwner.accountId,
  decidedAtMs: record.timestampMs,
});

/** Repeats the decision under a new id and time, with what it counts from now on. */
function changeRecord(
  { random }: Pick<AppendingDeps, 'random'>,
  found: NewRecord,
  {
    state,
    resolution,
    by,
    nowMs,
  }: {
    readonly state: { readonly countsMicroUsd: MicroUsd | null; readonly hold: StoredPermit['hold'] };
    readonly resolution: PermitResolution;
    readonly by: AskedChange;
    readonly nowMs: UnixMillis;
  },
): NewRecord {
  const { record, passportOwner, gateOwner } = found;
  const sourceAccount: AccountId | null = by.owner?.accountId ?? gateOwner.accountId;
  return {
    record: {
      ...record,
      ...(record.asserted === null ? emptyExtras : {}),
      id: random.newId('att', nowMs),
      amountMicroUsd: state.countsMicroUsd,
      resolution,
      refersTo: record.id,
      holdExpiresAtMs: state.hold?.status === 'open' ? state.hold.expiresAtMs : null,
      stateAgeMs: null,
      source: by.source,
      sourceAccount,
      timestampMs: nowMs,
    },
    passportOwner,
    gateOwner,
  };
}

/** In the order of locks: rows of PERMITs, leases, chains, sums of money, quota windows. */
async function carryOut(
  tx: Transaction,
  deps: ChangingDeps,
  moves: readonly Move[],
  nowMs: UnixMillis,
): Promise<void> {
  if (moves.length === 0) return;
  await keepBook(tx, nowMs, async (book) => {
    // It came alone.
    const charged = moves.find(({ chargeMicroUsd }) => chargeMicroUsd > 0);
    const ask =
      charged === undefined
        ? null
        : await chargeMore.find(tx, charged.found.record, {
            ...charged,
            moneyFrom: charged.found.moneyFrom ?? [],
            nowMs,
          });
    const records = moves.map(
      (move): NewRecord => ({ ...move.record, postings: postingsOfMove(move, ask?.held(0) ?? []) }),
    );
    await book.draw(records.flatMap(({ postings = [] }) => postings));
    const last = new Map(moves.map(({ permit }) => [permit.attestationId, permit]));
    await writePermits(
      tx,
      [...last.values()].map((permit) =>
        ask === null ? permit : { ...permit, overrunFrom: ask.held(permit.overrunMicroUsd) },
      ),
    );
    await appendRecords(tx, deps, records);
    if (ask !== null && !(await ask.take(tx))) throw new NoRoomForOverrun();
  });
}

/** `more`: the windows of an overrun that is charged. */
const postingsOfMove = (
  { found: { record, moneyFrom = [] }, before, permit }: Move,
  more: readonly HeldUnits[],
): readonly Posting[] =>
  postingsOf(
    { kind: 'changed', before: moneyOf(before), after: moneyOf(permit) },
    {
      source: record.source,
      from: moneyFrom,
      approvalId: approvalOf(record.approvalId),
      overrunFrom: more.length > 0 ? more : before.overrunFrom,
      atMs: record.timestampMs,
    },
  );

/** The result of a single change. */
export function onlyResult(results: readonly ChangeResult[]): Exclude<ChangeResult, { kind: 'alone' }> {
  const result = must(results[0], 'each change has a result');
  assert(result.kind !== 'alone', 'a single change is alone');
  return result;
}
