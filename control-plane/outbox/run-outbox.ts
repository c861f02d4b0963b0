import { Counter } from 'prom-client';
import { tellTrouble } from '../../shared/runtime/tell-trouble.ts';
import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import type { BaseDeps } from '../base/deps.ts';
import { dueWorkOf } from '../storage/due-work.ts';
import { AttemptsInFlight } from './attempts-in-flight.ts';
import { noteHealth } from './endpoint-health.ts';
import { outboxLimits } from './limits.ts';
import type { Answer, Attempt, Claimed, Outbox } from './outbox.ts';
import { dropQueues, type Queue, readQueues, release } from './queues.ts';

export type LoopDeps = Pick<BaseDeps, 'sql' | 'clock' | 'random' | 'logger' | 'metrics' | 'replicaId'>;

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
export function startOutbox<D extends Claimed, A extends Answer>(
  deps: LoopDeps,
  outbox: Outbox<D, A>,
): { stop(): Promise<void> } {
  const wakeup = makeWakeup();
  const inFlight = new AttemptsInFlight(deps, outbox, wakeup.wake);
  const deliverer = new Deliverer(deps, outbox, inFlight);
  const dueWork = dueWorkOf(deps.sql);
  dueWork.wakes.set(outbox.queues.work, wakeup.wake);
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
    const deadlineMs = deps.clock.monotonic() + outboxLimits.drainMs;
    while (inFlight.count() > 0 && deps.clock.monotonic() < deadlineMs) {
      await wakeup.sleep(outbox.bounds.pollMs);
    }
    await deliverer.last();
  };

  const running = run();
  return {
    /**
     * Resolves when nothing is under way any more: what has not come back within
     * `outboxLimits.drainMs` is given back to the queue.
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
class Deliverer<D extends Claimed, A extends Answer> {
  readonly #deps: LoopDeps;
  readonly #outbox: Outbox<D, A>;
  readonly #inFlight: AttemptsInFlight<D, A>;
  #seen: Look = { after: '', queues: [] };
  /** After which endpoint the next look begins. */
  #cursor = '';
  readonly #record: ReturnType<typeof makeRecorder<D, A>>;
  readonly #trouble: ReturnType<typeof tellTrouble>;

  constructor(deps: LoopDeps, outbox: Outbox<D, A>, inFlight: AttemptsInFlight<D, A>) {
    this.#deps = deps;
    this.#outbox = outbox;
    this.#inFlight = inFlight;
    this.#record = makeRecorder(deps, outbox);
    this.#trouble = tellTrouble(deps.logger, {
      begins: `${outbox.name} are delayed: their queue cannot be read or written`,
      ends: `${outbox.name} have resumed`,
    });
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
    const failure = outcomes.find((outcome) => outcome.status === 'rejected');
    this.#trouble.note(failure === undefined ? null : failure.reason);
    if (failure !== undefined || this.#inFlight.room().attempts <= 0) return false;
    return this.#cursor !== '' || chooseSlots(this.#inFlight, this.#seen).slots.size > 0;
  }

  /** Records the attempts that have ended, and releases those that have not. */
  async last(): Promise<void> {
    const { logger } = this.#deps;
    const deliveries = this.#inFlight.abandon();
    try {
      await this.#recordAttempts();
      await this.#release(deliveries);
    } catch (error) {
      logger.warn({ err: error }, 'deliveries in flight are sent again when their lock expires');
    }
  }

  /** Nothing waits, as far as the last look has shown. */
  get isIdle(): boolean {
    return this.#seen.queues.length === 0 && this.#cursor === '' && !this.#trouble.isOn();
  }

  async #recordAttempts(): Promise<void> {
    const attempts = this.#inFlight.takeBack();
    try {
      await this.#record(attempts);
    } catch (error) {
      this.#inFlight.putBack(attempts);
      throw error;
    }
  }

  #giveBack(): Promise<void> {
    return this.#release(this.#inFlight.takeIdle());
  }

  #release(deliveries: readonly D[]): Promise<void> {
    const { sql, replicaId } = this.#deps;
    return release(sql, this.#outbox.queues, replicaId, deliveries);
  }

  async #claim(slots: ReadonlyMap<string, number>): Promise<void> {
    if (slots.size === 0) return;
    const { replicaId, clock } = this.#deps;
    const claimed = await this.#outbox.lock({ slots, replicaId, nowMs: clock.now() });
    for (const delivery of claimed) this.#inFlight.start(delivery);
  }

  async #look(): Promise<void> {
    const after = this.#cursor;
    const { sql, clock } = this.#deps;
    const queues = await readQueues(sql, this.#outbox.queues, { after, nowMs: clock.now() });
    this.#seen = { after, queues };
    const deleted = queues.filter(({ isDeleted }) => isDeleted).map(({ endpointId }) => endpointId);
    await dropQueues(sql, this.#outbox.queues, deleted);
    const hasMore = queues.length === outboxLimits.queuesPerLookMax;
    this.#cursor = hasMore ? (queues.at(-1)?.endpointId ?? '') : '';
  }
}

/** `lookAgainAfter`: there was no room for endpoints after this one; null: all were served. */
function chooseSlots<D extends Claimed, A extends Answer>(
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

function makeTrim(
  { clock, logger }: LoopDeps,
  outbox: Pick<Outbox<Claimed, Answer>, 'bounds' | 'trim'>,
): () => Promise<void> {
  let nextAtMs: number = clock.monotonic();
  return async () => {
    if (clock.monotonic() < nextAtMs) return;
    try {
      const isDone = await outbox.trim(clock.now());
      nextAtMs = clock.monotonic() + (isDone ? outboxLimits.trimIntervalMs : outbox.bounds.pollMs);
    } catch (error) {
      // Nothing is lost: the same rows are still there a minute later.
      nextAtMs = clock.monotonic() + outboxLimits.trimIntervalMs;
      logger.warn({ err: error }, 'old deliveries could not be removed');
    }
  };
}

/**
 * Writes down what attempts have come to, and what they say about their endpoints. Where it throws, whether
 * anything was written is unknown; writing the same once more changes nothing where it was, but for the count
 * of failures of a channel.
 */
export function makeRecorder<D extends Claimed, A extends Answer>(
  { sql, clock, logger, metrics }: Pick<LoopDeps, 'sql' | 'clock' | 'logger' | 'metrics'>,
  outbox: Pick<Outbox<D, A>, 'queues' | 'counters' | 'record'>,
): (attempts: readonly Attempt<D, A>[]) => Promise<void> {
  const { queues, counters } = outbox;
  const made = new Counter({ ...counters.attempts, registers: [metrics] });
  const disabled = new Counter({ ...counters.disabled, labelNames: ['reason'], registers: [metrics] });
  return async (attempts) => {
    if (attempts.length === 0) return;
    await outbox.record(attempts);
    for (const { endpointId, reason } of await noteHealth(sql, queues, attempts, clock.now())) {
      disabled.inc({ reason });
      logger.warn({ [queues.endpointId]: endpointId, reason }, `a ${queues.endpoint} was disabled`);
    }
    for (const attempt of attempts) made.inc(counters.labelsOf(attempt));
  };
}
