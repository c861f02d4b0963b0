import { Readable } from 'node:stream';
import type { PlanLimits } from '../../shared/model/account.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { holdsScope, type Scope } from '../../shared/model/scopes.ts';
import { dayMs, minuteMs, renderTime } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { eventsLimits } from './limits.ts';
import { type HintType, hintScopes } from './note-hints.ts';
import type { TravellingHint } from './publish-hints.ts';

/** Why the service ends a stream; sent in the last event (contract §9). */
export type EndReason = 'slow_reader' | 'access_ended' | 'access_changed' | 'restarting';

/** Types with possibly very many hints a second. */
const busyTypes: ReadonlySet<string> = new Set<HintType>(['record', 'delivery', 'sidecar']);

/** The hint types that these scopes may read. */
export const readableTypes = (scopes: readonly Scope[]): ReadonlySet<string> =>
  new Set(Object.entries(hintScopes).flatMap(([type, scope]) => (holdsScope(scopes, scope) ? [type] : [])));

/**
 * Minimum distance of busy hints of one stream, in milliseconds. A reader that makes one call per hint uses
 * at most one part in `eventsLimits.planPart` of the account's plan.
 */
export function busyIntervalOf({ requestsPerMinute, requestsPerDay }: PlanLimits): number {
  const share = (spanMs: number, requests: number | null) =>
    requests === null ? 0 : Math.ceil((spanMs * eventsLimits.planPart) / Math.max(requests, 1));
  return Math.max(
    eventsLimits.busyIntervalMs,
    share(minuteMs, requestsPerMinute),
    Math.min(share(dayMs, requestsPerDay), dayMs),
  );
}

/**
 * The server-sent events of one caller (WHATWG HTML §9.2). Calm hints are sent at once, busy ones at most
 * once in `busyIntervalMs`, each id once. Bounded: a reader that leaves more than
 * `eventsLimits.bufferBytesMax` unread is closed.
 */
export class EventStream extends Readable {
  readonly mode: Mode;
  readonly types: ReadonlySet<string>;
  readonly #clock: Clock;
  readonly #busyIntervalMs: number;
  readonly #busy = new Map<string, { readonly type: string; readonly id: string | null }>();
  #busyTimer: NodeJS.Timeout | null = null;
  #busySentAtMs = Number.NEGATIVE_INFINITY;
  #sent = 0;
  #isEnded = false;

  constructor(
    clock: Clock,
    of: {
      readonly mode: Mode;
      readonly types: ReadonlySet<string>;
      readonly busyIntervalMs: number;
    },
  ) {
    super({ highWaterMark: eventsLimits.bufferBytesMax });
    this.mode = of.mode;
    this.types = of.types;
    this.#clock = clock;
    this.#busyIntervalMs = of.busyIntervalMs;
  }

  get isEnded(): boolean {
    return this.#isEnded || this.destroyed;
  }

  override _read(): void {
    // Events are pushed, not pulled.
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#isEnded = true;
    if (this.#busyTimer !== null) clearTimeout(this.#busyTimer);
    done(error);
  }

  offer({ mode, type, id }: TravellingHint): void {
    if ((mode !== null && mode !== this.mode) || !this.types.has(type)) return;
    if (!busyTypes.has(type)) {
      this.#send(type, id);
      return;
    }
    const named = this.#busy.size < eventsLimits.busyWaitingMax ? id : null;
    this.#busy.set(`${type} ${named}`, { type, id: named });
    if (this.#busyTimer !== null || this.isEnded) return;
    const waitMs = this.#busySentAtMs + this.#busyIntervalMs - this.#clock.monotonic();
    this.#busyTimer = setTimeout(() => this.#sendBusy(), Math.max(0, waitMs));
    this.#busyTimer.unref();
  }

  #sendBusy(): void {
    this.#busyTimer = null;
    this.#busySentAtMs = this.#clock.monotonic();
    const due = [...this.#busy.values()];
    this.#busy.clear();
    for (const { type, id } of due) this.#send(type, id);
  }

  /** Earlier events may be missing: the reader must read everything again. */
  reset(): void {
    this.#send('reset', null);
  }

  /** A comment, which readers ignore. */
  beat(): void {
    this.#write(': heartbeat\n\n');
  }

  /** Sends the reason as the last event. A reader that is too slow for it is cut off. */
  finish(reason: EndReason): void {
    if (this.isEnded) return;
    this.#isEnded = true;
    this.push(this.#render({ type: 'closed', id: null, reason }));
    this.push(null);
    this.emit('finished', reason);
    setTimeout(() => this.destroy(), eventsLimits.goodbyeMs).unref();
  }

  #send(type: string, id: string | null): void {
    this.#write(this.#render({ type, id }));
  }

  #render(event: { readonly type: string; readonly id: string | null; readonly reason?: EndReason }): string {
    this.#sent += 1;
    return `id: ${this.#sent}\ndata: ${JSON.stringify({ ...event, at: renderTime(this.#clock.now()) })}\n\n`;
  }

  #write(text: string): void {
    if (this.isEnded) return;
    if (this.readableLength + text.length > eventsLimits.bufferBytesMax) this.finish('slow_reader');
    else this.push(text);
  }
}
