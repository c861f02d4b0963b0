import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { type FeedId, globalFeed } from '../../shared/wire/sync/sync.ts';
import type {
  ChangeEntry,
  Heartbeat,
  SealedEntry,
  SignedSnapshot,
} from '../../shared/wire/sync/sync-schema.ts';
import { type Acknowledger, makeAcknowledger } from './acknowledge.ts';
import type { ControlPlaneClient } from './control-plane-client.ts';
import type { ControlPlaneTime } from './control-plane-time.ts';
import type { KnownHistory } from './known-history.ts';
import { replicaLimits } from './limits.ts';
import { type Lineage, lineageOf } from './lineage.ts';
import type { ApplyOutcome, Replica } from './replica.ts';
import type { SnapshotFile } from './snapshot-file.ts';
import { isLarge, type SnapshotKeeper } from './snapshot-keeper.ts';

interface FeedProgressDeps {
  readonly replica: Replica;
  readonly keeper: SnapshotKeeper;
  readonly client: Pick<ControlPlaneClient, 'ack'>;
  readonly file: Pick<SnapshotFile, 'load'>;
  readonly known: KnownHistory;
  readonly time: ControlPlaneTime;
  readonly freeMemory: () => void;
  readonly logger: Logger;
}

type Progress =
  | { readonly kind: 'needs snapshot' }
  /** `pushed`: entries that came meanwhile; the snapshot may be older. */
  | { readonly kind: 'loading'; readonly pushed: ChangeEntry[] }
  | { readonly kind: 'in order' };

/** Whether the state is the control plane's. `proven`: it was once in this process. */
type Evidence = 'unproven' | 'contradicted' | 'proven';

/**
 * Applies the messages of the two feeds to the replica.
 *
 *     needs snapshot ──> loading ──installed, or refused──> in order ──a change does not fit──┐
 *        ^   ^              │                                                                 │
 *        │   └──call fails──┘                                                                 │
 *        └────────────────────────────────────────────────────────────────────────────────────┘
 *
 * A snapshot for the disk alone is loaded from `in order`, and returns there if its call fails.
 *
 *     unproven ──a snapshot is refused──> contradicted
 *        └───────────────┬─────────────────────┘
 *                        v as current as the control plane
 *                     proven, for good
 */
export class FeedProgress {
  readonly #deps: FeedProgressDeps;
  readonly #acknowledger: Acknowledger;
  #progress: Progress = { kind: 'needs snapshot' };
  #evidence: Evidence = 'unproven';
  #isDiskRead = false;
  /** The control plane says that its database lacks what was told. */
  isRegressed = false;
  /** By feed. Not of a history that has gone back: those before it stay. */
  readonly #lastEntries = new Map<FeedId, SealedEntry>();

