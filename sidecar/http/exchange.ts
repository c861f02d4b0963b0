import { assert } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { traceFields } from '../../shared/wire/api/trace-context.ts';
import { BodyReader, type LargeBodies } from './read-body.ts';
import type { HeadReader } from './read-head.ts';
import { type After, assertReply } from './respond.ts';
import type {
  BodyHandler,
  IgnoredBody,
  LargeBody,
  ListenOptions,
  Refusal,
  Reply,
  RequestHandler,
  RequestHead,
  Responder,
  Upgrade,
} from './server.ts';

/**
 * How an adapter writes to its own kind of response. Neither is called twice, nor after the client has
 * gone.
 */
export interface Wire<Res> {
  write(res: Res, answer: { readonly reply: Reply; readonly isHead: boolean; readonly after: After }): void;
  /** Ends the connection without an answer. */
  cut(res: Res): void;
  remoteAddress(res: Res): string;
}

const noBytes = Buffer.alloc(0);

/** What the requests of one listener have in common. */
export class ListenerState<Res> {
  readonly wire: Wire<Res>;
  readonly handler: RequestHandler;
  readonly refuse: ListenOptions['refuse'];
  readonly onAnswer: ((status: number) => void) | null;
  readonly logger: Logger;
  readonly largeBodies: LargeBodies = { bytes: 0 };
  /** Written by exchanges as they begin and end. */
  openRequests = 0;
  /** Set once, by startDraining. */
  isDraining = false;
  #whenIdle: (() => void) | null = null;

  constructor(wire: Wire<Res>, options: Pick<ListenOptions, 'handler' | 'refuse' | 'onAnswer' | 'logger'>) {
    this.wire = wire;
    this.handler = options.handler;
    this.refuse = options.refuse;
    this.onAnswer = options.onAnswer ?? null;
    this.logger = options.logger;
  }

