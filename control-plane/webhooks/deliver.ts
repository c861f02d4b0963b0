import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { dueWorkOf } from '../storage/due-work.ts';
import { type Attempt, attemptDelivery } from './attempt-delivery.ts';
import { AttemptsInFlight } from './attempts-in-flight.ts';
import {
  dropQueues,
  type LockedDelivery,
  lockDeliveries,
  readQueues,
  releaseDeliveries,
} from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { webhooksLimits } from './limits.ts';
import type { Claimed, Ended, Outbox, Queue } from './outbox.ts';
import { makeAttemptRecorder } from './record-attempts.ts';
import { trimDeliveries } from './trim-deliveries.ts';

type DeliverDeps = Pick<
  WebhookDeps,
  | 'sql'
  | 'baseUrl'
  | 'clock'
  | 'random'
  | 'sealer'
  | 'outbound'
  | 'tracer'
  | 'logger'
  | 'metrics'
  | 'replicaId'
> & {
  /** How often an idle replica looks for due deliveries. Default: `webhooksLimits.webhookPollMs`. */
  readonly pollMs?: number;
};

/** Delivers webhooks; see `startOutbox`. */
export const startDeliveries = (deps: DeliverDeps): { stop(): Promise<void> } =>
  startOutbox(deps, webhookOutbox(deps));

function webhookOutbox(deps: DeliverDeps): Outbox<LockedDelivery, Attempt> {
  const { sql, clock, replicaId } = deps;
  return {
    ...{ sql, work: 'deliveries' },
    name: 'webhook deliveries',
    bounds: {
      concurrencyMax: webhooksLimits.webhookConcurrencyMax,
      aheadMax: webhooksLimits.webhookAheadMax,
      lockMs: webhooksLimits.webhookLockMs,
      pollMs: deps.pollMs ?? webhooksLimits.webhookPollMs,
    },
    endpointOf: ({ webhookId }) => webhookId,
    readQueues: (after) => readQueues(sql, { after, nowMs: clock.now() }),
    dropQueues: (endpointIds) => dropQueues(sql, endpointIds),
    lock: (slots) => lockDeliveries(sql, { slots, replicaId, nowMs: clock.now() }),
    release: (deliveries) => releaseDeliveries(sql, replicaId, deliveries),
    attempt: (delivery, signal) => attemptDelivery(deps, delivery, signal),
    record: makeAttemptRecorder(deps),
    trim: () => trimDeliveries(sql, clock.now()),
  };
}

type LoopDeps = Pick<WebhookDeps, 'clock' | 'logger'>;

/**
 * Delivers what is due, as long as this replica runs; every replica does so. Nothing here ever throws:
 * trouble with the database is logged when it begins and when it ends, and what was in flight meanwhile is
 * delivered again when its lock expires.
 *
 * One loop records what has ended, locks what there is room for and sends it, without waiting for answers.
 * One endpoint cannot delay another: each has its own queue and its own number of attempts at once
 * (`concurrencyMax`), halved with every attempt that fails in a row and small where little is left for all,
 * and the queues are served in turn. One that answers fast with success has more claimed than it has
 * attempts: they follow each other without a journey to the database.
 */
export function startOutbox<D extends Claimed, A extends Ended>(
  deps: LoopDeps,
  outbox: Outbox<D, A>,
): { stop(): Promise<void> } {
  const wakeup = makeWakeup();
  const inFlight = new AttemptsInFlight(deps, outbox, wakeup.wake);
  const deliverer = new Deliverer(deps, outbox, inFlight);
  const dueWork = dueWorkOf(outbox.sql);
  dueWork.wakes.set(outbox.work, wakeup.wake);
  const trim = makeTrim(deps, outbox);
  let isStopping = false;

  const run = async () => {
    while (!isStopping) {
      const hasMore = await deliverer.step();
      await trim();
      const { pollMs } = outbox.bounds;
      const pauseMs = deliverer.isIdle ? dueWork.pauseMs(pollMs) : pollMs;
      if (!hasMore && !isStopping) await wakeup.sleep(pauseMs);
    }
    inFlight.beginNoMore();
    const deadlineMs = deps.clock.monotonic() + webhooksLimits.webhookDrainMs;
    while (inFlight.count() > 0 && deps.clock.monotonic() < deadlineMs) {
      await wakeup.sleep(outbox.bounds.pollMs);
    }
    await deliverer.last();
  };

  const running = run();
  return {
    /**
     * Resolves when nothing is under way any more: what has not come back within
     * `webhooksLimits.webhookDrainMs` is given back to the queue.
     */
    stop: async () => {
      isStopping = true;
      wakeup.wake();
      await running;
    },
  };
}

/** A look at the queues that follow that endpoint. */
interface Look {
  readonly after: string;
  readonly queues: readonly Queue[];
}

/** What the loop does in each round, and what it remembers from one to the next. */
class Deliverer<D extends Claimed, A extends Ended> {
  readonly #deps: LoopDeps;
  readonly #outbox: Outbox<D, A>;
  readonly #inFlight: AttemptsInFlight<D, A>;
  #seen: Look = { after: '', queues: [] };
  /** After which endpoint the next look begins. */
  #cursor = '';
  #isFailing = false;

