import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { type AccountId, type ApprovalId, type AttestationId, isId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { unuseApprovals } from '../approvals/approval-store.ts';
import { withdrawApprovals } from '../approvals/withdraw-approvals.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { VoidSettlements } from '../attestations/ingest-batch.ts';
import { findStoredRecords } from '../attestations/stored-records.ts';
import type { Transaction } from '../base/database.ts';
import { entriesOf } from '../book/entry.ts';
import { sourceOf } from '../book/held-units.ts';
import { approvalOf, type Book, type Posting, postingsOf } from '../book/post.ts';
import type { StoredPermit } from '../outcomes/outcome-store.ts';
import { moneyOf } from '../outcomes/permit-change.ts';
import { voidPermits } from '../outcomes/void-permits.ts';
import type { SettlementId, SettlementSource } from './settlement.ts';
import { type VoidedSettlement, writeVoids } from './withdraw-settlements.ts';

/**
 * A settlement with an unknown outcome whose client has been answered, or a reading that answered no client.
 */
export interface UnknownSettlement {
  readonly id: SettlementId;
  /** Leases that the sidecar took from for it, and the charge of each money lease. */
  readonly took: readonly number[];
  readonly amountMicroUsd: number | null;
}

/**
 * Voids settlements and readings (contract §5). An uncommitted settlement never will be committed. A
 * committed one is undone once no other request may be answered with it; it waits for the voids of its
 * readers. Undoing a PERMIT frees its key, restores its approval, and owes its chain a record with
 * `resolution` voided. Undoing a SUSPEND expires its approval, frees the money, and owes a record too. The
 * units of a PERMIT are freed even if it was never committed. Returns the records, for the caller to append.
 *
 * `alsoLock`: leases that the caller takes from afterwards, to be locked with those of the voids.
 */
export async function voidSettlements(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random' | 'baseUrl'>,
  book: Book,
  unknown: readonly UnknownSettlement[],
  by: {
    readonly source: SettlementSource;
    readonly sourceAccount: AccountId | null;
    readonly nowMs: UnixMillis;
  },
  alsoLock: readonly number[] = [],
): Promise<readonly NewRecord[]> {
  if (unknown.length === 0) return [];
  const { source, nowMs } = by;
  const voided = await writeVoids(
    tx,
    source,
    unknown.map(({ id }) => id),
    nowMs,
  );
  const untrue = new Set(voided.filter(({ wasTrue }) => !wasTrue).map(({ id }) => id));
  const undone = voided.filter(({ wasTrue }) => wasTrue);
  const stored = await findStoredRecords(
    tx,
    undone.flatMap(({ id }) => (isId('att', id) ? [id as AttestationId] : [])),
  );
  const permits = await voidPermits(tx, stored);
  const ofUndone = new Map(
    undone.flatMap((each) => {
      const found = stored.get(each.id as AttestationId);
      const permit = permits.get(each.id as AttestationId);
      return found && permit ? [[found.record.id, postingsOfVoid(each, found, permit)]] : [];
    }),
  );
  await book.draw(
    [
      ...unknown.filter(({ id }) => untrue.has(id)).flatMap((each) => unsettled(each, by)),
      ...ofUndone.values(),
    ].flat(),
    source === 'control-plane' ? [] : alsoLock.map((leaseId) => ({ leaseId, sidecarId: source })),
  );
  const restored = [...stored.values()].filter(({ record }) => !isReduced(record, permits.get(record.id)));
  await unuseApprovals(
    tx,
    restored.map(({ record }) => record.id),
  );
  const suspends = undone.flatMap(({ id }) => (isId('appr', id) ? [id as ApprovalId] : []));
  const withdrawn = await withdrawApprovals(tx, deps, book, suspends, nowMs);
  const records = [...stored.values()].map((each) => ({
    ...voidingRecord(deps, each, by),
    postings: ofUndone.get(each.record.id) ?? [],
  }));
  return [...records, ...withdrawn];
}

/** What a PERMIT took of leases that no transaction has committed. */
const unsettled = (
  { took, amountMicroUsd }: UnknownSettlement,
  { source, nowMs }: Parameters<typeof voidSettlements>[4],
): readonly Posting[] => {
  const entries = entriesOf({ kind: 'unsettled', money: amountMicroUsd ?? 0 });
  return [{ source, from: took, approvalId: null, entries, atMs: nowMs }];
};

/** All that a committed PERMIT still counts. */
const postingsOfVoid = (
  { source, took, held }: VoidedSettlement,
  { record }: NewRecord,
  permit: StoredPermit,
): readonly Posting[] =>
  postingsOf(
    {
      kind: 'voided',
      before: moneyOf(permit),
      to: approvalOf(record.approvalId) === null || isReduced(record, permit) ? 'free' : 'approval',
    },
    {
      source,
      from: [...took, ...held.map(sourceOf)],
      approvalId: approvalOf(record.approvalId),
      overrunFrom: permit.overrunFrom,
      atMs: record.timestampMs,
    },
  );

/**
 * Some of its money went back before. Then an approval stays used: it could not pay the same request again.
 */
const isReduced = ({ amountMicroUsd }: AttestationRecord, permit: StoredPermit | undefined): boolean =>
  permit !== undefined && moneyOf(permit).own < (amountMicroUsd ?? 0);

/** Voids in the form of ingest. */
export const voidShipped =
  (deps: Pick<AppendingDeps, 'random' | 'baseUrl'>): VoidSettlements =>
  (tx, book, voids, by, alsoLock) =>
    voidSettlements(
      tx,
      deps,
      book,
      voids.flatMap(({ voids: id, readerId, took, amountMicroUsd }): UnknownSettlement[] => [
        { id, took: took ?? [], amountMicroUsd },
        ...(readerId === null ? [] : [{ id: readerId, took: [], amountMicroUsd: null }]),
      ]),
      by,
      alsoLock,
    );

/** Repeats the decision under a new id and time. */
function voidingRecord(
  { random }: Pick<AppendingDeps, 'random'>,
  { record, passportOwner, gateOwner }: NewRecord,
  { source, sourceAccount, nowMs }: Parameters<typeof voidSettlements>[4],
): NewRecord {
  const voiding: AttestationRecord = {
    ...record,
    id: random.newId('att', nowMs),
    resolution: 'voided',
    refersTo: record.id,
    source,
    sourceAccount: sourceAccount ?? record.sourceAccount,
    timestampMs: nowMs,
  };
  return { record: voiding, passportOwner, gateOwner };
}
