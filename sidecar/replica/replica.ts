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
import { digestAt } from '../../shared/model/id-digest.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import { isExpired, type MonotonicMillis, type UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import {
  type FeedId,
  type FeedPosition,
  globalFeed,
  type Position,
  syncVersion,
} from '../../shared/wire/sync.ts';
import {
  type BadRow,
  type ChangeKind,
  type Heartbeat,
  openEntry,
  readSnapshot,
  type SealedEntry,
  type SignedSnapshot,
} from '../../shared/wire/sync-schema.ts';
import {
  changeVerifies,
  heartbeatVerifies,
  type SyncKeys,
  snapshotVerifies,
} from '../../shared/wire/sync-signature.ts';
import { Floor, type KnownFloor } from './floor.ts';
import type { KnownState } from './known-history.ts';
import { replicaLimits } from './limits.ts';
import { hasGoneBack, type Lineage } from './lineage.ts';
import { applyChange, type KnownCaller, type ReplicaState, stateOf } from './replica-state.ts';

/**
 * What became of an entry. `repeat`: it is in force already. `gap`: it does not follow what is in force:
 * something is missing between, or it is of another history, as after a restore. `refused`: it is not the
 * service's, or cannot be understood; the last good state stays and nothing after it will be applied.
 */
export type ApplyOutcome = 'applied' | 'repeat' | 'gap' | 'refused';

export interface ReplicaDeps {
  readonly ed25519: Ed25519;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Sync keys that were trusted before. Empty: those of the first snapshot are trusted. */
  readonly pinnedKeys: readonly VerificationKey[];
}

/**
 * The sidecar's copy of what it needs to decide: gates and callers of its account, and who is revoked or
 * suspended anywhere.
 *
 *     nothing loaded ──install──> loaded at (account R, global G) ──apply R+1 or G+1──> loaded at the next revision
 *
 * It changes by signed snapshots and signed entries only, one revision at a time, and is never half changed.
 * Questions are answered from memory, at once. It also knows its age: the time since it was last known that
 * the service had nothing newer.
 */
export class Replica {
  readonly #deps: ReplicaDeps;
  #state: ReplicaState | null = null;
  #account: FeedPosition = { revision: 0, mark: '' };
  #global: FeedPosition = { revision: 0, mark: '' };
  /** Up to when each feed is known to be complete here; minus infinity while nothing is known. */
  #accountAsOfMs = Number.NEGATIVE_INFINITY;
  #globalAsOfMs = Number.NEGATIVE_INFINITY;
  #generation: string | null = null;
  #earlierGenerations: readonly string[] = [];
  #floor: Floor | null = null;
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

  /** Null until the first snapshot is installed: nothing can be decided before. */
  get accountId(): AccountId | null {
    return this.#state?.accountId ?? null;
  }

  /** Another number after each change of what is known here, but for its age. */
  get version(): number {
    return this.#version;
  }

