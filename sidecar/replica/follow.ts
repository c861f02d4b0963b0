import type { Bus } from '../../shared/bus/bus.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import { type RetryPause, retryPause } from '../../shared/runtime/retry-pause.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import type { CatchUp } from './catch-up.ts';
import { Contact } from './contact.ts';
import type { ControlPlaneClient } from './control-plane-client.ts';
import { ControlPlaneError } from './control-plane-error.ts';
import type { ControlPlaneTime } from './control-plane-time.ts';
import { FeedListener } from './feed-listener.ts';
import { FeedProgress } from './feed-progress.ts';
import type { KnownHistory } from './known-history.ts';
import { replicaLimits } from './limits.ts';
import type { Replica } from './replica.ts';
import type { SnapshotFile } from './snapshot-file.ts';
import { SnapshotKeeper } from './snapshot-keeper.ts';

export interface FollowDeps {
  readonly replica: Replica;
  readonly client: ControlPlaneClient;
  /** Null: no push between these two programs; the sidecar follows by long polls. */
  readonly bus: Bus | null;
  readonly file: SnapshotFile;
  /** What was told, to be shown to the control plane and held against it. */
  readonly known: KnownHistory;
  /** Written here. The replica and its readers use its clock. */
  readonly time: ControlPlaneTime;
  /** Holds decisions back after a stop of this loop, until the news are applied. */
  readonly catchUp: Pick<CatchUp, 'onBehind' | 'isBehind' | 'look'>;
  readonly random: Random;
  /** Called when the text of a large snapshot has become garbage. */
  readonly freeMemory: () => void;
  readonly logger: Logger;
}

/** For `/readyz`. */
export interface FollowStatus {
  readonly revisionAccount: number;
  readonly revisionGlobal: number;
  /** Infinity: age unknown. */
  readonly stateAgeMs: number;
  /** The last call to the control plane succeeded. */
  readonly connected: boolean;
  /** Another process took over this sidecar id: meanwhile this one must neither follow nor serve. */
  readonly superseded: boolean;
  /** The control plane lacks what was in force: it says so, or this sidecar has seen it. */
  readonly isRegressed: boolean;
  /** This machine's clock minus the control plane's; null before the first answer. */
  readonly clockOffsetMs: number | null;
  readonly lastProblem: string | null;
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
 * A superseded process asks now and then whether it still is, and does nothing else.
 *
 * Listening comes before the snapshot, so that no change falls in between. A push is applied when it arrives.
 * Any irregularity (a hole, a repeat, a bad signature, a reconnect) only causes a pull, which is the truth.
 * While the control plane is away the replica keeps its state, and its age grows.
 */
export class Following {
  /** Resolves when there is a state to decide on: from the control plane, or from disk if that is away. */
  readonly ready: Promise<void>;
  readonly #deps: FollowDeps;
  readonly #keeper: SnapshotKeeper;
  readonly #feed: FeedProgress;
  readonly #listener: FeedListener;
  readonly #contact: Contact;
  readonly #retry: RetryPause;
  /** Signals that the next pull is urgent. */
  readonly #pullHint = makeWakeup();
  /** The minimum pause between two pulls, which a hint does not end. */
  readonly #paused = makeWakeup();
  /** Ends the pause after a failure. */
  readonly #retrying = makeWakeup();
  readonly #stopping = new AbortController();
  readonly #reports: Repetition;
  /** The control plane has been shown every place that was told, since the connection was made. */
  #hasShownAll = false;
  #floorsShown = 0;
  #toldOfReports = false;
  /** Ends the pull of this round. */
  #round = new AbortController();
  #becomeReady: () => void = () => undefined;
  #onGeneration: (generation: string) => void = () => undefined;
  /** The state on disk is used once, and never after the control plane has refused this sidecar. */
  #disk: 'unread' | 'spent' = 'unread';

