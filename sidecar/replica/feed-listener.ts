import type { Bus } from '../../shared/bus/bus.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { feedChannel, globalFeed } from '../../shared/wire/sync/sync.ts';
import { parseFeedMessage } from '../../shared/wire/sync/sync-schema.ts';
import type { FeedProgress } from './feed-progress.ts';
import { replicaLimits } from './limits.ts';

interface FeedListenerDeps {
  /** Null: no push between these two programs. */
  readonly bus: Bus | null;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly feed: Pick<FeedProgress, 'takePush' | 'takeHeartbeat'>;
  /** Messages may have been missed. */
  readonly onDoubt: () => void;
}

type Hearing =
  | { readonly kind: 'deaf' }
  | { readonly kind: 'listening'; readonly accountId: AccountId }
  | { readonly kind: 'stopped' };

/**
 * Listens to the two feeds of an account on the bus.
 *
 *     deaf ──> listening ──another account──> deaf ──> listening
 *       └──────────┴──> stopped, for good
 */
export class FeedListener {
  readonly #deps: FeedListenerDeps;
  readonly #mayLookAtPush: () => boolean;
  #hearing: Hearing = { kind: 'deaf' };
  #unsubscribe: (() => Promise<void>)[] = [];

  constructor(deps: FeedListenerDeps) {
    this.#deps = deps;
    this.#mayLookAtPush = pushBudget(deps.clock);
  }

  /** Rejects if the subscription fails; it is then deaf and may be called again. */
  async listenTo(accountId: AccountId): Promise<void> {
    const { bus, onDoubt } = this.#deps;
    if (bus === null || this.#isSettledOn(accountId)) return;
    this.#hearing = { kind: 'deaf' };
    await this.#leave();
    const onMessage = (text: string) => this.#onMessage(text);
    const stopDoubting = bus.onInterrupted(onDoubt);
    this.#unsubscribe.push(async () => stopDoubting());
    for (const channel of [feedChannel(accountId), feedChannel(globalFeed)]) {
      this.#unsubscribe.push(await bus.subscribe(channel, onMessage));
    }
    if (this.#isStopped()) await this.#leave();
    else this.#hearing = { kind: 'listening', accountId };
  }

  async stop(): Promise<void> {
    this.#hearing = { kind: 'stopped' };
    await this.#leave();
  }

  #isSettledOn(accountId: AccountId): boolean {
    const hearing = this.#hearing;
    return this.#isStopped() || (hearing.kind === 'listening' && hearing.accountId === accountId);
  }

  /** Checked again after each await. */
  #isStopped(): boolean {
    return this.#hearing.kind === 'stopped';
  }

  async #leave(): Promise<void> {
    await Promise.all(this.#unsubscribe.splice(0).map((unsubscribe) => unsubscribe()));
  }

  #onMessage(text: string): void {
    if (this.#isStopped()) return;
    const { feed, onDoubt } = this.#deps;
    const message = this.#mayLookAtPush() ? parseFeedMessage(text) : null;
    const isInOrder =
      message !== null &&
      (message.kind === 'heartbeat' ? feed.takeHeartbeat(message) : feed.takePush(message));
    if (!isInOrder) onDoubt();
  }
}

/**
 * Says for each push whether it may still be looked at: `replicaLimits.pushesPerSecondMax` in a second. Each
 * costs a signature check on the thread that decides, and whoever can write to the bus could fill that
 * thread. What is passed over is what a pull brings anyway.
 */
export function pushBudget(clock: Pick<Clock, 'monotonic'>): () => boolean {
  let secondBeganAtMs = Number.NEGATIVE_INFINITY;
  let seen = 0;
  return () => {
    const nowMs = clock.monotonic();
    if (nowMs - secondBeganAtMs >= secondMs) {
      secondBeganAtMs = nowMs;
      seen = 0;
    }
    seen++;
    return seen <= replicaLimits.pushesPerSecondMax;
  };
}
