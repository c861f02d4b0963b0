import { createHash, randomBytes } from 'node:crypto';
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type Call, failureOf, type Outcome, readAnswer } from './transport.ts';

/** Bound of one answer; a sidecar sends no more, so more ends the connection. */
const answerBytesMax = 1024 * 1024;
/** Unsent bytes: as many as a sidecar keeps of unanswered frames (contract §16). */
const unsentBytesMax = 4 * 1024 * 1024;
/** A connection that owes answers and is silent for this long is replaced. */
const silenceMsMax = 2_000;
const openMsMax = 5_000;

const noBytes = Buffer.alloc(0);
const opcodes = { continuation: 0, text: 1, close: 8, ping: 9, pong: 10 } as const;

/** Checks over one WebSocket, opened on demand and reopened after a break. */
export class StreamClient {
  readonly #handshake: (headers: Readonly<Record<string, string>>) => ClientRequest;
  #opening: Promise<Stream | Outcome> | null = null;

  constructor(handshake: (headers: Readonly<Record<string, string>>) => ClientRequest) {
    this.#handshake = handshake;
  }

  /** Also the one that is being opened. */
  close(): void {
    void this.#opening?.then((opened) => {
      if (opened instanceof Stream) opened.close();
    });
  }

  /**
   * One attempt, as of a request. `trace`: further members, left out where the sidecar does not take them.
   * Rejects only for an abort.
   */
  attempt(call: Call, members: string, trace: string): Promise<Outcome> {
    const { signal } = call;
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      let stream: Stream | null = null;
      let id = '';
      const release = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        stream?.forget(id);
      };
      const end = (outcome: Outcome) => {
        release();
        resolve(outcome);
      };
      const abort = () => {
        release();
        reject(signal?.reason);
      };
      const expire = () => {
        stream?.closeIfSilent();
        end({ kind: 'failed', code: 'timeout', isUnsent: stream === null, cause: null });
      };
      const timer = setTimeout(expire, Math.max(0, call.deadlineAt - performance.now()));
      signal?.addEventListener('abort', abort, { once: true });
      this.#opening ??= this.#open();
      void this.#opening.then((opened) => {
        if (!(opened instanceof Stream)) {
          end(opened);
          return;
        }
        // It was given up while the connection was made.
        if (signal?.aborted === true || performance.now() >= call.deadlineAt) return;
        id = opened.ask(opened.takesTraces ? trace + members : members, end);
        if (id !== '') stream = opened;
      });
    });
  }

  async #open(): Promise<Stream | Outcome> {
    const opened = await open(this.#handshake, () => {
      this.#opening = null;
    });
    if (!(opened instanceof Stream)) this.#opening = null;
    return opened;
  }
}

/** Resolves to a stream, or to the reason for none. */
function open(
  handshake: (headers: Readonly<Record<string, string>>) => ClientRequest,
  onClose: () => void,
): Promise<Stream | Outcome> {
  return new Promise((resolve) => {
    const key = randomBytes(16).toString('base64');
    const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    const sent = handshake({ 'sec-websocket-version': '13', 'sec-websocket-key': key });
    const timer = setTimeout(() => sent.destroy(new Error('no handshake in time')), openMsMax);
    sent.once('upgrade', (message: IncomingMessage, socket: Socket, early: Buffer) => {
      clearTimeout(timer);
      const isOurs = message.headers['sec-websocket-accept'] === accept;
      if (isOurs) {
        const taken = String(message.headers['agent-trust-frame-members'] ?? '').split(/ *, */);
        return resolve(new Stream(socket, early, { takesTraces: taken.includes('traceparent'), onClose }));
      }
      socket.destroy();
      resolve({ kind: 'failed', code: 'bad_answer', isUnsent: false, cause: null });
    });
    sent.once('response', (message: IncomingMessage) => {
      void readAnswer(message).then((outcome) => {
        clearTimeout(timer);
        resolve(outcome);
      });
    });
    sent.on('error', (cause) => {
      clearTimeout(timer);
      // Nothing but the handshake was sent.
      resolve({ ...failureOf(cause), isUnsent: true });
    });
    sent.end();
  });
}

