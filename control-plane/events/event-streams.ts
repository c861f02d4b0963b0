import { Counter, Gauge } from 'prom-client';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { Caller } from '../http/caller.ts';
import { busyIntervalOf, type EndReason, EventStream, readableTypes } from './event-stream.ts';
import { eventsLimits } from './limits.ts';
import { hintChannel, type TravellingHint } from './publish-hints.ts';

/** Who opens a stream. */
export interface Watcher {
  readonly caller: Caller;
  /** The caller as its key or session is now. Throws as authentication does. */
  readonly again: () => Promise<Caller>;
  /** Whether it has read events before: it has missed some. */
  readonly isBack: boolean;
}

export interface EventStreams {
  /** Throws `overloaded` where there are too many. */
  open(watcher: Watcher): Promise<EventStream>;
  /** Ends all streams, because this process stops. */
  close(): void;
}

interface Watched {
  readonly stream: EventStream;
  /** Looks whether the caller still has what the stream gives. */
  readonly check: () => Promise<void>;
}

interface Account {
  readonly watched: Set<Watched>;
  readonly subscription: Promise<() => Promise<void>>;
}

/**
 * The open event streams of this process. It listens on the bus to the accounts that have one; where messages
 * may have been lost, every stream is told to read again.
 *
 * The key or session of a stream is looked up again with every heartbeat, and at once when something changes
 * of who may call. While the database is away that cannot be known: a stream goes on, since nothing can be
 * revoked meanwhile either, and is reset when the database is back.
 */
export function eventStreams(
  deps: Pick<BaseDeps, 'bus' | 'clock' | 'logger' | 'metrics'>,
  heartbeatMs: number = eventsLimits.heartbeatMs,
): EventStreams {
  const accounts = new Map<AccountId, Account>();
  let isClosed = false;
  let count = 0;
  const open = new Gauge({
    name: 'agent_trust_event_streams',
    help: 'Open streams of GET /v1/events.',
    registers: [deps.metrics],
  });
  const ended = new Counter({
    name: 'agent_trust_event_streams_ended_total',
    help: 'Streams of GET /v1/events that the service ended, by reason.',
    labelNames: ['reason'],
    registers: [deps.metrics],
  });

  const each = (work: (watched: Watched) => void): void => {
    for (const { watched } of accounts.values()) for (const one of watched) work(one);
  };
  const stopListening = deps.bus.onInterrupted(() => each(({ stream }) => stream.reset()));

  const listen = (accountId: AccountId): Account => {
    const watched = new Set<Watched>();
    const listener = (message: string): void => {
      for (const hint of JSON.parse(message) as TravellingHint[]) {
        for (const { stream, check } of [...watched]) {
          if (hint.type === 'access') void check();
          else stream.offer(hint);
        }
      }
    };
    return { watched, subscription: deps.bus.subscribe(hintChannel(accountId), listener) };
  };

  const leave = async (accountId: AccountId, one: Watched): Promise<void> => {
    const account = accounts.get(accountId);
    if (account === undefined || !account.watched.delete(one)) return;
    count -= 1;
    open.set(count);
    if (account.watched.size > 0) return;
    accounts.delete(accountId);
    await (await account.subscription)();
  };

  return {
    open: async ({ caller, again, isBack }) => {
      const { accountId, mode, scopes, planLimits } = caller;
      const here = accounts.get(accountId)?.watched.size ?? 0;
      if (isClosed || count >= eventsLimits.streamsMax || here >= eventsLimits.streamsPerAccountMax) {
        throw new ApiError('overloaded', {
          message: 'Too many event streams are open. Close some, or poll.',
        });
      }
      const types = readableTypes(scopes);
      const stream = new EventStream(deps.clock, { mode, types, busyIntervalMs: busyIntervalOf(planLimits) });
      let isUnsure = false;
      const check = async (): Promise<void> => {
        if (stream.isEnded) return;
        try {
          const now = readableTypes((await again()).scopes);
          if ([...types].some((type) => !now.has(type))) return stream.finish('access_changed');
          if (isUnsure) stream.reset();
          isUnsure = false;
        } catch (error) {
          if (error instanceof ApiError && error.status < 500) stream.finish('access_ended');
          else isUnsure = true;
        }
      };
      const account = accounts.get(accountId) ?? listen(accountId);
      const one: Watched = { stream, check };
      accounts.set(accountId, account);
      account.watched.add(one);
      count += 1;
      open.set(count);
      const beats = setInterval(() => {
        stream.beat();
        void check();
      }, heartbeatMs);
      beats.unref();
      stream.once('close', () => {
        clearInterval(beats);
        void leave(accountId, one).catch((error: unknown) =>
          deps.logger.warn({ err: error }, 'the bus could not be left'),
        );
      });
      stream.once('finished', (reason: EndReason) => {
        ended.inc({ reason });
        deps.logger.info({ account_id: accountId, reason }, 'an event stream was ended');
      });
      try {
        await account.subscription;
      } catch (error) {
        stream.destroy();
        throw error;
      }
      // What was revoked since the caller was looked up was published to nobody.
      void check();
      if (isBack) stream.reset();
      else stream.beat();
      return stream;
    },
    close: () => {
      isClosed = true;
      stopListening();
      each(({ stream }) => stream.finish('restarting'));
    },
  };
}