  constructor(deps: LoopDeps, outbox: Outbox<D, A>, inFlight: AttemptsInFlight<D, A>) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#inFlight = inFlight;
  }

  /**
   * Writes, gives back what waits for an endpoint that has begun to fail, claims from the queues of the last
   * look and looks at the next ones, all at once: one round trip to the database each time. A look that is a
   * moment old does no harm, because claiming takes only what is due. Resolves to whether there may be more
   * to do at once.
   */
  async step(): Promise<boolean> {
    const recorded = this.#recordAttempts();
    const givenBack = this.#giveBack();
    const { slots, lookAgainAfter } = chooseSlots(this.#inFlight, this.#seen);
    this.#cursor = lookAgainAfter ?? this.#cursor;
    const outcomes = await Promise.allSettled([recorded, givenBack, this.#claim(slots), this.#look()]);
    this.#noteFailure(outcomes.find((outcome) => outcome.status === 'rejected'));
    if (this.#isFailing || this.#inFlight.room().attempts <= 0) return false;
    return this.#cursor !== '' || chooseSlots(this.#inFlight, this.#seen).slots.size > 0;
  }

  /** Records the attempts that have ended, and releases those that have not. */
  async last(): Promise<void> {
    const { logger } = this.#deps;
    const deliveries = this.#inFlight.abandon();
    try {
      await this.#recordAttempts();
      await this.#outbox.release(deliveries);
    } catch (error) {
      logger.warn({ err: error }, 'deliveries in flight are sent again when their lock expires');
    }
  }

  /** Nothing waits, as far as the last look has shown. */
  get isIdle(): boolean {
    return this.#seen.queues.length === 0 && this.#cursor === '' && !this.#isFailing;
  }

  async #recordAttempts(): Promise<void> {
    const attempts = this.#inFlight.takeBack();
    try {
      await this.#outbox.record(attempts);
    } catch (error) {
      this.#inFlight.putBack(attempts);
      throw error;
    }
  }

  #giveBack(): Promise<void> {
    return this.#outbox.release(this.#inFlight.takeIdle());
  }

  async #claim(slots: ReadonlyMap<string, number>): Promise<void> {
    if (slots.size === 0) return;
    for (const delivery of await this.#outbox.lock(slots)) this.#inFlight.start(delivery);
  }

  async #look(): Promise<void> {
    const after = this.#cursor;
    const queues = await this.#outbox.readQueues(after);
    this.#seen = { after, queues };
    const deleted = queues.filter(({ isDeleted }) => isDeleted).map(({ endpointId }) => endpointId);
    if (deleted.length > 0) await this.#outbox.dropQueues(deleted);
    const hasMore = queues.length === webhooksLimits.webhookQueuesPerLookMax;
    this.#cursor = hasMore ? (queues.at(-1)?.endpointId ?? '') : '';
  }

  #noteFailure(failure: PromiseRejectedResult | undefined): void {
    const { logger } = this.#deps;
    if (failure !== undefined && !this.#isFailing) {
      logger.warn(
        { err: failure.reason },
        `${this.#outbox.name} are delayed: their queue cannot be read or written`,
      );
    }
    if (failure === undefined && this.#isFailing) logger.info({}, `${this.#outbox.name} have resumed`);
    this.#isFailing = failure !== undefined;
  }
}

/** `lookAgainAfter`: there was no room for endpoints after this one; null: all were served. */
function chooseSlots<D extends Claimed, A extends Ended>(
  inFlight: AttemptsInFlight<D, A>,
  { after, queues }: Look,
) {
  const slots = new Map<string, number>();
  let room = inFlight.room();
  let last = after;
  for (const { endpointId, isDue } of queues) {
    if (room.attempts <= 0) return { slots, lookAgainAfter: last };
    last = endpointId;
    if (!isDue) continue;
    const free = inFlight.freeSlots(endpointId, room);
    const attempts = Math.min(free.attempts, room.attempts);
    if (attempts + free.ahead === 0) continue;
    slots.set(endpointId, attempts + free.ahead);
    room = { attempts: room.attempts - attempts, ahead: room.ahead - free.ahead };
  }
  return { slots, lookAgainAfter: null };
}

function makeTrim({ clock, logger }: LoopDeps, outbox: { trim(): Promise<boolean> }): () => Promise<void> {
  let nextAtMs: number = clock.monotonic();
  return async () => {
    if (clock.monotonic() < nextAtMs) return;
    try {
      const isDone = await outbox.trim();
      nextAtMs =
        clock.monotonic() + (isDone ? webhooksLimits.webhookTrimIntervalMs : webhooksLimits.webhookPollMs);
    } catch (error) {
      // Nothing is lost: the same rows are still there a minute later.
      nextAtMs = clock.monotonic() + webhooksLimits.webhookTrimIntervalMs;
      logger.warn({ err: error }, 'old deliveries could not be removed');
    }
  };
}
