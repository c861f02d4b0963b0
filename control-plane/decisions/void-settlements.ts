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
import type { HeldUnits } from '../quota/held-units.ts';
import { releaseLeases, type UnusedTake } from '../quota/release-leases.ts';
import type { SettlementId, SettlementSource } from './settlement.ts';
import { type VoidedSettlement, writeVoids } from './withdraw-settlements.ts';

/**
 * A settlement whose client was answered before its outcome was known, or a reading with which no client was
 * answered.
 */
export interface UnknownSettlement {
  readonly id: SettlementId;
  /** Leases that the sidecar took from for it; what each lease of money was charged. */
  readonly took: readonly number[];
  readonly amountMicroUsd: number | null;
}

/**
 * What is left to do in the same transaction, in the order of the locks: the records go into their chains,
 * then the units go back.
 */
export interface VoidedWork {
  readonly records: readonly NewRecord[];
  readonly units: readonly HeldUnits[];
}

/**
 * Voids settlements and readings (contract §5): what was not committed never will be; what was is undone, as
 * soon as no other request may be answered with it: it waits for the voids of those. The key of a PERMIT is
 * free, its approval as before, and a record with `resolution` voided is due in its chain. An approval that a
 * SUSPEND opened is expired, its record is due in its chain, and its money is free. The units of a PERMIT are
 * free again, also where it was never committed.
 *
 * `alsoLock`: leases that the caller takes from afterwards, to be locked with those of the voids.
 */
export async function voidSettlements(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random'>,
  unknown: readonly UnknownSettlement[],
  by: {
    readonly source: SettlementSource;
    readonly sourceAccount: AccountId | null;
    readonly nowMs: UnixMillis;
  },
  alsoLock: readonly number[] = [],
): Promise<VoidedWork> {
  if (unknown.length === 0) return { records: [], units: [] };
  const voided = await writeVoids(
    tx,
    by.source,
    unknown.map(({ id }) => id),
    by.nowMs,
  );
  const untrue = new Set(voided.filter(({ wasTrue }) => !wasTrue).map(({ id }) => id));
  const undone = voided.filter(({ wasTrue }) => wasTrue);
  const permits = undone.flatMap(({ id }) => (isId('att', id) ? [id as AttestationId] : []));
  const stored = await findStoredRecords(tx, permits);
  const unused = [
    ...unknown
      .filter(({ id }) => untrue.has(id))
      .flatMap((each) => takeOf({ ...each, source: by.source, isPosted: false })),
    ...undone.flatMap((each) => {
      const amountMicroUsd = stored.get(each.id as AttestationId)?.record.amountMicroUsd ?? null;
      return takeOf({ ...each, amountMicroUsd, isPosted: true });
    }),
  ];
  const { source } = by;
  const released = await releaseLeases(
    tx,
    unused,
    source === 'control-plane' ? [] : alsoLock.map((leaseId) => ({ leaseId, sidecarId: source })),
  );
  await unuseApprovals(tx, permits);
  const suspends = undone.flatMap(({ id }) => (isId('appr', id) ? [id as ApprovalId] : []));
  const withdrawn = await withdrawApprovals(tx, deps, suspends, by.nowMs);
  return {
    records: [...[...stored.values()].map((each) => voidingRecord(deps, each, by)), ...withdrawn.records],
    units: [...released, ...withdrawn.units, ...undone.flatMap(heldOf)],
  };
}

/** As ingest hands them over. */
export const voidShipped =
  (deps: Pick<AppendingDeps, 'random'>): VoidSettlements =>
  (tx, voids, by, alsoLock) =>
    voidSettlements(
      tx,
      deps,
      voids.flatMap(({ voids: id, readerId, took, amountMicroUsd }): UnknownSettlement[] => [
        { id, took: took ?? [], amountMicroUsd },
        ...(readerId === null ? [] : [{ id: readerId, took: [], amountMicroUsd: null }]),
      ]),
      by,
      alsoLock,
    );

/** What the control plane settles itself it takes from the ledger, and from no lease. */
const takeOf = ({
  source,
  ...take
}: Omit<UnusedTake, 'sidecarId'> & { readonly source: SettlementSource }): UnusedTake[] =>
  source === 'control-plane' ? [] : [{ ...take, sidecarId: source }];

/** An approval frees what it holds itself. */
const heldOf = ({ id, held }: VoidedSettlement): readonly HeldUnits[] => (isId('appr', id) ? [] : held);

/** It repeats the decision, under its own id and time. */
function voidingRecord(
  { random }: Pick<AppendingDeps, 'random'>,
  { record, passportOwner, gateOwner }: NewRecord,
  { source, sourceAccount, nowMs }: Parameters<typeof voidSettlements>[3],
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
