import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { PassportId, WalletId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Wallet } from '../../shared/model/wallet.ts';
import type { Database, Transaction } from '../base/database.ts';
import { quotaLimits } from '../book/limits.ts';

/** A wallet, as far as a decision draws on it. */
export type PathWallet = Pick<
  Wallet,
  'walletId' | 'key' | 'accountId' | 'mode' | 'limits' | 'share' | 'setAside' | 'status' | 'changedAtMs'
>;

/** The wallets of a passport. */
export interface WalletPath {
  /** From its own up to the root. */
  readonly wallets: readonly PathWallet[];
  /** When it was put there. */
  readonly sinceMs: UnixMillis;
  /** When it was put there or was issued there: nobody has known it there before. */
  readonly cameMs: UnixMillis;
}

/**
 * When the wallets of a passport last were others than they are now. Those that changed before it came have
 * been no others for it.
 */
const lastChangeOf = ({ wallets, sinceMs, cameMs }: WalletPath): number =>
  Math.max(
    sinceMs,
    ...wallets
      .map(({ changedAtMs }) => changedAtMs)
      .filter((changedAtMs) => changedAtMs > cameMs - quotaLimits.replicaClockLeewayMs),
  );

/**
 * Whether the wallets of a passport may have been others for a sidecar that decided then: for a while after a
 * move or a change it may not have heard of it.
 */
export const mayHaveMoved = (path: WalletPath, atMs: UnixMillis): boolean =>
  lastChangeOf(path) > atMs - quotaLimits.walletMoveKnownMs;

/**
 * The wallets of these passports, from one snapshot: none of a passport that has left one, and no entry of
 * one that never had any. Locks nothing.
 */
export async function findWalletPaths(
  sql: Database | Transaction,
  passportIds: readonly PassportId[],
): Promise<ReadonlyMap<PassportId, WalletPath>> {
  if (passportIds.length === 0) return new Map();
  const rows = await sql<{ passportId: PassportId; path: WalletPath }[]>`
    SELECT m.passport_id AS "passportId", ${walletPath(sql)} AS path
    FROM passport_wallets m WHERE m.passport_id = ANY(${[...passportIds]}::text[])`;
  return new Map(rows.map(({ passportId, path }) => [passportId, path]));
}

/** The WalletPath of a row `m` of `passport_wallets`, for those who read more of a passport at once. */
export const walletPath = (sql: Database | Transaction) => sql`
  jsonb_build_object('sinceMs', m.changed_at_ms, 'cameMs', ${cameMs(sql)}, 'wallets', coalesce((
    SELECT jsonb_agg(jsonb_build_object('walletId', w.wallet_id, 'key', w.wallet_key, 'accountId', w.account_id,
        'mode', w.mode, 'limits', w.limits, 'share', w.share, 'setAside', w.set_aside, 'status', w.status,
        'changedAtMs', w.changed_at_ms) ORDER BY array_position(leaf.path, w.wallet_id))
    FROM wallets leaf JOIN wallets w ON w.wallet_id = ANY(leaf.path) WHERE leaf.wallet_id = m.wallet_id
  ), '[]'))`;

/** WalletPath.cameMs of a row `m` of `passport_wallets`. Passports are found by the database's collation. */
export const cameMs = (sql: Database | Transaction) => sql`
  greatest(m.changed_at_ms, (SELECT issued_at_ms FROM passports WHERE passport_id = m.passport_id COLLATE "default"))`;

const pathColumns = (sql: Database | Transaction) => sql`
  w.wallet_id AS "walletId", w.wallet_key AS key, w.account_id AS "accountId", w.mode, w.limits, w.share,
  w.set_aside AS "setAside", w.status, w.changed_at_ms AS "changedAtMs"`;

export interface KeyedWallet extends PathWallet {
  readonly path: readonly WalletId[];
  /** It or one above it. */
  readonly isFrozen: boolean;
}

/** By key; deleted ones have none. */
export async function findWalletsByKey(
  sql: Database | Transaction,
  keys: readonly IdDigest[],
): Promise<ReadonlyMap<IdDigest, KeyedWallet>> {
  if (keys.length === 0) return new Map();
  const rows = await sql<KeyedWallet[]>`
    SELECT ${pathColumns(sql)}, w.path,
      EXISTS (SELECT FROM wallets above WHERE above.wallet_id = ANY(w.path) AND above.status = 'frozen') AS "isFrozen"
    FROM wallets w WHERE w.wallet_key = ANY(${[...keys]}::text[]) AND w.deleted_at_ms IS NULL`;
  return new Map(rows.map((row) => [row.key, row]));
}
