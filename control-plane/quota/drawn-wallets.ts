import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { PassportId, WalletId } from '../../shared/model/ids.ts';
import { walletLimitNames, walletLimits } from '../../shared/model/wallet.ts';
import type { Database, Transaction } from '../base/database.ts';
import { distinct } from '../storage/distinct.ts';
import { together } from '../storage/together.ts';
import { quotaLimits } from './limits.ts';
import { type PathWallet, type WalletPath, walletAt } from './wallet-paths.ts';

/** A record of a sidecar, and the leases that it names. */
interface NamingRecord {
  readonly record: Pick<
    AttestationRecord,
    'id' | 'decision' | 'passportId' | 'timestampMs' | 'stateAgeMs' | 'amountMicroUsd' | 'approvalId'
  >;
  readonly took: readonly number[] | null;
}

/** A lease of a wallet that a record names. */
interface Draw {
  readonly walletId: WalletId;
  /** Of a root: 1. */
  readonly depth: number;
  readonly kind: 'wallet_spend' | 'wallet_rate';
}

/** Of a wallet, or of a gate or passport. */
type KnownLease = { readonly leaseId: number } & (Draw | { readonly walletId: null });

type LimitedWallet = Pick<PathWallet, 'walletId' | 'limits' | 'status'>;

/**
 * The wallets of passports that were moved shortly before they were permitted something, by record: those
 * that the PERMITs took from. Their sidecar may not have heard of the move; the statement of a wallet has
 * what was taken from it. No entry where the time of the record tells (`walletAt`). Asks nothing where no
 * passport was moved.
 */
export async function findDrawnWallets(
  sql: Database | Transaction,
  records: readonly NamingRecord[],
  paths: ReadonlyMap<PassportId, WalletPath>,
): Promise<ReadonlyMap<string, WalletId | null>> {
  const doubtful = records.flatMap(({ record, took }) => {
    const path = record.passportId === null ? undefined : paths.get(record.passportId);
    return path !== undefined && record.decision === 'PERMIT' && isJustMoved(path, record.timestampMs)
      ? [{ record, path, took }]
      : [];
  });
  if (doubtful.length === 0) return new Map();
  const leases = distinct(doubtful.flatMap(({ took }) => took ?? []));
  const before = distinct(doubtful.map(({ path }) => path.previousId));
  const [known, trees] = await together([
    () => sql<KnownLease[]>`
      SELECT l.lease_id AS "leaseId", w.wallet_id AS "walletId", cardinality(w.path) AS depth,
        split_part(l.counter, ':', 1) AS kind
      FROM quota_leases l LEFT JOIN wallets w
        ON w.wallet_key = split_part(l.counter, ':', 2) AND l.counter LIKE 'wallet!_%' ESCAPE '!'
      WHERE l.lease_id = ANY(${leases}::bigint[])`,
    () => sql<{ walletId: WalletId; wallets: readonly LimitedWallet[] }[]>`
      SELECT leaf.wallet_id AS "walletId",
        jsonb_agg(jsonb_build_object('walletId', w.wallet_id, 'limits', w.limits, 'status', w.status)) AS wallets
      FROM wallets leaf JOIN wallets w ON w.wallet_id = ANY(leaf.path)
      WHERE leaf.wallet_id = ANY(${before}::text[]) GROUP BY 1`,
  ]);
  const walletsOf = new Map(trees.map(({ walletId, wallets }) => [walletId, wallets]));
  return new Map(
    doubtful.map(({ record, path, took }) => {
      const ofRecord = known.filter(({ leaseId }) => took?.includes(leaseId) === true);
      const drawn = ofRecord.filter((each) => each.walletId !== null);
      const previous = (path.previousId && walletsOf.get(path.previousId)) ?? [];
      const isAllKnown = took?.every((id) => ofRecord.some(({ leaseId }) => leaseId === id)) ?? false;
      return [record.id, drawnWallet({ path, previous, drawn, isAllKnown, record })] as const;
    }),
  );
}

/** Earlier by the clock of the sidecar, too. */
export const isJustMoved = ({ sinceMs }: WalletPath, atMs: number): boolean =>
  Math.abs(atMs - sinceMs) < quotaLimits.walletMoveKnownMs;

/**
 * `previous`: the wallet before and those above it. Where what was taken is that of both, the time tells, but
 * for a wallet that is frozen: it gives no PERMIT to a sidecar that knows of the move. Where what was taken
 * is of neither, the passport was moved more than once.
 */
export function drawnWallet({
  path,
  previous,
  drawn,
  isAllKnown,
  record,
}: {
  readonly path: WalletPath;
  readonly previous: readonly LimitedWallet[];
  readonly drawn: readonly Draw[];
  /** No lease that it names is gone. */
  readonly isAllKnown: boolean;
  readonly record: Pick<AttestationRecord, 'amountMicroUsd' | 'timestampMs' | 'stateAgeMs' | 'approvalId'>;
}): WalletId | null {
  const isPriced = (record.amountMicroUsd ?? 0) > 0;
  const isOfCurrent = isAllOf(path.wallets, drawn, isPriced);
  const isOfPrevious = isAllOf(previous, drawn, isPriced);
  if (isOfCurrent && isOfPrevious) {
    const isUnheardOf = isFrozen(path.wallets) && !isFrozen(previous) && mayNotKnow(path, record);
    return isUnheardOf ? path.previousId : walletAt(path, record.timestampMs);
  }
  if (isOfCurrent) return path.wallets[0]?.walletId ?? null;
  if (isOfPrevious) return path.previousId;
  const [deepest] = drawn.toSorted((one, other) => other.depth - one.depth);
  if (deepest !== undefined) return deepest.walletId;
  // An approval has paid, most likely one that was asked for before the move. Else it was in no wallet then.
  return record.approvalId === null && isAllKnown ? null : path.previousId;
}

const isFrozen = (wallets: readonly LimitedWallet[]): boolean =>
  wallets.some(({ status }) => status === 'frozen');

/** The state of its sidecar may be of before the move, by the clock of the sidecar, too. */
const mayNotKnow = (
  { sinceMs }: WalletPath,
  { timestampMs, stateAgeMs }: Pick<AttestationRecord, 'timestampMs' | 'stateAgeMs'>,
): boolean => stateAgeMs === null || timestampMs - stateAgeMs < sinceMs + quotaLimits.replicaClockLeewayMs;

/** Whether it took from each of these wallets that limits money or requests, and from no other. */
function isAllOf(wallets: readonly LimitedWallet[], drawn: readonly Draw[], isPriced: boolean): boolean {
  return (['wallet_spend', 'wallet_rate'] as const).every((kind) => {
    const from = new Set(drawn.filter((each) => each.kind === kind).map(({ walletId }) => walletId));
    if (kind === 'wallet_spend' && !isPriced) return from.size === 0;
    const limiting = wallets.filter(({ limits }) =>
      walletLimitNames.some((name) => limits[name] !== undefined && walletLimits[name].kind === kind),
    );
    return from.size === limiting.length && limiting.every(({ walletId }) => from.has(walletId));
  });
}
