import type { AttestationId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { Transaction } from '../base/database.ts';
import { beginPermits, lockPermits, type StoredPermit, writePermits } from './outcome-store.ts';

const none = 0 as MicroUsd;

/**
 * Ends holds, and any further outcome or refund, of PERMITs that are voided (contract §5). Returns them as
 * they were: the caller returns what they counted. Their settlements are locked.
 */
export async function voidPermits(
  tx: Transaction,
  permits: ReadonlyMap<AttestationId, NewRecord>,
): Promise<ReadonlyMap<AttestationId, StoredPermit>> {
  if (permits.size === 0) return new Map();
  await beginPermits(tx, [...permits.values()], true);
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
  return locked;
}