  constructor(deps: FeedProgressDeps) {
    this.#deps = deps;
    this.#acknowledger = makeAcknowledger(async () => {
      const { position } = deps.replica;
      await deps.keeper.kept();
      await deps.client.ack(position);
    });
  }

  get needsSnapshot(): boolean {
    return this.#progress.kind === 'needs snapshot';
  }

  /** The last change of each feed that was applied here, as far as a report has room for it. */
  get lastEntries(): readonly SealedEntry[] {
    return [...this.#lastEntries.values()].filter(
      (entry) => JSON.stringify(entry).length <= replicaLimits.shownEntryCharsMax,
    );
  }

  get evidence(): Evidence {
    return this.#evidence;
  }

  /** A message does not fit the state. */
  loseTrack(): void {
    this.#progress = { kind: 'needs snapshot' };
  }

  /** The state is as current as the control plane's. */
  prove(): void {
    this.#evidence = 'proven';
  }

  /**
   * Installs the snapshot that `fetch` resolves to; false if that is null, because it came too late. Throws
   * if the snapshot is refused.
   */
  async load(
    fetch: () => Promise<SignedSnapshot | null>,
    known: { readonly asOfMs: MonotonicMillis; readonly accountId: AccountId },
  ): Promise<boolean> {
    const { replica, keeper } = this.#deps;
    // From before the call: what is pushed while it is under way may be newer than its answer.
    const since = replica.lineage ?? (await this.#lineageOnDisk(known.accountId));
    const pushed: ChangeEntry[] = [];
    let next = this.#progress;
    this.#progress = { kind: 'loading', pushed };
    try {
      const signed = await fetch();
      if (signed === null) return false;
      const isHeld = replica.holdsFloor;
      if ((await this.#install(signed, { ...known, since })) === 'refused') {
        // Perhaps it is signed by a sync key that earlier changes announce: the next round pulls those first.
        next = { kind: 'in order' };
        if (this.#evidence === 'unproven') this.#evidence = 'contradicted';
        throw new Error(replica.lastRefusal ?? 'the snapshot was refused');
      }
      if (isHeld && !replica.holdsFloor) await this.#deps.known.dropFloors();
      // The highest that was told stays, where the control plane has gone back.
      if (signed.receipt !== undefined && !replica.holdsFloor) this.#deps.known.noteFeeds(signed.receipt);
      keeper.begin(signed);
      for (const entry of pushed) this.#apply(entry);
      next = { kind: 'in order' };
      return true;
    } finally {
      this.#progress = next;
    }
  }

  /** Under what is known here, where the snapshot has gone back behind that. */
  async #install(
    signed: SignedSnapshot,
    expected: Parameters<Replica['install']>[1],
  ): Promise<ReturnType<Replica['install']>> {
    const { replica, keeper, known, logger } = this.#deps;
    const hasNoFloor = this.isRegressed && expected.since !== null && !replica.holdsFloor;
    const outcome = hasNoFloor ? 'went back' : replica.install(signed, expected);
    if (outcome !== 'went back') return outcome;
    await keeper.flush();
    await known.setAside();
    replica.hold(await known.floors());
    logger.error(
      { account: expected.since?.account.revision, global: expected.since?.global.revision },
      'the control plane went back to an earlier state; what was revoked, suspended, deleted or changed since stays so here until agent-trust recover has run there',
    );
    const { since: _, ...whatever } = expected;
    return replica.install(signed, whatever);
  }

  async #lineageOnDisk(accountId: AccountId): Promise<Lineage | null> {
    const { file, replica, known } = this.#deps;
    if (this.#isDiskRead) return null;
    this.#isDiskRead = true;
    const floors = await known.floors();
    if (floors.length > 0) replica.hold(floors);
    const kept = await file.load().catch(() => null);
    for (const entry of floors[0]?.entries ?? kept?.entries ?? [])
      this.#lastEntries.set(entry.feed_id, entry);
    const lineage = kept === null ? null : lineageOf(kept);
    return lineage?.accountId === accountId ? lineage : null;
  }

  /** Installs the state on disk, of unknown age. False: none, or refused. */
  async resume(accountId: AccountId | null): Promise<boolean> {
    const { file, replica, keeper, known, freeMemory } = this.#deps;
    this.#isDiskRead = true;
    const floors = await known.floors();
    if (floors.length > 0) replica.hold(floors);
    const kept = await file.load();
    if (kept === null) return false;
    const { signed, entries } = kept;
    // Shown once the control plane is back: it may have been restored meanwhile.
    for (const entry of floors[0]?.entries ?? entries) this.#lastEntries.set(entry.feed_id, entry);
    if (isLarge(signed)) setImmediate(freeMemory);
    if (replica.install(signed, { asOfMs: null, accountId }) === 'refused') return false;
    const damagedAt = entries.findIndex((entry) => !['applied', 'repeat'].includes(replica.apply(entry)));
    keeper.resume(entries.length);
    // Entries on disk that do not apply are damage that only a snapshot repairs.
    this.#progress = { kind: damagedAt === -1 ? 'in order' : 'needs snapshot' };
    return true;
  }

  /**
   * In several turns of the event loop, so that requests come in between. False: an entry cannot be applied,
   * and only a snapshot helps.
   */
  async applyAll(entries: readonly SealedEntry[], stopped: AbortSignal): Promise<boolean> {
    // A setImmediate of a message's handler runs in the same turn as the message: wait for the next one.
    if (entries.length > 0) await nextTurn();
    for (const [index, entry] of entries.entries()) {
      if (index % replicaLimits.changesPerTurnMax === 0) await nextTurn();
      if (stopped.aborted) return true;
      const outcome = this.#apply(entry);
      if (outcome === 'gap' || outcome === 'refused') return false;
    }
    return true;
  }

  /** False: not the next entry of its feed. */
  takePush(entry: ChangeEntry): boolean {
    const progress = this.#progress;
    if (progress.kind === 'loading' && progress.pushed.length < limits.changesPerPullMax)
      progress.pushed.push(entry);
    return this.#apply(entry) === 'applied';
  }

  /** False: changes are missing here. */
  takeHeartbeat(beat: Heartbeat): boolean {
    const { replica, time } = this.#deps;
    if (!replica.isAuthentic(beat)) return false;
    // A heartbeat without proof of age may still announce a newer head.
    const readAtMs = time.readAt(beat) ?? (Number.NEGATIVE_INFINITY as MonotonicMillis);
    return replica.confirm(beat.feed_id, beat.head, readAtMs);
  }

  #apply(entry: SealedEntry): ApplyOutcome {
    const { replica, keeper, time } = this.#deps;
    const outcome = replica.apply(entry);
    if (outcome === 'applied') {
      if (!replica.holdsFloor) this.#lastEntries.set(entry.feed_id, entry);
      // It was applied, so its shape is valid.
      keeper.add(entry as ChangeEntry);
      this.#acknowledger.soon();
      const nowMs = entry.feed_id === globalFeed ? time.agreedNowMs : null;
      if (nowMs !== null) replica.forgetExpired(nowMs);
    }
    return outcome;
  }
}
