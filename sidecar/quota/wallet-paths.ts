import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { DrawnLane } from '../../shared/decision/windows-of.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { WalletLevel } from '../../shared/wire/sync/lease-call.ts';
import { quotaLimits } from './limits.ts';

/** What is told of wallets by the feed; the same object until a snapshot replaces it. */
export interface WalletNews {
  readonly count: number;
  hasChanged(digest: string, since: number): boolean;
}

/** The replica, as far as wallets go. */
export interface WalletState {
  readonly walletChanges: WalletNews | null;
  isWalletFrozen(key: string): boolean;
  /** The moment up to which the feeds are known to be complete, on the monotonic clock. */
  readonly asOfMs: number;
}

/** A moment in what the feed has told. */
export interface NewsMark {
  readonly news: WalletNews | null;
  readonly count: number;
  readonly atMs: number;
}

/** The wallets of one passport, as the control plane told them. */
export class WalletPath {
  readonly levels: readonly WalletLevel[];
  /** What a PERMIT draws on of each. Nobody tells a sidecar the limit of a wallet of another account. */
  readonly lanes: readonly (readonly DrawnLane[])[];
  /** Of its wallets, from its own to the root. */
  readonly keys: readonly string[];
  /** When it was asked for. */
  readonly #asked: NewsMark;
  readonly #passport: IdDigest;
  #checkedCount = -1;
  #isChanged = false;
  #isFrozen = false;

  constructor(passportId: PassportId, levels: readonly WalletLevel[], asked: NewsMark) {
    this.levels = levels;
    this.lanes = levels.map(({ key: wallet, windows }) =>
      windows.map(({ kind, window, lane, limit = Number.MAX_SAFE_INTEGER }) => ({
        kind,
        window,
        wallet,
        lane,
        limit,
      })),
    );
    this.keys = levels.map(({ key }) => key);
    this.#asked = asked;
    this.#passport = idDigest(passportId);
  }

  /** By the last `isUsable`. */
  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /**
   * Whether it is still what the control plane would tell: the feed has told of no change, and is not older
   * than an L2 gate allows, or this was asked for since.
   */
  isUsable(state: WalletState, nowMs: number): boolean {
    const { news, atMs } = this.#asked;
    if (state.walletChanges !== news || news === null) return false;
    if (news.count !== this.#checkedCount) this.#check(state, news);
    return !this.#isChanged && nowMs - Math.max(state.asOfMs, atMs) <= limits.stateAgeL2MsMax;
  }

  #check(state: WalletState, news: WalletNews): void {
    const { count } = this.#asked;
    const { levels } = this;
    this.#isChanged =
      news.hasChanged(this.#passport, count) || levels.some(({ key }) => news.hasChanged(key, count));
    // The answer may be ahead of the feed, until the feed tells more.
    const isLatest = news.count === count;
    this.#isFrozen = levels.some(({ key, frozen }) => (frozen && isLatest) || state.isWalletFrozen(key));
    this.#checkedCount = news.count;
  }
}

/** A passport whose wallets have to be asked for. */
export interface WalletLookUp {
  readonly passportId: PassportId;
  readonly tokenHash: string;
  /** They are known by now. */
  readonly isKnown: () => boolean;
}

/** The wallets of passports that were seen here. Bounded; the oldest go first. */
export class WalletPaths {
  readonly #paths = new Map<PassportId, WalletPath>();
  readonly #state: WalletState;

  constructor(state: WalletState) {
    this.#state = state;
  }

  /** Taken before a call, so that what is told meanwhile counts as a change. */
  mark(nowMs: number): NewsMark {
    const news = this.#state.walletChanges;
    return { news, count: news?.count ?? 0, atMs: nowMs };
  }

  /** Null: it has to be asked for. */
  get(passportId: PassportId, nowMs: number): WalletPath | null {
    const path = this.#paths.get(passportId);
    return path?.isUsable(this.#state, nowMs) === true ? path : null;
  }

  set(passportId: PassportId, levels: readonly WalletLevel[], asked: NewsMark): void {
    this.#paths.delete(passportId);
    if (this.#paths.size >= quotaLimits.walletPathsMax) {
      const [oldest] = this.#paths.keys();
      if (oldest !== undefined) this.#paths.delete(oldest);
    }
    this.#paths.set(passportId, new WalletPath(passportId, levels, asked));
  }

  /** The control plane knows it otherwise. */
  forget(passportId: PassportId): void {
    this.#paths.delete(passportId);
  }
}

/** Nothing is known of any wallet. */
export const noWalletState: WalletState = {
  walletChanges: null,
  isWalletFrozen: () => false,
  asOfMs: Number.NEGATIVE_INFINITY,
};