  /** Resolves when no request is open. */
  drained(): Promise<void> {
    if (this.openRequests === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  ended(): void {
    this.openRequests -= 1;
    assert(this.openRequests >= 0, 'an exchange ends once');
    if (this.openRequests === 0) this.#whenIdle?.();
  }
}

/**
 * One request and its answer, the same for both adapters; the only owner of `res`, which it forgets before it
 * ends it, because every method of uWebSockets.js throws after the end.
 *
 *     receiving ──whole body──> waiting ──reply──> answered
 *         ├──reply of the head, or refused──────────> answered
 *         └──────────────┬─────────┘
 *                   client gone ──> aborted        (a reply is then silent)
 *
 * `#res` is null in `answered` and `aborted`. `#handle` is null before the head is read and after the body is
 * delivered.
 */
export class Exchange<Res> implements RequestHead, Responder {
  method = '';
  path = '';
  query = '';
  authorization = '';
  headers: readonly string[] = [];
  repeated: string | null = null;
  contentEncoding = '';
  traceparent = '';
  tracestate = '';
  /** Written by the adapter that tells aborts apart by it; -1 until its body has come without an answer. */
  waitingSinceTurn = -1;
  readonly #listener: ListenerState<Res>;
  #res: Res | null;
  #handle: BodyHandler | null = null;
  /** Of its body. A route may raise it. */
  #bytesMax: number = limits.bodyBytesMax;
  /** Set with the handler: nothing of the body is kept. */
  #ignoresBody = false;
  #body: BodyReader | null = null;
  #isReplied = false;
  #isAborted = false;

  constructor(listener: ListenerState<Res>, res: Res) {
    this.#listener = listener;
    this.#res = res;
    listener.openRequests += 1;
  }

  get remoteAddress(): string {
    return this.#res === null ? '' : this.#listener.wire.remoteAddress(this.#res);
  }

  get isAborted(): boolean {
    return this.#isAborted;
  }

  /** Neither answered nor given up. */
  get isOpen(): boolean {
    return this.#res !== null;
  }

  /** True until the body is delivered or no longer wanted. */
  get wantsBody(): boolean {
    return this.#handle !== null;
  }

  /**
   * The head has been read into `this` and `reader`. `upgrade` makes a WebSocket of the connection; null: the
   * request is no handshake of one.
   */
  begin(reader: HeadReader, upgrade: ((to: Upgrade) => void) | null = null): void {
    this.authorization = reader.authorization;
    this.headers = reader.headers;
    this.repeated = reader.repeated;
    this.contentEncoding = reader.contentEncoding;
    this.traceparent = reader.traceparent;
    this.tracestate = reader.tracestate;
    const { problem } = reader;
    if (problem !== null) {
      // On the next turn: after a request that is still unanswered uWebSockets.js drops the connection, so
      // that nothing which was smuggled in the same packet reaches the handler.
      setImmediate(() => this.refuse(problem, 'close'));
      return;
    }
    try {
      const outcome = this.#listener.handler(this);
      if (typeof outcome === 'function') this.#handle = outcome;
      else if ('handle' in outcome) this.#takeBody(outcome);
      else if ('open' in outcome) this.#upgrade(outcome, upgrade);
      else this.#answer(outcome, reader.contentLength > limits.bodyDiscardBytesMax ? 'close' : 'keep');
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * The next piece of the body, maybe empty; its bytes need to last only for this call. Silent once nobody
   * wants it.
   */
  take(piece: Buffer, isLast: boolean): void {
    const handle = this.#handle;
    if (handle === null) return;
    if (isLast && this.#body === null && piece.byteLength <= this.#bytesMax) {
      this.#deliver(handle, this.#ignoresBody ? noBytes : piece);
      return;
    }
    this.#body ??= new BodyReader(this.#ignoresBody ? 0 : this.#bytesMax, this.#listener.largeBodies);
    this.#body.take(piece);
    if (this.#body.received > limits.bodyDiscardBytesMax) this.refuse('body_too_large', 'close');
    else if (isLast && this.#ignoresBody) this.#deliver(handle, noBytes);
    else if (isLast && this.#body.isTooLarge) this.refuse('body_too_large', 'keep');
    else if (isLast && this.#body.isCrowdedOut) this.refuse('overloaded', 'keep');
    else if (isLast) this.#deliver(handle, this.#body.bytes);
  }

  reply(reply: Reply): void {
    assert(!this.#isReplied, 'a request is answered once');
    this.#isReplied = true;
    try {
      this.#answer(reply, 'keep');
    } catch (error) {
      this.#fail(error);
    }
  }

  refuse(refusal: Refusal, after: After): void {
    try {
      this.#answer(this.#listener.refuse(refusal, this.#bytesMax), after);
    } catch (error) {
      const about = { err: error, ...traceFields(this.traceparent) };
      this.#listener.logger.error(about, 'refuse() threw; the connection is closed');
      this.#cut();
    }
  }

  /** The client has gone. */
  abort(): void {
    if (this.#res === null) return;
    this.#isAborted = true;
    this.#end();
  }

  #upgrade(to: Upgrade, upgrade: ((to: Upgrade) => void) | null): void {
    if (upgrade === null) {
      this.refuse('invalid_request', 'close');
      return;
    }
    this.#end();
    this.#listener.onAnswer?.(101);
    upgrade(to);
  }

  #takeBody(outcome: LargeBody | IgnoredBody): void {
    this.#handle = outcome.handle;
    this.#ignoresBody = 'ignoresBody' in outcome;
    this.#bytesMax = 'ignoresBody' in outcome ? limits.bodyDiscardBytesMax : outcome.bytesMax;
  }

  #deliver(handle: BodyHandler, body: Buffer): void {
    this.#handle = null;
    this.#dropBody();
    try {
      handle(body, this);
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * The handler threw, or replied what cannot be sent. Where it had replied before, the log is all that is
   * left to do.
   */
  #fail(error: unknown): void {
    const about = { err: error, method: this.method, ...traceFields(this.traceparent) };
    this.#listener.logger.error(about, 'a request handler failed');
    this.refuse('internal_error', 'keep');
  }

  /** Throws, with the exchange as it was, for a reply that cannot be sent. */
  #answer(reply: Reply, after: After): void {
    const res = this.#res;
    if (res === null) return;
    assertReply(reply);
    const listener = this.#listener;
    this.#end();
    listener.onAnswer?.(reply.status);
    try {
      listener.wire.write(res, {
        reply,
        isHead: this.method === 'HEAD',
        after: listener.isDraining ? 'close' : after,
      });
    } catch (error) {
      const about = { err: error, ...traceFields(this.traceparent) };
      listener.logger.error(about, 'an answer could not be written; the connection is closed');
      listener.wire.cut(res);
    }
  }

  #cut(): void {
    const res = this.#res;
    if (res === null) return;
    this.#end();
    this.#listener.wire.cut(res);
  }

  #end(): void {
    this.#res = null;
    this.#handle = null;
    this.#dropBody();
    this.#listener.ended();
  }

  #dropBody(): void {
    this.#body?.release();
    this.#body = null;
  }
}
