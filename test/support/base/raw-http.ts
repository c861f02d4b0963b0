import { connect, type Socket } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/**
 * A client that sends exactly the bytes it is told to. `next` reads one answer after another off the
 * connection.
 */
export class RawConnection {
  readonly #socket: Socket;
  readonly #closed: Promise<void>;
  #buffer = Buffer.alloc(0);
  #isClosed = false;
  #wake: () => void = () => undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    // A reset shows as a close, which is all that tests ask about.
    socket.on('error', () => this.#wake());
    socket.on('data', (bytes: Buffer) => {
      this.#buffer = Buffer.concat([this.#buffer, bytes]);
      this.#wake();
    });
    this.#closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.#isClosed = true;
        this.#wake();
        resolve();
      });
    });
  }

  static open(port: number, host = '127.0.0.1'): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new RawConnection(socket));
      });
    });
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Bytes that came and that no `next` has taken. */
  get unread(): string {
    return this.#buffer.toString('latin1');
  }

  /** Text is sent as latin1: one character, one byte. Resolves when the kernel has it. */
  send(bytes: string | Uint8Array): Promise<void> {
    const buffer = typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes;
    return new Promise((resolve) => this.#socket.write(buffer, () => resolve()));
  }

  /** The next answer, or null if the connection closed before a whole one came. */
  async next(options: { readonly isHead?: boolean } = {}): Promise<RawAnswer | null> {
    for (;;) {
      const parsed = parseAnswer(this.#buffer, options.isHead ?? false);
      if (parsed !== null) {
        this.#buffer = this.#buffer.subarray(parsed.bytes);
        return parsed.answer;
      }
      if (this.#isClosed) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Sends a request and reads the next answer. */
  async ask(bytes: string | Uint8Array): Promise<RawAnswer | null> {
    await this.send(bytes);
    return this.next();
  }

  /** Resolves when the server has closed the connection. */
  closed(): Promise<void> {
    return this.#closed;
  }

  /** Goes away: with a FIN, with a RST, or with a FIN after which it would still read. */
  async leave(how: 'close' | 'reset' | 'half-close' = 'close'): Promise<void> {
    if (how === 'reset') this.#socket.resetAndDestroy();
    else if (how === 'half-close') this.#socket.end();
    else this.#socket.destroy();
    await this.#closed;
  }
}

/** Enough turns of this process's event loop for a server in it to read what was sent before. */
export async function turns(count = 3): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

function parseAnswer(buffer: Buffer, isHead: boolean): { answer: RawAnswer; bytes: number } | null {
  const headEnd = buffer.indexOf('\r\n\r\n');
  if (headEnd === -1) return null;
  const [statusLine = '', ...lines] = buffer.toString('latin1', 0, headEnd).split('\r\n');
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  const status = Number(statusLine.split(' ')[1]);
  const hasBody = !isHead && status !== 100;
  const bytes = headEnd + 4 + (hasBody ? Number(headers.get('content-length') ?? 0) : 0);
  if (buffer.byteLength < bytes) return null;
  return { answer: { status, headers, body: buffer.toString('utf8', headEnd + 4, bytes) }, bytes };
}
