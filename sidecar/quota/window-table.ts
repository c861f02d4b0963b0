import { isFor } from '../../shared/decision/find-standing-approval.ts';
import { type DrawnWindow, drawnName, totalOf, windowsOf } from '../../shared/decision/windows-of.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { AccountId, GateId, PassportId } from '../../shared/model/ids.ts';
import type { StandingApprovalTerms } from '../../shared/model/standing-approval.ts';
import type { WindowLimit } from '../../shared/quota/window-limit.ts';
import { renderLane } from '../../shared/wire/sync/lease-call.ts';
import { type HeldView, heldView } from './held-view.ts';
import { HeldWindow, type WindowOfCounter } from './held-window.ts';
import { quotaLimits } from './limits.ts';
import { noWalletState, type WalletPath, WalletPaths } from './wallet-paths.ts';

/** The limits of a compiled gate. */
export interface LimitedGate {
  readonly gateId: GateId;
  readonly accountId: AccountId;
  readonly rateWindows: readonly WindowLimit[];
  readonly spendWindows: readonly WindowLimit[];
  readonly standingApprovals: readonly StandingApprovalTerms[];
}

/** A verified passport, with its own limits. */
export interface LimitedPassport {
  readonly passportId: PassportId;
  readonly accountId: AccountId;
  /** Of a subject of another issuer it is what the token says. */
  readonly owner: string | null;
  /** Whose units limits per user count, which the token says, too. Null or absent: the passport's. */
  readonly userKey?: IdDigest | null;
  readonly tokenHash: string;
  /** Its token says that it may be in a wallet. Absent: no. */
  readonly hasWallet?: boolean;
  readonly rateWindows: readonly WindowLimit[];
  readonly spendWindows: readonly WindowLimit[];
}

/** The views of one version of a gate. */
interface GateViews {
  /** For passports without own limits, at a gate without limits per passport and standing approvals. */
  shared: KnownView | null;
  readonly isPerPassport: boolean;
  readonly ofPassports: Map<PassportId, KnownView>;
  /** Of passports by whose users the gate counts. Null: it counts by none. */
  readonly ofUsers: Map<IdDigest, Map<PassportId, KnownView>> | null;
}

interface KnownView {
  readonly view: HeldView;
  /** Whose standing approvals are in it. */
  readonly owner: string | null;
}

/**
 * The known windows, one object for each counter and window, and the view of each passport at each gate.
 * Views are cached under the compiled objects, so that a repeated request costs one or two look-ups and
 * builds no string. Both tables are bounded.
 */
export class WindowTable {
  /** By counter and name of the window, roughly least recently used first. */
  readonly #windows = new Map<string, HeldWindow>();
  #views = new WeakMap<object, GateViews>();
  #viewCount = 0;
  readonly #windowsMax: number;
  readonly #wallets: WalletPaths;

  constructor(windowsMax: number, wallets: WalletPaths = new WalletPaths(noWalletState)) {
    this.#wallets = wallets;
    this.#windowsMax = windowsMax;
  }

  get size(): number {
    return this.#windows.size;
  }

  all(): Iterable<HeldWindow> {
    return this.#windows.values();
  }

  /** Does not end windows that are over; the caller does. */
  viewOf(
    gate: LimitedGate | null,
    passport: LimitedPassport,
    nowMs: number,
    mayHaveWallet = false,
  ): HeldView {
    const views = this.#viewsOf(gate ?? noGate);
    if (mayHaveWallet) {
      const path = this.#wallets.get(passport.passportId, nowMs);
      const known = knownIn(views, passport);
      const isKnown = path !== null && known?.owner === passport.owner && isOf(known.view, path);
      if (isKnown && isWhole(known.view)) return known.view;
      return this.#makeView(gate, passport, { isShared: false, nowMs, path });
    }
    const isShared = !views.isPerPassport && isUnlimited(passport);
    const known = isShared ? views.shared : knownIn(views, passport);
    if (known !== null && known !== undefined && known.view.heldWallet === null && isWhole(known.view))
      if (isShared || known.owner === passport.owner) return known.view;
    return this.#makeView(gate, passport, { isShared, nowMs });
  }

