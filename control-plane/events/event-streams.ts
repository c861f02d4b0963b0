import { Counter, Gauge } from 'prom-client';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { EndReason, EventStream } from './event-stream.ts';
import { eventsLimits } from './limits.ts';
import { hintChannel, type TravellingHint } from './publish-hints.ts';
import { Watch, type Watcher } from './watch.ts';

type EventStreamsDeps = Pick<BaseDeps, 'bus' | 'clock' | 'logger' | 'metrics'>;

/** An account with an open stream. Resolves to the function that ends the subscription. */
interface Watched {
  readonly watches: Set<Watch>;
  readonly subscription: Promise<() => Promise<void>>;
}

/**
 * The open event streams of this process. It subscribes on the bus to accounts with a stream; if messages may
 * have been lost, every stream is reset.
 *
 *     open ──close()──> closing, for good: each stream is ended, and none is opened
 *
 * The key or session of a stream is looked up with every heartbeat, and at once after an `access` hint. While
 * the database is unreachable a stream continues, because nothing can be revoked either, and is reset
 * afterwards.
 */
export class EventStreams {
  readonly #deps: EventStreamsDeps;
  readonly #heartbeatMs: number;
  readonly #accounts = new Map<AccountId, Watched>();
  readonly #stopListening: () => void;
  readonly #openCount: Gauge;
  readonly #endedCount: Counter;
  #state: 'open' | 'closing' = 'open';

  constructor(deps: EventStreamsDeps, heartbeatMs: number = eventsLimits.heartbeatMs) {
    this.#deps = deps;
    this.#heartbeatMs = heartbeatMs;
    this.#openCount = new Gauge({
      name: 'agent_trust_event_streams',
      help: 'Open streams of GET /v1/events.',
      registers: [deps.metrics],
    });
    this.#endedCount = new Counter({
      name: 'agent_trust_event_streams_ended_total',
      help: 'Streams of GET /v1/events that the service ended, by reason.',
      labelNames: ['reason'],
      registers: [deps.metrics],
    });
    this.#stopListening = deps.bus.onInterrupted(() => this.#each((stream) => stream.reset()));
  }

  /** Throws `overloaded` for too many streams. */
  async open(watcher: Watcher): Promise<EventStream> {
    const { accountId } = watcher.caller;
    this.#assertRoom(accountId);
    const watch = new Watch(this.#deps.clock, watcher);
    const watched = this.#enter(accountId, watch);
    const { stream } = watch;
    const beats = setInterval(() => {
      stream.beat();
      void watch.check();
    }, this.#heartbeatMs);
    beats.unref();
    stream.once('close', () => {
      clearInterval(beats);
      void this.#leave(accountId, watch).catch((error: unknown) =>
        this.#deps.logger.warn({ err: error }, 'the bus could not be left'),
      );
    });
    stream.once('finished', (reason: EndReason) => {
      this.#endedCount.inc({ reason });
      this.#deps.logger.info({ account_id: accountId, reason }, 'an event stream was ended');
    });
    try {
      await watched.subscription;
    } catch (error) {
      stream.destroy();
      throw error;
    }
    watch.begin(watcher);
    return stream;
  }

  /** Ends all streams, because this process stops. */
  close(): void {
    this.#state = 'closing';
    this.#stopListening();
    this.#each((stream) => stream.finish('restarting'));
  }

  #assertRoom(accountId: AccountId): void {
    const here = this.#accounts.get(accountId)?.watches.size ?? 0;
    const isFull = this.#count() >= eventsLimits.streamsMax || here >= eventsLimits.streamsPerAccountMax;
    if (this.#state === 'open' && !isFull) return;
    throw new ApiError('overloaded', { message: 'Too many event streams are open. Close some, or poll.' });
  }

  #enter(accountId: AccountId, watch: Watch): Watched {
    const watched = this.#accounts.get(accountId) ?? this.#listen(accountId);
    this.#accounts.set(accountId, watched);
    watched.watches.add(watch);
    this.#openCount.set(this.#count());
    return watched;
  }

  async #leave(accountId: AccountId, watch: Watch): Promise<void> {
    const watched = this.#accounts.get(accountId);
    if (watched === undefined || !watched.watches.delete(watch)) return;
    this.#openCount.set(this.#count());
    if (watched.watches.size > 0) return;
    this.#accounts.delete(accountId);
    await (await watched.subscription)();
  }

  #listen(accountId: AccountId): Watched {
    const watches = new Set<Watch>();
    const listener = (message: string): void => {
      for (const hint of JSON.parse(message) as TravellingHint[])
        for (const watch of [...watches]) watch.offer(hint);
    };
    return { watches, subscription: this.#deps.bus.subscribe(hintChannel(accountId), listener) };
  }

  #count(): number {
    let count = 0;
    for (const { watches } of this.#accounts.values()) count += watches.size;
    return count;
  }

  #each(work: (stream: EventStream) => void): void {
    for (const { watches } of this.#accounts.values()) for (const { stream } of watches) work(stream);
  }
}
