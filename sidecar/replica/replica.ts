/**
 * Room `sidecar/replica`: gates, keys and revocations in memory, by revision. `follow.ts` is the loop that
 * fills it, with its states in `contact.ts`, `feed-progress.ts` and `feed-listener.ts`; `catch-up.ts` after
 * a stop of the process, `snapshot-file.ts` for the disk, `control-plane-client.ts` for HTTP, which
 * `caller-thread.ts` and `http-caller.ts` do in a thread of its own.
 */

import type { Ed25519 } from '../../shared/crypto/ed25519.ts';
import { type Keyset, keyset } from '../../shared/crypto/keyset.ts';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { CompiledRoutes } from '../../shared/decision/compile-routes.ts';
import type { PassportStanding, VerifiedPassport } from '../../shared/decision/facts.ts';
import type { RecordForm } from '../../shared/model/attestation.ts';
import { digestAt } from '../../shared/model/id-digest.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import { isExpired, type MonotonicMillis, type UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { type KnownIssuers, noForeignIssuers } from '../../shared/verification/foreign-issuers.ts';
import {
  type FeedId,
  type FeedPosition,
  globalFeed,
  type Position,
  syncVersion,
} from '../../shared/wire/sync/sync.ts';
import {
  type BadRow,
  type ChangeKind,
  type Heartbeat,
  openEntry,
  readSnapshot,
  type SealedEntry,
  type SignedSnapshot,
} from '../../shared/wire/sync/sync-schema.ts';
import {
  changeVerifies,
  heartbeatVerifies,
  type SyncKeys,
  snapshotVerifies,
} from '../../shared/wire/sync/sync-signature.ts';
import { Floor, type KnownFloor } from './floor.ts';
import type { KnownState } from './known-history.ts';
import { replicaLimits } from './limits.ts';
import { hasGoneBack, type Lineage } from './lineage.ts';
import { applyChange, type KnownCaller, type ReplicaState, stateOf } from './replica-state.ts';
import { statusIn } from './status-table.ts';
import type { WalletChanges } from './wallet-changes.ts';

/**
 * The outcome of an entry. `repeat`: already in force. `gap`: it does not follow the entry in force, because
 * some are missing or it is from another history, as after a restore. `refused`: not signed by the service,
 * or not understood; the last good state stays, and no later entry is applied.
 */
export type ApplyOutcome = 'applied' | 'repeat' | 'gap' | 'refused';

export interface ReplicaDeps {
  readonly ed25519: Ed25519;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Sync keys trusted before. Empty: trust those of the first snapshot. */
  readonly pinnedKeys: readonly VerificationKey[];
}

/**
 * The sidecar's copy of everything it decides on: gates and callers of its account, and all revocations and
 * suspensions.
 *
 *     nothing loaded ──install──> loaded at (account R, global G) ──apply R+1 or G+1──> loaded at the next revision
 *
 * It changes by signed snapshots and entries only, one revision at a time, and never partially. Reads are
 * synchronous, from memory. Its age is the time since it was last known that the service had nothing newer.
 */
export class Replica {
  readonly #deps: ReplicaDeps;
  #state: ReplicaState | null = null;
  #account: FeedPosition = { revision: 0, mark: '' };
  #global: FeedPosition = { revision: 0, mark: '' };
  /** Moment up to which each feed is known to be complete; minus infinity if unknown. */
  #accountAsOfMs = Number.NEGATIVE_INFINITY;
  #globalAsOfMs = Number.NEGATIVE_INFINITY;
  #generation: string | null = null;
  #earlierGenerations: readonly string[] = [];
  #floor: Floor | null = null;
  /** Set with each answer of the control plane; until the first one as it was when this sidecar ended. */
  recordForm: RecordForm = 1;
  #trust: SyncKeys | null;
  #isRefusedAsSuspended = false;
  #version = 0;
  #refusedCount = 0;
  #lastRefusal: string | null = null;
  #toldRows: ReadonlySet<string> = new Set();

  constructor(deps: ReplicaDeps) {
    this.#deps = deps;
    const { pinnedKeys } = deps;
    this.#trust = pinnedKeys.length === 0 ? null : syncKeysOf(keyset(deps.ed25519, pinnedKeys));
  }

  /** Null until the first snapshot is installed; no decisions before. */
  get accountId(): AccountId | null {
    return this.#state?.accountId ?? null;
  }

  /** PUBLIC_URL of the control plane, for links that people follow. Null: not known. */
  get publicUrl(): string | null {
    return this.#state?.publicUrl ?? null;
  }

  /** Changes with every change of the state, not with its age. */
  get version(): number {
    return this.#version;
  }

