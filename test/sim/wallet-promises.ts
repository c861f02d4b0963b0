import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { PassportId, WalletId } from '../../shared/model/ids.ts';
import {
  type Wallet,
  type WalletLimitName,
  walletLimitNames,
  walletLimits,
} from '../../shared/model/wallet.ts';
import type { LeaseRequest } from '../../shared/wire/sync/lease-call.ts';
import type { LedgerWindow } from './model/ledger.ts';

/** What a passport drew on from one change to the next. */
interface Place {
  /** The revision of the global feed that told of it. */
  readonly revision: number;
  readonly atMs: number;
  readonly isFrozen: boolean;
  readonly money: ReadonlySet<string>;
  readonly rate: ReadonlySet<string>;
}

/** What is known of a PERMIT on record. */
export interface RecordedTake {
  readonly passportId: PassportId;
  /** What its sidecar had applied or acknowledged before it decided. */
  readonly knownGlobal: number;
  /** It took money from leases; else it has none, or an approval paid. */
  readonly isCharged: boolean;
  readonly counters: readonly string[];
}

type Take = Omit<RecordedTake, 'passportId'>;
type NamedTake = Take & { readonly walletId: WalletId | null };

type Branch = Pick<Wallet, 'walletId' | 'parentId' | 'limits' | 'share' | 'status'>;

/**
 * What must be true of wallets. It knows the trees as people made them and works out for itself what a wallet
 * has left: nothing here asks the code that the programs share with the model.
 */
export class WalletPromises {
  readonly #wallets: () => Iterable<Branch>;
  readonly #walletOf: (passportId: PassportId) => WalletId | null;
  readonly #wrong: (sentence: string) => void;
  readonly #places = new Map<PassportId, Place[]>();
  /** What passports of a wallet drew on. */
  readonly #ofWallets = new Map<WalletId, Place[]>();
  /** A wallet was put below another one. */
  hasMovedWallets = false;
  #branches: ReadonlyMap<WalletId, Branch> = new Map();
  #byKey: ReadonlyMap<string, Branch> = new Map();

  constructor(deps: {
    readonly wallets: () => Iterable<Branch>;
    readonly walletOf: (passportId: PassportId) => WalletId | null;
    readonly wrong: (sentence: string) => void;
  }) {
    this.#wallets = deps.wallets;
    this.#walletOf = deps.walletOf;
    this.#wrong = deps.wrong;
  }

