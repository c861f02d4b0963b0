import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { type AccountId, type ApprovalId, type AttestationId, isId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { isMoney } from '../../shared/quota/counter.ts';
import { findUsedHolds, unuseApprovals } from '../approvals/approval-store.ts';
import { withdrawApprovals } from '../approvals/withdraw-approvals.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import type { VoidSettlements } from '../attestations/ingest-batch.ts';
import { findStoredRecords } from '../attestations/stored-records.ts';
import type { Transaction } from '../base/database.ts';
import { type VoidedPermit, voidPermits } from '../outcomes/void-permits.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import { releaseLeases, type UnusedTake } from '../quota/release-leases.ts';
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

/** Work left for the same transaction, in lock order: append the records, then return the units. */
export interface VoidedWork {
  readonly records: readonly NewRecord[];
  readonly units: readonly HeldUnits[];
}

/**
 * Voids settlements and readings (contract §5). An uncommitted settlement never will be committed. A
 * committed one is undone once no other request may be answered with it; it waits for the voids of its
 * readers. Undoing a PERMIT frees its key, restores its approval, and owes its chain a record with
 * `resolution` voided. Undoing a SUSPEND expires its approval, frees the money, and owes a record too. The
 * units of a PERMIT are freed even if it was never committed.
 *
 * `alsoLock`: leases that the caller takes from afterwards, to be locked with those of the voids.
 */
export async function voidSettlements(
  tx: Transaction,
  deps: Pick<AppendingDeps, 'random' | 'baseUrl'>,
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
  const counted = await voidPermits(tx, stored);
  const unused = [
    ...unknown
      .filter(({ id }) => untrue.has(id))
      .flatMap((each) => takeOf({ ...each, source: by.source, isPosted: false })),
    ...undone.flatMap((each) => {
      const amountMicroUsd = counted.get(each.id as AttestationId)?.microUsd ?? null;
      return takeOf({ ...each, amountMicroUsd, isPosted: true });
    }),
  ];
  const { source } = by;
  const released = await releaseLeases(
    tx,
    unused,
    source === 'control-plane' ? [] : alsoLock.map((leaseId) => ({ leaseId, sidecarId: source })),
  );
  // An approval whose money went back in part stays used: it could not pay the same request again.
  const isReduced = (id: AttestationId) => counted.get(id)?.isReduced === true;
  await unuseApprovals(
    tx,
    permits.filter((id) => !isReduced(id)),
  );
  const used = await findUsedHolds(tx, permits.filter(isReduced));
  const suspends = undone.flatMap(({ id }) => (isId('appr', id) ? [id as ApprovalId] : []));
  const withdrawn = await withdrawApprovals(tx, deps, suspends, by.nowMs);
  return {
    records: [
      ...[...stored.values()].map((each) => ({
        ...voidingRecord(deps, each, by),
        walletMoney: counted.get(each.record.id)?.walletMoney ?? [],
      })),
      ...withdrawn.records,
    ],
    units: [
      ...released,
      ...withdrawn.units,
      ...undone.flatMap((each) => heldOf(each, counted.get(each.id as AttestationId))),
      ...[...counted.values()].flatMap(({ overruns }) => overruns),
      ...used.flatMap(({ permit, holds }) =>
        holds.map((held) => ({ ...held, units: counted.get(permit)?.microUsd ?? 0 })),
      ),
    ],
  };
}

/** Voids in the form of ingest. */
export const voidShipped =
  (deps: Pick<AppendingDeps, 'random' | 'baseUrl'>): VoidSettlements =>
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

/** The control plane's own settlements take from the ledger, not from leases. */
const takeOf = ({
  source,
  ...take
}: Omit<UnusedTake, 'sidecarId'> & { readonly source: SettlementSource }): UnusedTake[] =>
  source === 'control-plane' ? [] : [{ ...take, sidecarId: source }];

/** An approval frees its own units. Of money only what the PERMIT still counted. */
const heldOf = ({ id, held }: VoidedSettlement, counted: VoidedPermit | undefined): readonly HeldUnits[] =>
  isId('appr', id)
    ? []
    : held.map((each) =>
        isMoney(each.counter) && counted !== undefined ? { ...each, units: counted.microUsd } : each,
      );

/** Repeats the decision under a new id and time. */
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
