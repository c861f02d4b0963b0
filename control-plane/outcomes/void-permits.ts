import type { AttestationId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import { beginPermits, lockPermits, type StoredPermit, writePermits } from './outcome-store.ts';

/** What a voided PERMIT counted until now. */
export interface VoidedPermit {
  /** Of its own take, without an overrun. */
  readonly microUsd: number;
  readonly overruns: readonly HeldUnits[];
  /** Some of its money went back before. */
  readonly isReduced: boolean;
}

const none = 0 as MicroUsd;

/**
 * Ends holds, and any further outcome or refund, of PERMITs that are voided (contract §5). The caller returns
 * what they counted. Their settlements are locked.
 */
export async function voidPermits(
  tx: Transaction,
  permits: ReadonlyMap<AttestationId, NewRecord>,
): Promise<ReadonlyMap<AttestationId, VoidedPermit>> {
  if (permits.size === 0) return new Map();
  await beginPermits(
    tx,
    [...permits.values()].map(({ record, passportOwner, gateOwner }) => ({
      attestationId: record.id,
      owner: record.gateId === null ? (passportOwner ?? gateOwner) : gateOwner,
      gateId: record.gateId,
      passportId: record.passportId,
      countsMicroUsd: record.amountMicroUsd,
      isVoid: true,
    })),
  );
  const locked = await lockPermits(tx, [...permits.keys()].sort());
  await writePermits(
    tx,
    [...locked.values()].map(
      (permit): StoredPermit => ({
        ...permit,
        isVoid: true,
        hold: permit.hold?.status === 'open' ? { ...permit.hold, status: 'released' } : permit.hold,
        countsMicroUsd: permit.countsMicroUsd === null ? null : none,
        overrunMicroUsd: none,
        overrunFrom: [],
      }),
    ),
  );
  return new Map(
    [...locked].map(([id, { countsMicroUsd, overrunMicroUsd, overrunFrom }]) => {
      const microUsd = Math.max(0, (countsMicroUsd ?? 0) - overrunMicroUsd);
      const overruns = overrunFrom.map((held) => ({ ...held, units: overrunMicroUsd }));
      const amount = permits.get(id)?.record.amountMicroUsd ?? 0;
      return [id, { microUsd, overruns, isReduced: microUsd < amount }];
    }),
  );
}
