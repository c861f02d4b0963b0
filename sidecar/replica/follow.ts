import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Bus } from '../../shared/bus/bus.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { type RetryPause, retryPause } from '../../shared/runtime/retry-pause.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { feedChannel, globalFeed } from '../../shared/wire/sync.ts';
import {
  type ChangeEntry,
  type Heartbeat,
  parseFeedMessage,
  type SealedEntry,
} from '../../shared/wire/sync-schema.ts';
import { type Acknowledger, makeAcknowledger } from './acknowledge.ts';
import type { CatchUp } from './catch-up.ts';
import type { ControlPlaneClient } from './control-plane-client.ts';
import { ControlPlaneError } from './control-plane-error.ts';
import type { ControlPlaneTime } from './control-plane-time.ts';
import { replicaLimits } from './limits.ts';
import { pushBudget } from './push-budget.ts';
import type { ApplyOutcome, Replica } from './replica.ts';
import type { SnapshotFile } from './snapshot-file.ts';
import { isLarge, SnapshotKeeper } from './snapshot-keeper.ts';

export interface FollowDeps {
  readonly replica: Replica;
  readonly client: ControlPlaneClient;
  /** Null: there is no push between these two programs, and the sidecar follows by long polls. */
  readonly bus: Bus | null;
  readonly file: SnapshotFile;
  /** Written here. Its clock is what the replica and everybody else here go by. */
  readonly time: ControlPlaneTime;
  /** Holds decisions back until what happened while this loop was stopped is known. */
  readonly catchUp: Pick<CatchUp, 'onBehind' | 'isBehind' | 'look'>;
  readonly random: Random;
  /** Called when a large snapshot was loaded and nothing refers to its text any more. */
  readonly freeMemory: () => void;
  readonly logger: Logger;
}

/** For `/readyz`. */
export interface FollowStatus {
  readonly revisionAccount: number;
  readonly revisionGlobal: number;
  /** Infinity: nothing is known of its age yet. */
  readonly stateAgeMs: number;
  /** The last call to the control plane succeeded. */
  readonly connected: boolean;
  /** Another process took over this sidecar id: this one follows no more and must not serve. */
  readonly superseded: boolean;
  /** This machine's clock minus the control plane's; null before the first answer. */
  readonly clockOffsetMs: number | null;
  readonly lastProblem: string | null;
}

export interface Following {
  /**
   * Resolves when there is a state to decide on: fresh from the control plane, or from disk where that is
   * away.
   */
  readonly ready: Promise<void>;
  readonly status: FollowStatus;
  /**
   * Why this sidecar must not decide, though it may have a state: a sentence for its callers; null: it may.
   * Asked before each decision, and at the door.
   */
  readonly mustNotServe: string | null;
  /** The control plane is there again: what waits for its next attempt is tried at once. */
  endPause(): void;
  /** Resolves when everything known is on disk. Closes neither the bus nor the client. */
  stop(): Promise<void>;
}

/**
 * Keeps the replica at the head of its two feeds (ARCHITECTURE.md, "The change feed").
 *
 *     connect ──> listen ──> snapshot ──> pull ──> pause ──┐
 *        ^                      ^          ^                │
 *        │                      │          └── one second, or a push that does not fit
 *        │                      └── a pull says so, or brings what cannot be applied
 *        └── a call failed: pause (doubling); at the start with the state from disk meanwhile
 *
 * Listening comes before the snapshot, so that nothing falls in between. A push is applied when it arrives;
 * whatever is odd about it (a hole, a repeat, a bad signature, a reconnect) only leads to a pull, which is
 * the truth. While the control plane is away the replica stays as it is and its age grows.
 */
export const startFollowing = (deps: FollowDeps): Following => new Follower(deps);

class Follower implements Following {
  readonly ready: Promise<void>;
  readonly #deps: FollowDeps;
  readonly #keeper: SnapshotKeeper;
  readonly #mayLookAtPush: () => boolean;
  readonly #retry: RetryPause;
  readonly #acknowledger: Acknowledger;
  /** Signals that the next pull is urgent. */
  readonly #pullHint = makeWakeup();
  /** Ends the minimum pause between two pulls, which a hint does not. */
  readonly #paused = makeWakeup();
  /** Something ends the pause after a failure. */
  readonly #retrying = makeWakeup();
  /** Ends the pull of this round. */
  #round = new AbortController();
  #becomeReady: () => void = () => undefined;
  #listensTo: AccountId | null = null;
  #unsubscribe: (() => Promise<void>)[] = [];
  #needsSnapshot = true;
  /** Pushed while a snapshot is on its way; it may be older than they are. Null: none is. */
  #pushedMeanwhile: ChangeEntry[] | null = null;
  /** Once, and not after the control plane has turned this sidecar away. */
  #mayUseDisk = true;
  #isConnected = false;
  #isSuperseded = false;
  /**
   * Why the control plane does not accept this sidecar, and what to do. Null: it does, or it cannot be
   * reached.
   */
  #rejection: string | null = null;
  /** This process has once been as current as the control plane. */
  #isProven = false;
  /** The control plane has answered with a snapshot that is not authentic. */
  #isSnapshotRefused = false;
  #isStopped = false;
  #problem: string | null = null;
  /** Causes that were logged since the control plane last answered. */
  readonly #told = new Set<string>();

