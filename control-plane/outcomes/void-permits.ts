import { must } from '../../shared/errors/assert.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { NewRecord } from '../attestations/append-records.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import { sourceOf } from '../quota/return-money.ts';
import { approvalOf, type WalletMoney } from '../quota/wallet-money.ts';
import { beginPermits, lockPermits, type StoredPermit, writePermits } from './outcome-store.ts';

/** What a voided PERMIT counted until now. */
export interface VoidedPermit {
  /** Of its own take, without an overrun. */
  readonly microUsd: number;
  readonly overruns: readonly HeldUnits[];
  /** Some of its money went back before. */
  readonly isReduced: boolean;
  /** What wallets count no more. */
  readonly walletMoney: readonly WalletMoney[];
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
  return new Map(
    [...locked].map(([id, permit]) => {
      const { overrunMicroUsd, overrunFrom } = permit;
      const microUsd = ownMicroUsd(permit);
      const overruns = overrunFrom.map((held) => ({ ...held, units: overrunMicroUsd }));
      const found = must(permits.get(id), 'only these are locked');
      const isReduced = microUsd < (found.record.amountMicroUsd ?? 0);
      return [id, { microUsd, overruns, isReduced, walletMoney: walletMoneyOf(found, permit) }];
    }),
  );
}

/** What it counts of its own take. */
const ownMicroUsd = ({ countsMicroUsd, overrunMicroUsd }: StoredPermit): number =>
  Math.max(0, (countsMicroUsd ?? 0) - overrunMicroUsd);

function walletMoneyOf({ record, moneyFrom = [] }: NewRecord, permit: StoredPermit): readonly WalletMoney[] {
  const { hold, overrunMicroUsd, overrunFrom } = permit;
  const held = hold?.status === 'open' ? hold.amountMicroUsd : none;
  const back = { approvalId: null, held: 0, atMs: record.timestampMs };
  return [
    {
      ...back,
      from: moneyFrom,
      approvalId: approvalOf(record.approvalId),
      spent: -ownMicroUsd(permit),
      held: -held,
    },
    { ...back, from: overrunFrom.map(sourceOf), spent: -overrunMicroUsd },
  ];
}
