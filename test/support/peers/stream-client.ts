import { once } from 'node:events';
import { type RawData, WebSocket } from 'ws';
import { until } from '../base/until.ts';

/** What a sidecar answers to a frame. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every kind.
export type StreamAnswer = any;

/** A client of `GET /v1/stream`, which sends what it is given. */
export class StreamClient {
  readonly socket: WebSocket;
  /** In the order in which they came. */
  readonly answers: StreamAnswer[] = [];
  /** Code and reason of the close; null while it is open. */
  closing: { readonly code: number; readonly reason: string } | null = null;
  #nextId = 1;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data: RawData) => this.answers.push(JSON.parse(String(data))));
    socket.on('close', (code, reason) => {
      this.closing = { code, reason: String(reason) };
    });
    socket.on('error', () => undefined);
  }

  /** Rejects where the handshake is refused. */
  static async open(origin: string, key: string): Promise<StreamClient> {
    const url = `${origin.replace(/^http/, 'ws')}/v1/stream`;
    const client = new StreamClient(
      new WebSocket(url, { headers: { authorization: `Bearer ${key}` }, perMessageDeflate: true }),
    );
    await once(client.socket, 'open');
    return client;
  }

  /** An object is sent as JSON. */
  send(frame: object | string): void {
    this.socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
  }

  /** Sends a frame under an id of its own, and resolves to its answer. */
  async ask(frame: object): Promise<StreamAnswer> {
    const id = `ask-${this.#nextId++}`;
    this.send({ id, ...frame });
    await this.has(() => this.answer(id) !== undefined, `an answer to ${id}`);
    return this.answer(id);
  }

  answer(id: string | null): StreamAnswer {
    return this.answers.find((answer) => answer.id === id);
  }

  /** Resolves when so many answers have come. */
  async answered(count: number): Promise<void> {
    await this.has(() => this.answers.length >= count, `${count} answers`);
  }

  has(condition: () => boolean, what: string): Promise<void> {
    return until(condition, { what });
  }

  async closed(): Promise<{ readonly code: number; readonly reason: string }> {
    await this.has(() => this.closing !== null, 'a closed stream');
    return this.closing ?? { code: 0, reason: '' };
  }

  async leave(): Promise<void> {
    this.socket.close();
    await this.closed();
  }
}
