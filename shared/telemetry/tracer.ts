import type { TraceContext } from '../wire/api/trace-context.ts';
import { type Sampler, samples } from './sampler.ts';

export type AttributeValue = string | number | boolean;
export type Attributes = Readonly<Record<string, AttributeValue>>;

/** What a span is, by the names of OpenTelemetry. */
export type SpanKind = 'internal' | 'server' | 'client';

/** A span that has ended, as it is exported. */
export interface EndedSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly traceId: string;
  readonly spanId: string;
  /** Null: it is the first one of its trace. */
  readonly parentId: string | null;
  /** Unix time in milliseconds, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly isError: boolean;
  readonly links: readonly SpanLink[];
}

/** With the `tracestate` of its parent, which is passed on as it is. */
type BegunSpan = Omit<EndedSpan, 'endMs' | 'attributes' | 'isError'> & Pick<TraceContext, 'tracestate'>;

export type SpanLink = Pick<TraceContext, 'traceId' | 'parentId'>;

export interface SpanStart {
  readonly kind: SpanKind;
  /** Null: it begins a trace. */
  readonly parent: TraceContext | null;
  /** Other spans that caused it, all of them sampled. Default: none. */
  readonly links?: readonly TraceContext[];
  /** It has begun so long ago, in milliseconds. Default: now. */
  readonly agoMs?: number;
}

export interface SpanEnd {
  /** Default: as it was begun. */
  readonly name?: string;
  readonly attributes: Attributes;
  /** Of the program or of another one; what is refused for good reasons is no error. */
  readonly isError: boolean;
}

export interface TracerOptions {
  readonly sampler: Sampler;
  /** Takes each span that has ended. Must not throw. */
  readonly take: (span: EndedSpan) => void;
  /** Bytes of randomness. */
  readonly bytes: (count: number) => Uint8Array;
}

/** Begins spans. Where nothing is exported, a program has none, and a request pays for the look at null. */
export class Tracer {
  readonly #options: TracerOptions;
  readonly #wall = new Wall();
  readonly #ids: IdPool;

  constructor(options: TracerOptions) {
    this.#options = options;
    this.#ids = new IdPool(options.bytes);
  }

  /** Null: it is not sampled. */
  start(name: string, { kind, parent, links = [], agoMs = 0 }: SpanStart): Span | null {
    const traceId = parent?.traceId ?? this.#ids.next(16);
    if (!this.#samples(traceId, parent, links)) return null;
    const begun = {
      name,
      kind,
      traceId,
      spanId: this.#ids.next(8),
      parentId: parent?.parentId ?? null,
      tracestate: parent?.tracestate ?? '',
      links,
    };
    return new Span({ ...begun, startMs: this.#wall.nowMs() - agoMs }, this.#wall, this.#options.take);
  }

  /** What stands for several spans is sampled where one of them is, or a link would lead nowhere. */
  #samples(traceId: string, parent: TraceContext | null, links: readonly TraceContext[]): boolean {
    const { sampler } = this.#options;
    const isAsked = parent !== null || links.length === 0;
    if (isAsked && samples(sampler, { traceId, parent })) return true;
    return links.some((link) => samples(sampler, { traceId: link.traceId, parent: link }));
  }
}

/** A span that was sampled. */
export class Span {
  readonly #begun: BegunSpan;
  readonly #wall: Wall;
  readonly #take: TracerOptions['take'];
  #isEnded = false;

  constructor(begun: BegunSpan, wall: Wall, take: TracerOptions['take']) {
    this.#begun = begun;
    this.#wall = wall;
    this.#take = take;
  }

  /** The trace context to forward: the parent of what it causes. */
  get trace(): TraceContext {
    const { traceId, spanId: parentId, tracestate } = this.#begun;
    return { traceId, parentId, isSampled: true, traceparent: `00-${traceId}-${parentId}-01`, tracestate };
  }

  /** Further calls do nothing. */
  end({ name = this.#begun.name, attributes, isError }: SpanEnd): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const endMs = Math.max(this.#begun.startMs, this.#wall.nowMs());
    this.#take({ ...this.#begun, name, endMs, attributes, isError });
  }
}

/** A set wall clock shows as this much between it and what passed since. */
const stepMs = 50;

/** Unix time with the resolution of the monotonic clock. Follows the wall clock where that was set. */
class Wall {
  #aheadMs = Date.now() - performance.now();

  nowMs(): number {
    const passedMs = performance.now();
    const wallMs = Date.now();
    if (Math.abs(wallMs - passedMs - this.#aheadMs) > stepMs) this.#aheadMs = wallMs - passedMs;
    return passedMs + this.#aheadMs;
  }
}

const poolBytes = 8 * 1_024;

/** Random ids in hex, none of them zero. One call to the system serves several hundred. */
class IdPool {
  readonly #bytes: (count: number) => Uint8Array;
  #pool = Buffer.alloc(0);
  #used = 0;

  constructor(bytes: (count: number) => Uint8Array) {
    this.#bytes = bytes;
  }

  next(count: 8 | 16): string {
    if (this.#used + count > this.#pool.length) {
      this.#pool = Buffer.from(this.#bytes(poolBytes));
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += count;
    const id = this.#pool.toString('hex', at, at + count);
    return /[^0]/.test(id) ? id : this.next(count);
  }
}