  /** A tree has changed, or a passport was moved, as the global feed tells by that revision. */
  noteChange(
    passportIds: readonly PassportId[],
    at: { readonly revision: number; readonly atMs: number },
  ): void {
    const branches = [...this.#wallets()];
    this.#branches = new Map(branches.map((each) => [each.walletId, each]));
    this.#byKey = new Map(branches.map((each) => [idDigest(each.walletId) as string, each]));
    for (const id of passportIds) note(this.#places, id, this.#placeOf(this.#walletOf(id), at));
    for (const { walletId } of branches) note(this.#ofWallets, walletId, this.#placeOf(walletId, at));
  }

  noteWalletMove(): void {
    this.hasMovedWallets = true;
  }

  /** Since when the wallets of a passport block it; null: they do not. */
  frozenSince(passportId: PassportId): Pick<Place, 'revision' | 'atMs'> | null {
    const places = this.#places.get(passportId) ?? [];
    let since: Place | null = null;
    for (const place of places.toReversed()) {
      if (!place.isFrozen) break;
      since = place;
    }
    return since;
  }

  /** At once: nothing is lent that a wallet has not, or that lies aside for another. */
  noteGrant(ask: LeaseRequest, { leased, base }: LedgerWindow): void {
    if (ask.wallet === undefined || base === null) return;
    const [key = '', lane = ''] = ask.wallet.split(':');
    const wallet = this.#byKey.get(key);
    const name = walletLimitNames.find(
      (each) => walletLimits[each].kind === ask.kind && walletLimits[each].window === ask.window,
    );
    if (wallet === undefined || name === undefined) {
      this.#wrong(`units of no wallet: ${ask.wallet}`);
      return;
    }
    const limit = wallet.limits[name] ?? 0;
    const child = lane === 'pot' ? undefined : this.#byKey.get(lane);
    const aside = [...this.#branches.values()].filter((each) => isReservedOf(each, wallet));
    const ofLane =
      lane === 'pot'
        ? limit - aside.reduce((sum, each) => sum + (each.limits[name] ?? 0), 0)
        : child !== undefined && aside.includes(child)
          ? (child.limits[name] ?? 0)
          : 0;
    const place = `${wallet.walletId} ${name}`;
    if (base.leased > limit) this.#wrong(`${place}: ${base.leased} of ${limit} are lent`);
    if (leased > ofLane) this.#wrong(`${place} ${lane}: ${leased} of ${ofLane} are lent`);
    if (this.#isFrozen(child ?? wallet)) this.#wrong(`${place} is frozen, and lends`);
  }

  /** A PERMIT took from every wallet of its passport up to the root, each once, or from none. */
  faultOf({ passportId, ...take }: RecordedTake): string | null {
    const places = this.#places.get(passportId) ?? [];
    return isOfAny(places, take) ? null : `took of wallets ${walletsOf(take).join(', ') || 'nothing'}`;
  }

  /**
   * A PERMIT names the wallet that it took from: it and those above it were what it took. Where wallets are
   * moved as well as passports, nothing tells which of them it was.
   */
  misnamed({ walletId, ...take }: NamedTake): string | null {
    if (this.hasMovedWallets) return null;
    const taken = walletsOf(take);
    const isRight =
      walletId === null ? taken.length === 0 : isOfAny(this.#ofWallets.get(walletId) ?? [], take);
    return isRight ? null : `names ${walletId}, and took of wallets ${taken.join(', ') || 'nothing'}`;
  }

  #placeOf(walletId: WalletId | null, at: Pick<Place, 'revision' | 'atMs'>): Place {
    const money = new Set<string>();
    const rate = new Set<string>();
    let isFrozen = false;
    let below: Branch | null = null;
    let id = walletId;
    while (id !== null) {
      const wallet: Branch = this.#branch(id);
      isFrozen ||= wallet.status === 'frozen';
      for (const name of Object.keys(wallet.limits) as WalletLimitName[]) {
        const { kind, window } = walletLimits[name];
        const isAside: boolean =
          below !== null && isReservedOf(below, wallet) && below.limits[name] !== undefined;
        const lane: string = isAside && below !== null ? idDigest(below.walletId) : 'pot';
        (kind === 'wallet_spend' ? money : rate).add(
          `${kind}:${idDigest(wallet.walletId)}:${lane} ${window}`,
        );
      }
      below = wallet;
      id = wallet.parentId;
    }
    return { ...at, isFrozen, money, rate };
  }

  #isFrozen(wallet: Branch): boolean {
    for (let each: Branch | null = wallet; each !== null; ) {
      if (each.status === 'frozen') return true;
      each = each.parentId === null ? null : this.#branch(each.parentId);
    }
    return false;
  }

  #branch(id: WalletId): Branch {
    const found = this.#branches.get(id);
    if (found === undefined) throw new Error(`there is no wallet ${id}`);
    return found;
  }
}

function note<Id>(places: Map<Id, Place[]>, id: Id, place: Place): void {
  const known = places.get(id) ?? [];
  const last = known.at(-1);
  if (last === undefined || !isSame(place, last)) known.push(place);
  places.set(id, known);
}

const walletsOf = ({ counters }: Pick<Take, 'counters'>): readonly string[] =>
  counters.filter((each) => each.startsWith('wallet_'));

/** Whether it took all of one of these, as far as its sidecar may have known them. */
function isOfAny(places: readonly Place[], { knownGlobal, isCharged, counters }: Take): boolean {
  const taken = walletsOf({ counters });
  return places.some(({ money, rate, isFrozen }, at) => {
    const isOver = (places[at + 1]?.revision ?? Number.POSITIVE_INFINITY) <= knownGlobal;
    const expected = isCharged ? [...money, ...rate] : [...rate];
    const isIt = expected.length === taken.length && expected.every((each) => taken.includes(each));
    return isIt && !isFrozen && !isOver;
  });
}

const isReservedOf = ({ share, parentId }: Branch, parent: Branch): boolean =>
  share === 'reserved' && parentId === parent.walletId;

const isSame = (one: Place, other: Place): boolean =>
  one.isFrozen === other.isFrozen && isSameSet(one.money, other.money) && isSameSet(one.rate, other.rate);

const isSameSet = (one: ReadonlySet<string>, other: ReadonlySet<string>): boolean =>
  one.size === other.size && [...one].every((each) => other.has(each));