  constructor(deps: FollowDeps) {
    this.#deps = deps;
    this.#keeper = new SnapshotKeeper({ ...deps, clock: deps.time.clock });
    this.#mayLookAtPush = pushBudget(deps.time.clock);
    this.#retry = retryPause(deps.random, { firstMs: limits.retryFirstMs, lastMs: limits.retryLastMs });
    this.#acknowledger = makeAcknowledger(() => deps.client.ack(deps.replica.position));
    deps.catchUp.onBehind = () => this.#hurry();
    this.ready = new Promise((resolve) => {
      this.#becomeReady = resolve;
    });
    void this.#run();
  }

  get status(): FollowStatus {
    const { replica } = this.#deps;
    return {
      revisionAccount: replica.accountRevision,
      revisionGlobal: replica.globalRevision,
      stateAgeMs: replica.stateAgeMs,
      connected: this.#isConnected,
      superseded: this.#isSuperseded,
      clockOffsetMs: this.#deps.time.offsetMs,
      lastProblem: this.#problem ?? replica.lastRefusal,
    };
  }

  /**
   * A state that is merely old is still used, where the trust level allows; one that its control plane
   * rejects does not.
   */
  get mustNotServe(): string | null {
    if (this.#isSuperseded) return 'Another process has connected with the id of this sidecar.';
    if (this.#rejection !== null) return this.#rejection;
    if (this.#isSnapshotRefused && !this.#isProven)
      return 'The state that this sidecar kept on disk contradicts the control plane.';
    return null;
  }

  endPause(): void {
    this.#retrying.interrupt();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#round.abort();
    this.#retrying.wake();
    this.#pullHint.wake();
    this.#paused.wake();
    await Promise.all(this.#unsubscribe.map((unsubscribe) => unsubscribe()));
    await this.#keeper.close();
  }

  /** Never rejects. A call that is under way when it is stopped is ended, or ends with its deadline. */
  async #run(): Promise<void> {
    while (!this.#isStopped && !this.#isSuperseded) {
      this.#keeper.tick();
      this.#round = new AbortController();
      try {
        const pauseMs = await this.#step();
        if (!this.#needsSnapshot) this.#noteSuccess();
        this.#deps.catchUp.look();
        // First the pause that nothing shortens, or a flood of bad pushes would become one of pulls.
        await this.#paused.sleep(limits.pullGapMsMin);
        await this.#pullHint.sleep(pauseMs - limits.pullGapMsMin);
      } catch (error) {
        // Given up for a fresh call: it says nothing about the control plane.
        if (this.#round.signal.aborted) continue;
        await this.#noteFailure(error);
        await this.#retrying.sleep(this.#retry.nextMs());
      }
    }
  }

  /** Asks at once. An answer under way may be older than the stop of this loop, or its connection dead. */
  #hurry(): void {
    this.#round.abort();
    this.#retry.reset();
    this.#pullHint.wake();
    this.#paused.interrupt();
    this.#retrying.interrupt();
  }

  /** One round; answers how long there is nothing to do, in milliseconds. */
  async #step(): Promise<number> {
    const { client, replica } = this.#deps;
    if (client.connection === null) await this.#connect();
    const { accountId } = must(client.connection, 'it has just been made');
    await this.#listenTo(accountId);
    if (this.#needsSnapshot || replica.accountId !== accountId) await this.#loadSnapshot(accountId);
    const pauseMs = await this.#pull(accountId);
    if (this.#keeper.wantsSnapshot) await this.#renewSnapshot(accountId);
    return pauseMs;
  }

  async #connect(): Promise<void> {
    const sentAtMs = this.#deps.time.clock.monotonic();
    const answer = await this.#deps.client.connect();
    this.#noteTime({ ...answer, held_ms: 0 }, sentAtMs);
  }

  #noteTime(answer: Parameters<ControlPlaneTime['note']>[0], sentAtMs: MonotonicMillis): void {
    const jumpMs = this.#deps.time.note(answer, sentAtMs);
    if (Math.abs(jumpMs) < limits.clockOffsetMsMax) return;
    this.#deps.logger.error(
      { jump_ms: jumpMs, replica: answer.replica },
      'the time of the control plane has jumped; this sidecar adopts it',
    );
  }

  /** Without a bus there is nothing to listen to. */
  async #listenTo(accountId: AccountId): Promise<void> {
    const { bus } = this.#deps;
    if (bus === null || this.#listensTo === accountId || this.#isStopped) return;
    for (const unsubscribe of this.#unsubscribe.splice(0)) await unsubscribe();
    const onMessage = (text: string) => this.#onMessage(text);
    const stopWaking = bus.onInterrupted(this.#pullHint.wake);
    this.#unsubscribe.push(
      async () => stopWaking(),
      await bus.subscribe(feedChannel(accountId), onMessage),
      await bus.subscribe(feedChannel(globalFeed), onMessage),
    );
    this.#listensTo = accountId;
  }

  async #loadSnapshot(accountId: AccountId): Promise<void> {
    const { client, replica, time } = this.#deps;
    const sentAtMs = time.clock.monotonic();
    this.#pushedMeanwhile = [];
    try {
      const signed = await client.snapshot();
      if (this.#isStopped) return;
      if (replica.install(signed, { asOfMs: sentAtMs, accountId }) === 'refused') {
        // Perhaps by a sync key of which the changes before it tell: the next round asks for those first.
        this.#needsSnapshot = false;
        this.#isSnapshotRefused = true;
        throw new Error(replica.lastRefusal ?? 'the snapshot was refused');
      }
      this.#keeper.begin(signed);
      for (const entry of this.#pushedMeanwhile) this.#apply(entry);
    } finally {
      this.#pushedMeanwhile = null;
    }
    this.#needsSnapshot = false;
    this.#noteCurrent();
  }

  #noteCurrent(): void {
    this.#isProven = true;
    this.#isSnapshotRefused = false;
    this.#becomeReady();
  }

  /** For the file on disk alone: where it fails, following goes on. */
  async #renewSnapshot(accountId: AccountId): Promise<void> {
    try {
      await this.#loadSnapshot(accountId);
    } catch (error) {
      this.#deps.logger.warn({ err: error }, 'no fresh snapshot could be fetched for the disk');
      this.#keeper.postpone();
    }
  }

  async #pull(accountId: AccountId): Promise<number> {
    const { client, replica, time, bus } = this.#deps;
    const sentAtMs = time.clock.monotonic();
    const mayWait = bus === null && !this.#deps.catchUp.isBehind;
    const waitMs = mayWait ? limits.longPollMsMax : 0;
    const answer = await client.changes(replica.position, waitMs, this.#round.signal);
    if (this.#isStopped) return 0;
    this.#noteTime(answer, sentAtMs);
    if (answer.snapshot_needed || !(await this.#applyAll(answer.entries))) {
      this.#needsSnapshot = true;
      return 0;
    }
    // As early as it may have been: the answer was not written before the request had been held for so long.
    const headsReadAtMs = sentAtMs + answer.held_ms - answer.heads_age_ms;
    const asOfMs = Math.min(headsReadAtMs, time.clock.monotonic()) as MonotonicMillis;
    const isAccountCurrent = replica.confirm(accountId, answer.account_head, asOfMs);
    const isGlobalCurrent = replica.confirm(globalFeed, answer.global_head, asOfMs);
    if (!isAccountCurrent || !isGlobalCurrent) return 0;
    this.#noteCurrent();
    if (bus === null) return 0;
    return replicaLimits.pullIntervalMs;
  }

  /**
   * In turns of their own, so that requests come in between. False: something came that cannot be applied,
   * and only a snapshot helps.
   */
  async #applyAll(entries: readonly SealedEntry[]): Promise<boolean> {
    // What a message asks for by setImmediate still runs in the turn of that message: this waits for its end.
    if (entries.length > 0) await nextTurn();
    for (const [index, entry] of entries.entries()) {
      if (index % replicaLimits.changesPerTurnMax === 0) await nextTurn();
      if (this.#isStopped) return true;
      const outcome = this.#apply(entry);
      if (outcome === 'gap' || outcome === 'refused') return false;
    }
    return true;
  }

  #apply(entry: SealedEntry): ApplyOutcome {
    const outcome = this.#deps.replica.apply(entry);
    if (outcome === 'applied') {
      // It was applied, so it is one.
      this.#keeper.add(entry as ChangeEntry);
      this.#acknowledger.soon();
      const nowMs = entry.feed_id === globalFeed ? this.#deps.time.agreedNowMs : null;
      if (nowMs !== null) this.#deps.replica.forgetExpired(nowMs);
    }
    return outcome;
  }

  #onMessage(text: string): void {
    if (this.#isStopped) return;
    const message = this.#mayLookAtPush() ? parseFeedMessage(text) : null;
    const isInOrder =
      message !== null && (message.kind === 'heartbeat' ? this.#onHeartbeat(message) : this.#onPush(message));
    if (!isInOrder) this.#pullHint.wake();
  }

  #onPush(entry: ChangeEntry): boolean {
    const meanwhile = this.#pushedMeanwhile;
    if (meanwhile !== null && meanwhile.length < limits.changesPerPullMax) meanwhile.push(entry);
    return this.#apply(entry) === 'applied';
  }

  #onHeartbeat(beat: Heartbeat): boolean {
    const { replica } = this.#deps;
    if (!replica.isAuthentic(beat)) return false;
    // One that says nothing about the age may still announce a newer head.
    const readAtMs = this.#deps.time.readAt(beat) ?? (Number.NEGATIVE_INFINITY as MonotonicMillis);
    return replica.confirm(beat.feed_id, beat.head, readAtMs);
  }

  #noteSuccess(): void {
    const { logger, replica } = this.#deps;
    if (this.#problem !== null) logger.info({}, 'changes are received from the control plane again');
    this.#problem = null;
    this.#told.clear();
    this.#isConnected = true;
    this.#rejection = null;
    replica.isRefusedAsSuspended = false;
    this.#retry.reset();
  }

  async #noteFailure(error: unknown): Promise<void> {
    const { logger, replica, file } = this.#deps;
    const problem = error instanceof Error ? error.message : String(error);
    this.#isConnected = false;
    const wasTurnedAway = this.#rejection;
    if (error instanceof ControlPlaneError) {
      this.#isSuperseded = error.isSuperseded;
      this.#rejection = reasonTurnedAway(error) ?? wasTurnedAway;
      if (error.code === 'account_suspended') replica.isRefusedAsSuspended = true;
    }
    if (this.#isSuperseded) {
      logger.error(
        {},
        'another process has connected with this sidecar id; this one receives no changes and ships no records any more',
      );
    } else if (this.#rejection !== null && this.#rejection !== wasTurnedAway) {
      logger.error({ problem, folder: file.directory }, this.#rejection);
    } else if (this.#isNews(problem) && !this.#isStopped) {
      logger.warn(
        { problem },
        'changes cannot be fetched from the control plane; the last known state stays in use and ages',
      );
    }
    this.#problem = problem;
    if (isRefusal(error)) this.#mayUseDisk = false;
    if (replica.accountId === null && this.#mayUseDisk) await this.#startFromDisk();
  }

  /** Each cause once until the control plane answers again, wherever it showed; many of them are few. */
  #isNews(problem: string): boolean {
    const cause = problem.replace(/^\w+: /, '');
    if (this.#told.has(cause) || this.#told.size >= replicaLimits.causesToldMax) return false;
    this.#told.add(cause);
    return true;
  }

  /** A cold start: what was known last, verified anew, of unknown age. */
  async #startFromDisk(): Promise<void> {
    const { replica, logger } = this.#deps;
    this.#mayUseDisk = false;
    try {
      if (!(await this.#installFromDisk())) return;
      if (this.mustNotServe === null) this.#becomeReady();
      logger.warn(
        { account: replica.accountRevision, global: replica.globalRevision },
        'started from the last known state on disk',
      );
      if (replica.accountId !== null) await this.#listenTo(replica.accountId);
    } catch (error) {
      logger.error({ err: error }, 'the last known state on disk cannot be read');
    }
  }

  /** False: there is nothing, or it is refused. */
  async #installFromDisk(): Promise<boolean> {
    const { file, replica, client, freeMemory } = this.#deps;
    const kept = await file.load();
    if (kept === null) return false;
    const { signed, entries } = kept;
    if (isLarge(signed)) setImmediate(freeMemory);
    const accountId = client.connection?.accountId ?? null;
    if (replica.install(signed, { asOfMs: null, accountId }) === 'refused') return false;
    const applied = entries.findIndex((entry) => !['applied', 'repeat'].includes(replica.apply(entry)));
    this.#keeper.resume(entries.length);
    // Entries on disk that do not apply are a damage that only a snapshot repairs.
    this.#needsSnapshot = applied !== -1;
    return true;
  }
}

/** Null: the error is no such refusal. */
function reasonTurnedAway(error: ControlPlaneError): string | null {
  if (error.refusesKey) {
    return "The control plane does not accept this sidecar's API key. It decides nothing until it does: set SIDECAR_API_KEY to a key with the scope sidecars:connect.";
  }
  if (error.refusesSidecarId) {
    return 'The folder of this sidecar belongs to another account than its API key. It decides nothing. Set DATA_DIR to the folder of this account, or to an empty one.';
  }
  return null;
}

/**
 * The control plane is there and does not want this sidecar, as with a key that was deleted: what is on disk
 * must not serve instead.
 */
const isRefusal = (error: unknown): boolean =>
  error instanceof ControlPlaneError && error.status >= 400 && error.status < 500;