  /**
   * Written by whoever calls the control plane, after each answer: a suspended account's sidecar can pull
   * nothing any more.
   */
  set isRefusedAsSuspended(isRefused: boolean) {
    if (isRefused !== this.#isRefusedAsSuspended) this.#version++;
    this.#isRefusedAsSuspended = isRefused;
  }

  /**
   * By what the feed says, or by what the control plane answers to the sidecar's own key, which ends with its
   * account.
   */
  get isAccountSuspended(): boolean {
    const state = this.#state;
    if (state === null) return this.#isRefusedAsSuspended;
    if (this.#floor?.isAccountSuspended) return true;
    return this.#isRefusedAsSuspended || state.suspendedAccounts.get(state.accountDigest, 0) !== 0;
  }

  /** All keys of the service; another object after each change of them. */
  get keys(): Keyset {
    return this.#state?.keys ?? noKeys;
  }

  gate(gateId: string): CompiledGate | null {
    const gate = this.#state?.gates.get(gateId) ?? null;
    return gate === null || this.#floor === null ? gate : this.#floor.gate(gate);
  }

  /** Of this gate, in their order; empty: it has none. */
  routes(gateId: string): CompiledRoutes {
    return this.#state?.routes.get(gateId) ?? noRoutes;
  }

  /** Null for a key that is unknown, deleted or expired. `keyHash` is lower-case hex. */
  caller(keyHash: string, nowMs: UnixMillis): KnownCaller | null {
    const caller = this.#state?.callers.get(keyHash) ?? null;
    if (this.#floor?.hasCaller(keyHash) === false) return null;
    return caller === null || isExpired(caller, nowMs) ? null : caller;
  }

  /** `nowMs`: where its caller has just read the clock. */
  standing(
    passport: VerifiedPassport,
    nowMs: MonotonicMillis = this.#deps.clock.monotonic(),
  ): PassportStanding {
    const state = this.#state;
    if (state === null) return unknownStanding;
    const { digests } = passport;
    const told: PassportStanding = {
      status: state.standings.get(digests, digestAt.passport),
      isIssuerSuspended: state.suspendedIssuers.get(digests, digestAt.issuer) !== 0,
      isAccountSuspended: state.suspendedAccounts.get(digests, digestAt.account) !== 0,
      // Also where the key is not known here, or not any more: it was when the passport was verified.
      isKeyCompromised: state.keys.find('passport', passport.keyId)?.key.compromised !== false,
      stateAgeMs: nowMs - this.asOfMs,
    };
    return this.#floor === null ? told : this.#floor.standing(told, passport);
  }

  /**
   * Time since the older of the two feeds was last known to be complete here. Infinity: it never was in this
   * process.
   */
  get stateAgeMs(): number {
    return this.#deps.clock.monotonic() - this.asOfMs;
  }

  /**
   * The monotonic moment up to which both feeds are known to be complete here; minus infinity where they
   * never were in this process.
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

  /** What is in force here. */
  get position(): Position {
    return { account: this.#account, global: this.#global };
  }

  /**
   * Snapshots, entries and heartbeats that were refused since the start, and why the last one was, until
   * something good arrives.
   */
  get refusedCount(): number {
    return this.#refusedCount;
  }

  get lastRefusal(): string | null {
    return this.#lastRefusal;
  }

  /** The sync keys that are trusted now, to be pinned on disk. */
  get syncKeys(): readonly VerificationKey[] {
    const keys = this.#state === null ? this.#deps.pinnedKeys : [...this.#state.signingKeys.values()];
    return keys.filter((key) => key.purpose === 'sync');
  }

  /**
   * Gates and keys that the control plane has and this sidecar cannot use. They are as if they were not
   * there.
   */
  get badRows(): readonly BadRow[] {
    return this.#state === null ? [] : [...this.#state.badRows.values()];
  }

  /** Revoked and suspended passports in memory. */
  get standingCount(): number {
    return this.#state?.standings.size ?? 0;
  }

  /**
   * Takes the place of the whole state, at once or not at all; revisions may go back by it. Where no key is
   * trusted yet, its own sync keys are.
   */
  install(
    signed: SignedSnapshot,
    expected: {
      /** When it is known to have been current; null where that is not known, as for one from disk. */
      readonly asOfMs: MonotonicMillis | null;
      /** Null: of whatever account it is. */
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
    // A snapshot that is trusted by its own keys must at least agree with itself.
    const trust = syncKeysOf(state.keys);
    demand(
      this.#trust !== null || snapshotVerifies(trust, signed),
      'its signature is not by its own sync key',
    );
    if (since !== null && hasGoneBack(snapshot, since)) return false;
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

  /** Each row once, until it is another or bad for another reason: snapshots come again and again. */
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

  /**
   * Looks at some of the standings and forgets those of passports that had expired long before this time, by
   * whatever clock.
   */
  forgetExpired(nowMs: UnixMillis): void {
    this.#state?.standings.sweep(nowMs, replicaLimits.standingSlotsPerSweep);
  }

  /** Whether the service signed this heartbeat, for one of our feeds. */
  isAuthentic(beat: Heartbeat): boolean {
    if (beat.feed_id !== globalFeed && beat.feed_id !== this.accountId) return false;
    // Before the first snapshot nothing is known by which to judge one, and nothing is wrong with it.
    if (this.#trust === null) return false;
    if (heartbeatVerifies(this.#trust, beat)) return true;
    this.#refuse('heartbeat', 'its signature is not by a trusted sync key');
    return false;
  }

  /**
   * Somebody trustworthy read this head at that moment. Answers whether the feed was complete here: then its
   * age counts from there. Evidence that is older than what is known already changes nothing.
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
   * Counts each, but logs the first of a series only: whoever can write to the bus could fill the log
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

/** Before anything is loaded every passport blocks. */
const unknownStanding: PassportStanding = Object.freeze({
  status: 'suspended',
  isIssuerSuspended: true,
  isAccountSuspended: true,
  isKeyCompromised: true,
  stateAgeMs: Number.POSITIVE_INFINITY,
});

/** What retired sync keys signed stays valid; what a compromised one signed does not. */
const syncKeysOf = (keys: Keyset): SyncKeys => ({
  find: (purpose, kid) => {
    const entry = keys.find(purpose, kid);
    return entry === null || entry.key.compromised ? null : entry;
  },
});

function demand(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}