  /** Set after each answer of the control plane: the sidecar of a suspended account cannot pull any more. */
  set isRefusedAsSuspended(isRefused: boolean) {
    if (isRefused !== this.#isRefusedAsSuspended) this.#version++;
    this.#isRefusedAsSuspended = isRefused;
  }

  /**
   * By the feed, or by the control plane's refusal of the sidecar's own key, which is suspended with its
   * account.
   */
  get isAccountSuspended(): boolean {
    const state = this.#state;
    if (state === null) return this.#isRefusedAsSuspended;
    if (this.#floor?.isAccountSuspended) return true;
    return this.#isRefusedAsSuspended || state.suspendedAccounts.get(state.accountDigest, 0) !== 0;
  }

  /** All keys of the service; a new object after each change. */
  get keys(): Keyset {
    return this.#state?.keys ?? noKeys;
  }

  /** Issuers of others that this gate knows; null: without a gate. */
  issuersAt(gate: CompiledGate | null): KnownIssuers {
    return this.#state?.foreignIssuers.knownAt(gate) ?? noForeignIssuers;
  }

  gate(gateId: string): CompiledGate | null {
    const gate = this.#state?.gates.get(gateId) ?? null;
    return gate === null || this.#floor === null ? gate : this.#floor.gate(gate);
  }

  /** Routes of this gate, in order; empty: none. */
  routes(gateId: string): CompiledRoutes {
    return this.#state?.routes.get(gateId) ?? noRoutes;
  }

  /** Those of its shadow; null: it has none, or the same. */
  shadowRoutes(gateId: string): CompiledRoutes | null {
    return this.#state?.shadowRoutes.get(gateId) ?? null;
  }

  /** Null for a key that is unknown, deleted or expired. `keyHash` is lower-case hex. */
  caller(keyHash: string, nowMs: UnixMillis): KnownCaller | null {
    const caller = this.#state?.callers.get(keyHash) ?? null;
    if (this.#floor?.hasCaller(keyHash) === false) return null;
    return caller === null || isExpired(caller, nowMs) ? null : caller;
  }

  /** `nowMs`: passed if the caller has just read the clock. */
  standing(
    passport: VerifiedPassport,
    nowMs: MonotonicMillis = this.#deps.clock.monotonic(),
  ): PassportStanding {
    const state = this.#state;
    if (state === null) return unknownStanding;
    const { digests } = passport;
    const stored = statusIn(state.standings, passport);
    const status = stored === 'in_wallet' ? 'active' : stored;
    const told: PassportStanding = {
      status,
      isInWallet: stored === 'in_wallet',
      isIssuerSuspended: state.suspendedIssuers.get(digests, digestAt.issuer) !== 0,
      isAccountSuspended: state.suspendedAccounts.get(digests, digestAt.account) !== 0,
      // An unknown key counts as compromised: it was known when the passport was verified.
      isKeyCompromised:
        passport.source === null && state.keys.find('passport', passport.keyId)?.key.compromised !== false,
      stateAgeMs: nowMs - this.asOfMs,
    };
    return this.#floor === null ? told : this.#floor.standing(told, passport, state.foreignIssuers);
  }

  /** Null: nothing is known yet. Another object after each snapshot. */
  get walletChanges(): WalletChanges | null {
    return this.#state?.wallets ?? null;
  }

  isWalletFrozen(key: string): boolean {
    return this.#state?.wallets.isFrozen(key) === true || this.#floor?.isWalletFrozen(key) === true;
  }

  /** Time since both feeds were last known to be complete. Infinity: never in this process. */
  get stateAgeMs(): number {
    return this.#deps.clock.monotonic() - this.asOfMs;
  }

  /**
   * The monotonic moment up to which both feeds are known to be complete; minus infinity if never in this
   * process.
   */
  get asOfMs(): number {
    return Math.min(this.#accountAsOfMs, this.#globalAsOfMs);
  }

  get accountRevision(): number {
    return this.#account.revision;
  }

  get globalRevision(): number {
    return this.#global.revision;
  }

  /** The history that is in force here; null: nothing is, or a control plane of before named none. */
  get generation(): string | null {
    return this.#generation;
  }

  /** What is in force here, to hold against what comes next; null: nothing. */
  get lineage(): Lineage | null {
    const accountId = this.accountId;
    return accountId === null ? null : { accountId, generation: this.#generation, ...this.position };
  }

  /** Whether this is another history than the one in force, and none that it goes on from. */
  isOtherGeneration(generation: string | undefined): boolean {
    if (generation === undefined || this.#generation === null) return false;
    return generation !== this.#generation && !this.#earlierGenerations.includes(generation);
  }

  /**
   * States that were in force here decide with what is told, until a history that goes on from them is
   * installed.
   */
  get holdsFloor(): boolean {
    return this.#floor !== null;
  }

  /**
   * From now on these states decide, too, as far as they are stricter. Each is verified as it was before; one
   * that cannot be read forbids nothing.
   */
  hold(states: readonly KnownState[]): void {
    const floors = states.flatMap(({ signed, entries }): KnownFloor[] => {
      const pinnedKeys = this.#state === null ? this.#deps.pinnedKeys : this.syncKeys;
      const known = new Replica({ ...this.#deps, pinnedKeys });
      if (known.install(signed, { asOfMs: null, accountId: this.accountId }) === 'refused') return [];
      for (const entry of entries) known.apply(entry);
      return known.#state === null ? [] : [{ generation: known.#generation, state: known.#state }];
    });
    this.#floor = floors.length === 0 ? null : new Floor(floors);
    this.#version++;
  }

  /** The position in force. */
  get position(): Position {
    return { account: this.#account, global: this.#global };
  }

  /**
   * Refused snapshots, entries and heartbeats since the start, and why the last one was refused, until a good
   * one arrives.
   */
  get refusedCount(): number {
    return this.#refusedCount;
  }

  get lastRefusal(): string | null {
    return this.#lastRefusal;
  }

  /** The trusted sync keys, to be pinned on disk. */
  get syncKeys(): readonly VerificationKey[] {
    const keys = this.#state === null ? this.#deps.pinnedKeys : [...this.#state.signingKeys.values()];
    return keys.filter((key) => key.purpose === 'sync');
  }

  /** Gates and keys of the control plane that this sidecar cannot use. They count as absent. */
  get badRows(): readonly BadRow[] {
    return this.#state === null ? [] : [...this.#state.badRows.values()];
  }

  /** Revoked and suspended passports in memory. */
  get standingCount(): number {
    return this.#state?.standings.size ?? 0;
  }

  /**
   * Replaces the whole state atomically; revisions may go back. If no key is trusted yet, the snapshot's own
   * sync keys become trusted.
   */
  install(
    signed: SignedSnapshot,
    expected: {
      /** When it was known to be current; null if unknown, as for one from disk. */
      readonly asOfMs: MonotonicMillis | null;
      /** Null: any account. */
      readonly accountId: AccountId | null;
      /** What it must go on from. Absent: it may be anything. */
      readonly since?: Lineage | null;
    },
  ): 'installed' | 'refused' | 'went back' {
    try {
      if (!this.#install(signed, expected)) return 'went back';
    } catch (error) {
      return this.#refuse('snapshot', error);
    }
    this.#accountAsOfMs = this.#globalAsOfMs = expected.asOfMs ?? Number.NEGATIVE_INFINITY;
    this.#lastRefusal = null;
    return 'installed';
  }

  /** False: it does not go on from what it must. */
  #install(
    signed: SignedSnapshot,
    { accountId, since = null }: { readonly accountId: AccountId | null; readonly since?: Lineage | null },
  ): boolean {
    if (this.#trust !== null)
      demand(snapshotVerifies(this.#trust, signed), 'its signature is not by a trusted sync key');
    const { snapshot, badRows } = readSnapshot(signed.snapshot);
    demand(
      snapshot.sync_version === syncVersion,
      `it is of version ${snapshot.sync_version}, not ${syncVersion}`,
    );
    demand(accountId === null || snapshot.account_id === accountId, 'it is of another account');
    const state = stateOf(snapshot, this.#deps.ed25519, badRows);
    // A snapshot trusted by its own keys must at least be signed by them.
    const trust = syncKeysOf(state.keys);
    demand(
      this.#trust !== null || snapshotVerifies(trust, signed),
      'its signature is not by its own sync key',
    );
    if (since !== null && hasGoneBack(snapshot, since)) return false;
    this.#state?.foreignIssuers.endAll();
    this.#state = state;
    this.#generation = snapshot.generation ?? null;
    this.#earlierGenerations = snapshot.earlier_generations ?? [];
    if (this.#floor?.isUnder(this.#generation, this.#earlierGenerations)) this.#floor = null;
    this.#version++;
    this.#trust = trust;
    this.#tellBadRows([...state.badRows.values()]);
    this.#account = { revision: snapshot.account_revision, mark: snapshot.account_mark };
    this.#global = { revision: snapshot.global_revision, mark: snapshot.global_mark };
    return true;
  }

  /** Logs each row once per row and reason, because snapshots repeat. */
  #tellBadRows(badRows: readonly BadRow[]): void {
    const told = new Set(badRows.map((row) => JSON.stringify(row)));
    const news = badRows.filter((row) => !this.#toldRows.has(JSON.stringify(row)));
    this.#toldRows = told;
    for (const row of news.slice(0, replicaLimits.badRowsShownMax))
      this.#deps.logger.error({ ...row }, 'cannot be used and is left out; everything else is in force');
    const more = news.length - replicaLimits.badRowsShownMax;
    if (more > 0) this.#deps.logger.error({ more }, 'more rows cannot be used and are left out');
  }

  /** Applies the entry if it is the next of its feed and the service signed it. */
  apply(entry: SealedEntry): ApplyOutcome {
    const state = this.#state;
    if (state === null) return 'gap';
    const isGlobal = entry.feed_id === globalFeed;
    const { revision, mark } = isGlobal ? this.#global : this.#account;
    if (!isGlobal && entry.feed_id !== state.accountId)
      return this.#refuse('entry', 'it is of another account');
    if (entry.revision === revision && entry.signature !== mark) return 'gap';
    if (entry.revision <= revision) return 'repeat';
    if (entry.revision > revision + 1) return 'gap';
    try {
      demand(
        this.#trust !== null && changeVerifies(this.#trust, entry),
        'its signature is not by a trusted sync key',
      );
      if (entry.previous !== mark) return 'gap';
      const change = openEntry(entry);
      demand(globalKinds.has(change.kind) === isGlobal, `${entry.kind} has no place in this feed`);
      applyChange(state, change, this.#deps.ed25519);
      this.#version++;
    } catch (error) {
      return this.#refuse(`entry ${entry.feed_id} ${entry.revision}`, error);
    }
    const applied = { revision: entry.revision, mark: entry.signature };
    if (isGlobal) this.#global = applied;
    else this.#account = applied;
    if (entry.kind === 'signing_key.put') this.#trust = syncKeysOf(state.keys);
    this.#lastRefusal = null;
    return 'applied';
  }

  /** Scans some standings and drops those of passports that expired long before this time, on any clock. */
  forgetExpired(nowMs: UnixMillis): void {
    this.#state?.standings.sweep(nowMs, replicaLimits.standingSlotsPerSweep);
  }

  /** Whether the service signed this heartbeat for one of our feeds. */
  isAuthentic(beat: Heartbeat): boolean {
    if (beat.feed_id !== globalFeed && beat.feed_id !== this.accountId) return false;
    // Before the first snapshot no key is known: neither valid nor refused.
    if (this.#trust === null) return false;
    if (heartbeatVerifies(this.#trust, beat)) return true;
    this.#refuse('heartbeat', 'its signature is not by a trusted sync key');
    return false;
  }

  /**
   * A trustworthy source read this head at that moment. Returns whether the feed was complete here: then its
   * age counts from there. Older evidence changes nothing.
   */
  confirm(feedId: FeedId, head: number, asOfMs: MonotonicMillis): boolean {
    const isGlobal = feedId === globalFeed;
    if (!isGlobal && feedId !== this.accountId) return false;
    if ((isGlobal ? this.#global : this.#account).revision < head) return false;
    if (isGlobal) this.#globalAsOfMs = Math.max(this.#globalAsOfMs, asOfMs);
    else this.#accountAsOfMs = Math.max(this.#accountAsOfMs, asOfMs);
    this.#lastRefusal = null;
    return true;
  }

  /**
   * Counts each, but logs only the first of a series: anyone with write access to the bus could fill the log
   * otherwise.
   */
  #refuse(what: string, why: unknown): 'refused' {
    this.#refusedCount++;
    const reason = why instanceof Error ? why.message : String(why);
    if (this.#lastRefusal === null)
      this.#deps.logger.error({ what, reason }, 'refused; the last valid state stays in use');
    this.#lastRefusal = `${what} refused: ${reason}`;
    return 'refused';
  }
}

const globalKinds: ReadonlySet<ChangeKind> = new Set([
  'passport.standing',
  'issuer.standing',
  'account.standing',
  'signing_key.put',
]);

const noRoutes: CompiledRoutes = Object.freeze([]);
const noKeys: Keyset = { find: () => null };

/** Every passport blocks before the first snapshot. */
const unknownStanding: PassportStanding = Object.freeze({
  status: 'suspended',
  isIssuerSuspended: true,
  isAccountSuspended: true,
  isKeyCompromised: true,
  isInWallet: false,
  stateAgeMs: Number.POSITIVE_INFINITY,
});

/** Signatures of retired sync keys stay valid; those of a compromised one do not. */
const syncKeysOf = (keys: Keyset): SyncKeys => ({
  find: (purpose, kid) => {
    const entry = keys.find(purpose, kid);
    return entry === null || entry.key.compromised ? null : entry;
  },
});

function demand(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}