/** The client's side of RFC 6455, as far as a sidecar uses it: Node.js 20 has none that takes a header. */
class Stream {
  /** Of its frames. A sidecar of 0.2.0 refuses members that it does not know. */
  readonly takesTraces: boolean;
  readonly #socket: Socket;
  readonly #onClose: () => void;
  readonly #waiting = new Map<string, (outcome: Outcome) => void>();
  #bytes: Buffer;
  /** Of a message that is not whole yet: a fragment may end within a character. */
  #message = noBytes;
  #nextId = 0;
  /** Since when answers are owed and nothing has come, by `performance.now()`; Infinity: nothing is owed. */
  #owesSince = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(
    socket: Socket,
    early: Buffer,
    { takesTraces, onClose }: { readonly takesTraces: boolean; readonly onClose: () => void },
  ) {
    this.takesTraces = takesTraces;
    this.#socket = socket;
    this.#onClose = onClose;
    this.#bytes = early;
    socket.setNoDelay(true);
    socket.unref();
    socket.on('data', (bytes: Buffer) => {
      this.#read(bytes);
      this.#owesSince = this.#waiting.size === 0 ? Number.POSITIVE_INFINITY : performance.now();
    });
    socket.on('error', () => this.close());
    socket.on('close', () => this.close());
  }

  /** Returns the id; '' where it cannot be sent, and `onOutcome` was called. */
  ask(members: string, onOutcome: (outcome: Outcome) => void): string {
    if (this.#socket.destroyed || this.#socket.writableLength > unsentBytesMax) {
      onOutcome(broken(true));
      return '';
    }
    if (this.#waiting.size === 0) this.#socket.ref();
    // Not anew for each call: each may wait for less than that.
    this.#owesSince = Math.min(this.#owesSince, performance.now());
    const id = (this.#nextId++).toString(36);
    this.#waiting.set(id, onOutcome);
    this.#send(opcodes.text, Buffer.from(`{"id":"${id}",${members}`));
    return id;
  }

  forget(id: string): void {
    // An idle connection does not keep the program from ending.
    if (this.#waiting.delete(id) && this.#waiting.size === 0) this.#socket.unref();
  }

  closeIfSilent(): void {
    if (performance.now() - this.#owesSince >= silenceMsMax) this.close();
  }

  /** Fails all unanswered checks. Idempotent, because another stream may have replaced it by then. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onClose();
    this.#socket.destroy();
    for (const [id, onOutcome] of this.#waiting) {
      this.#waiting.delete(id);
      onOutcome(broken(false));
    }
  }

  /** §5.2 and §5.3: what a client sends is masked. Frames of one turn leave together. */
  #send(opcode: number, content: Buffer): void {
    const { length } = content;
    const isLong = length > 65_535;
    const head = Buffer.alloc(length < 126 ? 2 : isLong ? 10 : 4);
    head[0] = 0x80 | opcode;
    head[1] = 0x80 | (length < 126 ? length : isLong ? 127 : 126);
    if (isLong) head.writeUIntBE(length, 4, 6);
    else if (length >= 126) head.writeUInt16BE(length, 2);
    const mask = randomBytes(4);
    for (let at = 0; at < length; at++) content[at] = (content[at] as number) ^ (mask[at & 3] as number);
    if (this.#socket.writableCorked === 0) {
      this.#socket.cork();
      process.nextTick(() => this.#socket.uncork());
    }
    this.#socket.write(Buffer.concat([head, mask, content]));
  }

  #read(bytes: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes]);
    for (;;) {
      const [first = 0, second = 0] = this.#bytes;
      const start = second === 126 ? 4 : second === 127 ? 10 : 2;
      if (this.#bytes.length < start) return;
      const length =
        start === 2 ? second : start === 4 ? this.#bytes.readUInt16BE(2) : this.#bytes.readUIntBE(4, 6);
      if (second > 127 || length + this.#message.length > answerBytesMax) {
        this.close();
        return;
      }
      if (this.#bytes.length < start + length) return;
      const content = this.#bytes.subarray(start, start + length);
      this.#bytes = this.#bytes.subarray(start + length);
      this.#take(first, content);
    }
  }

  #take(first: number, content: Buffer): void {
    const opcode = first & 15;
    if (opcode === opcodes.ping) this.#send(opcodes.pong, Buffer.from(content));
    else if (opcode === opcodes.close) this.close();
    else if (opcode === opcodes.text || opcode === opcodes.continuation) {
      this.#message = Buffer.concat([this.#message, content]);
      if ((first & 0x80) === 0) return;
      const text = this.#message.toString();
      this.#message = noBytes;
      this.#answer(text);
    }
  }

  /** The id comes first; without it the answer belongs to no check of ours. */
  #answer(text: string): void {
    const [start = '', id = ''] = /^\{"id":"(\w+)",/.exec(text) ?? [];
    this.#waiting.get(id)?.(answerOf(`{${text.slice(start.length)}`));
  }
}

const broken = (isUnsent: boolean): Outcome => ({
  kind: 'failed',
  code: 'connection_failed',
  isUnsent,
  cause: null,
});

/** As the answer to a request, which says in a header when to ask again. */
function answerOf(text: string): Outcome {
  const status = text.startsWith('{"error":') ? Number(/"status":(\d{3})/.exec(text)?.[1] ?? 500) : 200;
  return { kind: 'answer', status, headers: status === 503 ? { 'retry-after': '1' } : {}, text };
}
