import type { WebhookId } from '../../shared/model/ids.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import { AttemptsInFlight } from './attempts-in-flight.ts';
import { dropQueues, lockDeliveries, type Queue, readQueues, releaseDeliveries } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { webhooksLimits } from './limits.ts';
import { makeAttemptRecorder } from './record-attempts.ts';
import { trimDeliveries } from './trim-deliveries.ts';

type DeliverDeps = Pick<
  WebhookDeps,
  'sql' | 'clock' | 'random' | 'sealer' | 'outbound' | 'logger' | 'metrics' | 'replicaId'
>;

/**
 * Delivers what is due, as long as this replica runs; every replica does so. Nothing here ever throws:
 * trouble with the database is logged when it begins and when it ends, and what was in flight meanwhile is
 * delivered again when its lock expires.
 *
 * One loop records what has ended, locks what there is room for and sends it, without waiting for answers.
 * One endpoint cannot delay another: each has its own queue and its own number of attempts at once
 * (`webhooksLimits.webhookConcurrencyMax`), halved with every attempt that fails in a row and small where
 * little is left for all, and the queues are served in turn. One that answers fast with 2xx has more claimed
 * than it has attempts: they follow each other without a journey to the database.
 */
export function startDeliveries(deps: DeliverDeps): { stop(): Promise<void> } {
  const wakeup = makeWakeup();
  const inFlight = new AttemptsInFlight(deps, wakeup.wake);
  const deliverer = new Deliverer(deps, inFlight);
  const trim = makeTrim(deps);
  let isStopping = false;

  const run = async () => {
    while (!isStopping) {
      const hasMore = await deliverer.step();
      await trim();
      if (!hasMore && !isStopping) await wakeup.sleep(webhooksLimits.webhookPollMs);
    }
    inFlight.beginNoMore();
    const deadlineMs = deps.clock.monotonic() + webhooksLimits.webhookDrainMs;
    while (inFlight.count() > 0 && deps.clock.monotonic() < deadlineMs) {
      await wakeup.sleep(webhooksLimits.webhookPollMs);
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

/** A look at some queues, from behind that endpoint on. */
interface Look {
  readonly after: string;
  readonly queues: readonly Queue[];
}

/** What the loop does in each round, and what it remembers from one to the next. */
class Deliverer {
  readonly #deps: DeliverDeps;
  readonly #inFlight: AttemptsInFlight;
  readonly #write: ReturnType<typeof makeAttemptRecorder>;
  #seen: Look = { after: '', queues: [] };
  /** Behind which endpoint the next look begins. */
  #cursor = '';
  #isFailing = false;

  constructor(deps: DeliverDeps, inFlight: AttemptsInFlight) {
    this.#deps = deps;
    this.#inFlight = inFlight;
    this.#write = makeAttemptRecorder(deps);
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
    const { sql, replicaId, logger } = this.#deps;
    const deliveries = this.#inFlight.abandon();
    try {
      await this.#recordAttempts();
      await releaseDeliveries(sql, replicaId, deliveries);
    } catch (error) {
      logger.warn({ err: error }, 'deliveries in flight are sent again when their lock expires');
    }
  }

  async #recordAttempts(): Promise<void> {
    const attempts = this.#inFlight.takeBack();
    try {
      await this.#write(attempts);
    } catch (error) {
      this.#inFlight.putBack(attempts);
      throw error;
    }
  }

  #giveBack(): Promise<void> {
    const { sql, replicaId } = this.#deps;
    return releaseDeliveries(sql, replicaId, this.#inFlight.takeIdle());
  }

  async #claim(slots: ReadonlyMap<WebhookId, number>): Promise<void> {
    if (slots.size === 0) return;
    const { sql, replicaId, clock } = this.#deps;
    const claimed = await lockDeliveries(sql, { slots, replicaId, nowMs: clock.now() });
    for (const delivery of claimed) this.#inFlight.start(delivery);
  }

  async #look(): Promise<void> {
    const { sql, clock } = this.#deps;
    const after = this.#cursor;
    const queues = await readQueues(sql, { after, nowMs: clock.now() });
    this.#seen = { after, queues };
    const deleted = queues.filter(({ isDeleted }) => isDeleted).map(({ webhookId }) => webhookId);
    if (deleted.length > 0) await dropQueues(sql, deleted);
    const hasMore = queues.length === webhooksLimits.webhookQueuesPerLookMax;
    this.#cursor = hasMore ? (queues.at(-1)?.webhookId ?? '') : '';
  }

  #noteFailure(failure: PromiseRejectedResult | undefined): void {
    const { logger } = this.#deps;
    if (failure !== undefined && !this.#isFailing) {
      logger.warn(
        { err: failure.reason },
        'webhook deliveries are delayed: their queue cannot be read or written',
      );
    }
    if (failure === undefined && this.#isFailing) logger.info({}, 'delivery of webhooks has resumed');
    this.#isFailing = failure !== undefined;
  }
}

/** `lookAgainAfter`: there was no room for endpoints after this one; null: all were served. */
function chooseSlots(inFlight: AttemptsInFlight, { after, queues }: Look) {
  const slots = new Map<WebhookId, number>();
  let room = inFlight.room();
  let last = after;
  for (const { webhookId, isDue } of queues) {
    if (room.attempts <= 0) return { slots, lookAgainAfter: last };
    last = webhookId;
    if (!isDue) continue;
    const free = inFlight.freeSlots(webhookId, room);
    const attempts = Math.min(free.attempts, room.attempts);
    if (attempts + free.ahead === 0) continue;
    slots.set(webhookId, attempts + free.ahead);
    room = { attempts: room.attempts - attempts, ahead: room.ahead - free.ahead };
  }
  return { slots, lookAgainAfter: null };
}

function makeTrim({ sql, clock, logger }: DeliverDeps): () => Promise<void> {
  let nextAtMs: number = clock.monotonic();
  return async () => {
    if (clock.monotonic() < nextAtMs) return;
    try {
      const isDone = await trimDeliveries(sql, clock.now());
      nextAtMs =
        clock.monotonic() + (isDone ? webhooksLimits.webhookTrimIntervalMs : webhooksLimits.webhookPollMs);
    } catch (error) {
      // Nothing is lost: the same rows are still there a minute later.
      nextAtMs = clock.monotonic() + webhooksLimits.webhookTrimIntervalMs;
      logger.warn({ err: error }, 'old deliveries could not be removed');
    }
  };
}
