import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { AccountId, PassportId, WalletId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import {
  isSetAside,
  potOf,
  type WalletLimitName,
  walletLimitNames,
  walletLimits,
  walletWindows,
} from '../../shared/model/wallet.ts';
import {
  type LeaseCall,
  type LeaseRequest,
  laneOf,
  type WalletLevel,
} from '../../shared/wire/sync/lease-call.ts';
import type { Database, Transaction } from '../base/database.ts';
import { isShown, type ShownPassport, shownTo } from '../issuers/shown-passport-store.ts';
import { distinct } from '../storage/distinct.ts';
import { together } from '../storage/together.ts';
import { quotaLimits } from './limits.ts';
import { cameMs, findWalletPaths, findWalletsByKey, type KeyedWallet } from './wallet-paths.ts';

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
      const name = limitNameOf(ask);
      if (wallet === undefined || name === undefined || drawer === undefined) return [];
      if (!isShown(drawer, ask.token_hash, accountId)) return [];
      if (!mayDraw(drawer, wallet, nowMs)) return [];
      const share = lane === 'pot' ? null : (wallets.get(lane) ?? null);
      const found = limitOf(wallet, { name, lane, share });
      return found === null ? [] : [[ask, { ...found, isHidden: wallet.accountId !== accountId }] as const];
    }),
  );
}

const limitNameOf = ({ kind, window }: Pick<LaneAsk, 'kind' | 'window'>): WalletLimitName | undefined =>
  walletLimitNames.find((name) => walletLimits[name].kind === kind && walletLimits[name].window === window);

/** A frozen wallet lends nothing, and neither does a share that its child has no more. */
function limitOf(
  wallet: KeyedWallet,
  {
    name,
    lane,
    share,
  }: { readonly name: WalletLimitName; readonly lane: string; readonly share: KeyedWallet | null },
): FoundLimit | null {
  const baseLimit = wallet.limits[name];
  if (baseLimit === undefined) return null;
  const isShare = share !== null && share.path[1] === wallet.walletId && isSetAside(share, wallet, name);
  const ofLane = lane === 'pot' ? potOf(wallet, name) : isShare ? (share.limits[name] ?? 0) : 0;
  const limit = wallet.isFrozen || share?.isFrozen === true ? 0 : Math.min(ofLane, baseLimit);
  return { limit, endsAtMs: null, baseLimit };
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
    const wallets = paths.get(id)?.wallets ?? [];
    return walletWindows(wallets).map((windows, level): WalletLevel => {
      const { key, walletId, status, accountId: owner } = wallets[level] as (typeof wallets)[number];
      const isOwn = owner === accountId;
      return {
        key: key as IdDigest,
        ...(isOwn && { wallet_id: walletId }),
        frozen: status === 'frozen',
        windows: windows.map(({ name, lane, limit }) => ({
          ...walletLimits[name],
          lane,
          ...(isOwn && { limit }),
        })),
      };
    });
  });
}