  constructor(deps: FollowDeps) {
    const { clock } = deps.time;
    this.#deps = deps;
    this.#keeper = new SnapshotKeeper({ ...deps, clock });
    this.#feed = new FeedProgress({ ...deps, keeper: this.#keeper });
    this.#listener = new FeedListener({ ...deps, clock, feed: this.#feed, onDoubt: this.#pullHint.wake });
    this.#contact = new Contact({ logger: deps.logger, folder: deps.file.directory });
    this.#retry = retryPause(deps.random, { firstMs: limits.retryFirstMs, lastMs: limits.retryLastMs });
    deps.catchUp.onBehind = () => this.#hurry();
    this.ready = new Promise((resolve) => {
      this.#becomeReady = resolve;
    });
    void this.#run();
    this.#reports = repeat(async () => {
      if (deps.client.connection !== null) await this.report();
      return replicaLimits.historyReportIntervalMs;
    });
  }

  get status(): FollowStatus {
    const { replica, time } = this.#deps;
    return {
      revisionAccount: replica.accountRevision,
      revisionGlobal: replica.globalRevision,
      stateAgeMs: replica.stateAgeMs,
      connected: this.#contact.kind === 'in touch',
      superseded: this.#contact.kind === 'superseded',
      isRegressed: this.#feed.isRegressed || replica.holdsFloor,
      clockOffsetMs: time.offsetMs,
      lastProblem: this.#contact.problem ?? replica.lastRefusal,
    };
  }

  /**
   * Why this sidecar must not decide, although it may have a state: a sentence for its callers; null: it may.
   * Read before each decision and at intake. A state that is merely old is still used, where the trust level
   * allows; one that its control plane rejects is not.
   */
  get mustNotServe(): string | null {
    if (this.#contact.refusal !== null) return this.#contact.refusal;
    if (this.#feed.evidence === 'contradicted')
      return 'The state that this sidecar kept on disk contradicts the control plane.';
    return null;
  }

  /** Calls with the history that is in force, where it is whole, and again and again. */
  onGeneration(listener: (generation: string) => void): void {
    this.#onGeneration = listener;
    this.#noteGeneration();
  }

  /** The control plane is back: ends the pause before the next attempt. */
  endPause(): void {
    this.#retrying.interrupt();
  }

  /** Resolves when the state is on disk. Closes neither the bus nor the client. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#round.abort();
    this.#retrying.wake();
    this.#pullHint.wake();
    this.#paused.wake();
    await this.#reports.stop();
    await this.#deps.known.write().catch(() => undefined);
    await this.#listener.stop();
    await this.#keeper.flush();
  }

  /** Never rejects. A stop ends the call in flight, at the latest at its deadline. */
  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      this.#round = new AbortController();
      try {
        const pauseMs = await this.#step();
        if (!this.#feed.needsSnapshot) this.#noteSuccess();
        this.#deps.catchUp.look();
        // First the fixed pause, or a flood of bad pushes would become a flood of pulls.
        await this.#paused.sleep(limits.pullGapMsMin);
        await this.#pullHint.sleep(pauseMs - limits.pullGapMsMin);
      } catch (error) {
        // Aborted in favour of a fresh call: no news about the control plane.
        if (this.#round.signal.aborted) continue;
        await this.#noteFailure(error);
        const staysAway = this.#contact.kind === 'superseded' && this.#deps.client.connection !== null;
        await this.#retrying.sleep(staysAway ? replicaLimits.supersededRetryMs : this.#retry.nextMs());
      }
    }
  }

  /** Pulls at once. An answer in flight may be older than the stop of this loop, or its connection dead. */
  #hurry(): void {
    this.#round.abort();
    this.#retry.reset();
    this.#pullHint.wake();
    this.#paused.interrupt();
    this.#retrying.interrupt();
  }

  /** One round; returns the pause before the next, in milliseconds. */
  async #step(): Promise<number> {
    const { client, replica } = this.#deps;
    if (client.connection === null) await this.#connect();
    // Throws while it is, before anything that costs more.
    else if (this.#contact.kind === 'superseded') await client.ack(replica.position);
    const { accountId } = must(client.connection, 'it has just been made');
    await this.#listener.listenTo(accountId);
    if (this.#feed.needsSnapshot || replica.accountId !== accountId) await this.#loadSnapshot(accountId);
    const pauseMs = await this.#pull(accountId);
    if (this.#keeper.wantsSnapshot) await this.#renewSnapshot(accountId);
    return pauseMs;
  }

  async #connect(): Promise<void> {
    this.#hasShownAll = false;
    this.#floorsShown = 0;
    // Before records are shipped again: none may be appended where others were.
    await this.report();
    const sentAtMs = this.#deps.time.clock.monotonic();
    const answer = await this.#deps.client.connect();
    this.#noteTime({ ...answer, held_ms: 0 }, sentAtMs);
    this.#deps.replica.recordForm = answer.record_form ?? 1;
  }

  /**
   * Shows the control plane what it told. Never rejects: a report that fails is repeated, and what a snapshot
   * lacks is found out here as well.
   */
  async report(): Promise<void> {
    const { client, known, logger } = this.#deps;
    try {
      await known.write();
      const answer = await client.reportHistory({
        receipts: known.newest,
        entries: this.#feed.lastEntries,
      });
      this.#feed.isRegressed = answer?.state === 'regressed';
      if (!this.#feed.isRegressed) {
        this.#noteGeneration();
        return;
      }
      if (!this.#hasShownAll) await this.#showAll();
      await this.#handOverFloors();
    } catch (error) {
      this.#hasShownAll = false;
      const isNews = !this.#toldOfReports && !this.#stopping.signal.aborted;
      if (isNews) logger.warn({ err: error }, 'the control plane cannot be shown what it told');
      this.#toldOfReports = true;
    }
  }

  async #showAll(): Promise<void> {
    for await (const receipts of this.#deps.known.pages()) {
      if (this.#stopping.signal.aborted) return;
      await this.#deps.client.reportHistory({ receipts, entries: [] });
    }
    this.#hasShownAll = true;
  }

  /** One is set aside only after the control plane was found to have gone back. */
  async #handOverFloors(): Promise<void> {
    const { client, known, replica } = this.#deps;
    if (!replica.holdsFloor || this.#floorsShown === (await known.floorCount())) return;
    const floors = await known.floors();
    for (const floor of floors) await client.handOver(floor);
    this.#floorsShown = floors.length;
  }

  #noteTime(answer: Parameters<ControlPlaneTime['note']>[0], sentAtMs: MonotonicMillis): void {
    const jumpMs = this.#deps.time.note(answer, sentAtMs);
    if (Math.abs(jumpMs) < limits.clockOffsetMsMax) return;
    this.#deps.logger.error(
      { jump_ms: jumpMs, replica: answer.replica },
      'the time of the control plane has jumped; this sidecar adopts it',
    );
  }

  async #loadSnapshot(accountId: AccountId): Promise<void> {
    const { client, time } = this.#deps;
    const asOfMs = time.clock.monotonic();
    const fetch = async () => {
      const signed = await client.snapshot();
      return this.#stopping.signal.aborted ? null : signed;
    };
    if (!(await this.#feed.load(fetch, { asOfMs, accountId }))) return;
    this.#noteCurrent();
    this.#noteGeneration();
  }

  #noteGeneration(): void {
    const { generation, holdsFloor } = this.#deps.replica;
    if (generation !== null && !holdsFloor && !this.#feed.isRegressed) this.#onGeneration(generation);
  }

  #noteCurrent(): void {
    this.#feed.prove();
    this.#becomeReady();
  }

  /** For the file on disk alone; following goes on if it fails. */
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
    // The pull acknowledges it.
    const { position } = replica;
    await this.#keeper.kept();
    const sentAtMs = time.clock.monotonic();
    const mayWait = bus === null && !this.#deps.catchUp.isBehind;
    const waitMs = mayWait ? limits.longPollMsMax : 0;
    const answer = await client.changes(position, waitMs, this.#round.signal);
    if (this.#stopping.signal.aborted) return 0;
    this.#noteTime(answer, sentAtMs);
    replica.recordForm = answer.record_form ?? 1;
    const mustLoad = answer.snapshot_needed || replica.isOtherGeneration(answer.generation);
    if (mustLoad) await this.report();
    if (mustLoad || !(await this.#feed.applyAll(answer.entries, this.#stopping.signal))) {
      this.#feed.loseTrack();
      return 0;
    }
    // The highest that was told stays, where the control plane has gone back.
    if (answer.receipt !== undefined && !replica.holdsFloor) this.#deps.known.noteFeeds(answer.receipt);
    // The earliest possible moment: the answer was written after the request had been held for `held_ms`.
    const headsReadAtMs = sentAtMs + answer.held_ms - answer.heads_age_ms;
    const asOfMs = Math.min(headsReadAtMs, time.clock.monotonic()) as MonotonicMillis;
    const isAccountCurrent = replica.confirm(accountId, answer.account_head, asOfMs);
    const isGlobalCurrent = replica.confirm(globalFeed, answer.global_head, asOfMs);
    if (!isAccountCurrent || !isGlobalCurrent) return 0;
    this.#noteCurrent();
    return bus === null ? 0 : replicaLimits.pullIntervalMs;
  }

  #noteSuccess(): void {
    this.#contact.succeed();
    this.#deps.replica.isRefusedAsSuspended = false;
    this.#retry.reset();
  }

  async #noteFailure(error: unknown): Promise<void> {
    const { replica } = this.#deps;
    this.#contact.fail(error);
    if (error instanceof ControlPlaneError) {
      if (error.code === 'account_suspended') replica.isRefusedAsSuspended = true;
      if (error.forbidsDisk) this.#disk = 'spent';
    }
    if (replica.accountId === null && this.#disk === 'unread') await this.#startFromDisk();
  }

  /** A cold start: the last known state, verified again, of unknown age. */
  async #startFromDisk(): Promise<void> {
    const { replica, client, logger } = this.#deps;
    this.#disk = 'spent';
    try {
      if (!(await this.#feed.resume(client.connection?.accountId ?? null))) return;
      if (this.mustNotServe === null) this.#becomeReady();
      logger.warn(
        { account: replica.accountRevision, global: replica.globalRevision },
        'started from the last known state on disk',
      );
      if (replica.accountId !== null) await this.#listener.listenTo(replica.accountId);
    } catch (error) {
      logger.error({ err: error }, 'the last known state on disk cannot be read');
    }
  }
}
