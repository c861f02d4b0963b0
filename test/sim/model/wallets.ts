import { quotaLimits } from '../../../control-plane/book/limits.ts';
import { type FoundLimit, toldWallets } from '../../../control-plane/quota/find-lanes.ts';
import { type PathHistory, walletOfRecord } from '../../../control-plane/quota/former-places.ts';
import { idDigest } from '../../../shared/crypto/id-digest.ts';
import type { AttestationRecord } from '../../../shared/model/attestation.ts';
import type { IdDigest } from '../../../shared/model/id-digest.ts';
import type { AccountId, PassportId, WalletId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import {
  isSetAside,
  potOf,
  type Wallet,
  type WalletLimitName,
  type WalletLimits,
  type WalletWindow,
  walletDepthMax,
  walletLimitNames,
  walletLimits,
  walletWindows,
} from '../../../shared/model/wallet.ts';
import {
  type LeaseCall,
  type LeaseRequest,
  laneOf,
  renderLane,
  type WalletLevel,
} from '../../../shared/wire/sync/lease-call.ts';

/** A wallet as people made it; what children set aside and paths follow from these. */
export type MadeWallet = Pick<Wallet, 'walletId' | 'accountId' | 'parentId' | 'limits' | 'share'>;

/** A passport, as far as wallets go. */
interface Drawer {
  readonly accountId: AccountId;
  readonly tokenHash: string;
  /** Null: it has left its wallet. */
  readonly walletId: WalletId | null;
  /** 0: it was issued there. */
  readonly changedAtMs: UnixMillis;
  /** When it was put or issued there. */
  readonly cameMs: UnixMillis;
}

type FormerPlace = NonNullable<ReturnType<PathHistory['former']['get']>>[number];

/**
 * The rules of `control-plane/wallets` and of the lanes of `control-plane/quota` without a database: trees,
 * which wallets a passport draws on, and how much of each. Every call is one transaction.
 */
export class Wallets {
  readonly #wallets = new Map<WalletId, Wallet>();
  readonly #byKey = new Map<IdDigest, WalletId>();
  readonly #drawers = new Map<PassportId, Drawer>();
  readonly #former = new Map<string, FormerPlace[]>();
  /** Sidecars have to ask for what they know of this wallet. */
  readonly #tell: (wallet: Pick<Wallet, 'key' | 'status'>) => void;

  constructor(tell: (wallet: Pick<Wallet, 'key' | 'status'>) => void) {
    this.#tell = tell;
  }

  get(id: WalletId): Wallet {
    const found = this.#wallets.get(id);
    if (found === undefined) throw new Error(`there is no wallet ${id}`);
    return found;
  }

  all(): Iterable<Wallet> {
    return this.#wallets.values();
  }

  create(made: MadeWallet, nowMs: UnixMillis): void {
    const { walletId, parentId } = made;
    const key = idDigest(walletId);
    this.#byKey.set(key, walletId);
    this.#wallets.set(walletId, {
      ...made,
      ...{ key, mode: 'live', name: walletId, alertAt: 1, status: 'active', setAside: {}, labels: {} },
      path: [walletId, ...(parentId === null ? [] : this.get(parentId).path)],
      createdAtMs: nowMs,
      changedAtMs: 0 as UnixMillis,
    });
    if (made.share === 'reserved') this.#setAsideAnew(parentId, nowMs);
  }

  /** Why these limits and this share cannot be; null: they can. */
  overbooked(id: WalletId, change: Partial<Pick<Wallet, 'limits' | 'share'>>): string | null {
    const wallet = { ...this.get(id), ...change };
    const changed = (each: Wallet): Wallet => (each.walletId === id ? wallet : each);
    for (const above of [wallet, ...(wallet.parentId === null ? [] : [this.get(wallet.parentId)])]) {
      const sums = this.#setAsideOf(above.walletId, changed);
      for (const name of walletLimitNames)
        if ((sums[name] ?? 0) > (above.limits[name] ?? Number.POSITIVE_INFINITY)) return name;
    }
    return null;
  }

  update(id: WalletId, change: Partial<Pick<Wallet, 'limits' | 'share'>>, nowMs: UnixMillis): void {
    const wallet: Wallet = { ...this.get(id), ...change, changedAtMs: nowMs };
    this.#wallets.set(id, wallet);
    this.#tell(wallet);
    this.#setAsideAnew(wallet.parentId, nowMs);
  }

  /** Why a wallet cannot be put below that one; null: it can. */
  misplaced(id: WalletId, parentId: WalletId | null): string | null {
    const path = parentId === null ? [] : this.get(parentId).path;
    if (path.includes(id)) return 'below itself';
    const levels = this.#treeOf(id).map((each) => each.path.indexOf(id) + 1);
    if (path.length + Math.max(...levels) > walletDepthMax) return 'too deep';
    const { limits, share } = this.get(id);
    if (parentId === null || share === 'pot') return null;
    const sums = this.#setAsideOf(parentId, (each) => (each.walletId === id ? { ...each, parentId } : each));
    const above = this.get(parentId).limits;
    const isOver = (name: WalletLimitName): boolean =>
      limits[name] !== undefined && (sums[name] ?? 0) > (above[name] ?? Number.POSITIVE_INFINITY);
    return walletLimitNames.some(isOver) ? 'overbooked' : null;
  }

  /** Puts a wallet and all below it elsewhere; null: it is a root from now on. */
  moveBelow(id: WalletId, parentId: WalletId | null, nowMs: UnixMillis): void {
    const before = this.get(id).parentId;
    this.#leave(id, before, nowMs);
    const above = parentId === null ? [] : this.get(parentId).path;
    for (const each of this.#treeOf(id))
      this.#wallets.set(each.walletId, {
        ...each,
        path: [...each.path.slice(0, each.path.indexOf(id) + 1), ...above],
      });
    const wallet: Wallet = { ...this.get(id), parentId, changedAtMs: nowMs };
    this.#wallets.set(id, wallet);
    this.#tell(wallet);
    for (const each of [before, parentId]) this.#setAsideAnew(each, nowMs);
  }

  /** It and all below it. */
  #treeOf = (id: WalletId): readonly Wallet[] =>
    [...this.#wallets.values()].filter(({ path }) => path.includes(id));

  freeze(id: WalletId, isFrozen: boolean): void {
    const wallet: Wallet = { ...this.get(id), status: isFrozen ? 'frozen' : 'active' };
    this.#wallets.set(id, wallet);
    this.#tell(wallet);
  }

  #setAsideAnew(id: WalletId | null, nowMs: UnixMillis): void {
    if (id === null) return;
    const wallet = this.get(id);
    const setAside = this.#setAsideOf(id, (each) => each);
    if (walletLimitNames.every((name) => setAside[name] === wallet.setAside[name])) return;
    this.#wallets.set(id, { ...wallet, setAside, changedAtMs: nowMs });
    this.#tell(wallet);
  }

  #setAsideOf(id: WalletId, changed: (wallet: Wallet) => Wallet): WalletLimits {
    const sums: Record<string, number> = {};
    for (const each of this.#wallets.values()) {
      const { parentId, share, limits } = changed(each);
      if (parentId !== id || share !== 'reserved') continue;
      for (const name of walletLimitNames) {
        const units = limits[name];
        if (units !== undefined) sums[name] = (sums[name] ?? 0) + units;
      }
    }
    return sums;
  }

  /** Issues a passport into a wallet. */
  issue(
    passportId: PassportId,
    { accountId, tokenHash }: Pick<Drawer, 'accountId' | 'tokenHash'>,
    walletId: WalletId,
    nowMs: UnixMillis,
  ): void {
    const place = { walletId, changedAtMs: 0 as UnixMillis, cameMs: nowMs };
    this.#drawers.set(passportId, { accountId, tokenHash, ...place });
  }

  /** Puts a passport into a wallet, or out of any. */
  put(
    passportId: PassportId,
    { accountId, tokenHash }: Pick<Drawer, 'accountId' | 'tokenHash'>,
    walletId: WalletId | null,
    nowMs: UnixMillis,
  ): void {
    const place = { walletId, changedAtMs: nowMs, cameMs: nowMs };
    this.#leave(passportId, this.walletOf(passportId), nowMs);
    this.#drawers.set(passportId, { accountId, tokenHash, ...place });
  }

  #leave(childId: PassportId | WalletId, parentId: WalletId | null, endedAtMs: UnixMillis): void {
    const known = this.#former.get(childId) ?? [];
    this.#former.set(childId, [...known, { childId, parentId, endedAtMs }]);
  }

  walletOf(passportId: PassportId): WalletId | null {
    return this.#drawers.get(passportId)?.walletId ?? null;
  }

  /** From the wallet of the passport up to the root. */
  pathOf(passportId: PassportId): readonly Wallet[] {
    const walletId = this.walletOf(passportId);
    return walletId === null ? [] : this.get(walletId).path.map((id) => this.get(id));
  }

  /** The wallet that a record of this passport is of; throws for one that ingest would refuse. */
  namedBy(record: AttestationRecord): WalletId | null {
    const { passportId } = record;
    const drawer = passportId === null ? undefined : this.#drawers.get(passportId);
    if (passportId === null || drawer === undefined) return null;
    const { changedAtMs: sinceMs, cameMs } = drawer;
    const byKey = new Map([...this.#wallets.values()].map((wallet) => [wallet.key, wallet]));
    const path = { wallets: this.pathOf(passportId), sinceMs, cameMs };
    const named = walletOfRecord(record, path, { byKey, former: this.#former });
    if (named === 'never') throw new Error(`${record.id} names wallets that its passport was not in`);
    return named;
  }

  /** What the lane of a look-up lends; null: the passport does not draw on it. */
  laneOf(
    passportId: PassportId,
    { kind, wallet, window }: Pick<LeaseRequest, 'kind' | 'wallet' | 'window'>,
  ): { readonly limit: number; readonly baseLimit: number } | null {
    const lanes = walletWindows(this.pathOf(passportId)).flat();
    const isIt = (each: WalletWindow): boolean =>
      renderLane(each.wallet, each.lane) === wallet && each.kind === kind && each.window === window;
    return lanes.find(isIt) ?? null;
  }

  /** For a sidecar of that account, of a passport whose token hashes to `tokenHash`. */
  levelsOf(
    accountId: AccountId,
    asked: NonNullable<LeaseCall['wallets']>[number],
    tokenHash: string,
  ): WalletLevel[] | null {
    if (asked.token_hash !== tokenHash) return null;
    return toldWallets(this.pathOf(asked.passport_id), accountId);
  }

  /** The limit of the lane of an ask; null: there is none, or it may not be drawn on. */
  limitOf(ask: LeaseRequest, accountId: AccountId, nowMs: UnixMillis): FoundLimit | null {
    const { wallet: key, lane } = laneOf(ask.wallet ?? '');
    const id = this.#byKey.get(key);
    const drawer = ask.passport_id === null ? undefined : this.#drawers.get(ask.passport_id);
    const name = walletLimitNames.find(
      (each) => walletLimits[each].kind === ask.kind && walletLimits[each].window === ask.window,
    );
    if (id === undefined || drawer === undefined || name === undefined) return null;
    const wallet = this.get(id);
    if (drawer.tokenHash !== ask.token_hash || !this.#mayDraw(drawer, wallet, nowMs)) return null;
    const baseLimit = wallet.limits[name];
    if (baseLimit === undefined) return null;
    const shareId = lane === 'pot' ? undefined : this.#byKey.get(lane);
    const share = shareId === undefined ? null : this.get(shareId);
    const isShare = share !== null && share.parentId === id && isSetAside(share, wallet, name);
    const ofLane = lane === 'pot' ? potOf(wallet, name) : isShare ? (share.limits[name] ?? 0) : 0;
    const isFrozen = this.isFrozen(id) || (shareId !== undefined && this.isFrozen(shareId));
    const limit = isFrozen ? 0 : Math.min(ofLane, baseLimit);
    return { limit, endsAtMs: null, baseLimit, isHidden: wallet.accountId !== accountId };
  }

  /** It or one above it. */
  isFrozen(id: WalletId): boolean {
    return this.get(id).path.some((above) => this.get(above).status === 'frozen');
  }

  #mayDraw(drawer: Drawer, wallet: Wallet, nowMs: UnixMillis): boolean {
    const path = drawer.walletId === null ? [] : this.get(drawer.walletId).path;
    if (path.includes(wallet.walletId)) return true;
    // Those that changed before the passport came have been no others for it.
    const changes = path
      .map((id) => this.get(id).changedAtMs)
      .filter((atMs) => atMs > drawer.cameMs - quotaLimits.replicaClockLeewayMs);
    const lastChangeMs = Math.max(drawer.changedAtMs, ...changes);
    return drawer.accountId === wallet.accountId && lastChangeMs > nowMs - quotaLimits.walletMoveKnownMs;
  }
}