  #viewsOf(gate: object & Omit<LimitedGate, 'gateId' | 'accountId'>): GateViews {
    const known = this.#views.get(gate);
    if (known !== undefined) return known;
    const limits = [...gate.rateWindows, ...gate.spendWindows];
    const isPerPassport = gate.standingApprovals.length > 0 || limits.some(({ per }) => per !== 'gate');
    const ofUsers = limits.some(({ per }) => per === 'user') ? new Map() : null;
    const views = { shared: null, isPerPassport, ofPassports: new Map(), ofUsers };
    this.#views.set(gate, views);
    return views;
  }

  #makeView(
    gate: LimitedGate | null,
    passport: LimitedPassport,
    options: {
      readonly isShared: boolean;
      readonly nowMs: number;
      /** Null: it has to be asked for. Absent: the passport is in no wallet. */
      readonly path?: WalletPath | null;
    },
  ): HeldView {
    const { isShared, nowMs, path } = options;
    const { passportId, tokenHash } = passport;
    const drawn = windowsOf({ gate, passport, lanes: path?.lanes ?? [] });
    const held = (each: DrawnWindow) => this.#find(each, passport, nowMs);
    const isKnown = () => this.#wallets.get(passportId, nowMs) !== null;
    const heldWallet =
      path === undefined
        ? null
        : {
            levels: drawn.levels.map(({ spend, rate }, place) => ({
              walletId: path?.levels[place]?.wallet_id ?? null,
              spend: spend.map(held),
              rate: rate.map(held),
            })),
            path,
            isFrozen: path?.isFrozen === true,
            lookUp: path === null ? { passportId, tokenHash, isKnown } : null,
          };
    const standingApprovals =
      gate === null
        ? []
        : gate.standingApprovals
            .filter((terms) => isFor(terms, passport, gate.accountId))
            .map((terms) => ({ terms, held: held(totalOf(terms, gate.gateId)) }));
    const view = heldView(drawn.spend.map(held), drawn.rate.map(held), standingApprovals, heldWallet);
    // Good for one question only.
    if (path === null) return view;
    if (this.#viewCount >= quotaLimits.leaseViewsMax) {
      this.#views = new WeakMap();
      this.#viewCount = 0;
    }
    this.#viewCount++;
    const views = this.#viewsOf(gate ?? noGate);
    const known = { view, owner: passport.owner };
    if (isShared) views.shared = known;
    else keepIn(views, passport, known);
    return view;
  }

  /**
   * Without room, returns a window that is already forgotten: nothing can be taken from it, and the next
   * request looks again.
   */
  #find(drawn: DrawnWindow, passport: LimitedPassport, nowMs: number): HeldWindow {
    const key = drawnName(drawn);
    const known = this.#windows.get(key);
    if (known !== undefined) {
      // A new version of the gate may change the limit; held units stay.
      known.lease.limit = drawn.limit;
      if ('wallet' in drawn.of) {
        // This passport was found to draw on it last.
        known.name = leasedName(drawn, passport);
        known.isOfNoPassport = false;
      }
      return known;
    }
    const window = new HeldWindow(leasedName(drawn, passport), drawn.limit, nowMs);
    if (this.#windows.size < this.#windowsMax || this.#makeRoom()) this.#windows.set(key, window);
    else window.isForgotten = true;
    return window;
  }

  /**
   * Forgets one window that holds nothing, among the least recently used. Windows used since the last trim,
   * or holding units, move to the end. Idle units go back within two seconds, so a later trim finds them
   * empty.
   */
  #makeRoom(): boolean {
    let fallback: string | null = null;
    for (let step = 0; step < quotaLimits.leasedWindowsPerTrimMax; step++) {
      const [first] = this.#windows;
      if (first === undefined) break;
      const [key, window] = first;
      if (window.isForgettable && !window.isInUse) {
        this.#remove(key, window);
        return true;
      }
      if (window.isForgettable) fallback ??= key;
      window.isInUse = false;
      this.#windows.delete(key);
      this.#windows.set(key, window);
    }
    const window = fallback === null ? undefined : this.#windows.get(fallback);
    if (fallback === null || window === undefined) return false;
    this.#remove(fallback, window);
    return true;
  }

  #remove(key: string, window: HeldWindow): void {
    this.#windows.delete(key);
    window.isForgotten = true;
  }
}

/** A passport of another issuer may act for one user after another, and so has a view for each. */
const knownIn = (
  { ofPassports, ofUsers }: GateViews,
  { passportId, userKey = null }: LimitedPassport,
): KnownView | undefined =>
  (ofUsers === null || userKey === null ? ofPassports : ofUsers.get(userKey))?.get(passportId);

function keepIn(views: GateViews, { passportId, userKey = null }: LimitedPassport, known: KnownView): void {
  const { ofPassports, ofUsers } = views;
  if (ofUsers === null || userKey === null) {
    ofPassports.set(passportId, known);
    return;
  }
  const ofUser = ofUsers.get(userKey) ?? new Map<PassportId, KnownView>();
  ofUsers.set(userKey, ofUser.set(passportId, known));
}

/** Stands for the absent gate of `/enforce`; has no windows. */
const noGate = Object.freeze({ rateWindows: [], spendWindows: [], standingApprovals: [] });

/** As lease calls name it: of a wallet by a passport that draws on it. */
function leasedName(
  { of, window }: DrawnWindow,
  { passportId, tokenHash }: LimitedPassport,
): WindowOfCounter {
  const isOfPassport = 'wallet' in of || ('passportId' in of && of.passportId !== null);
  const name: WindowOfCounter = {
    kind: of.kind,
    gate_id: 'gateId' in of ? of.gateId : null,
    passport_id: isOfPassport ? passportId : null,
    token_hash: isOfPassport ? tokenHash : null,
    window,
  };
  if ('wallet' in of) return { ...name, wallet: renderLane(of.wallet, of.lane) };
  if ('user' in of && of.user !== undefined) return { ...name, user: of.user };
  return 'standingApprovalId' in of ? { ...name, standing_approval_id: of.standingApprovalId } : name;
}

const isUnlimited = ({ rateWindows, spendWindows }: LimitedPassport): boolean =>
  rateWindows.length === 0 && spendWindows.length === 0;

/** Whether it is the view of these wallets, as they are now. */
const isOf = ({ heldWallet }: HeldView, path: WalletPath): boolean =>
  heldWallet?.path === path && heldWallet.isFrozen === path.isFrozen;

/** Marks the windows as in use. False if the table has forgotten one of them. */
function isWhole({ spendWindows, rateWindows, standingApprovals }: HeldView): boolean {
  for (const window of spendWindows) {
    if (window.isForgotten || window.isOfNoPassport) return false;
    window.isInUse = true;
  }
  for (const window of rateWindows) {
    if (window.isForgotten || window.isOfNoPassport) return false;
    window.isInUse = true;
  }
  for (const { held } of standingApprovals) {
    if (held.isForgotten) return false;
    held.isInUse = true;
  }
  return true;
}
