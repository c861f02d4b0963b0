import { ApiError } from '../../shared/errors/api-error.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Caller } from '../http/caller.ts';
import { busyIntervalOf, EventStream, readableTypes } from './event-stream.ts';
import type { TravellingHint } from './publish-hints.ts';

/** The caller that opens a stream. */
export interface Watcher {
  readonly caller: Caller;
  /** Authenticates the caller again. Throws as authentication does. */
  readonly again: () => Promise<Caller>;
  /** Whether it has read events before, and so has missed some. */
  readonly isBack: boolean;
}

/**
 * One stream, and whether its caller still has access to it.
 *
 *     sure ──the database is away──> unsure ──the look-up works again, and the stream is reset──> sure
 *       └──────────────┬────────────────┘
 *                      v the caller has lost something
 *                 the stream is ended
 */
export class Watch {
  readonly stream: EventStream;
  readonly #again: Watcher['again'];
  #access: 'sure' | 'unsure' = 'sure';

  constructor(clock: Clock, { caller, again }: Watcher) {
    const { mode, scopes, planLimits } = caller;
    this.#again = again;
    this.stream = new EventStream(clock, {
      mode,
      types: readableTypes(scopes),
      busyIntervalMs: busyIntervalOf(planLimits),
    });
  }

  offer(hint: TravellingHint): void {
    if (hint.type === 'access') void this.check();
    else this.stream.offer(hint);
  }

  /** Never rejects. */
  async check(): Promise<void> {
    const { stream } = this;
    if (stream.isEnded) return;
    try {
      const now = readableTypes((await this.#again()).scopes);
      if ([...stream.types].some((type) => !now.has(type))) return stream.finish('access_changed');
      if (this.#access === 'unsure') stream.reset();
      this.#access = 'sure';
    } catch (error) {
      if (error instanceof ApiError && error.status < 500) stream.finish('access_ended');
      else this.#access = 'unsure';
    }
  }

  /** A returning caller may have missed events. */
  begin({ isBack }: Watcher): void {
    // A revocation since the caller's look-up was not published to this stream.
    void this.check();
    if (isBack) this.stream.reset();
    else this.stream.beat();
  }
}
