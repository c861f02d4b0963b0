import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { PassportId, WalletId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { quotaLimits } from '../book/limits.ts';
import { distinct } from '../storage/distinct.ts';
import { together } from '../storage/together.ts';
import { mayHaveMoved, type WalletPath } from './wallet-paths.ts';

type PathRecord = Pick<AttestationRecord, 'decision' | 'passportId' | 'timestampMs' | 'walletPath'>;

/** The wallet that a passport was in, or another wallet below; null: none. */
interface FormerPlace {
  readonly childId: PassportId | WalletId;
  readonly parentId: WalletId | null;
  readonly endedAtMs: UnixMillis;
}

/** What the database knows of the places of passports and wallets that may have moved. */
export interface PathHistory {
  readonly byKey: ReadonlyMap<IdDigest, { readonly walletId: WalletId; readonly parentId: WalletId | null }>;
  /** By child, in the order of time. */
  readonly former: ReadonlyMap<string, readonly FormerPlace[]>;
}

const noHistory: PathHistory = { byKey: new Map(), former: new Map() };

/** For `walletOfRecord`. Asks nothing where no passport was moved shortly before its record. */
export async function readPathHistory(
  sql: Database | Transaction,
  records: readonly PathRecord[],
  paths: ReadonlyMap<PassportId, WalletPath>,
): Promise<PathHistory> {
  const moved = records.filter(({ passportId, timestampMs }) => {
    const path = passportId === null ? undefined : paths.get(passportId);
    return path !== undefined && mayHaveMoved(path, timestampMs);
  });
  if (moved.length === 0) return noHistory;
  const keys = distinct(moved.flatMap(({ walletPath }) => walletPath ?? []));
  const passportIds = distinct(moved.map(({ passportId }) => passportId));
  const sinceMs = Math.min(...moved.map(({ timestampMs }) => timestampMs)) - quotaLimits.walletMoveKnownMs;
  const [wallets, places] = await together([
    () => sql<{ key: IdDigest; walletId: WalletId; parentId: WalletId | null }[]>`
      SELECT wallet_key AS key, wallet_id AS "walletId", parent_id AS "parentId"
      FROM wallets WHERE wallet_key = ANY(${keys}::text[])`,
    () => sql<FormerPlace[]>`
      SELECT child_id AS "childId", parent_id AS "parentId", ended_at_ms AS "endedAtMs" FROM former_places
      WHERE (child_id = ANY(${passportIds}::text[])
          OR child_id IN (SELECT wallet_id FROM wallets WHERE wallet_key = ANY(${keys}::text[])))
        AND ended_at_ms > ${sinceMs}
      ORDER BY ended_at_ms`,
  ]);
  return {
    byKey: new Map(wallets.map((wallet) => [wallet.key, wallet])),
    former: new Map(
      distinct(places.map(({ childId }) => childId)).map((childId) => [
        childId,
        places.filter((each) => each.childId === childId),
      ]),
    ),
  };
}

/**
 * The wallet that a record is of: the first of the path that it names. Where it names none, a PERMIT is of
 * none, and a BLOCK of the one that its passport was in then. `never`: the passport had no such path within
 * `walletMoveKnownMs` of the decision.
 */
export function walletOfRecord(
  { decision, passportId, timestampMs, walletPath: named }: PathRecord,
  path: WalletPath | undefined,
  { byKey, former }: PathHistory,
): WalletId | null | 'never' {
  if (path === undefined || passportId === null) return (named ?? []).length === 0 ? null : 'never';
  // A sidecar that does not know the wallets of a passport permits only where it knew of none.
  if (named === null && decision === 'PERMIT') return null;
  const current = path.wallets.map(({ walletId }) => walletId);
  if (!mayHaveMoved(path, timestampMs)) {
    const isCurrent =
      path.wallets.length === named?.length && path.wallets.every(({ key }, i) => key === named[i]);
    return named === null || isCurrent ? (current[0] ?? null) : 'never';
  }
  const parents = new Map<string, WalletId | null>(
    [...byKey.values()].map((each) => [each.walletId, each.parentId]),
  );
  const placeAt = (child: string, atMs: number): WalletId | null => {
    const place = former.get(child)?.find(({ endedAtMs }) => endedAtMs > atMs);
    if (place !== undefined) return place.parentId;
    return (child === passportId ? current[0] : parents.get(child)) ?? null;
  };
  if (named === null) return placeAt(passportId, timestampMs);
  const wallets = named.map((key) => byKey.get(key)?.walletId);
  const nodes = [passportId, ...wallets];
  const hadAt = (atMs: number): boolean =>
    nodes.every((node, level) => node !== undefined && placeAt(node, atMs) === (wallets[level] ?? null));
  // A path of that time is there at its end, or ended before.
  const ends = nodes
    .flatMap((node) => former.get(node ?? '') ?? [])
    .map(({ endedAtMs }) => endedAtMs - 1)
    .filter((atMs) => Math.abs(atMs - timestampMs) < quotaLimits.walletMoveKnownMs);
  const had = [timestampMs + quotaLimits.walletMoveKnownMs, ...ends].some(hadAt);
  return had ? (wallets[0] ?? null) : 'never';
}
