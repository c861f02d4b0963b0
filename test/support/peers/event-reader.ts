import { until } from '../base/until.ts';

/** An event of `GET /v1/events`. */
export interface SentEvent {
  readonly type: string;
  readonly id: string | null;
  readonly at: string;
  readonly reason?: string;
}

/** A reader of `GET /v1/events` over a real connection. */
export class EventReader {
  readonly events: SentEvent[] = [];
  readonly headers: Headers;
  /** Comments, such as heartbeats. */
  comments = 0;
  isOver = false;
  readonly #abort: AbortController;

  private constructor(answer: Response, abort: AbortController) {
    this.headers = answer.headers;
    this.#abort = abort;
    void this.#read(answer).catch(() => undefined);
  }

  /** Rejects where the stream is refused. */
  static async open(origin: string, headers: Readonly<Record<string, string>>): Promise<EventReader> {
    const abort = new AbortController();
    const answer = await fetch(`${origin}/v1/events`, { headers, signal: abort.signal });
    if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
    return new EventReader(answer, abort);
  }

  async #read({ body }: Response): Promise<void> {
    let text = '';
    try {
      for await (const bytes of body ?? []) {
        const blocks = (text + Buffer.from(bytes).toString()).split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) this.#take(block);
      }
    } finally {
      this.isOver = true;
    }
  }

  #take(block: string): void {
    if (block.startsWith(':')) this.comments += 1;
    const data = block.split('\n').find((line) => line.startsWith('data: '));
    if (data !== undefined) this.events.push(JSON.parse(data.slice('data: '.length)));
  }

  of(type: string): readonly SentEvent[] {
    return this.events.filter((event) => event.type === type);
  }

  /** Resolves when an event of this type, and with this id where one is given, has come. */
  has(type: string, id?: string | null): Promise<void> {
    return until(() => this.of(type).some((event) => id === undefined || event.id === id), {
      what: `an event ${type} ${id ?? ''}`,
    });
  }

  /** Resolves to the reason with which the service ended the stream. */
  async ended(): Promise<string | undefined> {
    await until(() => this.isOver, { what: 'the end of the stream' });
    return this.events.at(-1)?.reason;
  }

  leave(): void {
    this.#abort.abort();
  }
}
