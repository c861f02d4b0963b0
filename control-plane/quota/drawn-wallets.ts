import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { PassportId, WalletId } from '../../shared/model/ids.ts';
import { walletWindows } from '../../shared/model/wallet.ts';
import type { Database, Transaction } from '../base/database.ts';
import { distinct } from '../storage/distinct.ts';
import { together } from '../storage/together.ts';
import { quotaLimits } from './limits.ts';
import { type WalletPath, walletAt } from './wallet-paths.ts';

/** A record of a sidecar, and the leases that it names. */
interface NamingRecord {
  readonly record: Pick<AttestationRecord, 'id' | 'decision' | 'passportId' | 'timestampMs'>;
  readonly took: readonly number[] | null;
}

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
      ? [{ record, path, took: took ?? [] }]
      : [];
  });
  if (doubtful.length === 0) return new Map();
  const leases = distinct(doubtful.flatMap(({ took }) => took));
  const before = distinct(doubtful.map(({ path }) => path.previousId));
  const [drawn, trees] = await together([
    () => sql<{ leaseId: number; walletId: WalletId; depth: number }[]>`
      SELECT l.lease_id AS "leaseId", w.wallet_id AS "walletId", cardinality(w.path) AS depth
      FROM quota_leases l JOIN wallets w ON w.wallet_key = split_part(l.counter, ':', 2)
      WHERE l.lease_id = ANY(${leases}::bigint[]) AND l.counter LIKE 'wallet!_%' ESCAPE '!'`,
    () => sql<{ walletId: WalletId; path: readonly WalletId[] }[]>`
      SELECT wallet_id AS "walletId", path FROM wallets WHERE wallet_id = ANY(${before}::text[])`,
  ]);
  const deepestFirst = drawn.toSorted((one, other) => other.depth - one.depth);
  const pathOf = new Map(trees.map(({ walletId, path }) => [walletId, path]));
  return new Map(
    doubtful.map(({ record, path, took }) => {
      const named = deepestFirst.filter(({ leaseId }) => took.includes(leaseId)).map((each) => each.walletId);
      const previous = (path.previousId && pathOf.get(path.previousId)) ?? [];
      return [record.id, drawnWallet({ path, previous, named, atMs: record.timestampMs })] as const;
    }),
  );
}

/** Earlier by the clock of the sidecar, too. */
const isJustMoved = ({ sinceMs }: WalletPath, atMs: number): boolean =>
  Math.abs(atMs - sinceMs) < quotaLimits.walletMoveKnownMs;

/**
 * `named`: those that it took from, the deepest first. Where both have them, the time tells; where neither
 * has, it was moved more than once.
 */
function drawnWallet({
  path,
  previous,
  named,
  atMs,
}: {
  readonly path: WalletPath;
  readonly previous: readonly WalletId[];
  readonly named: readonly WalletId[];
  readonly atMs: AttestationRecord['timestampMs'];
}): WalletId | null {
  const current = path.wallets.map(({ walletId }) => walletId);
  const isOf = (some: readonly WalletId[], others: readonly WalletId[]): boolean =>
    named.some((id) => some.includes(id) && !others.includes(id));
  if (isOf(current, previous)) return current[0] ?? null;
  if (isOf(previous, current)) return path.previousId;
  const [deepest] = named;
  if (deepest !== undefined) return current.includes(deepest) ? walletAt(path, atMs) : deepest;
  // It must have taken something here, had it known.
  return walletWindows(path.wallets).flat().length > 0 ? path.previousId : walletAt(path, atMs);
}
