import { must } from '../../shared/errors/assert.ts';
import type { AccountId, PassportId, WalletId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { walletWindows } from '../../shared/model/wallet.ts';
import {
  type LeaseCall,
  type LeaseRequest,
  laneOf,
  type WalletLevel,
} from '../../shared/wire/sync/lease-call.ts';
import type { Database, Transaction } from '../base/database.ts';
import { quotaLimits } from '../book/limits.ts';
import { isShown, type ShownPassport, shownTo } from '../issuers/shown-passport-store.ts';
import { distinct } from '../storage/distinct.ts';
import { together } from '../storage/together.ts';
import {
  cameMs,
  findWalletPaths,
  findWalletsByKey,
  type KeyedWallet,
  type PathWallet,
} from './wallet-paths.ts';

/** A configured limit, and the end of its window where that is not of the calendar. */
export interface FoundLimit {
  readonly limit: number;
  readonly endsAtMs: UnixMillis | null;
  /** Of a lane of a wallet (UnitsAsk). */
  readonly baseLimit?: number;
  /** Of a wallet of another account, whose numbers a sidecar must not learn. */
  readonly isHidden?: boolean;
}

type LaneAsk = Pick<LeaseRequest, 'kind' | 'window' | 'wallet' | 'passport_id' | 'token_hash'>;

/** The limits of the lanes among these asks; one without an entry may not be drawn on. */
export async function findLanes<Ask extends LaneAsk>(
  tx: Transaction,
  accountId: AccountId,
  asks: readonly Ask[],
  nowMs: UnixMillis,
): Promise<ReadonlyMap<Ask, FoundLimit>> {
  const lanes = asks.flatMap((ask) => (ask.wallet === undefined ? [] : [{ ask, ...laneOf(ask.wallet) }]));
  if (lanes.length === 0) return new Map();
  const keys = [
    ...new Set(lanes.flatMap(({ wallet, lane }) => (lane === 'pot' ? [wallet] : [wallet, lane]))),
  ];
  const [wallets, passports] = await together([
    () => findWalletsByKey(tx, keys),
    () => findDrawers(tx, distinct(lanes.map(({ ask }) => ask.passport_id))),
  ]);
  return new Map(
    lanes.flatMap(({ ask, wallet: key, lane }) => {
      const wallet = wallets.get(key);
      const drawer = ask.passport_id === null ? undefined : passports.get(ask.passport_id);
      if (wallet === undefined || drawer === undefined) return [];
      if (!isShown(drawer, ask.token_hash, accountId)) return [];
      if (!mayDraw(drawer, wallet, nowMs)) return [];
      const share = lane === 'pot' ? null : (wallets.get(lane) ?? null);
      const found = limitOf(wallet, { ask, lane, share });
      return found === null ? [] : [[ask, { ...found, isHidden: wallet.accountId !== accountId }] as const];
    }),
  );
}

/** A frozen wallet lends nothing, and neither does a share that its child has no more. */
function limitOf(
  wallet: KeyedWallet,
  { ask, lane, share }: { readonly ask: LaneAsk; readonly lane: string; readonly share: KeyedWallet | null },
): FoundLimit | null {
  const path = share?.path[1] === wallet.walletId ? [share, wallet] : [wallet];
  const found = walletWindows(path)
    .at(-1)
    ?.find(({ kind, window }) => kind === ask.kind && window === ask.window);
  if (found === undefined) return null;
  const isLent = found.lane === lane && !wallet.isFrozen && share?.isFrozen !== true;
  return { limit: isLent ? found.limit : 0, endsAtMs: null, baseLimit: found.baseLimit };
}

/** A passport that an ask shows to have been seen. */
interface Drawer extends ShownPassport {
  readonly passportId: PassportId;
  readonly mode: Mode;
  readonly path: readonly WalletId[];
  /** As `lastChangeOf`. */
  readonly changedAtMs: number;
}

async function findDrawers(
  tx: Transaction,
  passportIds: readonly PassportId[],
): Promise<ReadonlyMap<PassportId, Drawer>> {
  const rows = await tx<Drawer[]>`
    SELECT p.passport_id AS "passportId", p.token_hash AS "tokenHash", p.account_id AS "accountId", p.mode,
      ${shownTo(tx, 'p')} AS "shownTo",
      coalesce(w.path, '{}') AS path, greatest(m.changed_at_ms, (
        SELECT max(above.changed_at_ms) FROM wallets above WHERE above.wallet_id = ANY(w.path)
          AND above.changed_at_ms > ${cameMs(tx)} - ${quotaLimits.replicaClockLeewayMs}::bigint)) AS "changedAtMs"
    FROM passports p JOIN passport_wallets m USING (passport_id) LEFT JOIN wallets w ON w.wallet_id = m.wallet_id
    WHERE p.passport_id = ANY(${[...passportIds]}::text[])`;
  return new Map(rows.map((row) => [row.passportId, row]));
}

/**
 * Whether a passport draws on a wallet. For a while after it was moved, or a wallet that it is in was, also
 * on one that it drew on before: a sidecar may not have heard of it yet.
 */
const mayDraw = (drawer: Drawer, wallet: KeyedWallet, nowMs: UnixMillis): boolean =>
  drawer.path.includes(wallet.walletId) ||
  (drawer.accountId === wallet.accountId &&
    drawer.mode === wallet.mode &&
    drawer.changedAtMs > nowMs - quotaLimits.walletMoveKnownMs);

/** The wallets of passports, for a sidecar of this account; in the order asked for. */
export async function readWalletsOf(
  sql: Database,
  accountId: AccountId,
  asked: NonNullable<LeaseCall['wallets']>,
): Promise<(WalletLevel[] | null)[]> {
  if (asked.length === 0) return [];
  const ids = distinct(asked.map(({ passport_id: id }) => id));
  const known = await sql<(ShownPassport & { passportId: PassportId })[]>`
    SELECT passport_id AS "passportId", token_hash AS "tokenHash", account_id AS "accountId",
      ${shownTo(sql, 'passports')} AS "shownTo"
    FROM passports WHERE passport_id = ANY(${ids}::text[])`;
  const passports = new Map(known.map((row) => [row.passportId, row]));
  const paths = await findWalletPaths(sql, ids);
  return asked.map(({ passport_id: id, token_hash: hash }) => {
    const passport = passports.get(id);
    if (passport === undefined || !isShown(passport, hash, accountId)) return null;
    return toldWallets(paths.get(id)?.wallets ?? [], accountId);
  });
}

/** What a sidecar of this account is told of wallets, from that of a passport up to the root. */
export const toldWallets = (
  wallets: readonly Omit<PathWallet, 'mode' | 'changedAtMs'>[],
  accountId: AccountId,
): WalletLevel[] =>
  walletWindows(wallets).map((windows, level) => {
    const wallet = must(wallets[level], 'there are windows of each wallet');
    const isOwn = wallet.accountId === accountId;
    return {
      key: wallet.key,
      ...(isOwn && { wallet_id: wallet.walletId }),
      frozen: wallet.status === 'frozen',
      windows: windows.map(({ kind, window, lane, limit }) => ({
        ...{ kind, window, lane },
        ...(isOwn && { limit }),
      })),
    };
  });
